//! The time limit of one decision, however many steps it needs.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tollgate::AnswerError;

/// A deadline for several steps. It starts when the first of them has to wait.
pub(super) struct Deadline<'a, D, T> {
    start: &'a D,
    timer: Pin<&'a mut Option<T>>,
    is_over: bool,
}

impl<'a, D, T> Deadline<'a, D, T>
where
    D: Fn() -> T,
    T: Future<Output = ()>,
{
    pub(super) const fn new(start: &'a D, timer: Pin<&'a mut Option<T>>) -> Self {
        Self { start, timer, is_over: false }
    }

    /// Returns the step's answer, unless the deadline passes first. After the deadline, no step begins.
    pub(super) async fn bound<A>(&mut self, step: impl Future<Output = A>) -> Result<A, AnswerError> {
        let mut step = pin!(step);
        poll_fn(|context| {
            if self.is_over {
                return Poll::Ready(Err(AnswerError::Late));
            }
            // The step is polled first: an answer that has arrived counts, even if this task runs late.
            if let Poll::Ready(answer) = step.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            if self.timer.is_none() {
                self.timer.set(Some((self.start)()));
            }
            let passed = self.timer.as_mut().as_pin_mut().is_some_and(|timer| timer.poll(context).is_ready());
            self.is_over = passed;
            if passed { Poll::Ready(Err(AnswerError::Late)) } else { Poll::Pending }
        })
        .await
    }
}
