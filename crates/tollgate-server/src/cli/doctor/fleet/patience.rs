//! The time for questions.

use std::time::Duration;

use crate::observe::stopwatch::Stopwatch;

/// The time for all questions together, if it is limited, and for each of them.
pub(super) struct Patience {
    most: Option<Duration>,
    waited: Stopwatch,
}

impl Patience {
    /// The pause between two rounds of questions.
    pub(super) const PAUSE: Duration = Duration::from_millis(500);

    /// The least time for a round. With less, a replica may seem to give no answer.
    const LEAST_ROUND: Duration = Duration::from_millis(250);

    /// The most time for a question, whether to a replica or about the addresses of a name.
    const QUESTION_LIMIT: Duration = Duration::from_secs(5);

    /// Begins now. Without a time, all are asked once.
    pub(super) fn new(most: Option<Duration>) -> Self {
        Self { most, waited: Stopwatch::start() }
    }

    /// Returns the time for a question that begins now.
    pub(super) fn for_a_question(&self) -> Duration {
        self.left().unwrap_or(Self::QUESTION_LIMIT).min(Self::QUESTION_LIMIT)
    }

    /// Returns whether all may be asked once more, after a pause.
    pub(super) fn is_enough_for_a_round(&self) -> bool {
        self.left().is_some_and(|left| left >= Self::PAUSE + Self::LEAST_ROUND)
    }

    fn left(&self) -> Option<Duration> {
        Some(self.most?.saturating_sub(self.waited.elapsed()))
    }
}
