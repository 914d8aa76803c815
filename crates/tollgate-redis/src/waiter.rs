//! A request that waits for its server, and the two ends of its answer.

use std::mem;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tollgate::StoreError;

use crate::error::RedisError;
use crate::script::{Request, ScriptAnswer};
use crate::slot::ClusterSlot;
use crate::time::Instant;

/// The receiver of an answer.
#[derive(Debug)]
pub(crate) struct AnswerReceiver {
    answer: oneshot::Receiver<Result<ScriptAnswer, StoreError>>,
    /// When to stop waiting, if drivers may answer later than the caller wants.
    until: Option<Instant>,
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) slot: ClusterSlot,
    pub(crate) request: Request,
    pub(crate) waiter: Waiter,
}

/// The sender of the answer to a request.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) deadline: Instant,
    is_extended: bool,
    answer: Option<oneshot::Sender<Result<ScriptAnswer, StoreError>>>,
}

/// A time in which this process did not run, though a deadline passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessPause {
    since: Instant,
    until: Instant,
    late: Duration,
}

impl WaitingRequest {
    pub(crate) fn counters(&self) -> usize {
        self.request.keys.len()
    }

    /// Leaves behind one that is answered.
    pub(crate) fn take(&mut self) -> Self {
        let Self { slot, request, waiter } = self;
        let answered = Waiter { answer: None, ..*waiter };
        Self { slot: *slot, request: mem::take(request), waiter: mem::replace(waiter, answered) }
    }
}

impl Waiter {
    pub(crate) fn new(deadline: Instant) -> (Self, AnswerReceiver) {
        let (sender, answer) = oneshot::channel();
        (Self { deadline, is_extended: false, answer: Some(sender) }, AnswerReceiver { answer, until: None })
    }

    /// Answers, unless that was done. If the caller is gone, the answer is dropped.
    pub(crate) fn answer(&mut self, answer: Result<ScriptAnswer, StoreError>) {
        if let Some(sender) = self.answer.take() {
            let _ = sender.send(answer);
        }
    }

    pub(crate) const fn is_answered(&self) -> bool {
        self.answer.is_none()
    }

    /// Whether no caller waits.
    pub(crate) fn is_gone(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl ProcessPause {
    /// By how much timers are late though nothing is wrong: their own grain, and that of the system's.
    const GRAIN: Duration = Duration::from_millis(2);

    /// What is noticed now by a timer that was to fire `at` this time, for deadlines `since` another. None if timers
    /// are as late as that anyway.
    pub(crate) fn noticed(since: Instant, at: Instant, now: Instant) -> Option<Self> {
        let late = now.saturating_duration_since(at + Self::GRAIN);
        (!late.is_zero()).then_some(Self { since, until: now, late })
    }

    /// If the deadline passed meanwhile, moves it to as long after that as this process was late, but once, and by no
    /// more than a decision may take. Whether it did.
    pub(crate) fn extend(&self, waiter: &mut Waiter, timeout: Duration) -> bool {
        let passed_meanwhile = (self.since..=self.until).contains(&waiter.deadline);
        let extends = passed_meanwhile && !waiter.is_extended;
        if extends {
            (waiter.deadline, waiter.is_extended) = (self.until + self.late.min(timeout), true);
        }
        extends
    }
}

impl AnswerReceiver {
    /// The same, but waiting ends at this time.
    pub(crate) fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// The answer, once it is there. There is none if the runtime shuts down.
    pub(crate) async fn received(&mut self) -> Result<ScriptAnswer, StoreError> {
        let answer = match self.until {
            None => (&mut self.answer).await,
            Some(until) => match timeout_at(until, &mut self.answer).await {
                Ok(answer) => answer,
                Err(_) => return Err(RedisError::TimedOut.into()),
            },
        };
        answer.unwrap_or_else(|_| Err(RedisError::TimedOut.into()))
    }

    #[cfg(test)]
    pub(crate) fn received_already(&mut self) -> Option<Result<ScriptAnswer, StoreError>> {
        self.answer.try_recv().ok()
    }
}
