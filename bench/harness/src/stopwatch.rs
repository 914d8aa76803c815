//! Measures time, and tells the time of day to peers that need it. Only this module of the benches reads a clock.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// The time since its start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the benches' clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the benches' clock")]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Returns the time that this thread has spent on a core, without the time that it waited for one.
pub fn time_on_core() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "this is the benches' clock")]
#[inline]
pub fn time_of_day() -> SystemTime {
    SystemTime::now()
}
