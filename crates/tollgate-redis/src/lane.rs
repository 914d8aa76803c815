//! The lane of a server: its waiting requests, and the number of batches in flight.
//!
//! All bounds are in counters, because a server's work and its replies grow with them: a request has one for each of
//! its quotas.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout_at;
use tollgate::StoreError;

use crate::error::RedisError;
use crate::time::{Instant, ServerTime};
use crate::waiter::{ProcessPause, WaitingRequest};

/// How many counters go in one batch: few enough that a batch holds the server up for less than half a millisecond,
/// and so many that more would save little. A request with more of them goes alone.
pub(crate) const BATCH: usize = 128;

/// Batches in flight at once to a server that is near. With one, the server is idle while its reply is handed out and
/// the next batch is written. There are more only while that many are full.
const DRIVERS: usize = 2;

/// How many counters may wait for a server: what it takes in some 50 ms, half of the default deadline. With shorter
/// deadlines, those who wait too long are refused when a driver comes to them.
const QUEUE: usize = 16_384;

/// A queue, the tasks that empty it (the drivers), and an estimate of the server's time.
#[derive(Debug)]
pub(crate) struct Lane {
    queue: Mutex<Queue>,
    time: ServerTime,
    bounds: Bounds,
    /// Told when something is answered that no driver waits for.
    room: Notify,
}

/// The bounds of a lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Counters whose answers are awaited. While there is one request, it may have more.
    pub(crate) under_way: usize,
    /// A server whose replies take longer gets no further batches at once: it is busy, and they would only wait at the
    /// server instead of here, where they can still be refused uncharged.
    pub(crate) prompt: Duration,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<WaitingRequest>,
    /// Counters of waiting requests.
    counters: usize,
    drivers: usize,
    /// Counters whose answers are awaited.
    under_way: usize,
    /// How many drivers have handed out answers since they last took requests.
    handing_out: usize,
    /// Whether the last reply took longer than is prompt, or did not come in time.
    is_slow: bool,
    /// Why the last reply was taken late, if this process is the reason.
    held_up: Option<ProcessPause>,
}

/// The right to take batches from a lane. The queue counts it from the moment it exists until it ends or is dropped, as
/// when its runtime shuts down. If the last one is dropped, the requests that still wait are refused: none was sent.
#[derive(Debug)]
pub(crate) struct Driver {
    lane: Arc<Lane>,
    /// How many requests its batch has.
    requests: usize,
    /// Counters of the batch, until they are answered.
    under_way: usize,
    is_handing_out: bool,
    is_done: bool,
}

/// Counters of a batch that are answered apart from it.
#[derive(Debug)]
pub(crate) struct ApartCounters {
    lane: Arc<Lane>,
    counters: usize,
}

/// The next step of a driver.
#[derive(Debug)]
pub(crate) enum Next {
    Take(Batch),
    /// Waits for [room](Driver::room): so much is in flight apart from all drivers that there is none.
    Wait {
        /// The deadline of the first request that waits.
        until: Instant,
    },
    /// Nothing any more.
    End,
}

/// What a driver takes from the lane.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<WaitingRequest>,
    pub(crate) held_up: Option<ProcessPause>,
    /// Another driver that is to be run: so many wait that one more batch is full.
    pub(crate) another: Option<Driver>,
}

