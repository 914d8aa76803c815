//! What applies to a request: its charges, and the decision by their result.

use std::slice;
use std::sync::Arc;

use tollgate::{Charge, InFlightCharge, StoreError, Timestamp};

use super::charge_result::ChargeResult;
use super::decision::Basis;
use super::match_time::FirstEnd;
use super::trials::Trials;
use super::{Charges, CheckError, PolicyDecision, PolicySet};
use crate::{MatchedPolicies, Outcome};

/// What applies to a request, under one version of the policies.
#[derive(Debug)]
pub struct Matching<'a> {
    pub(super) set: &'a Arc<PolicySet>,
    pub(super) outcome: Outcome<'a>,
}

impl<'a> Matching<'a> {
    /// Returns what the policies say of the request.
    pub const fn outcome(&self) -> &Outcome<'a> {
        &self.outcome
    }

    /// Returns the policies whose quotas decide, unless another policy decides without a count.
    #[inline]
    pub(super) const fn counting(&self) -> Option<&MatchedPolicies<'a>> {
        match &self.outcome {
            Outcome::Charge(matched) => Some(matched),
            _ => None,
        }
    }

    /// Returns the charges that decide, if any.
    #[inline]
    pub(super) fn enforced(&self) -> impl Iterator<Item = Charge<'_>> {
        self.counting().into_iter().flat_map(MatchedPolicies::enforced)
    }

    /// Returns the same charges as a list.
    #[inline]
    pub(super) fn charges(&self) -> Charges<'_> {
        self.counting().map_or_else(Charges::new, |matched| matched.enforced().collect())
    }

    /// Returns the first end of the overrides that give limits to the request, if one has an end.
    #[inline]
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.counting()?.end()
    }

    /// Returns the same, to decide by it.
    #[inline]
    pub(super) fn first_end(&self) -> FirstEnd<'_> {
        FirstEnd::of(slice::from_ref(self))
    }

    /// Returns the units in flight that a hold of so many takes together with the charges.
    pub(super) fn in_flight(&self, units: u32) -> impl Iterator<Item = InFlightCharge<'_>> {
        self.counting().into_iter().flat_map(move |matched| matched.in_flight(units))
    }

    /// Returns the same, unless a limit in flight applies: a check has no hold to take its units.
    #[inline]
    pub(super) fn without_hold(self) -> Result<Self, CheckError> {
        self.needs_no_hold().map(|()| self)
    }

    #[inline]
    pub(super) fn needs_no_hold(&self) -> Result<(), CheckError> {
        match self.counting().and_then(MatchedPolicies::limits_in_flight) {
            None => Ok(()),
            Some(policy) => Err(CheckError::NeedsHold { policy: policy.name().into() }),
        }
    }

    /// Notes in the tallies that the request came to no decision.
    pub(super) fn note_failure(&self) {
        if let Some(matched) = self.counting() {
            self.set.note_failure(matched);
        }
    }

    /// Converts the store's error about the charges.
    pub(super) fn error(&self, error: StoreError) -> CheckError {
        match self.counting() {
            Some(matched) => CheckError::of_charges(matched, error),
            None => CheckError::Store(error),
        }
    }

    /// Returns the basis of the decision. The result counts only if quotas decide.
    #[inline]
    pub(super) fn basis(&self, result: ChargeResult) -> Basis {
        Basis::new(&self.outcome, result)
    }

    /// Returns the decision of a check.
    #[inline]
    pub(super) fn decision(&self, result: ChargeResult, trials: Trials) -> PolicyDecision {
        PolicyDecision::of_check(Arc::clone(self.set), self.basis(result), trials)
    }
}
