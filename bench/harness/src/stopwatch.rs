//! The time that measurements take, and the time of day for peers that want to be told: the one place where the
//! benches read a clock.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Time since it was started.
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

/// The time that this thread has spent on a core; what it waited for one is not in it.
pub fn time_on_core() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The time of day.
#[expect(clippy::disallowed_methods, reason = "this is the benches' clock")]
#[inline]
pub fn time_of_day() -> SystemTime {
    SystemTime::now()
}
