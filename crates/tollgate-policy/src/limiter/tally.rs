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
    /// Its holds, by the answers of this limiter. How many are live, only the store knows.
    pub holds: HoldTally,
}

/// The outcomes of holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HoldTally {
    /// Holds that were admitted, without repeated calls.
    pub admitted: u64,
    /// Holds that were settled, without repeated calls.
    pub settled: u64,
    /// Units that settling charged beyond the reserved costs, of all quotas.
    pub overrun_units: u64,
    /// Units beyond the reserved costs that were forgiven, of all quotas.
    pub forgiven_units: u64,
    /// Renewals that found the units in flight lost.
    pub lost: u64,
    /// Calls about holds that had expired or were not known.
    pub expired: u64,
    /// Units in flight that expired, as far as [reservations found them](tollgate::InFlightState::expired).
    pub expired_units: u64,
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
    /// Those of the denied that are denied now as well: by the limits of the policy itself, which candidates would
    /// replace; if it is in shadow mode, by other policies. The rest would be denied by the trial alone.
    pub denied_by_both: u64,
    /// Those of the allowed that are denied now, in the same sense.
    pub denied_only_now: u64,
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
    /// Apart, so that checks touch no more cache lines.
    holds: Box<HoldCounters>,
}

#[derive(Debug, Default)]
pub(super) struct HoldCounters {
    admitted: AtomicU64,
    settled: AtomicU64,
    overrun_units: AtomicU64,
    forgiven_units: AtomicU64,
    lost: AtomicU64,
    expired: AtomicU64,
    expired_units: AtomicU64,
}

#[derive(Debug, Default)]
struct TrialCounters {
    allowed: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    denied_by_both: AtomicU64,
    denied_only_now: AtomicU64,
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

    /// Counts the verdict of a trial, and whether the request is denied without it.
    pub(super) fn tried(&self, kind: TrialKind, verdict: Option<Verdict>, is_denied_now: bool) {
        let counters = match kind {
            TrialKind::Shadow => &self.shadow,
            TrialKind::Candidate => &self.candidate,
        };
        let (all, denied_now) = match verdict {
            Some(Verdict::Allowed) => (&counters.allowed, &counters.denied_only_now),
            Some(Verdict::Denied) => (&counters.denied, &counters.denied_by_both),
            None => return add(&counters.failed),
        };
        add(all);
        if is_denied_now {
            add(denied_now);
        }
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
            holds: self.holds.tally(),
        }
    }

    pub(super) const fn holds(&self) -> &HoldCounters {
        &self.holds
    }
}

impl HoldCounters {
    pub(super) fn admitted(&self) {
        add(&self.admitted);
    }

    pub(super) fn settled(&self) {
        add(&self.settled);
    }

    pub(super) fn overran(&self, charged: u32, forgiven: u32) {
        self.overrun_units.fetch_add(charged.into(), Ordering::Relaxed);
        self.forgiven_units.fetch_add(forgiven.into(), Ordering::Relaxed);
    }

    pub(super) fn lost(&self) {
        add(&self.lost);
    }

    pub(super) fn expired(&self) {
        add(&self.expired);
    }

    pub(super) fn units_expired(&self, units: u32) {
        self.expired_units.fetch_add(units.into(), Ordering::Relaxed);
    }

    fn tally(&self) -> HoldTally {
        HoldTally {
            admitted: read(&self.admitted),
            settled: read(&self.settled),
            overrun_units: read(&self.overrun_units),
            forgiven_units: read(&self.forgiven_units),
            lost: read(&self.lost),
            expired: read(&self.expired),
            expired_units: read(&self.expired_units),
        }
    }
}

impl TrialCounters {
    fn tally(&self) -> TrialTally {
        // The parts first, so that they are not above the whole.
        let (denied_by_both, denied_only_now) = (read(&self.denied_by_both), read(&self.denied_only_now));
        let (allowed, denied, failed) = (read(&self.allowed), read(&self.denied), read(&self.failed));
        TrialTally { allowed, denied, failed, denied_by_both, denied_only_now }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
