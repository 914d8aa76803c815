//! The time limit of one decision, however many steps it needs.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tollgate::{AnswerError, StepDeadline};

/// A timer, which completes at the deadline.
pub(super) type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts the timer of a decision.
pub(super) type StartTimer = dyn Fn() -> Timer + Send + Sync;

/// A deadline for several steps. It starts when the first of them has to wait.
pub(super) struct Deadline<'a> {
    /// The caller's, for the next step.
    caller_deadline: Option<StepDeadline>,
    /// `None` if steps may take any time.
    start: Option<&'a StartTimer>,
    timer: Option<Timer>,
    is_over: bool,
}

impl<'a> Deadline<'a> {
    pub(super) const fn new(start: Option<&'a StartTimer>, caller_deadline: Option<StepDeadline>) -> Self {
        Self { caller_deadline, start, timer: None, is_over: false }
    }

    /// Returns the step's answer, unless the deadline passes first. After the deadline, no step begins.
    /// The step carries the caller's deadline to the store.
    pub(super) async fn bound<F: Future>(
        &mut self,
        step: impl FnOnce(Option<StepDeadline>) -> F,
    ) -> Result<F::Output, AnswerError> {
        let mut step = pin!(step(self.caller_deadline));
        self.caller_deadline = self.caller_deadline.map(StepDeadline::after_a_step);
        poll_fn(|context| {
            if self.is_over {
                return Poll::Ready(Err(AnswerError::Late));
            }
            // The step is polled first: an answer that has arrived counts, even if this task runs late.
            if let Poll::Ready(answer) = step.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            let Some(start) = self.start else { return Poll::Pending };
            let timer = self.timer.get_or_insert_with(start);
            self.is_over = timer.as_mut().poll(context).is_ready();
            if self.is_over { Poll::Ready(Err(AnswerError::Late)) } else { Poll::Pending }
        })
        .await
    }
}
