//! Measures durations. Only a store's clock tells the time.

use std::time::{Duration, Instant};

/// Started on creation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the stopwatch")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the stopwatch")]
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
