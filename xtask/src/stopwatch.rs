//! Measures how long a step takes.

use std::time::{Duration, Instant};

/// The time since its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
