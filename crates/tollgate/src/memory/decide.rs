//! The decision: a pure function of a charge, its counter, and one reading of the clock.
//!
//! Every path through the store ends here: one counter or several without a lock, and any under locks.

use super::stored::{PlacedCounter, StoredCounter};
use crate::kind::Standing;
use crate::{Charge, CountDenied, QuotaState, Reason, Timestamp};

/// The outcome of one charge at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) now: Timestamp,
    /// The counter, before anything is taken.
    pub(super) placement: PlacedCounter,
    /// Units that the step takes from the counter. Charges on one counter add up.
    cost: u64,
    /// Why they do not fit, if they do not.
    reason: Option<Reason>,
}

/// Returns the outcome of this charge now, in a step that takes `cost` units from its counter.
#[inline(always)]
pub(super) fn decide(charge: &Charge<'_>, cost: u64, stored: StoredCounter, now: Timestamp) -> Outcome {
    Outcome::of(charge, cost, PlacedCounter::at(&charge.counter(), stored, now), now)
}

/// Returns whether a step with these outcomes is admitted.
#[inline(always)]
pub(super) fn is_admitted(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.reason.is_none())
}

impl Outcome {
    /// Returns the outcome of the charge on a counter in this state.
    #[inline(always)]
    pub(super) fn of(charge: &Charge<'_>, cost: u64, placement: PlacedCounter, now: Timestamp) -> Self {
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
    pub(super) fn standing(&self) -> &Standing {
        &self.placement.standing
    }

    /// Returns the state after the step has taken this many units from the counter.
    #[inline(always)]
    pub(super) fn answer(&self, charge: &Charge<'_>, units: u64) -> QuotaState {
        self.clone().answered(charge, units).0
    }

    /// Returns the state after the step has taken this many units, and the counter.
    #[inline(always)]
    pub(super) fn answered(self, charge: &Charge<'_>, units: u64) -> (QuotaState, Standing) {
        let quota = charge.counter().quota().quota();
        let needed = charge.units_needed(self.cost);
        let before = self.placement.standing.used();
        let after = self.placement.standing.add(units);
        let taken = match (units, &after) {
            (0, _) => 0,
            // A nearly saturated fixed window takes less than the cost. It is wide, so the code under locks handles it.
            (_, Standing::Window(_)) => charge.cost(),
            _ => at_most(charge.cost(), after.used().saturating_sub(before)),
        };
        (QuotaState::of(quota, &after, self.now, self.reason, needed).with_units(taken), after)
    }
}

/// This cost, or fewer units if no more were taken.
pub(super) fn at_most(cost: u32, most: u64) -> u32 {
    u32::try_from(most).map_or(cost, |most| cost.min(most))
}

impl AsRef<[Self]> for Outcome {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}
