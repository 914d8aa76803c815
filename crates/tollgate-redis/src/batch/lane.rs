//! Requests that wait for the next batch of one node, or on a Cluster of one slot.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tollgate::StoreError;

use crate::script::{Answer, Request};
use crate::time::Instant;

/// Where an answer is awaited.
pub(crate) type Awaited = oneshot::Receiver<Result<Answer, StoreError>>;

/// Who waits for the answer to a request.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) deadline: Instant,
    answer: Option<oneshot::Sender<Result<Answer, StoreError>>>,
}

/// A queue with the tasks that empty it.
#[derive(Debug, Default)]
pub(super) struct Lane(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Request, Waiter)>,
    drivers: usize,
}

/// The right to take batches from a lane. If it is dropped in the middle, as when its runtime shuts down, others
/// can have it.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    lane: &'a Lane,
    is_done: bool,
}

impl Waiter {
    pub(super) fn new(deadline: Instant) -> (Self, Awaited) {
        let (answer, awaited) = oneshot::channel();
        (Self { deadline, answer: Some(answer) }, awaited)
    }

    /// Answers, unless that is done already; whoever has gone away meanwhile misses nothing.
    pub(super) fn answer(&mut self, answer: Result<Answer, StoreError>) {
        if let Some(sender) = self.answer.take() {
            let _ = sender.send(answer);
        }
    }

    pub(super) const fn is_answered(&self) -> bool {
        self.answer.is_none()
    }

    /// Whether nobody waits any more.
    pub(super) fn is_gone(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl Lane {
    /// Puts the request at the end of the queue. Whether a driver is to be started for it; `Err` if so many wait
    /// already.
    pub(super) fn push(
        &self,
        request: Request,
        waiter: Waiter,
        drivers: usize,
        cap: usize,
    ) -> Result<bool, StoreError> {
        let mut queue = self.queue();
        if queue.waiting.len() >= cap {
            return Err(StoreError::Overloaded);
        }
        queue.waiting.push_back((request, waiter));
        let is_short = queue.drivers < drivers;
        queue.drivers += usize::from(is_short);
        Ok(is_short)
    }

    /// For a driver that `push` asked for.
    pub(super) const fn drive(&self) -> Driver<'_> {
        Driver { lane: self, is_done: false }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver<'_> {
    /// Those who have waited longest, at most so many; `None` if nobody waits, and then the driver is done.
    pub(super) fn next_batch(&mut self, most: usize) -> Option<Vec<(Request, Waiter)>> {
        let mut queue = self.lane.queue();
        if queue.waiting.is_empty() {
            queue.drivers -= 1;
            self.is_done = true;
            // What a crowd has left is megabytes, and a Cluster has many lanes.
            queue.waiting.shrink_to(4 * most);
            return None;
        }
        let count = queue.waiting.len().min(most);
        Some(queue.waiting.drain(..count).collect())
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.lane.queue().drivers -= 1;
        }
    }
}
