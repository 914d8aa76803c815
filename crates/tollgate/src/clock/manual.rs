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

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
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
