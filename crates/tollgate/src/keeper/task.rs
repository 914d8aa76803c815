//! The task: makes the calls that are due, many at a time, and sleeps in between.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::schedule::{DueCall, HoldTask, NextStep, Schedule};
use crate::{HoldAnswer, StoreError, Timestamp};

/// The most calls at a time: a store over a network sends them together.
const MAX_CALLS: usize = 64;

/// A call that was made.
struct OpenCall {
    number: u64,
    task: HoldTask,
    sent_at: Timestamp,
    answer: Pin<Box<dyn Future<Output = Result<HoldAnswer, StoreError>> + Send>>,
}

/// Runs until nobody is left who could have a hold.
pub(super) async fn run<F: Future<Output = ()>>(schedule: Arc<Schedule>, sleep: impl Fn(Duration) -> F) {
    let mut calls = Vec::<OpenCall>::new();
    let mut alarm: Option<Pin<Box<F>>> = None;
    // With the timer in it, which may be no reference that tasks share.
    poll_fn(move |context| {
        loop {
            calls.retain_mut(|call| !call.is_answered(&schedule, context));
            match schedule.next_step(MAX_CALLS - calls.len(), calls.is_empty(), context.waker()) {
                NextStep::Calls(due) => calls.extend(due.into_iter().map(OpenCall::new)),
                NextStep::Done => return Poll::Ready(()),
                NextStep::Sleep(None) => return Poll::Pending,
                NextStep::Sleep(Some(pause)) => {
                    // The new one is for the next thing that is due.
                    let alarm = alarm.insert(Box::pin(sleep(pause)));
                    if alarm.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    })
    .await;
}

impl OpenCall {
    fn new(due: DueCall) -> Self {
        let DueCall { number, hold, task, sent_at } = due;
        let answer = async move {
            match task {
                HoldTask::End(ending, _) => hold.end(ending).await,
                HoldTask::Renew | HoldTask::Nothing => hold.renew().await,
            }
        };
        Self { number, task, sent_at, answer: Box::pin(answer) }
    }

    fn is_answered(&mut self, schedule: &Schedule, context: &mut Context<'_>) -> bool {
        let Poll::Ready(answer) = self.answer.as_mut().poll(context) else { return false };
        schedule.answered(self.number, self.task, self.sent_at, &answer);
        true
    }
}
