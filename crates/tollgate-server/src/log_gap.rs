//! Limits log lines: passes one line of a kind, and then none for a while.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tollgate::Timestamp;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct LogGap {
    /// The time, in Unix milliseconds, before which no further line passes.
    until: AtomicI64,
}

impl Default for LogGap {
    fn default() -> Self {
        Self { until: AtomicI64::new(i64::MIN) }
    }
}

impl LogGap {
    /// Returns whether a line may pass now. If so, no other one passes for this long.
    pub(crate) fn passes(&self, now: Timestamp, gap: Duration) -> bool {
        // Relaxed: the time guards no other memory, and the exchange lets one of several racers pass.
        let until = self.until.load(Ordering::Relaxed);
        let next = (now + gap).as_unix_millis();
        now.as_unix_millis() >= until
            && self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_a_gap() {
        let (gap, minute) = (LogGap::default(), Duration::from_secs(60));
        let start = Timestamp::from_unix_millis(1_700_000_040_000);
        assert!(gap.passes(start, minute));
        assert!(!gap.passes(start, minute));
        assert!(!gap.passes(start + Duration::from_millis(59_999), minute));
        assert!(gap.passes(start + minute, minute));
    }
}