impl Lane {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { queue: Mutex::default(), time: ServerTime::new(), bounds, room: Notify::new() }
    }

    /// The estimate of the server's time.
    pub(crate) const fn time(&self) -> &ServerTime {
        &self.time
    }

    /// Puts the request at the end of the queue, and returns a driver that is to be run for it, if one is needed.
    ///
    /// # Errors
    ///
    /// If too many counters wait already.
    pub(crate) fn push(self: &Arc<Self>, entry: WaitingRequest) -> Result<Option<Driver>, StoreError> {
        let mut queue = self.queue();
        let counters = entry.counters();
        if queue.counters + counters > QUEUE && queue.counters > 0 {
            return Err(RedisError::Overloaded.into());
        }
        queue.counters += counters;
        queue.waiting.push_back(entry);
        Ok(queue.start_another(self))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// How many batches should be in flight: as many as are full.
    fn worth(&self) -> usize {
        if self.is_slow { DRIVERS } else { DRIVERS.max((self.counters + self.under_way) / BATCH) }
    }

    /// Returns another driver of this lane, whose queue this is, if one is of use.
    fn start_another(&mut self, lane: &Arc<Lane>) -> Option<Driver> {
        let is_of_use = self.counters > 0
            && self.drivers < self.worth()
            && (self.under_way < lane.bounds.under_way || self.drivers == 0);
        if !is_of_use {
            return None;
        }
        self.drivers += 1;
        Some(Driver {
            lane: Arc::clone(lane),
            requests: 0,
            under_way: 0,
            is_handing_out: false,
            is_done: false,
        })
    }

    /// The first requests, up to one whose deadline is later.
    fn take_late(&mut self, until: Instant) -> Vec<WaitingRequest> {
        let count = self.waiting.iter().take_while(|entry| entry.waiter.deadline <= until).count();
        let late: Vec<WaitingRequest> = self.waiting.drain(..count).collect();
        self.counters -= late.iter().map(WaitingRequest::counters).sum::<usize>();
        late
    }

    /// Takes the oldest requests: at least one, and no further one if they then had more than `most` counters.
    fn take(&mut self, most: usize) -> (Vec<WaitingRequest>, usize) {
        let (mut count, mut counters) = (0, 0);
        for entry in &self.waiting {
            if count > 0 && counters + entry.counters() > most {
                break;
            }
            counters += entry.counters();
            count += 1;
        }
        self.counters -= counters;
        self.under_way += counters;
        (self.waiting.drain(..count).collect(), counters)
    }
}

impl Driver {
    /// The next batch, if there is one for this driver.
    ///
    /// Takes its share of all that are asking, so that the drivers have batches of one size. If one had all and the
    /// other next to none, server and client would take turns at waiting for each other.
    pub(crate) fn next(&mut self) -> Next {
        let bounds = self.lane.bounds;
        let mut queue = self.lane.queue();
        queue.under_way -= mem::take(&mut self.under_way);
        queue.handing_out -= usize::from(mem::take(&mut self.is_handing_out));
        let room = bounds.under_way.saturating_sub(queue.under_way);
        let first = queue.waiting.front();
        let has_room = queue.under_way == 0 || first.is_none_or(|first| first.counters() <= room);
        if let Some(first) = first
            && !has_room
            && queue.drivers == 1
        {
            return Next::Wait { until: first.waiter.deadline };
        }
        if queue.waiting.is_empty() || !has_room || queue.drivers > queue.worth() {
            queue.drivers -= 1;
            self.is_done = true;
            if queue.waiting.is_empty() {
                // After many requests, the buffer may have megabytes.
                queue.waiting.shrink_to(4 * BATCH);
            }
            return Next::End;
        }
        let share = (queue.counters + queue.under_way).div_ceil(queue.drivers);
        let (entries, counters) = queue.take(share.min(BATCH).min(room));
        let (another, held_up) = (queue.start_another(&self.lane), queue.held_up);
        (self.requests, self.under_way) = (entries.len(), counters);
        Next::Take(Batch { entries, held_up, another })
    }

    /// Waits until something was answered that no driver waits for. If that is not so by this deadline of the first
    /// request that waits, refuses the first requests with that deadline or an earlier one.
    pub(crate) async fn room(&self, until: Instant) {
        if timeout_at(until, self.lane.room.notified()).await.is_err() {
            let late = self.lane.queue().take_late(until);
            refuse(late);
        }
    }

    /// Whether the last batch had one request; then the driver does not yield.
    pub(crate) const fn had_one(&self) -> bool {
        self.requests == 1
    }

    /// Whether fewer wait than were in its last batch. The others may be about to ask again; for one of them alone
    /// nobody waits.
    pub(crate) fn has_more_to_come(&self) -> bool {
        self.lane.queue().waiting.len() + 1 < self.requests
    }

