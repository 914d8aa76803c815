//! What time it is: the one place where clocks are read.

mod manual;
mod system;

use std::time::Duration;

pub use self::manual::ManualClock;
pub use self::system::SystemClock;

use crate::Timestamp;

/// Tells a store what time it is.
///
/// One reading makes a decision. A clock should not go back. If it does so by a second or less, no window is opened again.
/// After a longer step, a store takes a counter with what it has used into the window that holds then, and a window that
/// is passed twice may be counted twice.
pub trait Clock: Send + Sync {
    /// The time now, exact but for the rounding down to the millisecond.
    fn now(&self) -> Timestamp;

    /// The time now or a little earlier, where that is cheaper to tell.
    ///
    /// A store decides by it in windows at least 250 times as long as its resolution, but for the last 12 times its
    /// resolution of each window. It never shows a later time than [`now`](Self::now) does after it.
    fn coarse_now(&self) -> Timestamp {
        self.now()
    }

    /// How far apart the readings of [`coarse_now`](Self::coarse_now) are. As a rule they lag the true time by
    /// no more than that; with twelve times as much a store still counts every unit in its window.
    fn coarse_resolution(&self) -> Duration {
        Duration::ZERO
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
}
