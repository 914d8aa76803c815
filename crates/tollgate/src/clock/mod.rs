//! Clocks: the only module that reads them.

mod manual;
mod system;

use std::time::Duration;

pub use self::manual::ManualClock;
pub use self::system::SystemClock;

use crate::Timestamp;

/// A source of time for a store.
///
/// Each decision uses one reading. A clock should not go back. If it does so by a second or less, no window is opened
/// again. After a longer step, a store moves a counter, with what it has used, into the window that holds then, and a
/// window that the clock passes twice may be counted twice.
pub trait Clock: Send + Sync {
    /// Returns the time, rounded down to the millisecond.
    fn now(&self) -> Timestamp;

    /// Returns the time or a slightly earlier one, if that is cheaper.
    ///
    /// A store uses it in windows of at least 250 times its resolution, except for the last 12 times its resolution. It
    /// never shows a later time than [`now`](Self::now) does after it.
    fn coarse_now(&self) -> Timestamp {
        self.now()
    }

    /// Returns the distance between readings of [`coarse_now`](Self::coarse_now). They usually lag by no more than
    /// that. A store counts every unit in its window with up to twelve times that lag.
    fn coarse_resolution(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns a time that is only for lengths: it passes as [`now`](Self::now) does, but setting the clock does not move
    /// it, and its origin is arbitrary. A store measures the life of [holds with an id](crate::HoldId) by it.
    ///
    /// By default, `now`. If that goes back, no hold is left longer than its length.
    fn steady_now(&self) -> Timestamp {
        self.now()
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn coarse_now(&self) -> Timestamp {
        (**self).coarse_now()
    }

    fn coarse_resolution(&self) -> Duration {
        (**self).coarse_resolution()
    }

    fn steady_now(&self) -> Timestamp {
        (**self).steady_now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn coarse_now(&self) -> Timestamp {
        (**self).coarse_now()
    }

    fn coarse_resolution(&self) -> Duration {
        (**self).coarse_resolution()
    }

    fn steady_now(&self) -> Timestamp {
        (**self).steady_now()
    }
}
