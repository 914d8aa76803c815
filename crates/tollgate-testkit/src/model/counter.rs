//! The rules of one counter, without a store around it.
//!
//! The [model](super::Model) of a store and the model of a recorded history share them.

use std::cmp::Ordering;
use std::time::Duration;

use tollgate::{CountDenied, Mark, Quota, Timestamp, Window};

/// A step back of the clock of no more than this reopens nothing (rule 12).
pub(super) const SHORT_STEP: Duration = Duration::from_secs(1);

/// Units that are used in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelCounter {
    /// The units.
    pub used: u64,
    /// The window.
    pub window: Window,
}

impl ModelCounter {
    /// Creates a counter without usage.
    #[must_use]
    pub fn unused(window: Window) -> Self {
        Self { used: 0, window }
    }

    /// Returns the counter at this time, at which `opened` is the window that holds. After a step back of no more than a
    /// second, the counter stays in its window. A longer one takes it, with its usage, into the window that holds now.
    #[must_use]
    pub fn at(self, now: Timestamp, opened: Window) -> Self {
        if self.window.start() > now + SHORT_STEP {
            Self { window: opened, ..self }
        } else if now < self.window.end() {
            self
        } else {
            Self::unused(opened)
        }
    }

    /// Returns whether charges of this many units together are admitted.
    #[must_use]
    pub fn has_room(self, units: u64, limit: u64, count_denied: CountDenied) -> bool {
        match count_denied {
            CountDenied::Overdraft => self.used < limit,
            CountDenied::No | CountDenied::Yes => self.used + units.max(1) <= limit,
        }
    }

    /// Returns the counter after it has taken these units. A count ends at the largest limit (rule 6).
    #[must_use]
    pub fn with(self, units: u64) -> Self {
        Self { used: (self.used + units).min(Quota::MAX_LIMIT), ..self }
    }

    /// Returns the counter after a refund of this many units, and how many were given back: none in another window.
    #[must_use]
    pub fn refunded(self, mark: Mark, units: u64) -> (Self, u64) {
        let given = if Mark::at(self.window.start()) == mark { units.min(self.used) } else { 0 };
        (Self { used: self.used - given, ..self }, given)
    }
}

impl PartialOrd for ModelCounter {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ModelCounter {
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |counter: &Self| (counter.window.start(), counter.window.end(), counter.used);
        parts(self).cmp(&parts(other))
    }
}
