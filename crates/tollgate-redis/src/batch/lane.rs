//! Requests that wait for the next batch of one node, or on a Cluster of one slot.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tollgate::StoreError;

use crate::RedisError;
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
    /// How many requests the drivers have taken and not come back from.
    under_way: usize,
    /// How many drivers have handed out answers since they last took requests.
    handing_out: usize,
}

/// The right to take batches from a lane. If it is dropped in the middle, as when its runtime shuts down, others
/// can have it.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    lane: &'a Lane,
    /// How many requests of the batch that it is busy with.
    under_way: usize,
    is_handing_out: bool,
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
            return Err(RedisError::Overloaded.into());
        }
        queue.waiting.push_back((request, waiter));
        let is_short = queue.drivers < drivers;
        queue.drivers += usize::from(is_short);
        Ok(is_short)
    }

    /// For a driver that `push` asked for.
    pub(super) const fn drive(&self) -> Driver<'_> {
        Driver { lane: self, under_way: 0, is_handing_out: false, is_done: false }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver<'_> {
    /// Those who have waited longest, at most so many; `None` if nobody waits, and then the driver is done.
    ///
    /// Takes its share of all that are asking, so that the drivers have batches of one size. If one had all and the
    /// other next to none, server and client would take turns at waiting for each other.
    pub(super) fn next_batch(&mut self, most: usize) -> Option<Vec<(Request, Waiter)>> {
        let mut queue = self.lane.queue();
        queue.under_way -= mem::take(&mut self.under_way);
        queue.handing_out -= usize::from(mem::take(&mut self.is_handing_out));
        let waiting = queue.waiting.len();
        if waiting == 0 {
            queue.drivers -= 1;
            self.is_done = true;
            // What a crowd has left is megabytes, and a Cluster has many lanes.
            queue.waiting.shrink_to(4 * most);
            return None;
        }
        let share = (waiting + queue.under_way).div_ceil(queue.drivers);
        let count = share.min(waiting).min(most);
        queue.under_way += count;
        self.under_way = count;
        Some(queue.waiting.drain(..count).collect())
    }

    /// Whether its last batch was a single request, who is not worth waiting for: on a Cluster most batches are of
    /// one, who next asks in another lane.
    pub(super) const fn had_one(&self) -> bool {
        self.under_way == 1
    }

    /// Whether fewer wait than were in its last batch. The others may be about to ask again; for one of them alone
    /// nobody waits.
    pub(super) fn has_more_to_come(&self) -> bool {
        self.lane.queue().waiting.len() + 1 < self.under_way
    }

    /// To be called when answers are there. Whether another driver has handed out answers as well, and not yet taken
    /// what those ask next whom it has answered.
    pub(super) fn hand_out(&mut self) -> bool {
        let mut queue = self.lane.queue();
        let others = queue.handing_out > usize::from(self.is_handing_out);
        queue.handing_out += usize::from(!mem::replace(&mut self.is_handing_out, true));
        others
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let mut queue = self.lane.queue();
            queue.drivers -= 1;
            queue.under_way -= self.under_way;
            queue.handing_out -= usize::from(self.is_handing_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::script::Step;
    use crate::time::instant;

    fn push(lane: &Lane, count: usize) {
        for _ in 0..count {
            let request = Request { step: Step::Look, shapes: smallvec![], keys: smallvec![] };
            lane.push(request, Waiter::new(instant()).0, 2, 1_000).unwrap();
        }
    }

    fn take(driver: &mut Driver<'_>) -> Option<usize> {
        driver.next_batch(128).map(|batch| batch.len())
    }

    /// Else one driver could have 63 requests of 64 callers and the other one, for as long as they go on asking.
    #[test]
    fn drivers_share_what_there_is() {
        let lane = Lane::default();
        push(&lane, 1);
        let mut first = lane.drive();
        assert_eq!(take(&mut first), Some(1));
        push(&lane, 63);
        let mut second = lane.drive();
        assert_eq!(take(&mut second), Some(32));
        push(&lane, 1);
        assert_eq!(take(&mut first), Some(32));
        assert_eq!(take(&mut second), None);
        push(&lane, 1);
        let third = lane.drive();
        drop(first);
        let mut third = third;
        assert_eq!(take(&mut third), Some(1), "who has gone away has nothing under way");
    }

    /// Else batches whose replies came together would go together again, and so on for ever.
    #[test]
    fn who_hands_out_is_told_while_another_has_not_taken_its_next_batch() {
        let lane = Lane::default();
        push(&lane, 64);
        let (mut first, mut second) = (lane.drive(), lane.drive());
        assert_eq!([take(&mut first), take(&mut second)], [Some(32), Some(32)]);
        assert!(!first.hand_out());
        assert!(!first.hand_out(), "of itself it need not be told");
        assert!(second.hand_out());
        push(&lane, 32);
        assert_eq!(take(&mut first), Some(32));
        assert!(first.hand_out(), "the second has not taken its next");
        push(&lane, 32);
        assert_eq!(take(&mut second), Some(32));
        drop(first);
        assert!(!second.hand_out(), "who has gone away hands nothing out");
    }

    #[test]
    fn more_are_to_come_until_nearly_as_many_wait_as_were_in_the_batch() {
        let lane = Lane::default();
        push(&lane, 3);
        let mut driver = lane.drive();
        lane.queue().drivers = 1;
        assert!(!driver.has_more_to_come());
        assert_eq!(take(&mut driver), Some(3));
        for expected in [true, false, false] {
            push(&lane, 1);
            lane.queue().drivers = 1;
            assert_eq!(driver.has_more_to_come(), expected);
        }
    }

    #[test]
    fn a_lone_driver_takes_all_up_to_a_batch() {
        let lane = Lane::default();
        let mut driver = lane.drive();
        push(&lane, 200);
        lane.queue().drivers = 1;
        assert_eq!([take(&mut driver), take(&mut driver), take(&mut driver)], [Some(128), Some(72), None]);
    }
}
