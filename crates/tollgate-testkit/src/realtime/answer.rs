//! The answer to a request, with the caller's clock readings before and after.

use smallvec::SmallVec;

use super::clock::{ClockReading, Nanos};

/// One key of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadedKey {
    /// The index of its group.
    pub group: u16,
    /// Its index in the group.
    pub index: u32,
}

impl LoadedKey {
    /// The key to charge, a text.
    #[must_use]
    pub fn key(self) -> String {
        super::terms::key(self.index)
    }
}

/// The answer to a request for one unit.
#[derive(Debug, Clone)]
pub struct UnitAnswer {
    /// The key that was charged.
    pub victim: LoadedKey,
    /// The reading before the call.
    pub before: ClockReading,
    /// The reading after the call.
    pub after: Nanos,
    /// Whether it was admitted.
    pub allowed: bool,
    /// How long to wait, in milliseconds, if it was denied.
    pub retry_after: Option<i64>,
    /// The state of each quota, in the order of the group's quotas.
    pub quotas: SmallVec<[QuotaAnswer; 2]>,
}

/// The state of one quota in the answer. Times are in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaAnswer {
    /// The first millisecond of the window.
    pub start: i64,
    /// The first millisecond after the window. Of other kinds than fixed windows, when there is room again.
    pub end: i64,
    /// When the limiter decided, by its own clock.
    pub now: i64,
    /// Whether the quota had room.
    pub has_room: bool,
}
