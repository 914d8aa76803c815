//! The deadline of a step.

use std::time::Instant;

/// The time until which a caller waits for a step, or for all steps of a call.
///
/// It is a time of this process's monotonic clock. No store counts by it: a store may ignore it, or uses it to end its
/// wait. If a call has several steps, each has the same deadline, so later steps have the rest of the time.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use tollgate::StepDeadline;
///
/// let until = Instant::now() + Duration::from_millis(10);
/// let deadline = StepDeadline::at(until);
/// let later = deadline.after_a_step();
/// assert_eq!(later.until(), until);
/// assert!(later.has_earlier_steps() && !deadline.has_earlier_steps());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepDeadline {
    until: Instant,
    has_earlier_steps: bool,
}

impl StepDeadline {
    /// Returns the deadline of a caller that waits until this time.
    #[must_use]
    pub const fn at(until: Instant) -> Self {
        Self { until, has_earlier_steps: false }
    }

    /// Returns the same deadline for the steps of the call that follow. They may have too little time left, which is
    /// not the store's fault.
    #[must_use]
    pub const fn after_a_step(self) -> Self {
        Self { has_earlier_steps: true, ..self }
    }

    /// Returns the time until which the caller waits.
    #[must_use]
    pub const fn until(self) -> Instant {
        self.until
    }

    /// Returns whether earlier steps of the call may have taken some of the time.
    #[must_use]
    pub const fn has_earlier_steps(self) -> bool {
        self.has_earlier_steps
    }
}
