//! How long a step of a call to a shared store may take: as long as the caller waits, and no longer than one deadline
//! for all steps of the call.

use std::time::{Duration, Instant};

use tollgate::StepDeadline;

use crate::observe::stopwatch::Stopwatch;

/// Kept back from the caller's time, so that the answer still reaches the caller.
const MARGIN: Duration = Duration::from_millis(3);

/// The part of it after which a store is cut off that does not keep the time itself.
pub(super) const GRACE: Duration = Duration::from_millis(2);

/// How late a store may meet its own deadline on a busy machine.
const LATE: Duration = Duration::from_millis(5);

/// A store that does not answer the first step of a call in less time than this is not late. A later step does not
/// begin with less than this, or with less than a twentieth of a shorter deadline: it would probably be cut off, and
/// its outcome unknown.
const LEAST: Duration = Duration::from_millis(5);

/// The time of a call to a shared store, and of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoreTime {
    /// The store's own deadline for a step.
    timeout: Duration,
    /// The deadline for all steps of a call.
    pub(super) limit: Duration,
}

/// How long a step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepTime {
    /// The whole deadline.
    Whole,
    /// As long as the caller waits, which is less: a store that takes longer is late.
    AtMost(Duration),
    /// What earlier steps of the call have left. If that does not suffice, the store need not be the reason.
    Rest(Duration),
    /// Too little to begin.
    TooLittle,
}

impl StoreTime {
    /// Expects the store to keep this deadline itself.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, limit: timeout + LATE }
    }

    /// Returns the deadline that the steps of a call share: that of the store, or less if its caller does not wait so
    /// long.
    pub(super) fn deadline(self, begun: Stopwatch, caller_until: Option<Instant>) -> Option<StepDeadline> {
        let store_until = begun.after(self.limit);
        let caller_until = caller_until.map(|until| until.checked_sub(MARGIN).unwrap_or(until));
        store_until.into_iter().chain(caller_until).min().map(StepDeadline::at)
    }

    /// Returns the time of the step that begins now. As long as the store's own deadline comes first, the step has the
    /// whole.
    pub(super) fn of_step(self, deadline: Option<StepDeadline>, now: Stopwatch) -> StepTime {
        let Some(deadline) = deadline else { return StepTime::Whole };
        let left = now.until(deadline.until());
        if left >= self.timeout {
            StepTime::Whole
        } else if !deadline.has_earlier_steps() {
            StepTime::AtMost(left.max(LEAST))
        } else if left < LEAST.min(self.limit / 20) {
            StepTime::TooLittle
        } else {
            StepTime::Rest(left)
        }
    }
}

impl StepTime {
    /// Returns the deadline of the step below, which begins now. It says nothing new to a store that has the whole of
    /// its own.
    pub(super) fn deadline(self, now: Stopwatch) -> Option<StepDeadline> {
        let until = match self {
            Self::Whole => None,
            Self::AtMost(left) | Self::Rest(left) => now.after(left),
            Self::TooLittle => now.after(Duration::ZERO),
        };
        until.map(StepDeadline::at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trial of an impatient caller was taken for one of a caller that waits for the whole deadline: that it had no
    /// answer soon enough counted as an outage.
    #[test]
    fn later_steps_have_the_rest_whoever_limits_the_call() {
        let time = StoreTime::new(Duration::from_millis(100));
        let begun = Stopwatch::start();
        let millis = |millis| begun.after(Duration::from_millis(millis)).unwrap();
        let left = Duration::from_millis;
        // A step that begins so many milliseconds after the call, as if the call had begun earlier.
        let at = |deadline: StepDeadline, elapsed| {
            let earlier = StepDeadline::at(deadline.until() - Duration::from_millis(elapsed));
            let is_first = !deadline.has_earlier_steps();
            time.of_step(Some(if is_first { earlier } else { earlier.after_a_step() }), begun)
        };

        assert_eq!(time.of_step(None, begun), StepTime::Whole);
        let patient = time.deadline(begun, None).unwrap();
        assert_eq!(patient.until(), millis(105));
        assert_eq!(at(patient, 0), StepTime::Whole);
        assert_eq!(at(patient.after_a_step(), 5), StepTime::Whole, "the store's own deadline comes first");
        assert_eq!(at(patient.after_a_step(), 6), StepTime::Rest(left(99)));
        assert_eq!(at(patient.after_a_step(), 101), StepTime::TooLittle);

        let impatient = time.deadline(begun, Some(millis(23))).unwrap();
        assert_eq!(at(impatient, 0), StepTime::AtMost(left(20)));
        assert_eq!(at(impatient.after_a_step(), 1), StepTime::Rest(left(19)));
        assert_eq!(at(impatient, 40), StepTime::AtMost(LEAST));
        assert_eq!(at(impatient.after_a_step(), 40), StepTime::TooLittle);
    }
}
