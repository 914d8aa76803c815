//! Measures durations. The time itself comes only from a store's clock.

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
