//! Holds whose parts lie in several slots of a Cluster: each slot has the id, and does its own part.
//!
//! A hold is reserved slot by slot, always in the same order. If a slot denies or fails, what the slots before it took
//! is [undone](super::undo), so that a repetition is decided again. All other steps go to all slots at once, and each
//! slot takes its part once.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tollgate::{
    HoldAdjustment, HoldAnswer, HoldStates, HoldTerms, InFlightState, QuotaState, QuotaStates, SettledStates,
    Source, StoreError,
};

use super::named::{HoldOrder, decided, hold_name};
use super::parts::{HoldPart, HoldParts, OwnedHold};
use super::undo::{adjustments_of, undo};
use crate::batch::Company;
use crate::error::RedisError;
use crate::named_charges::{CounterOperation, NamedCharges};
use crate::script::HoldName;
use crate::store::StoreInner;
use crate::store::across::KeptCharges;
use crate::store::each::all;
use crate::time::{CallTime, instant};

/// The states of the parts that are known, by their places.
#[derive(Default)]
struct StatesByPlace {
    in_flight: BTreeMap<usize, InFlightState>,
    charged: BTreeMap<usize, QuotaState>,
}

/// A hold that is reserved slot by slot.
struct HoldReservation<'r, 'a> {
    inner: &'r Arc<StoreInner>,
    hold: &'r Arc<OwnedHold>,
    parts: HoldParts<'a>,
    name: HoldName,
    call: CallTime,
}

/// Which parts are undone.
#[derive(Clone, Copy)]
enum UndoneParts {
    /// Those that this attempt took itself. The others are of an earlier attempt, and may be a whole hold.
    Fresh,
    /// All, because the hold is denied, so no earlier attempt took all parts. What an overdraft was charged stays.
    AllButOverdrafts,
    /// All, because the hold came too late for one of them, so no attempt has taken or will take all parts.
    All,
}

impl StoreInner {
    /// Takes a step on a hold slot by slot.
    pub(super) async fn hold_across(
        self: &Arc<Self>,
        terms: &HoldTerms<'_>,
        order: HoldOrder<'_>,
        call: CallTime,
    ) -> Result<HoldAnswer, StoreError> {
        if matches!(order, HoldOrder::Reserve) {
            return self.reserve_hold(terms, call).await;
        }
        let (parts, name) = (HoldParts::new(terms, &self.names)?, hold_name(terms, 0));
        if let HoldOrder::Settle(adjustments) = order {
            return self.settle_across(&parts, name, adjustments, call).await;
        }
        let each = parts.iter().map(|part| self.hold_in_slot(parts.terms(part), name, order, call));
        let answers = all(each).await;
        if !matches!(order, HoldOrder::Look) {
            return renewed(answers);
        }
        let mut states = StatesByPlace::default();
        for (part, answer) in parts.iter().zip(answers) {
            states.add(part, &decided(answer?)?);
        }
        Ok(HoldAnswer::Decided(states.joined()))
    }

    /// Settles each part. If some have expired and others have not, nothing of those is adjusted.
    async fn settle_across(
        &self,
        parts: &HoldParts<'_>,
        name: HoldName,
        adjustments: &[HoldAdjustment],
        call: CallTime,
    ) -> Result<HoldAnswer, StoreError> {
        let adjusted: Vec<_> = parts.iter().map(|part| part.own(adjustments)).collect();
        let each = parts.iter().zip(&adjusted).map(|(part, adjustments)| {
            self.settle_in_slot(parts.terms(part), name, HoldOrder::Settle(adjustments), call)
        });
        let (mut states, mut expired, mut is_repeated) = (StatesByPlace::default(), Vec::new(), true);
        for (part, settled) in parts.iter().zip(all(each).await) {
            match settled? {
                Ok(settled) => {
                    is_repeated &= settled.is_repeated;
                    settled
                        .states
                        .into_iter()
                        .for_each(|(place, state)| states.add_charged(part, place, state));
                }
                Err(HoldAnswer::Expired) => expired.push(part),
                Err(answer) => return Ok(answer),
            }
        }
        if expired.len() == adjusted.len() {
            return Ok(HoldAnswer::Expired);
        }
        for part in expired {
            let unused = self.unused(&NamedCharges::new(part.charges(), &self.names));
            for (place, (state, adjustment)) in unused.iter().zip(part.own(adjustments)).enumerate() {
                if adjustment != HoldAdjustment::Keep {
                    states.add_charged(part, place, *state);
                }
            }
        }
        let settled = SettledStates::new(states.charged.into_values().collect());
        Ok(HoldAnswer::Settled(if is_repeated { settled.repeated() } else { settled }))
    }

