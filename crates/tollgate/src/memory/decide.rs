//! The decision: a pure function of a charge, what is stored of its counter, and one reading of the clock.
//!
//! Every way through the store ends here: one counter without a lock, several without one, and any under locks.

use super::fixed_window::{Standing, Stored};
use crate::{Charge, CountDenied, QuotaState, Reason, Timestamp};

/// What one charge comes to at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) now: Timestamp,
    /// The counter, before anything is taken.
    pub(super) standing: Standing,
    /// Units that its step asks of the counter: charges on one counter add up.
    cost: u64,
    /// Why they do not fit, if they do not.
    reason: Option<Reason>,
}

/// What this charge comes to now, in a step that takes so many units of its counter.
#[inline(always)]
pub(super) fn decide(charge: &Charge<'_>, cost: u64, stored: Stored, now: Timestamp) -> Outcome {
    Outcome::of(charge, cost, Standing::at(&charge.counter(), stored, now), now)
}

/// Whether a step with these outcomes is admitted.
#[inline(always)]
pub(super) fn is_admitted(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.reason.is_none())
}

impl Outcome {
    /// What the charge comes to on a counter that stands like this now.
    #[inline(always)]
    pub(super) fn of(charge: &Charge<'_>, cost: u64, standing: Standing, now: Timestamp) -> Self {
        // A charge of nothing is answered as a charge of one would be.
        let reason = Reason::of(standing.used, cost.max(1), charge.limit());
        Self { now, standing, cost, reason }
    }

    /// Units that are taken for this charge, whose step is admitted or not.
    #[inline(always)]
    pub(super) fn units(&self, charge: &Charge<'_>, is_admitted: bool) -> u64 {
        if is_admitted || self.is_counted_denial(charge) { self.cost } else { 0 }
    }

    /// Whether the charge is denied by its own counter, and charged for that. A cost above the limit never is.
    #[inline(always)]
    fn is_counted_denial(&self, charge: &Charge<'_>) -> bool {
        self.reason == Some(Reason::QuotaExceeded)
            && charge.counter().quota().count_denied() == CountDenied::Yes
    }

    /// The answer once its step has taken so many units of the counter.
    #[inline(always)]
    pub(super) fn answer(&self, charge: &Charge<'_>, units: u64) -> QuotaState {
        let used = self.standing.add(units).used;
        let quota = charge.counter().quota().quota();
        // A counter that is nearly saturated takes less than the cost. It is wide, so that is seen to under its lock.
        let taken = if units > 0 { charge.cost() } else { 0 };
        QuotaState::in_window(quota, used, self.standing.window, self.now, self.reason).with_units(taken)
    }
}

impl AsRef<[Self]> for Outcome {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}
