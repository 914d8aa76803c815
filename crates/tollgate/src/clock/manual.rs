//! A clock for tests, which stands still until it is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::Clock;
use crate::Timestamp;

/// A clock that stands still until it is moved, forward or back. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
///
/// let clock = ManualClock::default();
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::with_store(Quota::per_minute(1), store);
///
/// assert!(limiter.check("alice")?.is_allowed());
/// assert!(!limiter.check("alice")?.is_allowed());
/// clock.advance(Duration::from_secs(60));
/// assert!(limiter.check("alice")?.is_allowed());
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Returns a clock that shows this time.
    #[must_use]
    pub fn at(time: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(time.as_unix_millis())))
    }

    /// Moves the clock forward. Threads that move it at the same time add up.
    pub fn advance(&self, by: Duration) {
        self.advance_at_most(by, Timestamp::from_unix_millis(i64::MAX));
    }

    /// Moves the clock forward, but not past `latest`. Returns the time that it shows then.
    pub fn advance_at_most(&self, by: Duration, latest: Timestamp) -> Timestamp {
        let next = |now| (Timestamp::from_unix_millis(now) + by).min(latest);
        // Release as in `set`, acquire as in `now`.
        let moved =
            self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(next(now).as_unix_millis()));
        // The step is never refused, so both are the time before it.
        let (Ok(before) | Err(before)) = moved;
        next(before)
    }

    /// Moves the clock to this time, which may lie in its past.
    pub fn set(&self, time: Timestamp) {
        // Release, with the acquire of `now`: threads that see the new time also see what the test did before it moved
        // the clock.
        self.0.store(time.as_unix_millis(), Ordering::Release);
    }
}

/// Shows 2023-11-14 22:14:00 UTC, the start of a minute.
impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Timestamp::from_unix_millis(1_700_000_040_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.0.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Each thread read the time and then wrote its own sum, so some advances were lost.
    #[test]
    fn advances_of_several_threads_add_up() {
        let clock = ManualClock::at(Timestamp::from_unix_millis(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100_000).for_each(|_| clock.advance(Duration::from_millis(1))));
            }
        });
        assert_eq!(clock.now(), Timestamp::from_unix_millis(400_000));
    }

    #[test]
    fn does_not_advance_past_the_latest_time() {
        let clock = ManualClock::at(Timestamp::from_unix_millis(0));
        let latest = Timestamp::from_unix_millis(1_500);
        let advance = || clock.advance_at_most(Duration::from_secs(1), latest).as_unix_millis();
        assert_eq!([advance(), advance(), advance()], [1_000, 1_500, 1_500]);
        assert_eq!(clock.now(), latest);
    }
}
