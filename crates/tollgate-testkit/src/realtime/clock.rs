//! The time as the oracle reads it: from the operating system, and not through the library.

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// Nanoseconds since the Unix epoch.
pub type Nanos = i64;

/// The time now: the kernel's last tick, and the time itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The time of the last tick. A limiter may decide by it, or by anything between it and the time itself.
    pub coarse: Nanos,
    /// The time itself.
    pub precise: Nanos,
}

/// The wall clock as it was when this was made, advanced by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct RealClock {
    /// What the wall clock was ahead of the monotonic one.
    offset: Nanos,
}

/// The wall clock was set if it is this much further ahead than before. Two readings are best some 30 ns apart.
const SET: Nanos = 500_000;

impl RealClock {
    /// The time as it is now.
    #[must_use]
    pub fn new() -> Self {
        Self { offset: offset() }
    }

    /// Reads both clocks.
    #[must_use]
    pub fn read(&self) -> Reading {
        // The tick first: it is never after the time that is read then.
        let coarse = nanos(clock_gettime(ClockId::MonotonicCoarse)) + self.offset;
        Reading { coarse, precise: self.now() }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Nanos {
        nanos(clock_gettime(ClockId::Monotonic)) + self.offset
    }

    /// Whether somebody has set the wall clock forward since. A limiter follows that within a second, so for that long
    /// nobody knows by which time it decides. It does not follow a step back, and neither does this clock.
    #[must_use]
    pub fn was_set_forward(&self) -> bool {
        offset() > self.offset + SET
    }

    /// How far apart ticks are.
    #[must_use]
    pub fn tick() -> Nanos {
        nanos(clock_getres(ClockId::MonotonicCoarse))
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

/// What the wall clock is ahead of the monotonic one. A pause between the two readings makes it too small and never too
/// large, so the largest of several is the best.
fn offset() -> Nanos {
    let ahead = |_| nanos(clock_gettime(ClockId::Realtime)) - nanos(clock_gettime(ClockId::Monotonic));
    (0..16).map(ahead).max().expect("there are sixteen")
}

fn nanos(time: Timespec) -> Nanos {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
