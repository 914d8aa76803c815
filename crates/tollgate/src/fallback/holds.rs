//! Decisions on holds while the store cannot answer.

use smallvec::SmallVec;

use super::{FallbackStore, LocalShare, OnStoreFailure, Shares, is_before, is_possible, states_of_shares};
use crate::hold::{
    HoldAdjustment, HoldAnswer, HoldPlace, HoldStates, HoldStep, HoldTerms, InFlightCharge, SettledStates,
};
use crate::store::{AnswerError, MemoryError, PerQuota, StoreError};
use crate::{
    Charge, Clock, InFlight, InFlightState, PolicyInFlight, PolicyQuota, QuotaState, Reason, Source,
};

/// For each part of a hold, the share of its limit against which it is counted here, if it is.
struct HoldShares {
    in_flight: Shares,
    charges: Shares,
}

/// Whether a decision takes what it admits.
#[derive(Debug, Clone, Copy)]
enum DecisionMode {
    Take,
    Look,
}

impl<S, C: Clock, D> FallbackStore<S, C, D> {
    /// Returns the answer of `Open` to a reservation: nothing is used, and only what can never pass is denied. Use it also
    /// to admit keys for which a full store has no room.
    pub fn uncounted_hold(&self, terms: &HoldTerms<'_>) -> HoldStates {
        let in_flight = terms.in_flight().iter().map(uncounted).collect();
        HoldStates::new(in_flight, self.uncounted(terms.charges())).with_place(HoldPlace::Nowhere)
    }

    /// Returns the policy's answer to a step on a hold that failed with this error. Use it for a step that you gave up on.
    ///
    /// # Errors
    ///
    /// As when the store fails.
    pub fn hold_without_store(
        &self,
        step: HoldStep<'_>,
        error: StoreError,
    ) -> Result<HoldAnswer, StoreError> {
        self.judged_hold(step, Err(error))
    }

    /// Returns the store's answer to this step, or that of the policies.
    pub(super) fn judged_hold(
        &self,
        step: HoldStep<'_>,
        answer: Result<HoldAnswer, StoreError>,
    ) -> Result<HoldAnswer, StoreError> {
        let answer =
            if is_possible_answer(&step, &answer) { answer } else { Err(AnswerError::Nonsense.into()) };
        match (step, answer) {
            (_, Ok(answer)) => Ok(answer),
            (HoldStep::Reserve(terms), Err(error)) => {
                let shares = self.hold_shares(&terms, error)?;
                Ok(self.decide_here(&terms, &shares, DecisionMode::Take)?)
            }
            (HoldStep::Look(terms), Err(error)) => {
                let shares = self.hold_shares(&terms, error.with_nothing_charged())?;
                Ok(self.decide_here(&terms, &shares, DecisionMode::Look)?)
            }
            (HoldStep::Renew(_) | HoldStep::Settle(..) | HoldStep::Reset(_), Err(error)) => Err(error),
        }
    }

    /// Takes a step on a hold that this process counts.
    pub(super) fn hold_in_process(&self, step: HoldStep<'_>) -> Result<HoldAnswer, MemoryError> {
        match step {
            HoldStep::Reserve(terms) => {
                self.decide_here(&terms, &self.shares_here(&terms), DecisionMode::Take)
            }
            HoldStep::Look(terms) => self.decide_here(&terms, &self.shares_here(&terms), DecisionMode::Look),
            HoldStep::Renew(terms) => {
                let shares = self.shares_here(&terms);
                with_shares(&terms, &shares, |terms| self.memory.take_hold(HoldStep::Renew(terms)))
            }
            HoldStep::Settle(terms, adjustments) => self.settle_here(&terms, adjustments),
            HoldStep::Reset(_) => self.memory.take_hold(step),
        }
    }

    /// Decides on a reservation or a look by the policies of its parts.
    fn decide_here(
        &self,
        terms: &HoldTerms<'_>,
        shares: &HoldShares,
        mode: DecisionMode,
    ) -> Result<HoldAnswer, MemoryError> {
        let open = self.uncounted_hold(terms);
        if shares.are_none() {
            return Ok(HoldAnswer::Decided(open));
        }
        let open_has_room = open_parts(open.in_flight(), &shares.in_flight).all(InFlightState::has_room)
            && open_parts(open.charged(), &shares.charges).all(QuotaState::has_room);
        let answer = with_shares(terms, shares, |terms| {
            if open_has_room {
                return self.memory.take_hold(match mode {
                    DecisionMode::Take => HoldStep::Reserve(terms),
                    DecisionMode::Look => HoldStep::Look(terms),
                });
            }
            // All or nothing: if one part can never pass, the others are denied.
            if let (DecisionMode::Take, Some(end)) = (mode, terms.end()) {
                self.require_before(end)?;
            }
            let looked = terms.in_flight().iter().map(|asked| {
                let live = self.memory.live(asked.in_flight(), asked.key()).live();
                InFlightState::decide(asked.in_flight().in_flight(), live, asked.units())
            });
            let charged = match mode {
                DecisionMode::Take => self.denied(terms.charges()),
                DecisionMode::Look => self.memory.look(terms.charges()),
            };
            Ok(HoldAnswer::Decided(HoldStates::new(looked.collect(), charged)))
        })?;
        Ok(match answer {
            HoldAnswer::Decided(states) => HoldAnswer::Decided(shares.join(terms, &open, &states)),
            other => other,
        })
    }

