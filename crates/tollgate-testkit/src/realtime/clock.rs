//! The oracle's clock: reads the operating system directly, not through the library.

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// Nanoseconds since the Unix epoch.
pub type Nanos = i64;

/// The current time, and the kernel's last tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// The time of the last tick. A limiter may decide by it, or by any time up to `precise`.
    pub coarse: Nanos,
    /// The exact time.
    pub precise: Nanos,
}

/// The wall clock when this was created, advanced by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct RealClock {
    /// How far the wall clock was ahead of the monotonic one.
    offset: Nanos,
}

/// How far the limiter's clock may be from the oracle's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowance {
    /// The distance between readings of the two clocks at the same time.
    pub skew: Nanos,
    /// The delay of ticks beyond which denials by a coarse clock are not judged.
    pub lag: Nanos,
}

/// The least growth of that lead that shows a set wall clock. The best readings are about 30 ns apart.
const SET: Nanos = 500_000;

impl RealClock {
    /// Starts from the current time.
    #[must_use]
    pub fn new() -> Self {
        Self { offset: offset() }
    }

    /// Reads both clocks.
    #[must_use]
    pub fn read(&self) -> ClockReading {
        // The tick first: it is never after the time that is read then.
        let coarse = nanos(clock_gettime(ClockId::MonotonicCoarse)) + self.offset;
        ClockReading { coarse, precise: self.now() }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        nanos(clock_gettime(ClockId::Monotonic)) + self.offset
    }

    /// Returns whether the wall clock was set forward since. A limiter follows within a second, so until then its time
    /// is unknown. It does not follow a step back, and neither does this clock.
    #[must_use]
    pub fn was_set_forward(&self) -> bool {
        offset() > self.offset + SET
    }

    /// Returns the time between ticks.
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

/// Returns how far the wall clock is ahead of the monotonic one. A pause between the two readings makes the result too
/// small, never too large, so the largest of several is the best.
fn offset() -> Nanos {
    let ahead = |_| nanos(clock_gettime(ClockId::Realtime)) - nanos(clock_gettime(ClockId::Monotonic));
    (0..16).map(ahead).max().expect("there are sixteen")
}

fn nanos(time: Timespec) -> Nanos {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
