//! Reservations: matched as a check is, and decided in one step of the store together with the units in flight.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{
    AnswerError, Clock, HoldAnswer, HoldId, HoldLength, HoldPlace, HoldStates, HoldStep, HoldTerms,
    InFlightCharge, OnStoreFailure, StepDeadline, Store, StoreError, Timestamp,
};

use super::{HoldPart, InFlightPart, PolicyHold, ReserveAnswer};
use crate::limiter::charge_result::ChargeResult;
use crate::limiter::in_flight::{InFlightRecord, InFlightResult, InFlightStanding};
use crate::limiter::match_time::MatchTime;
use crate::limiter::{
    Charges, CheckError, Matching, PolicyDecision, PolicyLimiter, PolicySet, WhenFull, nothing,
    of_later_steps,
};
use crate::matched::Entry;
use crate::{MatchedPolicies, View};

/// A hold that a caller asks for.
#[derive(Debug, Clone, Copy)]
pub struct AskedHold {
    /// Its id, which the caller made. A repeated call with the same id and the same request takes nothing again.
    pub id: HoldId,
    /// The estimated cost, in units of the quotas. A policy may set another.
    pub cost: u32,
    /// Units in flight, of each limit in flight that applies.
    pub units: u32,
    /// How long it lives without a renewal. A limit in flight may have a shorter length.
    pub length: HoldLength,
}

impl AskedHold {
    /// Asks for one unit in flight and this cost, for a minute.
    #[must_use]
    pub fn new(id: HoldId, cost: u32) -> Self {
        Self { id, cost, units: 1, length: HoldLength::default() }
    }
}

type InFlightCharges<'a> = SmallVec<[InFlightCharge<'a>; 2]>;

/// The states of a step on a hold, and whether the store had no room for it.
pub(in crate::limiter) struct DecidedStates {
    states: HoldStates,
    is_full: bool,
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Takes a hold: charges the cost to every quota that applies, and takes units of every limit in flight that applies,
    /// if all have room.
    ///
    /// Policies apply as they do for a [check](Self::check). A call may be repeated with the same id, for example after a
    /// lost reply.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check), except that no limit in flight is an error.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the hold may or may not live. If it does, it expires, or the call is repeated.
    pub fn reserve<V: View>(
        &self,
        view: &V,
        asked: AskedHold,
    ) -> impl Future<Output = Result<ReserveAnswer, CheckError>> {
        self.reserve_in_until(None, self.live(), view, asked)
    }

    /// Like [`reserve`](Self::reserve), but under this version of the policies, and for a caller that waits no longer than
    /// until this deadline, as [`check_in_until`](Self::check_in_until) describes.
    ///
    /// # Errors
    ///
    /// The same as [`reserve`](Self::reserve).
    ///
    /// # Cancel safety
    ///
    /// The same as [`reserve`](Self::reserve).
    pub async fn reserve_in_until<V: View>(
        &self,
        deadline: Option<StepDeadline>,
        set: Arc<PolicySet>,
        view: &V,
        asked: AskedHold,
    ) -> Result<ReserveAnswer, CheckError> {
        let (mut time, mut deadline) = (MatchTime::FIRST, deadline);
        let (basis, trials, hold, is_request, is_repeated) = loop {
            let matching = self.matching_at(time, &set, view, asked.cost)?;
            let charges = matching.charges();
            let in_flight: InFlightCharges<'_> = matching.in_flight(asked.units).collect();
            let terms = HoldTerms::new(asked.id, &in_flight, &charges, asked.length);
            let terms = matching.end().map_or(terms, |end| terms.before(end));
            // Of 0 units, nothing could be given back.
            let takes = asked.units > 0 || in_flight.is_empty();
            let answer = match (charges.len() + in_flight.len(), takes) {
                (0, _) => Ok(HoldAnswer::Decided(unlimited())),
                (_, true) => self.store.hold_until(HoldStep::Reserve(terms), deadline).await,
                (_, false) => self.store.hold_until(HoldStep::Look(terms), deadline).await,
            };
            deadline = of_later_steps(deadline, charges.len() + in_flight.len());
            let passed = match &answer {
                Ok(HoldAnswer::Decided(states)) if !takes => matching.first_end().passed_at(states.charged()),
                answer => passed(&matching, answer),
            };
            if let Some(later) = passed.and_then(|now| time.again(now)) {
                time = later;
                continue;
            }
            let decided = match answer {
                Ok(HoldAnswer::Conflict) => return Ok(ReserveAnswer::Conflict),
                Ok(HoldAnswer::Ended) => return Ok(ReserveAnswer::Ended),
                answer => self.decided(&terms, answer).map_err(|error| {
                    matching.note_failure();
                    matching.error(error)
                })?,
            };
            let hold = (takes && decided.states.is_admitted())
                .then(|| hold_of(&matching, &terms, &decided.states))
                .flatten();
            let is_repeated = decided.states.is_repeated();
            let result = decided.result(&matching);
            // A repetition and a hold of 0 units are no requests of their own.
            let is_request = takes && !is_repeated;
            let trials = if is_request {
                self.try_out_hold(&matching, &result, asked.units, deadline).await
            } else {
                Vec::new()
            };
            break (matching.basis(result), trials, hold, is_request, is_repeated);
        };
        let decision = if is_request {
            PolicyDecision::of_check(set, basis, trials)
        } else {
            PolicyDecision::new(set, basis, trials)
        };
        for InFlightStanding { policy, state, .. } in decision.in_flight() {
            if state.expired() > 0 {
                let policy = std::iter::once(policy.name());
                decision.policies().note_holds(policy, |counters| counters.units_expired(state.expired()));
            }
        }
        if let (Some(hold), false) = (&hold, is_repeated) {
            decision.policies().note_holds(hold.policies(), |counters| counters.admitted());
        }
        Ok(ReserveAnswer::Decided { decision, hold, is_repeated })
    }

