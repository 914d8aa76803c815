//! Charges: prepared, sent and answered.

use tollgate::{Charge, QuotaStates, StepDeadline, StoreError};

use super::StoreInner;
use super::ask::PendingRequest;
use crate::batch::Company;
use crate::named_charges::{CounterOperation, NamedCharges};
use crate::time::{CallTime, instant};

/// A request to charge that was not sent.
pub(super) enum PreparedCharge<'a> {
    Known(QuotaStates),
    Named(NamedCharges<'a>),
    /// Lies in several slots.
    Across,
}

/// A request to charge.
pub(super) enum BegunCharge {
    Known(QuotaStates),
    Asked(PendingRequest),
}

impl StoreInner {
    pub(super) async fn charge(
        &self,
        named: &NamedCharges<'_>,
        deadline: Option<StepDeadline>,
    ) -> Result<QuotaStates, StoreError> {
        let mut pending = match self.begin(named, deadline, Company::Alone) {
            BegunCharge::Known(counted) => return Ok(counted),
            BegunCharge::Asked(pending) => pending,
        };
        self.counted(named, &mut pending).await
    }

    /// The answer, if it is known here; else what is to be asked.
    pub(super) fn prepare<'a>(&self, charges: &'a [Charge<'a>]) -> PreparedCharge<'a> {
        let prepared = self.prepare_unknown(charges);
        if let PreparedCharge::Named(named) = &prepared
            && self.may_deny(named)
        {
            let known = self.recall(named, instant());
            if let Some((denied, _)) = known.filter(|(known, is_due)| !known.is_admitted() && !is_due) {
                return PreparedCharge::Known(denied);
            }
        }
        prepared
    }

    /// What is to be asked, whatever is known here. Of no charges, nothing.
    pub(super) fn prepare_unknown<'a>(&self, charges: &'a [Charge<'a>]) -> PreparedCharge<'a> {
        if charges.is_empty() {
            return PreparedCharge::Known(QuotaStates::from_iter([]));
        }
        if self.slots.splits(charges, &self.names) {
            return PreparedCharge::Across;
        }
        PreparedCharge::Named(NamedCharges::new(charges, &self.names))
    }

    /// The answer, if it is known here; else the charges are in flight.
    pub(super) fn begin(
        &self,
        named: &NamedCharges<'_>,
        deadline: Option<StepDeadline>,
        company: Company,
    ) -> BegunCharge {
        let time = CallTime::begins(deadline);
        let known = if self.may_deny(named) { self.recall(named, time.begun) } else { None };
        let asked = match known.filter(|(known, _)| !known.is_admitted()) {
            Some((denied, _)) if !self.is_to_renew(named, time.begun) => return BegunCharge::Known(denied),
            Some(_) => CounterOperation::Renewal,
            None => CounterOperation::Charge,
        };
        BegunCharge::Asked(self.send(named, asked, time, company))
    }
}
