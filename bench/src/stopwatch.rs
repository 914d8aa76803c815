//! The time that measurements take: the one place where the benches read a clock.

use std::time::{Duration, Instant};

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
