//! Log lines about holds that expired before they were settled.
//!
//! Their units in flight are free again, but what they reserved stays charged. Their callers crashed, or do not renew and
//! settle, and mostly nobody is left who could be told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::info;

use crate::observe::log_gap::LogGap;

/// One line a minute, if there are any.
///
/// Every access is relaxed: the counts guard no other memory.
#[derive(Debug, Default)]
pub(crate) struct ExpiredHoldLog {
    /// Answers that say so. A shared store says nothing of other holds.
    answers: AtomicUsize,
    /// Those that a line has reported.
    reported: AtomicUsize,
    gap: LogGap,
}

impl ExpiredHoldLog {
    /// Notes that a call was about such a hold.
    pub(crate) fn note_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports new ones. Memory knows how many there are; otherwise the answers are counted.
    pub(crate) fn report(&self, in_memory: Option<usize>) {
        let expired = in_memory.unwrap_or_else(|| self.answers.load(Ordering::Relaxed));
        if expired <= self.reported.load(Ordering::Relaxed) || !self.gap.passes(Duration::from_secs(60)) {
            return;
        }
        let holds = expired.saturating_sub(self.reported.swap(expired, Ordering::Relaxed));
        info!(
            holds,
            "holds expired before they were settled: what they reserved stays charged. Check that their callers renew \
             and settle them"
        );
    }
}
