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

    /// Returns the time so long after the start; `None` if no clock reaches it.
    pub(crate) fn after(self, time: Duration) -> Option<Instant> {
        self.0.checked_add(time)
    }

    /// Returns how much of the time until then was left at the start.
    pub(crate) fn until(self, then: Instant) -> Duration {
        then.saturating_duration_since(self.0)
    }
}
