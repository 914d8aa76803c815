//! What time it is: the one place where clocks are read.

mod manual;
mod system;

use std::time::Duration;

pub use self::manual::ManualClock;
pub use self::system::SystemClock;

use crate::Timestamp;

/// Tells a store what time it is.
///
/// A store reads its clock once for each decision. A clock should not go back: a store bears it (a counter
/// whose window has not begun keeps its count and is taken into the window that holds now), but a window that
/// is passed twice is counted twice.
pub trait Clock: Send + Sync {
    /// The time now, exact but for the rounding down to the millisecond.
    fn now(&self) -> Timestamp;

    /// The time now or a little earlier, where that is cheaper to tell.
    ///
    /// A store takes it for windows at least 250 times as long as its resolution, and denies nobody on its word
    /// near the end of a window.
    fn coarse_now(&self) -> Timestamp {
        self.now()
    }

    /// How far apart the readings of [`coarse_now`](Self::coarse_now) are. As a rule they lag the true time by
    /// no more than that; a store bears twelve times as much.
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
