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
    /// The time now.
    fn now(&self) -> Timestamp;

    /// How far behind the true time a reading can be. It is added to every `retry_after`, so that a client
    /// who comes back when told finds the next window open. Rounding down to the millisecond does not count.
    fn resolution(&self) -> Duration {
        Duration::ZERO
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn resolution(&self) -> Duration {
        (**self).resolution()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn resolution(&self) -> Duration {
        (**self).resolution()
    }
}