    fn settle_here(
        &self,
        terms: &HoldTerms<'_>,
        adjustments: &[HoldAdjustment],
    ) -> Result<HoldAnswer, MemoryError> {
        let shares = self.shares_here(terms);
        let each = || terms.charges().iter().zip(adjustments).zip(&shares.charges);
        let own = each().filter(|(_, share)| share.is_some()).map(|((_, adjustment), _)| *adjustment);
        let own: SmallVec<[HoldAdjustment; 2]> = own.collect();
        let answer =
            with_shares(terms, &shares, |terms| self.memory.take_hold(HoldStep::Settle(terms, &own)))?;
        let HoldAnswer::Settled(settled) = answer else { return Ok(answer) };
        let mut states = settled.iter();
        let adjusted = each().filter(|((_, adjustment), _)| **adjustment != HoldAdjustment::Keep);
        let joined = adjusted.filter_map(|((charge, _), share)| match share {
            Some(_) => states.next().map(|state| state.with_source(Source::Fallback)),
            None => self.uncounted(std::slice::from_ref(charge)).first().map(|state| state.with_reason(None)),
        });
        let joined = SettledStates::new(joined.collect());
        Ok(HoldAnswer::Settled(if settled.is_repeated() { joined.repeated() } else { joined }))
    }

    /// Returns the shares of a hold. The strictest policy decides: one `Closed` returns the error.
    fn hold_shares(&self, terms: &HoldTerms<'_>, error: StoreError) -> Result<HoldShares, StoreError> {
        if !matches!(error, StoreError::Trouble { .. }) {
            return Err(error);
        }
        if self.policies(terms).any(|policy| policy == OnStoreFailure::Closed) {
            return Err(error);
        }
        Ok(self.shares_here(terms))
    }

    /// Returns the shares of a hold that this process counts.
    fn shares_here(&self, terms: &HoldTerms<'_>) -> HoldShares {
        let share = |policy| match policy {
            OnStoreFailure::Local(share) => Some(share),
            OnStoreFailure::Open | OnStoreFailure::Closed => None,
        };
        let mut shares: Shares = self.policies(terms).map(share).collect();
        let charges = shares.drain(terms.in_flight().len()..).collect();
        HoldShares { in_flight: shares, charges }
    }

    /// Returns the policies of all parts, those in flight first.
    fn policies(&self, terms: &HoldTerms<'_>) -> impl Iterator<Item = OnStoreFailure> {
        let in_flight = terms.in_flight().iter().map(|charge| charge.in_flight().on_store_failure());
        let charges = terms.charges().iter().map(|charge| charge.counter().quota().on_store_failure());
        in_flight.chain(charges).map(|policy| policy.unwrap_or(self.on_failure))
    }
}

impl HoldShares {
    fn are_none(&self) -> bool {
        self.in_flight.iter().chain(&self.charges).all(Option::is_none)
    }

    /// Joins the states of the parts that are counted here with those of the others.
    fn join(&self, terms: &HoldTerms<'_>, open: &HoldStates, counted: &HoldStates) -> HoldStates {
        let whole: SmallVec<[Charge<'_>; 2]> = shared(terms.charges(), &self.charges).collect();
        let in_flight = shared(terms.in_flight(), &self.in_flight).zip(counted.in_flight());
        let in_flight: PerQuota<InFlightState> =
            in_flight.map(|(asked, state)| state_of_share(&asked, *state)).collect();
        let charged = states_of_shares(&whole, counted.charged());
        let in_flight = joined(&self.in_flight, open.in_flight(), &in_flight);
        let states = HoldStates::new(in_flight, joined(&self.charges, open.charged(), &charged));
        let states = states.with_place(HoldPlace::Process);
        if counted.is_repeated() { states.repeated() } else { states }
    }
}

/// Takes a step on the parts of a hold that are counted here, with these shares of their limits.
fn with_shares<A>(terms: &HoldTerms<'_>, shares: &HoldShares, step: impl FnOnce(HoldTerms<'_>) -> A) -> A {
    let limits: SmallVec<[PolicyInFlight; 1]> = each_share(terms.in_flight(), &shares.in_flight)
        .map(|(asked, share)| asked.in_flight().with_share(share))
        .collect();
    let quotas: SmallVec<[PolicyQuota; 2]> = each_share(terms.charges(), &shares.charges)
        .map(|(charge, share)| charge.counter().quota().with_share(share))
        .collect();
    let in_flight = shared(terms.in_flight(), &shares.in_flight).zip(&limits);
    let in_flight: SmallVec<[InFlightCharge<'_>; 1]> =
        in_flight.map(|(asked, limit)| InFlightCharge::new(limit, asked.key(), asked.units())).collect();
    let charges = shared(terms.charges(), &shares.charges).zip(&quotas);
    let charges: SmallVec<[Charge<'_>; 2]> =
        charges.map(|(charge, quota)| Charge::new(quota, charge.counter().key(), charge.cost())).collect();
    let shared = HoldTerms::new(terms.id(), &in_flight, &charges, terms.length());
    step(terms.end().map_or(shared, |end| shared.before(end)))
}

/// Returns the parts that are counted here, with their shares.
fn each_share<'a, T: Copy>(
    parts: &'a [T],
    shares: &'a Shares,
) -> impl Iterator<Item = (T, LocalShare)> + use<'a, T> {
    parts.iter().zip(shares).filter_map(|(part, share)| Some((*part, (*share)?)))
}

