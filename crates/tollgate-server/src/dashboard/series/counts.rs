//! The figures of a policy: since its start, and of one point in time.

use tollgate_policy::{Tally, TrialTally};

/// The figures of a policy: since the start, or of a span. A figure is in the place that [`PolicyCounts::of`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PolicyCounts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) failed: u64,
    /// Those of the allowed and denied that were decided without the store.
    pub(crate) by_fallback: u64,
    pub(crate) shadow: TrialTally,
    pub(crate) candidate: TrialTally,
}

/// What is kept of a policy for one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SeriesPoint {
    pub(crate) allowed: u32,
    pub(crate) denied: u32,
    pub(crate) trial_denied: u32,
    pub(crate) by_fallback: u32,
}

impl PolicyCounts {
    pub(crate) fn of(tally: &Tally) -> Self {
        Self {
            allowed: tally.allowed,
            denied: tally.denied,
            failed: tally.failed,
            by_fallback: tally.allowed_by_fallback + tally.denied_by_fallback,
            shadow: tally.shadow,
            candidate: tally.candidate,
        }
    }

    /// Those of a domain, which has verdicts alone.
    pub(crate) fn of_verdicts(allowed: u64, denied: u64) -> Self {
        Self { allowed, denied, ..Self::default() }
    }

    /// Returns what was counted since an earlier reading. A figure only falls if another policy took the name: then all
    /// of them are new.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let fell = self.figures().iter().zip(earlier.figures()).any(|(now, before)| *now < before);
        if fell { *self } else { self.combined(earlier, u64::saturating_sub) }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.combined(other, u64::saturating_add)
    }

    pub(crate) fn trial_denied(&self) -> u64 {
        self.shadow.denied + self.candidate.denied
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn point(&self) -> SeriesPoint {
        SeriesPoint {
            allowed: narrow(self.allowed),
            denied: narrow(self.denied),
            trial_denied: narrow(self.trial_denied()),
            by_fallback: narrow(self.by_fallback),
        }
    }

    /// Returns the figures that a [point](SeriesPoint) does not tell.
    pub(super) fn rest(&self) -> [u32; 7] {
        let Self { failed, shadow, candidate, .. } = self;
        [
            *failed,
            shadow.allowed,
            shadow.denied,
            shadow.failed,
            candidate.allowed,
            candidate.denied,
            candidate.failed,
        ]
        .map(narrow)
    }

    fn figures(&self) -> [u64; 10] {
        let Self { allowed, denied, failed, by_fallback, shadow, candidate } = self;
        let trials = [shadow, candidate].map(|trial| [trial.allowed, trial.denied, trial.failed]);
        let [[a, b, c], [d, e, f]] = trials;
        [*allowed, *denied, *failed, *by_fallback, a, b, c, d, e, f]
    }

    fn combined(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let combined_trial = |own: TrialTally, other: TrialTally| {
            trial(
                combine(own.allowed, other.allowed),
                combine(own.denied, other.denied),
                combine(own.failed, other.failed),
            )
        };
        Self {
            allowed: combine(self.allowed, other.allowed),
            denied: combine(self.denied, other.denied),
            failed: combine(self.failed, other.failed),
            by_fallback: combine(self.by_fallback, other.by_fallback),
            shadow: combined_trial(self.shadow, other.shadow),
            candidate: combined_trial(self.candidate, other.candidate),
        }
    }
}

/// The sum of points. A thousand policies are summed up while somebody waits.
#[derive(Debug, Default)]
pub(super) struct PointSum {
    allowed: u64,
    denied: u64,
    by_fallback: u64,
}

impl PointSum {
    pub(super) fn add(&mut self, point: SeriesPoint) {
        self.allowed += u64::from(point.allowed);
        self.denied += u64::from(point.denied);
        self.by_fallback += u64::from(point.by_fallback);
    }

    /// Returns the counts, with the [rest](PolicyCounts::rest) of the figures.
    pub(super) fn with_rest(self, rest: [u64; 7]) -> PolicyCounts {
        let Self { allowed, denied, by_fallback } = self;
        let [failed, shadow_allowed, shadow_denied, shadow_failed, candidate @ ..] = rest;
        let [candidate_allowed, candidate_denied, candidate_failed] = candidate;
        PolicyCounts {
            allowed,
            denied,
            failed,
            by_fallback,
            shadow: trial(shadow_allowed, shadow_denied, shadow_failed),
            candidate: trial(candidate_allowed, candidate_denied, candidate_failed),
        }
    }
}

impl SeriesPoint {
    pub(super) fn add(&mut self, other: Self) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.denied = self.denied.saturating_add(other.denied);
        self.trial_denied = self.trial_denied.saturating_add(other.trial_denied);
        self.by_fallback = self.by_fallback.saturating_add(other.by_fallback);
    }
}

fn trial(allowed: u64, denied: u64, failed: u64) -> TrialTally {
    let mut tally = TrialTally::default();
    (tally.allowed, tally.denied, tally.failed) = (allowed, denied, failed);
    tally
}

/// No process decides four billion requests in a second.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