    /// To be called when a reply is there, after so long. Returns whether another driver is still handing out answers.
    pub(crate) fn hand_out(&mut self, took: Duration, held_up: Option<ProcessPause>) -> bool {
        let mut queue = self.lane.queue();
        (queue.is_slow, queue.held_up) = (took > self.lane.bounds.prompt, held_up);
        let others = queue.handing_out > usize::from(self.is_handing_out);
        queue.handing_out += usize::from(!mem::replace(&mut self.is_handing_out, true));
        others
    }

    /// To be called when no reply came in time: the server is slow, however short that time was. Returns the counters
    /// of the batch, which stay in flight for as long as the server may have the calls.
    pub(crate) fn give_up(&mut self) -> ApartCounters {
        self.lane.queue().is_slow = true;
        self.set_apart(self.under_way)
    }

    /// Gives away so many counters of the batch.
    pub(crate) fn set_apart(&mut self, counters: usize) -> ApartCounters {
        let counters = counters.min(self.under_way);
        self.under_way -= counters;
        ApartCounters { lane: Arc::clone(&self.lane), counters }
    }

    /// To be called when all others of the batch are answered.
    pub(crate) fn answered(&mut self) {
        self.lane.queue().under_way -= mem::take(&mut self.under_way);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut queue = self.lane.queue();
        queue.drivers -= 1;
        queue.under_way -= self.under_way;
        queue.handing_out -= usize::from(self.is_handing_out);
        if queue.drivers == 0 {
            queue.counters = 0;
            let left = mem::take(&mut queue.waiting);
            drop(queue);
            refuse(left);
        }
    }
}

/// Refuses requests that were not sent.
fn refuse(entries: impl IntoIterator<Item = WaitingRequest>) {
    for mut entry in entries {
        entry.waiter.answer(Err(RedisError::Overloaded.into()));
    }
}