/// Returns the parts that are counted here.
fn shared<'a, T: Copy>(parts: &'a [T], shares: &'a Shares) -> impl Iterator<Item = T> + use<'a, T> {
    each_share(parts, shares).map(|(part, _)| part)
}

/// Returns the states of the parts that are not counted.
fn open_parts<'a, T>(states: &'a [T], shares: &'a Shares) -> impl Iterator<Item = &'a T> {
    states.iter().zip(shares).filter(|(_, share)| share.is_none()).map(|(state, _)| state)
}

/// Returns the states of all parts: of those with a share, what was counted here.
fn joined<T: Copy>(shares: &Shares, open: &[T], counted: &[T]) -> PerQuota<T> {
    let mut counted = counted.iter();
    let each = shares.iter().zip(open);
    each.filter_map(|(share, open)| if share.is_some() { counted.next() } else { Some(open) })
        .copied()
        .collect()
}

/// Nothing is in flight, and only what can never pass is denied.
fn uncounted(asked: &InFlightCharge<'_>) -> InFlightState {
    InFlightState::decide(asked.in_flight().in_flight(), 0, asked.units())
}

/// More units than the share, but no more than the limit, pass once the store is back.
fn state_of_share(asked: &InFlightCharge<'_>, state: InFlightState) -> InFlightState {
    let is_above_share =
        state.reason() == Some(Reason::CostExceedsLimit) && uncounted(asked).reason().is_none();
    if is_above_share { state.with_reason(Some(Reason::CostExceedsShare)) } else { state }
}

/// Returns whether a correct store can have given this answer.
fn is_possible_answer(step: &HoldStep<'_>, answer: &Result<HoldAnswer, StoreError>) -> bool {
    let answer = match (answer, step) {
        (Ok(answer), _) => answer,
        (Err(StoreError::Ended { now }), HoldStep::Reserve(terms)) => {
            return terms.end().is_some_and(|end| *now >= end);
        }
        (Err(error), _) => return !matches!(error, StoreError::Ended { .. }),
    };
    match (step, answer) {
        (HoldStep::Reserve(terms), HoldAnswer::Decided(states)) => {
            let has_taken = states.is_admitted();
            let units = |asked: &InFlightCharge<'_>| if has_taken { asked.units() } else { 0 };
            let is_in_time = |end| states.charged().iter().all(|state| is_before(state, end));
            are_possible(terms, states, units) && (states.is_repeated() || terms.end().is_none_or(is_in_time))
        }
        (HoldStep::Look(terms), HoldAnswer::Decided(states)) => {
            !states.is_repeated() && are_possible(terms, states, |_| 0)
        }
        (HoldStep::Renew(terms), HoldAnswer::Renewed { left }) => *left <= terms.length().duration(),
        (HoldStep::Settle(terms, _), HoldAnswer::Settled(states)) => states.len() <= terms.charges().len(),
        (HoldStep::Reserve(_), HoldAnswer::Conflict | HoldAnswer::Ended)
        | (
            HoldStep::Renew(_),
            HoldAnswer::Lost
            | HoldAnswer::Expired
            | HoldAnswer::Ended
            | HoldAnswer::Conflict
            | HoldAnswer::Gone,
        )
        | (HoldStep::Settle(..), HoldAnswer::Expired | HoldAnswer::Conflict | HoldAnswer::Gone)
        | (HoldStep::Reset(_), HoldAnswer::Forgotten { .. }) => true,
        _ => false,
    }
}

/// Returns whether a correct store can have decided so, and have taken these units in flight.
fn are_possible(
    terms: &HoldTerms<'_>,
    states: &HoldStates,
    units: impl Fn(&InFlightCharge<'_>) -> u32,
) -> bool {
    let (in_flight, charges) = (terms.in_flight(), terms.charges());
    // A repeated answer and one of a fallback below may have other limits.
    if states.is_repeated() || states.place() != HoldPlace::Store {
        return states.in_flight().len() == in_flight.len() && states.charged().len() == charges.len();
    }
    let each = |(asked, state): (&InFlightCharge<'_>, &InFlightState)| {
        let limit = asked.in_flight().in_flight().limit();
        state.limit() == limit
            && state.units() == units(asked)
            && state.live() <= InFlight::MAX_LIMIT
            && (!state.has_room() || state.live() <= limit)
    };
    states.in_flight().len() == in_flight.len()
        && in_flight.iter().zip(states.in_flight()).all(each)
        && is_possible(charges, states.charged())
}
