//! The sliding window, `100/1m~sliding`: the units of the current window, and a share of those in the window before.
//!
//! A window that began `e` milliseconds ago counts the previous one by the part of it that the last window's length
//! still covers: `used = current + ceil(previous * (window - e) / window)`. It assumes that the previous units came
//! evenly. So it prevents bursts of twice the limit at one instant, but in any time shorter than a window it may admit
//! up to `limit + floor(limit * (time - 1) / window)` units. A [log](super::log) is exact.

use super::Mark;
use crate::{Timestamp, Window};

/// The largest count, and so the largest limit of such a quota.
pub(crate) const MAX_COUNT: u64 = 1_000_000;
/// `count * window` is exact in a double, which Lua counts with.
const MAX_PRODUCT: u64 = 1 << 52;

/// The units in two windows that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingState {
    /// The start of the current window.
    pub start: Timestamp,
    /// Units charged in the current window.
    pub current: u64,
    /// Units charged in the window before.
    pub previous: u64,
}

/// A sliding window at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingStanding {
    state: SlidingState,
    /// In milliseconds.
    window: u64,
    now: Timestamp,
    /// The units that count, rounded up: kept, because a division takes long.
    used: u64,
}

impl SlidingStanding {
    /// Returns the largest count of windows of this length, in milliseconds.
    #[must_use]
    pub const fn max_count(window: u64) -> u64 {
        let exact = MAX_PRODUCT / window;
        if exact < MAX_COUNT { exact } else { MAX_COUNT }
    }

    /// Returns the units that count now in the window `current`, which holds `now` or, if the clock has just stepped
    /// back, begins after it.
    #[must_use]
    #[inline]
    pub fn at(stored: Option<SlidingState>, current: Window, now: Timestamp) -> Self {
        let (start, window) = (current.start(), current.end().millis_since(current.start()).max(1));
        let state = match stored {
            Some(stored) if stored.start == start => stored,
            Some(stored) if stored.start.saturating_add_millis(window) == start => {
                SlidingState { start, current: 0, previous: stored.current }
            }
            // It was in a later window, and the clock has stepped back: all its units move.
            Some(stored) if stored.start > start => {
                let all = (stored.current + stored.previous).min(Self::max_count(window));
                SlidingState { start, current: all, previous: 0 }
            }
            _ => SlidingState { start, current: 0, previous: 0 },
        };
        Self::of(state, window, now)
    }

    /// Returns what counts of these units now.
    #[inline]
    pub(crate) const fn of(state: SlidingState, window: u64, now: Timestamp) -> Self {
        let left = window.saturating_sub(now.millis_since(state.start));
        let used = state.current + (state.previous * left).div_ceil(window);
        Self { state, window, now, used }
    }

    /// Returns the units that count, rounded up.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the window with this many more units.
    #[must_use]
    pub fn add(&self, units: u64) -> Self {
        self.with_current(self.state.current.saturating_add(units))
    }

    /// Returns the first millisecond at which no more than `target` units count, if none are charged until then.
    #[must_use]
    pub const fn when(&self, target: u64) -> Timestamp {
        let SlidingState { start, current, previous } = self.state;
        if self.used <= target {
            return self.now;
        }
        let end = start.saturating_add_millis(self.window);
        if current <= target {
            // Some of the previous units count too many, so there are some.
            let kept = (target - current) * self.window / if previous == 0 { 1 } else { previous };
            return end.saturating_sub_millis(kept);
        }
        if target == 0 {
            return end.saturating_add_millis(self.window);
        }
        let kept = target.saturating_mul(self.window) / current;
        end.saturating_add_millis(self.window.saturating_sub(kept))
    }

    /// Returns what a refund of at most `units` gives back of a charge in the marked window, and what counts after it.
    #[must_use]
    pub fn give_back(&self, units: u64, mark: Mark) -> (u64, Self) {
        let SlidingState { start, current, previous } = self.state;
        if mark.time() == start {
            let given = units.min(current);
            let state = SlidingState { current: current - given, ..self.state };
            (given, Self::of(state, self.window, self.now))
        } else if mark.time().saturating_add_millis(self.window) == start {
            let given = units.min(previous);
            let state = SlidingState { previous: previous - given, ..self.state };
            (given, Self::of(state, self.window, self.now))
        } else {
            (0, *self)
        }
    }

    /// Returns the window with exactly this many units, or as many as it can count.
    #[must_use]
    pub fn set(&self, units: u64) -> Self {
        let current = units.min(Self::max_count(self.window));
        Self::of(SlidingState { current, previous: 0, ..self.state }, self.window, self.now)
    }

    /// Returns the current window.
    pub(crate) const fn current(&self) -> Window {
        let start = self.state.start;
        Window::new(start, start.saturating_add_millis(self.window))
    }

    /// Returns the length of the window in milliseconds.
    pub(crate) const fn window_millis(&self) -> u64 {
        self.window
    }

    fn with_current(&self, current: u64) -> Self {
        let current = current.min(Self::max_count(self.window));
        // Units of the current window count as they are.
        let used = self.used - self.state.current + current;
        Self { state: SlidingState { current, ..self.state }, used, ..*self }
    }

    /// Returns the units in both windows.
    #[must_use]
    pub const fn state(&self) -> SlidingState {
        self.state
    }

    /// Returns the time from which nothing counts.
    #[must_use]
    pub const fn reset_at(&self) -> Timestamp {
        self.when(0)
    }

    /// Returns the mark of the last charge: the start of the current window.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark::at(self.state.start)
    }
}
