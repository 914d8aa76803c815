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
    pub(crate) shadow: TrialVerdicts,
    pub(crate) candidate: TrialVerdicts,
}

/// Verdicts on trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TrialVerdicts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) failed: u64,
}

/// What is kept of a policy for one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SeriesPoint {
    pub(crate) allowed: u32,
    pub(crate) denied: u32,
    pub(crate) failed: u32,
    pub(crate) by_fallback: u32,
    pub(crate) trial_denied: u32,
}

impl PolicyCounts {
    pub(crate) fn of(tally: &Tally) -> Self {
        Self {
            allowed: tally.allowed,
            denied: tally.denied,
            failed: tally.failed,
            by_fallback: tally.allowed_by_fallback + tally.denied_by_fallback,
            shadow: TrialVerdicts::from(tally.shadow),
            candidate: TrialVerdicts::from(tally.candidate),
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
            failed: narrow(self.failed),
            by_fallback: narrow(self.by_fallback),
            trial_denied: narrow(self.trial_denied()),
        }
    }

    /// Returns the verdicts on trial, which a [point](SeriesPoint) has not each.
    pub(super) fn trial_verdicts(&self) -> [u32; 6] {
        let [shadow, candidate] = [self.shadow, self.candidate].map(TrialVerdicts::figures);
        let ([a, b, c], [d, e, f]) = (shadow, candidate);
        [a, b, c, d, e, f].map(narrow)
    }

    /// Sums over some time, from the sum of points and from those of the verdicts on trial.
    pub(super) fn of_sums(points: [u64; 5], trials: [u64; 6]) -> Self {
        // The denied on trial are in the other sums, of each trial.
        let [allowed, denied, failed, by_fallback, _] = points;
        let [a, b, c, d, e, f] = trials;
        Self::of_figures([allowed, denied, failed, by_fallback, a, b, c, d, e, f])
    }

    fn figures(&self) -> [u64; 10] {
        let Self { allowed, denied, failed, by_fallback, shadow, candidate } = self;
        let ([a, b, c], [d, e, f]) = (shadow.figures(), candidate.figures());
        [*allowed, *denied, *failed, *by_fallback, a, b, c, d, e, f]
    }

    fn of_figures([allowed, denied, failed, by_fallback, a, b, c, d, e, f]: [u64; 10]) -> Self {
        let trial = |[allowed, denied, failed]: [u64; 3]| TrialVerdicts { allowed, denied, failed };
        let (shadow, candidate) = (trial([a, b, c]), trial([d, e, f]));
        Self { allowed, denied, failed, by_fallback, shadow, candidate }
    }

    fn combined(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut figures = self.figures();
        figures.iter_mut().zip(other.figures()).for_each(|(own, other)| *own = combine(*own, other));
        Self::of_figures(figures)
    }
}

impl TrialVerdicts {
    const fn figures(self) -> [u64; 3] {
        [self.allowed, self.denied, self.failed]
    }
}

impl From<TrialTally> for TrialVerdicts {
    fn from(TrialTally { allowed, denied, failed, .. }: TrialTally) -> Self {
        Self { allowed, denied, failed }
    }
}

impl SeriesPoint {
    pub(super) const fn figures(self) -> [u32; 5] {
        [self.allowed, self.denied, self.failed, self.by_fallback, self.trial_denied]
    }

    pub(super) const fn of_figures([allowed, denied, failed, by_fallback, trial_denied]: [u32; 5]) -> Self {
        Self { allowed, denied, failed, by_fallback, trial_denied }
    }
}

/// No process decides four billion requests in a second.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
