//! Limits log lines: passes one line of a kind, and then none for a while.
//!
//! It measures with a stopwatch. The clock of a store may go back at a failover, and that of the system when it is set,
//! and lines would stay silent until that clock has caught up.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::observe::stopwatch::Stopwatch;

/// Runs since the first line of the process that is limited.
static STOPWATCH: LazyLock<Stopwatch> = LazyLock::new(Stopwatch::start);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct LogGap {
    /// The time on the stopwatch, in milliseconds, before which no further line passes.
    until: AtomicU64,
}

/// One gap for each of many names.
///
/// Policies come and go, so each name is hashed to one of these places. Names with the same place share a gap; there
/// are enough places to make that rare.
#[derive(Debug)]
pub(crate) struct LogGaps(Box<[LogGap]>);

const PLACES: usize = 4096;

impl Default for LogGaps {
    fn default() -> Self {
        Self((0..PLACES).map(|_| LogGap::default()).collect())
    }
}

impl LogGaps {
    /// Returns whether a line about this name may pass now, as [`LogGap::passes`] does.
    pub(crate) fn pass(&self, name: impl Hash, gap: Duration) -> bool {
        self.pass_at(elapsed(), name, gap)
    }

    /// As `pass`, at this time on the stopwatch.
    pub(crate) fn pass_at(&self, elapsed: Duration, name: impl Hash, gap: Duration) -> bool {
        // No random key: names come from the operator, so nobody provokes collisions.
        let hashing = BuildHasherDefault::<DefaultHasher>::default();
        let place = self.0.get(hashing.hash_one(name) as usize % PLACES);
        place.is_some_and(|place| place.passes_at(elapsed, gap))
    }
}

impl LogGap {
    /// Returns whether a line may pass now. If so, no other one passes for this long.
    pub(crate) fn passes(&self, gap: Duration) -> bool {
        self.passes_at(elapsed(), gap)
    }

    fn passes_at(&self, elapsed: Duration, gap: Duration) -> bool {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        // Relaxed: the time guards no other memory, and the exchange lets one of several racers pass.
        let until = self.until.load(Ordering::Relaxed);
        let next = millis(elapsed.saturating_add(gap));
        millis(elapsed) >= until
            && self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Returns the time on the stopwatch of all gaps.
pub(crate) fn elapsed() -> Duration {
    STOPWATCH.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_a_gap() {
        let (gap, minute) = (LogGap::default(), Duration::from_secs(60));
        assert!(gap.passes_at(Duration::ZERO, minute));
        assert!(!gap.passes_at(Duration::ZERO, minute));
        assert!(!gap.passes_at(Duration::from_millis(59_999), minute));
        assert!(gap.passes_at(minute, Duration::MAX));
        assert!(!gap.passes_at(minute * 60_000_000, minute));
    }
}
