//! Figures of the whole process, as the snapshot of metrics has them.

use super::histogram::DurationCounts;
use super::snapshot::Snapshot;

/// Figures of the whole process: since its start, or of a span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProcessCounts {
    /// Checks by the source of their answers, in the order of metrics.
    pub(crate) sources: Box<[(&'static str, u64)]>,
    pub(crate) unlimited: u64,
    pub(crate) unmatched: u64,
    pub(crate) store_full: u64,
    pub(crate) decisions: DurationCounts,
    /// Steps of a shared store.
    pub(crate) steps: DurationCounts,
    /// Errors of a shared store, by kind.
    pub(crate) errors: Box<[(&'static str, u64)]>,
    pub(crate) late_replies: u64,
}

impl ProcessCounts {
    /// Returns what was counted since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            sources: difference(&self.sources, &earlier.sources),
            unlimited: self.unlimited.saturating_sub(earlier.unlimited),
            unmatched: self.unmatched.saturating_sub(earlier.unmatched),
            store_full: self.store_full.saturating_sub(earlier.store_full),
            decisions: self.decisions.since(&earlier.decisions),
            steps: self.steps.since(&earlier.steps),
            errors: difference(&self.errors, &earlier.errors),
            late_replies: self.late_replies.saturating_sub(earlier.late_replies),
        }
    }

    /// Returns the number of checks, each counted once.
    pub(crate) fn checks(&self) -> u64 {
        self.sources.iter().map(|(_, count)| count).sum()
    }
}

impl Snapshot {
    /// Returns the figures of the whole process since its start.
    pub(crate) fn process_counts(&self) -> ProcessCounts {
        let (metrics, policies) = (&self.metrics, &self.policies);
        let mut counts = ProcessCounts {
            sources: metrics.checks.counts().collect(),
            unlimited: policies.live.unlimited(),
            unmatched: policies.live.unmatched(),
            store_full: policies.store_full,
            decisions: metrics.duration.counts(),
            ..ProcessCounts::default()
        };
        if let Some((shared, status)) = &self.shared {
            counts.steps = shared.duration().counts();
            counts.errors = shared.errors().collect();
            counts.late_replies = status.late_replies();
        }
        counts
    }
}

/// The first reading has no earlier one, and then everything is new.
fn difference(now: &[(&'static str, u64)], earlier: &[(&'static str, u64)]) -> Box<[(&'static str, u64)]> {
    let before = earlier.iter().map(|(_, count)| *count).chain(std::iter::repeat(0));
    now.iter().zip(before).map(|((name, count), before)| (*name, count.saturating_sub(before))).collect()
}
