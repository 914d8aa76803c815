//! The fixed window, `100/1m`: a number of units in each interval.

use super::Mark;
use crate::{Quota, Window};

/// A fixed window at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowStanding {
    pub(crate) used: u64,
    /// The window in which they count. It may begin after the current time if the clock has stepped back by at most a
    /// second.
    pub(crate) window: Window,
}

impl WindowStanding {
    /// Returns the window with this many units.
    #[must_use]
    #[inline(always)]
    pub const fn new(used: u64, window: Window) -> Self {
        Self { used, window }
    }

    /// Returns the interval.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Returns the window with this many more units. Usage saturates at the largest limit, so that it fits wherever a
    /// limit does.
    #[must_use]
    #[inline(always)]
    pub fn add(&self, units: u64) -> Self {
        self.set(self.used.saturating_add(units))
    }

    /// Returns what a refund of at most `units` gives back of a charge in the marked window, and the window after it.
    #[must_use]
    pub fn give_back(&self, units: u64, mark: Mark) -> (u64, Self) {
        let given = if Mark::at(self.window.start()) == mark { units.min(self.used) } else { 0 };
        (given, Self { used: self.used - given, ..*self })
    }

    /// Returns the window with exactly this many units, at most the largest limit.
    #[must_use]
    #[inline(always)]
    pub fn set(&self, units: u64) -> Self {
        Self { used: units.min(Quota::MAX_LIMIT), ..*self }
    }
}