    /// Returns the result of a request that only looks at limits in flight, and at the quotas next to them.
    pub(in crate::limiter) async fn look(&self, matching: &Matching<'_>) -> Result<ChargeResult, CheckError> {
        let charges: Charges<'_> = matching.charges();
        let in_flight: InFlightCharges<'_> = matching.in_flight(1).collect();
        let terms = HoldTerms::new(HoldId::random(), &in_flight, &charges, HoldLength::default());
        let answer = self.store.hold_until(HoldStep::Look(terms), None).await;
        let decided = self.decided(&terms, answer).map_err(|error| matching.error(error))?;
        Ok(decided.result(matching))
    }

    /// Returns the states that a step on a hold came to.
    fn decided(
        &self,
        terms: &HoldTerms<'_>,
        answer: Result<HoldAnswer, StoreError>,
    ) -> Result<DecidedStates, StoreError> {
        match answer {
            Ok(HoldAnswer::Decided(states)) => Ok(DecidedStates { states, is_full: false }),
            // The store answers no reservation in another way.
            Ok(_) => Err(AnswerError::Nonsense.into()),
            Err(StoreError::Full) => {
                self.note_full();
                match self.when_full {
                    WhenFull::Deny => Err(StoreError::Full),
                    WhenFull::Allow => {
                        Ok(DecidedStates { states: self.store.uncounted_hold(terms), is_full: true })
                    }
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// The states of a request without any limit.
fn unlimited() -> HoldStates {
    HoldStates::new([].into_iter().collect(), nothing())
}

/// Returns the store's time if an override had ended before this answer to a reservation.
fn passed(matching: &Matching<'_>, answer: &Result<HoldAnswer, StoreError>) -> Option<Timestamp> {
    matching.end()?;
    match answer {
        Err(StoreError::Ended { now }) => Some(*now),
        // A call is repeated that was admitted after the end, so without the override.
        Ok(HoldAnswer::Conflict) => matching.first_end().possibly_passed(),
        // No store has compared the end, or nothing decides and there was no step.
        Ok(HoldAnswer::Decided(states)) if states.place() == HoldPlace::Nowhere || takes_nothing(states) => {
            matching.first_end().passed_at(states.charged())
        }
        Err(StoreError::Full) => matching.first_end().passed_at(&[]),
        Ok(_) | Err(_) => None,
    }
}

fn takes_nothing(states: &HoldStates) -> bool {
    states.charged().is_empty() && states.in_flight().is_empty()
}

impl DecidedStates {
    fn result(self, matching: &Matching<'_>) -> ChargeResult {
        let Self { states, is_full } = self;
        let deciding = matching.counting().into_iter().flat_map(MatchedPolicies::deciding);
        let limits = deciding.filter_map(|entry| Some((entry, entry.in_flight()?)));
        let records = limits.zip(states.in_flight()).map(|((entry, in_flight), state)| InFlightRecord {
            policy: entry.applied.policy,
            in_flight: in_flight.clone(),
            by_override: entry.by_override.map(Into::into),
            state: *state,
        });
        let in_flight = InFlightResult::new(records.collect(), states.place(), states.charged());
        let counted = states.charged().clone();
        let result =
            if is_full { ChargeResult::without_room(counted) } else { ChargeResult::counted(counted) };
        result.with_in_flight(in_flight)
    }
}

/// Returns the hold of these states; `None` if it has no parts.
fn hold_of(matching: &Matching<'_>, terms: &HoldTerms<'_>, states: &HoldStates) -> Option<PolicyHold> {
    let place = states.place();
    // A process counts only what its policies let it count.
    let is_counted = |on_store_failure: Option<OnStoreFailure>| {
        place != HoldPlace::Process || matches!(on_store_failure, Some(OnStoreFailure::Local(_)))
    };
    let deciding = || matching.counting().into_iter().flat_map(MatchedPolicies::deciding);
    let quotas =
        deciding().flat_map(|entry: &Entry<'_>| entry.quotas().iter().map(move |quota| (entry, quota)));
    let parts = quotas.zip(states.charged()).filter(|((_, quota), _)| is_counted(quota.on_store_failure()));
    let parts = parts.map(|((entry, quota), state)| HoldPart {
        quota: quota.clone(),
        key: entry.key.clone().into_owned(),
        cost: entry.cost,
        is_asked: entry.is_cost_asked,
        units: state.units(),
        mark: state.mark(),
        overrun: entry.policy.overrun(),
    });
    let in_flight =
        terms.in_flight().iter().filter(|charge| is_counted(charge.in_flight().on_store_failure()));
    let in_flight = in_flight.map(|charge| InFlightPart {
        in_flight: charge.in_flight().clone(),
        key: charge.key().clone().into_owned(),
        units: charge.units(),
    });
    let (parts, in_flight): (Vec<_>, Vec<_>) = (parts.collect(), in_flight.collect());
    let is_empty = parts.is_empty() && in_flight.is_empty();
    (!is_empty).then(|| PolicyHold::new(terms.id(), place, terms.length(), parts, in_flight))
}
