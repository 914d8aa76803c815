//! Tallies of a policy's checks, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Source, Verdict};

use crate::TrialKind;

/// The tally of a policy's checks, without peeks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Requests that were admitted where a quota of this policy decided, or that it exempted.
    pub allowed: u64,
    /// Requests that a quota of this policy denied, or that it denied because they lack its key.
    pub denied: u64,
    /// Those admitted without the store.
    pub allowed_by_fallback: u64,
    /// Those denied without the store.
    pub denied_by_fallback: u64,
    /// Requests without a decision, because the store gave none and this policy insists on one.
    pub failed: u64,
    /// The verdicts that the policy would have given, in shadow mode.
    pub shadow: TrialTally,
    /// The verdicts that its candidates would have given.
    pub candidate: TrialTally,
}

/// The outcomes of trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TrialTally {
    /// Requests for which there was room.
    pub allowed: u64,
    /// Those for which there was no room, or that the policy would have denied whatever the counts.
    pub denied: u64,
    /// Trials that failed because the store did not answer.
    pub failed: u64,
}

/// The same, as it is counted. Every access is relaxed: each is a figure of its own that guards no other memory.
///
/// It fills two cache lines, because processors fetch them in pairs: threads that count for one policy do not slow down
/// those that count for another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    allowed: AtomicU64,
    denied: AtomicU64,
    allowed_by_fallback: AtomicU64,
    denied_by_fallback: AtomicU64,
    failed: AtomicU64,
    shadow: TrialCounters,
    candidate: TrialCounters,
}

#[derive(Debug, Default)]
struct TrialCounters {
    allowed: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    pub(super) fn decided(&self, verdict: Verdict, source: Source) {
        let (all, by_fallback) = match verdict {
            Verdict::Allowed => (&self.allowed, &self.allowed_by_fallback),
            Verdict::Denied => (&self.denied, &self.denied_by_fallback),
        };
        add(all);
        if source == Source::Fallback {
            add(by_fallback);
        }
    }

    pub(super) fn failed(&self) {
        add(&self.failed);
    }

    pub(super) fn tried(&self, kind: TrialKind, verdict: Option<Verdict>) {
        let counters = match kind {
            TrialKind::Shadow => &self.shadow,
            TrialKind::Candidate => &self.candidate,
        };
        add(match verdict {
            Some(Verdict::Allowed) => &counters.allowed,
            Some(Verdict::Denied) => &counters.denied,
            None => &counters.failed,
        });
    }

    pub(super) fn tally(&self) -> Tally {
        Tally {
            allowed: read(&self.allowed),
            denied: read(&self.denied),
            allowed_by_fallback: read(&self.allowed_by_fallback),
            denied_by_fallback: read(&self.denied_by_fallback),
            failed: read(&self.failed),
            shadow: self.shadow.tally(),
            candidate: self.candidate.tally(),
        }
    }
}

impl TrialCounters {
    fn tally(&self) -> TrialTally {
        TrialTally { allowed: read(&self.allowed), denied: read(&self.denied), failed: read(&self.failed) }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