    /// Reserves a hold slot by slot in a task of its own: once begun, it ends even if the caller goes away.
    async fn reserve_hold(
        self: &Arc<Self>,
        terms: &HoldTerms<'_>,
        call: CallTime,
    ) -> Result<HoldAnswer, StoreError> {
        let waits_until = call.continued().wait_for_step()?;
        let (hold, inner) = (Arc::new(OwnedHold::new(terms)), Arc::clone(self));
        let (caller, answer) = oneshot::channel();
        // Zero is the attempt of a hold in one slot.
        let name = hold_name(terms, fastrand::u64(1..));
        tokio::spawn(async move {
            let (in_flight, charges) = hold.charges();
            let answer = match HoldParts::new(&hold.terms(&in_flight, &charges), &inner.names) {
                Ok(parts) => {
                    let call = call.without_caller();
                    HoldReservation { inner: &inner, hold: &hold, parts, name, call }.take(&caller).await
                }
                Err(error) => Err(error),
            };
            let _ = caller.send(answer);
        });
        let answer = match waits_until {
            None => answer.await.ok(),
            Some(until) => timeout_at(until, answer).await.ok().and_then(Result::ok),
        };
        // There is none if the caller's time is over, or the runtime shuts down.
        answer.unwrap_or_else(|| Err(RedisError::TimedOut.into()))
    }

    /// The states of charges whose slot does not answer, as if nothing were used.
    fn unused(&self, named: &NamedCharges<'_>) -> QuotaStates {
        let now = self.committer.topology().time_at(instant());
        named.unused(now).iter().map(|state| state.with_source(Source::Fallback)).collect()
    }
}

impl HoldReservation<'_, '_> {
    async fn take(
        &self,
        caller: &oneshot::Sender<Result<HoldAnswer, StoreError>>,
    ) -> Result<HoldAnswer, StoreError> {
        let mut taken = Vec::<HoldStates>::new();
        for part in self.parts.iter() {
            let answer = self.ask(part, HoldOrder::Reserve).await;
            match answer {
                Ok(_) if caller.is_closed() => {
                    taken.extend(answer.and_then(decided).ok().filter(HoldStates::is_admitted));
                    self.undo(&taken, UndoneParts::Fresh).await;
                    return Err(RedisError::TimedOut.into());
                }
                Ok(HoldAnswer::Decided(states)) if states.is_admitted() => taken.push(states),
                Ok(HoldAnswer::Decided(states)) => {
                    self.undo(&taken, UndoneParts::AllButOverdrafts).await;
                    return Ok(self.denied(&taken, &states).await);
                }
                // Another call has settled the id or bound it.
                Ok(answer) => {
                    self.undo(&taken, UndoneParts::Fresh).await;
                    return Ok(answer);
                }
                Err(error @ StoreError::Ended { .. }) => {
                    let is_undone = self.undo(&taken, UndoneParts::All).await;
                    return Err(if is_undone { error } else { RedisError::TimedOut.into() });
                }
                Err(error) => {
                    let is_undone = self.undo(&taken, UndoneParts::Fresh).await;
                    let is_certain = is_undone && !taken.iter().any(HoldStates::is_repeated);
                    let is_certain = is_certain || error.may_have_charged();
                    return Err(if is_certain { error } else { RedisError::TimedOut.into() });
                }
            }
        }
        let mut states = StatesByPlace::default();
        self.parts.iter().zip(&taken).for_each(|(part, taken)| states.add(part, taken));
        let is_repeated = taken.iter().all(HoldStates::is_repeated);
        let states = states.joined();
        Ok(HoldAnswer::Decided(if is_repeated { states.repeated() } else { states }))
    }

    async fn ask(&self, part: &HoldPart<'_>, order: HoldOrder<'_>) -> Result<HoldAnswer, StoreError> {
        self.inner.hold_in_slot(self.parts.terms(part), self.name, order, self.call.continued()).await
    }

    /// Undoes parts that were taken. Returns whether that is certain in time for the answer; it goes on if it is not.
    async fn undo(&self, taken: &[HoldStates], undone: UndoneParts) -> bool {
        let adjustments = self.parts.iter().zip(taken).map(|(part, states)| match undone {
            UndoneParts::Fresh if states.is_repeated() => None,
            UndoneParts::Fresh => Some(adjustments_of(KeptCharges::Nothing, part, states)),
            UndoneParts::AllButOverdrafts => Some(adjustments_of(KeptCharges::Overdrafts, part, states)),
            UndoneParts::All => Some(adjustments_of(KeptCharges::Nothing, part, states)),
        });
        let (inner, hold, name) = (Arc::clone(self.inner), Arc::clone(self.hold), self.name);
        let undone = tokio::spawn(undo(inner, hold, name, adjustments.collect()));
        let deadline = self.inner.committer.deadline(self.call.begun);
        matches!(timeout_at(deadline, undone).await, Ok(Ok(true)))
    }

