//! Log lines about holds that expired before they were settled.
//!
//! Their units in flight are free again, but what they reserved stays charged. Their callers crashed, or do not renew and
//! settle, and mostly nobody is left who could be told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::info;

use crate::observe::log_gap::LogGap;

/// One line a minute, if there are any.
///
/// Every access is relaxed: the counts guard no other memory.
#[derive(Debug, Default)]
pub(crate) struct ExpiredHoldLog {
    /// Holds that memory has ended.
    holds: ReportedCount,
    /// Calls about holds that a shared store does not know any more.
    late_calls: ReportedCount,
    /// Units in flight that a shared store has found expired.
    units: ReportedCount,
    gap: LogGap,
}

/// A count, and how much of it the log has reported.
#[derive(Debug, Default)]
struct ReportedCount {
    all: AtomicU64,
    reported: AtomicU64,
}

impl ExpiredHoldLog {
    /// Notes that a call was about such a hold.
    pub(crate) fn note_late_call(&self) {
        self.late_calls.add(1);
    }

    /// Notes units in flight that a step has found expired.
    pub(crate) fn note_units(&self, units: u32) {
        self.units.add(units.into());
    }

    /// Reports new ones. Memory knows how many holds there are. A shared store only knows what calls meet.
    pub(crate) fn report(&self, in_memory: Option<usize>) {
        if let Some(holds) = in_memory {
            self.holds.all.store(holds as u64, Ordering::Relaxed);
            if self.holds.has_new() && self.gap.passes(Duration::from_secs(60)) {
                let holds = self.holds.take_new();
                info!(
                    holds,
                    "holds expired before they were settled: what they reserved stays charged. Check that their callers \
                     renew and settle them"
                );
            }
        } else if (self.units.has_new() || self.late_calls.has_new())
            && self.gap.passes(Duration::from_secs(60))
        {
            let (units, late_calls) = (self.units.take_new(), self.late_calls.take_new());
            info!(
                units,
                late_calls,
                "holds expired before they were settled, with these units in flight: what they reserved stays charged. \
                 Check that their callers renew and settle them"
            );
        }
    }
}

impl ReportedCount {
    fn add(&self, count: u64) {
        self.all.fetch_add(count, Ordering::Relaxed);
    }

    fn has_new(&self) -> bool {
        self.all.load(Ordering::Relaxed) > self.reported.load(Ordering::Relaxed)
    }

    fn take_new(&self) -> u64 {
        let all = self.all.load(Ordering::Relaxed);
        all.saturating_sub(self.reported.swap(all, Ordering::Relaxed))
    }
}
