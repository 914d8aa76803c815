//! Steps on holds with an id.
//!
//! Each is one step of the script of holds, in the next batch of its server. Unlike a charge, it may be repeated with
//! the same id by its caller. The store itself repeats only what [undoes](undo) a part of a hold.

mod across;
mod named;
mod parts;
mod undo;

use std::sync::Arc;

use smallvec::smallvec;
use tollgate::{HoldAnswer, HoldStates, HoldStep, HoldTerms, InFlightCharge, QuotaState, StoreError};

use self::named::{HoldOrder, NamedHold, flight_shape, hold_name};
use super::StoreInner;
use crate::batch::Company;
use crate::error::RedisError;
use crate::script::{HoldName, HoldOperation, HoldOutcome, HoldShape, Request, ScriptAnswer, ScriptOutcome};
use crate::time::CallTime;

/// What was settled in one slot.
struct SettledPart {
    /// The state of each charge that was adjusted, with its place.
    states: Vec<(usize, QuotaState)>,
    is_repeated: bool,
}

impl StoreInner {
    /// Takes a step on a hold within the deadline of this call.
    pub(super) async fn hold(
        self: &Arc<Self>,
        step: HoldStep<'_>,
        call: CallTime,
    ) -> Result<HoldAnswer, StoreError> {
        let (terms, order) = match &step {
            HoldStep::Reset(charge) => return self.forget_units(charge, call).await,
            HoldStep::Reserve(terms) => (terms, HoldOrder::Reserve),
            HoldStep::Look(terms) => (terms, HoldOrder::Look),
            HoldStep::Renew(terms) => (terms, HoldOrder::Renew),
            HoldStep::Settle(terms, adjustments) => (terms, HoldOrder::Settle(adjustments)),
            _ => return Err(StoreError::Uncountable("this version of the store does not support the step")),
        };
        if terms.in_flight().is_empty() && terms.charges().is_empty() {
            return Ok(nothing(order));
        }
        if self.slots.splits_hold(terms) {
            return self.hold_across(terms, order, call).await;
        }
        self.hold_in_slot(*terms, hold_name(terms, 0), order, call).await
    }

    /// Takes a step of which all parts are in one slot.
    async fn hold_in_slot(
        &self,
        terms: HoldTerms<'_>,
        name: HoldName,
        order: HoldOrder<'_>,
        call: CallTime,
    ) -> Result<HoldAnswer, StoreError> {
        let hold = NamedHold::new(terms, name, &self.names, self.slots.is_cluster())?;
        let outcome = self.outcome_in_slot(&hold, order, call).await?;
        hold.answer(outcome)
    }

    /// Settles or undoes a hold of which all parts are in one slot. Returns the answer if it was not settled.
    async fn settle_in_slot(
        &self,
        terms: HoldTerms<'_>,
        name: HoldName,
        order: HoldOrder<'_>,
        call: CallTime,
    ) -> Result<Result<SettledPart, HoldAnswer>, StoreError> {
        let hold = NamedHold::new(terms, name, &self.names, self.slots.is_cluster())?;
        match self.outcome_in_slot(&hold, order, call).await? {
            HoldOutcome::Settled(settlement) => {
                let states = hold.adjusted_states(&settlement)?;
                Ok(Ok(SettledPart { states, is_repeated: settlement.is_repeated }))
            }
            outcome => hold.answer(outcome).map(Err),
        }
    }

    async fn outcome_in_slot(
        &self,
        hold: &NamedHold<'_>,
        order: HoldOrder<'_>,
        call: CallTime,
    ) -> Result<HoldOutcome, StoreError> {
        // What is given back may end a denial that is remembered here.
        let _changing =
            matches!(order, HoldOrder::Settle(_) | HoldOrder::Undo(_)).then(|| self.changing(&hold.named));
        let (topology, mut tries) = (self.committer.topology(), self.names.tries());
        let mut request = hold.request(order, &self.names, || topology.time_at(call.begun))?;
        loop {
            let ScriptAnswer { now, outcome } = self.answer_of(request, call.continued()).await?;
            match outcome {
                ScriptOutcome::Hold(outcome) => return Ok(*outcome),
                ScriptOutcome::NoCount => return Err(RedisError::WrongType.into()),
                ScriptOutcome::TooLate => return Err(StoreError::Ended { now }),
                ScriptOutcome::Moving if !self.slots.is_cluster() => return Err(RedisError::BadReply.into()),
                ScriptOutcome::Stale | ScriptOutcome::Moving => {
                    let windows = tries.next(now).ok_or(RedisError::NotReady)?;
                    request = hold.request(order, &self.names, || windows.time())?;
                }
                ScriptOutcome::Taken(_) | ScriptOutcome::Closed(_) => return Err(RedisError::BadReply.into()),
            }
        }
    }

    /// Forgets all units in flight of a counter.
    async fn forget_units(
        &self,
        charge: &InFlightCharge<'_>,
        call: CallTime,
    ) -> Result<HoldAnswer, StoreError> {
        let identity = self.names.counter_identity(charge.key());
        let name = HoldName { id: [0; 16], binding: [0; 16], attempt: [0; 8] };
        let hold = HoldShape {
            operation: HoldOperation::Reset,
            name,
            length: 0,
            in_flight: smallvec![flight_shape(charge)],
        };
        let keys = smallvec![self.names.of_holds()?.in_flight(charge.in_flight(), &identity)];
        let request = Request { hold: Some(Box::new(hold)), keys, ..Request::default() };
        match self.answer_of(request, call.continued()).await?.outcome {
            ScriptOutcome::Hold(outcome) if let HoldOutcome::Forgotten(units) = *outcome => {
                Ok(HoldAnswer::Forgotten { units })
            }
            _ => Err(RedisError::BadReply.into()),
        }
    }

    /// Sends the request in the next batch of its server, and awaits the answer.
    async fn answer_of(&self, request: Request, time: CallTime) -> Result<ScriptAnswer, StoreError> {
        let slot = self.slots.slot(&request)?;
        let lane = self.committer.topology().lane(slot);
        self.committer.submit(lane, slot, request, time, Company::Alone)?.received().await
    }
}

/// The answer to a step on a hold without any part.
fn nothing(order: HoldOrder<'_>) -> HoldAnswer {
    match order {
        HoldOrder::Reserve | HoldOrder::Look => {
            HoldAnswer::Decided(HoldStates::new([].into_iter().collect(), [].into_iter().collect()))
        }
        HoldOrder::Renew | HoldOrder::Settle(_) | HoldOrder::Undo(_) => HoldAnswer::Expired,
    }
}