    /// The answer if a part was denied, after the parts before it were undone. The quotas of those after it are charged
    /// what a denial charges.
    async fn denied(&self, taken: &[HoldStates], denied: &HoldStates) -> HoldAnswer {
        let mut states = StatesByPlace::default();
        for (place, part) in self.parts.iter().enumerate() {
            match taken.get(place) {
                Some(taken) => states.add(part, &self.undone(part, taken).await),
                None if place == taken.len() => states.add(part, denied),
                None => states.add(part, &self.denied_elsewhere(part).await),
            }
        }
        HoldAnswer::Decided(states.joined())
    }

    /// The states of a part that was undone.
    async fn undone(&self, part: &HoldPart<'_>, taken: &HoldStates) -> HoldStates {
        let looked = self.ask(part, HoldOrder::Look).await.and_then(decided).ok();
        let charged = taken.charged().iter().enumerate().map(|(place, then)| match &looked {
            _ if part.is_overdraft(place) => *then,
            Some(looked) => looked.charged().get(place).copied().unwrap_or(*then),
            None => then.with_units(0),
        });
        let in_flight = looked.as_ref().map_or_else(|| part.no_units(), |it| it.in_flight().clone());
        // The look found none of the expired units, because the part that was undone has removed them.
        let expired = taken.in_flight().iter().map(InFlightState::expired);
        let in_flight = in_flight.iter().zip(expired).map(|(state, expired)| state.with_expired(expired));
        HoldStates::new(in_flight.collect(), charged.collect())
    }

    /// The states of a part that was not asked before another one denied.
    async fn denied_elsewhere(&self, part: &HoldPart<'_>) -> HoldStates {
        let (inner, call) = (self.inner, self.call.continued());
        let denial = self.hold.end().map_or(CounterOperation::Deny, CounterOperation::DenyBefore);
        let mut charged = QuotaStates::from_iter([]);
        if !part.charges().is_empty() {
            let named = NamedCharges::new(part.charges(), &inner.names);
            let mut pending = inner.send(&named, denial, call, Company::Others);
            let mut answer = inner.counted(&named, &mut pending).await;
            // The denial came before the end, so it stands, and this part is only looked at.
            if matches!(answer, Err(StoreError::Ended { .. })) {
                pending = inner.send(&named, CounterOperation::Look, call, Company::Others);
                answer = inner.counted(&named, &mut pending).await;
            }
            charged = answer.unwrap_or_else(|_| inner.unused(&named));
        }
        let looked = self.ask(part, HoldOrder::Look).await.and_then(decided).ok();
        let in_flight = looked.map_or_else(|| part.no_units(), |it| it.in_flight().clone());
        HoldStates::new(in_flight, charged)
    }
}

impl StatesByPlace {
    fn add(&mut self, part: &HoldPart<'_>, states: &HoldStates) {
        self.in_flight.extend(part.flight_places().zip(states.in_flight().iter().copied()));
        states.charged().iter().enumerate().for_each(|(place, state)| self.add_charged(part, place, *state));
    }

    fn add_charged(&mut self, part: &HoldPart<'_>, place: usize, state: QuotaState) {
        self.charged.extend(part.charge_place(place).map(|place| (place, state)));
    }

    fn joined(self) -> HoldStates {
        HoldStates::new(self.in_flight.into_values().collect(), self.charged.into_values().collect())
    }
}

/// The answer to a renewal of all parts. If some have ended and others have not, the hold is lost.
fn renewed(answers: Vec<Result<HoldAnswer, StoreError>>) -> Result<HoldAnswer, StoreError> {
    let answers: Vec<HoldAnswer> = answers.into_iter().collect::<Result<_, _>>()?;
    let differs = answers.iter().find(|answer| !matches!(answer, HoldAnswer::Renewed { .. }));
    let is_same = |first: &HoldAnswer| answers.iter().all(|answer| answer == first);
    Ok(match differs {
        None => answers.into_iter().next().unwrap_or(HoldAnswer::Expired),
        Some(answer @ (HoldAnswer::Conflict | HoldAnswer::Ended)) => answer.clone(),
        Some(answer) if is_same(answer) => answer.clone(),
        Some(_) => {
            let other = answers.iter().find(|it| matches!(it, HoldAnswer::Conflict | HoldAnswer::Ended));
            other.cloned().unwrap_or(HoldAnswer::Lost)
        }
    })
}
