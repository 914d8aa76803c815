//! The time that an estimate may take.

use std::time::Duration;

use crate::observe::stopwatch::Stopwatch;

/// The time that an estimate may take, from its beginning on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    stopwatch: Stopwatch,
    most: Duration,
}

/// The estimate took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfTime;

impl TimeLimit {
    /// Longer, it would be a load for the service.
    pub(super) const MOST: Duration = Duration::from_millis(50);

    pub(super) fn start(most: Duration) -> Self {
        Self { stopwatch: Stopwatch::start(), most }
    }

    /// Returns how many steps of this length are to fit: into half of the time, because the length of later ones may be
    /// another.
    pub(super) fn fitting(self, step: Duration) -> usize {
        let nanos = (self.most / 2).as_nanos() / step.as_nanos().max(1);
        usize::try_from(nanos).unwrap_or(usize::MAX)
    }

    /// # Errors
    ///
    /// If the time is over.
    pub(super) fn check(self) -> Result<(), OutOfTime> {
        if self.stopwatch.elapsed() < self.most { Ok(()) } else { Err(OutOfTime) }
    }
}