impl Drop for ApartCounters {
    fn drop(&mut self) {
        self.lane.queue().under_way -= self.counters;
        self.lane.room.notify_one();
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::script::Request;
    use crate::slot::ClusterSlot;
    use crate::time::instant;
    use crate::waiter::Waiter;

    const PROMPT: Duration = Duration::from_millis(10);

    fn lane(under_way: usize) -> Arc<Lane> {
        Arc::new(Lane::new(Bounds { under_way, prompt: PROMPT }))
    }

    fn entry(counters: usize) -> WaitingRequest {
        let keys = (0..counters).map(|key| key.to_string().into_bytes().into()).collect();
        let request = Request { keys, ..Request::default() };
        WaitingRequest { slot: ClusterSlot(0), request, waiter: Waiter::new(instant()).0 }
    }

    /// Puts so many requests of one counter into the lane, and returns the drivers that are to be run for them.
    fn push(lane: &Arc<Lane>, count: usize) -> Vec<Driver> {
        (0..count).filter_map(|_| lane.push(entry(1)).unwrap()).collect()
    }

    /// The same where the drivers are so many.
    fn drivers<const N: usize>(lane: &Arc<Lane>, count: usize) -> [Driver; N] {
        push(lane, count).try_into().unwrap()
    }

    /// How many requests the driver takes.
    fn take(driver: &mut Driver) -> Option<usize> {
        match driver.next() {
            Next::Take(batch) => Some(batch.entries.len()),
            Next::Wait { .. } => panic!("it has to wait for room"),
            Next::End => None,
        }
    }

    /// Else one driver could have 63 requests of 64 callers and the other one, for as long as they go on asking.
    #[test]
    fn drivers_share_what_there_is() {
        let lane = lane(10_000);
        let [mut first] = drivers(&lane, 1);
        assert_eq!(take(&mut first), Some(1));
        let [mut second] = drivers(&lane, 63);
        assert_eq!(take(&mut second), Some(32));
        let [] = drivers(&lane, 1);
        assert_eq!(take(&mut first), Some(32));
        assert_eq!(take(&mut second), None);
        let [mut third] = drivers(&lane, 1);
        drop(first);
        assert_eq!(take(&mut third), Some(1), "who has gone away has nothing under way");
    }

    /// A driver was counted before its task had run. A runtime that shut down first left it counted for ever, and after
    /// two of those the lane never had a driver again.
    #[test]
    fn a_driver_that_never_runs_leaves_room_for_another() {
        let lane = lane(10_000);
        for _ in 0..=DRIVERS {
            let [driver] = drivers(&lane, 1);
            drop(driver);
        }
    }

    /// They waited until somebody else asked: a runtime that shut down took the only driver with it.
    #[test]
    fn requests_that_the_last_driver_leaves_behind_are_refused() {
        let lane = lane(10_000);
        let [mut first, second] = drivers(&lane, 4);
        let (waiter, mut awaited) = Waiter::new(instant());
        assert!(lane.push(WaitingRequest { waiter, ..entry(1) }).unwrap().is_none());
        assert_eq!(take(&mut first), Some(3));
        drop(first);
        assert_eq!(lane.queue().waiting.len(), 2, "the other driver takes them");
        drop(second);
        let refused = awaited.received_already().expect("nobody was told").unwrap_err();
        assert_eq!(RedisError::of(&refused), Some(&RedisError::Overloaded));
        let [mut next] = drivers(&lane, 1);
        assert_eq!(take(&mut next), Some(1));
    }

    /// Else batches whose replies came together would go together again, and so on for ever.
    #[test]
    fn hand_out_reports_whether_another_driver_still_hands_out() {
        let lane = lane(10_000);
        let [mut first, mut second] = drivers(&lane, 64);
        assert_eq!([take(&mut first), take(&mut second)], [Some(32), Some(32)]);
        assert!(!first.hand_out(PROMPT, None));
        assert!(!first.hand_out(PROMPT, None), "of itself it need not be told");
        assert!(second.hand_out(PROMPT, None));
        push(&lane, 32);
        assert_eq!(take(&mut first), Some(32));
        assert!(first.hand_out(PROMPT, None), "the second has not taken its next");
        push(&lane, 32);
        assert_eq!(take(&mut second), Some(32));
        drop(first);
        assert!(!second.hand_out(PROMPT, None), "who has gone away hands nothing out");
    }

    #[test]
    fn more_are_to_come_until_nearly_as_many_wait_as_were_in_the_batch() {
        let lane = lane(10_000);
        let [mut driver, mut other] = drivers(&lane, 6);
        assert_eq!([take(&mut driver), take(&mut other)], [Some(3), Some(3)]);
        for expected in [true, false, false] {
            push(&lane, 1);
            assert_eq!(driver.has_more_to_come(), expected);
        }
    }

    /// Two batches of 128 requests were in flight at most, so no more than 256 decisions were made in a round trip.
    #[test]
    fn as_many_batches_are_under_way_as_are_full() {
        for (callers, batches) in [(3 * BATCH - 1, 2), (3 * BATCH, 3), (10 * BATCH, 10)] {
            let lane = lane(10_000);
            let mut drivers = push(&lane, callers);
            assert_eq!(drivers.len(), batches, "{callers}");
            for driver in &mut drivers {
                assert_eq!(take(driver), Some(BATCH));
            }
            // There are no further requests.
            while drivers.iter_mut().any(|driver| !driver.is_done && take(driver).is_some()) {}
            let queue = lane.queue();
            assert_eq!((queue.drivers, queue.under_way), (0, 0));
        }
    }

    #[test]
    fn a_batch_has_no_more_counters_than_it_may_but_one_request_goes_alone() {
        let lane = lane(10_000);
        let push = |counters| lane.push(entry(counters)).unwrap();
        let mut drivers: Vec<_> = [100, 27, 1, 1, 200, 1].into_iter().filter_map(push).collect();
        let [driver, _other] = &mut drivers[..] else { panic!("{drivers:?}") };
        let mut batches = Vec::new();
        while let Next::Take(batch) = driver.next() {
            batches.push(batch.entries.iter().map(WaitingRequest::counters).collect::<Vec<_>>());
        }
        assert_eq!(batches, [vec![100, 27, 1], vec![1], vec![200], vec![1]]);
    }

    #[test]
    fn no_more_counters_wait_than_there_is_room_for() {
        let lane = lane(1);
        let mut drivers: Vec<_> = (0..QUEUE / 4).filter_map(|_| lane.push(entry(4)).unwrap()).collect();
        let refused = lane.push(entry(1)).unwrap_err();
        assert_eq!(RedisError::of(&refused), Some(&RedisError::Overloaded));
        assert_eq!(take(&mut drivers[0]), Some(1));
        lane.push(entry(4)).unwrap();
        assert!(lane.push(entry(1)).is_err());
    }

    #[test]
    fn no_more_counters_are_under_way_than_are_allowed() {
        let lane = lane(3);
        let [mut first, mut second] = drivers(&lane, 9);
        assert_eq!(take(&mut first), Some(3));
        assert_eq!(take(&mut second), None, "there is no room");
        let [] = drivers(&lane, 1);
        // What is answered apart from its batch is in flight until it is.
        let apart = first.set_apart(2);
        first.answered();
        assert_eq!(take(&mut first), Some(1));
        let rest = first.set_apart(1);
        assert!(matches!(first.next(), Next::Wait { .. }));
        drop(apart);
        assert_eq!(take(&mut first), Some(2));
        drop(rest);
        assert_eq!(take(&mut first), Some(3));
    }

    /// A request of many counters went as soon as there was room for one of them.
    #[test]
    fn a_request_waits_until_there_is_room_for_all_its_counters() {
        let lane = lane(3);
        let mut driver = lane.push(entry(2)).unwrap().unwrap();
        assert_eq!(take(&mut driver), Some(1));
        let rest = driver.set_apart(2);
        assert!(lane.push(entry(2)).unwrap().is_none_or(|mut other| take(&mut other).is_none()));
        assert!(matches!(driver.next(), Next::Wait { .. }));
        drop(rest);
        assert_eq!(take(&mut driver), Some(1));
    }

    /// What was in flight apart from all drivers could keep others waiting past their deadlines.
    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_room_past_its_deadline() {
        let lane = lane(1);
        let [mut driver] = drivers(&lane, 1);
        assert_eq!(take(&mut driver), Some(1));
        let _apart = driver.set_apart(1);
        let until = instant() + PROMPT;
        let (waiter, mut awaited) = Waiter::new(until);
        assert!(lane.push(WaitingRequest { waiter, ..entry(1) }).unwrap().is_none());
        lane.push(WaitingRequest { waiter: Waiter::new(until + PROMPT).0, ..entry(1) }).unwrap();
        assert!(matches!(driver.next(), Next::Wait { until: first } if first == until));
        driver.room(until).await;
        let refused = awaited.received_already().expect("nobody was told").unwrap_err();
        assert_eq!(RedisError::of(&refused), Some(&RedisError::Overloaded));
        let queue = lane.queue();
        assert_eq!((queue.waiting.len(), queue.counters), (1, 1));
    }

    /// Only replies told that a server is slow, so one whose replies were all late got ever more batches at once.
    #[test]
    fn a_server_whose_reply_is_late_gets_no_more_batches_at_once() {
        let lane = lane(10_000);
        let [mut first, mut second] = drivers(&lane, 2 * BATCH);
        assert_eq!([take(&mut first), take(&mut second)], [Some(BATCH), Some(BATCH)]);
        first.give_up();
        assert!(push(&lane, 10 * BATCH).is_empty());
    }

    /// More would only wait at the server, where they cannot be taken back.
    #[test]
    fn a_server_that_takes_long_gets_no_more_batches_at_once() {
        let lane = lane(10_000);
        let mut drivers = push(&lane, 20 * BATCH);
        assert_eq!(drivers.len(), 20);
        assert_eq!(take(&mut drivers[0]), Some(BATCH));
        drivers[0].hand_out(2 * PROMPT, None);
        let taking = drivers.iter_mut().filter_map(take).count();
        assert_eq!(taking, DRIVERS, "the others have nothing to do any more");
        assert!(push(&lane, 10 * BATCH).is_empty());
        let driver = drivers.iter_mut().find(|driver| !driver.is_done).unwrap();
        driver.hand_out(PROMPT, None);
        assert!(!push(&lane, 1).is_empty());
    }
}
