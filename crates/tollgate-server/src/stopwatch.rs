//! How long something took. What time it is, only a store's clock says.

use std::time::{Duration, Instant};

/// Started when it is made.
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
