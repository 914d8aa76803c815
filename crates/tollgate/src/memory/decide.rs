//! The decision: a pure function of a charge, its counter, and one reading of the clock.
//!
//! Every path through the store ends here: one counter or several without a lock, and any under locks.

use super::stored::{PlacedCounter, SlotStanding, StoredCounter};
use crate::kind::{LogStanding, Standing};
use crate::{Charge, CountDenied, QuotaKind, QuotaState, Reason, Timestamp};

/// The outcome of one charge at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome<S = Standing> {
    pub(super) now: Timestamp,
    /// The counter, before anything is taken.
    pub(super) placement: PlacedCounter<S>,
    /// Units that the step takes from the counter. Charges on one counter add up.
    cost: u64,
    /// Why they do not fit, if they do not.
    reason: Option<Reason>,
}

/// Returns the outcome of this charge now, in a step that takes `cost` units from its counter.
#[inline(always)]
pub(super) fn decide(charge: &Charge<'_>, cost: u64, stored: &StoredCounter, now: Timestamp) -> Outcome {
    Outcome::of(charge, cost, PlacedCounter::at(&charge.counter(), stored, now), now)
}

/// Returns whether a step with these outcomes is admitted.
#[inline(always)]
pub(super) fn is_admitted<S>(outcomes: &[Outcome<S>]) -> bool {
    outcomes.iter().all(|outcome| outcome.reason.is_none())
}

impl<S: SlotStanding> Outcome<S> {
    /// Returns the outcome of the charge on a counter in this state.
    #[inline(always)]
    pub(super) fn of(charge: &Charge<'_>, cost: u64, placement: PlacedCounter<S>, now: Timestamp) -> Self {
        // Cost 0 is answered as cost 1. What fits as any other charge fits as an overdraft too, so charges with room
        // are not asked which they are.
        let used = placement.standing.used();
        let reason = Reason::of(used, cost.max(1), charge.limit())
            .and_then(|_| Reason::of(used, charge.units_needed(cost), charge.limit()));
        Self { now, placement, cost, reason }
    }

    /// Units that this charge takes, in a step that is admitted or denied.
    #[inline(always)]
    pub(super) fn units(&self, charge: &Charge<'_>, is_admitted: bool) -> u64 {
        if is_admitted || self.counts_denial(charge) { self.cost } else { 0 }
    }

    /// Returns whether a denied step charges this. An overdraft is charged whichever counter denied. Otherwise, it must
    /// be its own, and a cost above the limit is never charged.
    #[inline(always)]
    fn counts_denial(&self, charge: &Charge<'_>) -> bool {
        match charge.counter().quota().count_denied() {
            CountDenied::No => false,
            CountDenied::Yes => self.reason == Some(Reason::QuotaExceeded),
            CountDenied::Overdraft => true,
        }
    }

    /// Returns whether the charge fits.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.reason.is_none()
    }

    /// Returns the counter before anything is taken.
    #[inline(always)]
    pub(super) fn standing(&self) -> &S {
        &self.placement.standing
    }

    /// Returns the state after the step has taken this many units from the counter.
    #[inline(always)]
    pub(super) fn answer(&self, charge: &Charge<'_>, units: u64) -> QuotaState {
        self.answer_after(charge, units, self.standing().used(), &self.standing().add(units))
    }

    /// Returns the state after a step that has taken this many units and left the counter like this.
    #[inline(always)]
    fn answer_after(&self, charge: &Charge<'_>, units: u64, before: u64, after: &S) -> QuotaState {
        let needed = charge.units_needed(self.cost);
        let taken = match after.kind() {
            _ if units == 0 => 0,
            // A nearly saturated fixed window takes less than the cost. It is wide, so the code under locks handles it.
            QuotaKind::Window => charge.cost(),
            _ => at_most(charge.cost(), after.used().saturating_sub(before)),
        };
        QuotaState::of_kind(charge.limit(), after, self.now, self.reason, needed).with_units(taken)
    }
}

impl Outcome<LogStanding> {
    /// Returns the state after the step has taken this many units from a log, and the log. In place: it may be long.
    pub(super) fn answered(mut self, charge: &Charge<'_>, units: u64) -> (QuotaState, LogStanding) {
        let before = self.standing().used();
        self.placement.standing = self.placement.standing.add(units);
        let state = self.answer_after(charge, units, before, self.standing());
        (state, self.placement.standing)
    }
}

/// This cost, or fewer units if no more were taken.
pub(super) fn at_most(cost: u32, most: u64) -> u32 {
    u32::try_from(most).map_or(cost, |most| cost.min(most))
}

impl<S> AsRef<[Self]> for Outcome<S> {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}
