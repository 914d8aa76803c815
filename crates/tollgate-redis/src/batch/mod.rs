//! Group commit: requests that come while a batch is under way go together in the next.
//!
//! ```text
//! request ─▶ lane (one a node; on a Cluster one a slot) ─▶ batch ─▶ merge ─▶ one call of the script
//!               a queue, and a driver while it is not empty            equals become one step
//! ```
//!
//! Nothing waits for company: a request that finds the lane idle starts a driver and is sent at once. While its
//! call is under way, others gather. So batches grow with the load, and a call's cost is shared by as many as
//! came during the one before.
//!
//! A server may refuse the keys of a batch together although it takes some of them alone. While a slot of a Cluster
//! moves, some of its keys are on one server and some on the other. A proxy before many shards takes no call for two of
//! them. A user may lack the right to some keys. Then the batch is sent again as several calls, one for each set of
//! keys.
//!
//! Drivers are tasks of their own, but for what one does before it waits for the first time: that is done where the
//! lone request is made that starts it. Whoever asks may go away at any time: what is under way stays under way, and
//! its answer is dropped.

mod busy_poll;
mod lane;
mod merge;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;
use tollgate::StoreError;

use self::busy_poll::{BusyPoll, CROWD};
pub(crate) use self::lane::Awaited;
use self::lane::{Driver, Lane, Waiter};
pub(crate) use self::merge::Merged;
use crate::RedisError;
use crate::keys::Slot;
use crate::script::{self, Request};
use crate::time::{Instant, ServerTime, instant};
use crate::topology::{Divisible, Topology};
use crate::trouble::Trouble;

/// How many requests go in one call: few enough that a call holds the server up for less than half a
/// millisecond, and so many that more would save little.
const BATCH: usize = 128;

/// Calls of one lane under way at once. With one, the server is idle while its reply is handed out and the next
/// batch written.
const DRIVERS: usize = 2;

/// How many requests may wait in a lane: what a server takes in some 50 ms. Whoever came behind them would not be
/// served before the deadline.
const QUEUE: usize = 16_384;

/// How late somebody may be told that it is too late: as long as all of a batch have come within such a while, the
/// call's own deadline does for them, and a timer of ours is saved.
const SLACK: Duration = Duration::from_millis(2);

/// Requests that go in one call.
type Batch = Vec<(Request, Waiter)>;

/// Sends requests in batches. Clones share the lanes.
#[derive(Debug, Clone)]
pub(crate) struct Committer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    topology: Arc<Topology>,
    lanes: Lanes,
    /// How long a decision may take.
    timeout: Duration,
    time: ServerTime,
    busy_poll: BusyPoll,
}

/// Whether more requests of the same caller follow at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// None does. Then what a driver does before it waits for the store is done here and now: the call is on its way
    /// before there is a task that waits for the reply.
    Alone,
    /// They go together.
    Others,
}

/// A lane takes requests whose keys may be in one call together.
#[derive(Debug)]
enum Lanes {
    One(Lane),
    /// On a Cluster a call may not have keys of two slots.
    PerSlot(Box<[OnceLock<Box<Lane>>]>),
}

impl Committer {
    pub(crate) fn new(topology: Arc<Topology>, timeout: Duration) -> Self {
        let lanes = if topology.is_cluster() {
            Lanes::PerSlot((0..Slot::COUNT).map(|_| OnceLock::new()).collect())
        } else {
            Lanes::One(Lane::default())
        };
        Self(Arc::new(Inner {
            topology,
            lanes,
            timeout,
            time: ServerTime::new(),
            busy_poll: BusyPoll::default(),
        }))
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// The server's time as far as it is known.
    pub(crate) fn time(&self) -> &ServerTime {
        &self.0.time
    }

    /// When a decision that has begun then is to be there.
    pub(crate) fn deadline(&self, begun: Instant) -> Instant {
        begun + self.0.timeout
    }

    /// Puts the request into the next batch of its slot. The answer comes in time for a decision that has begun
    /// then.
    pub(crate) fn submit(
        &self,
        slot: Slot,
        request: Request,
        begun: Instant,
        company: Company,
    ) -> Result<Awaited, StoreError> {
        let (waiter, awaited) = Waiter::new(self.deadline(begun));
        if self.0.lane(slot).push(request, waiter, DRIVERS, QUEUE)? {
            let mut driver = Box::pin(drive(Arc::clone(&self.0), slot));
            let mut context = Context::from_waker(Waker::noop());
            if company == Company::Others || driver.as_mut().poll(&mut context).is_pending() {
                tokio::spawn(driver);
            }
        }
        Ok(awaited)
    }
}

/// Takes batches from the lane until nobody waits.
async fn drive(inner: Arc<Inner>, slot: Slot) {
    let mut driver = inner.lane(slot).drive();
    while let Some(batch) = driver.next_batch(BATCH) {
        let parts = inner.take(slot, batch, Some(&mut driver)).await;
        if !parts.is_empty() {
            // In a box, as all that is seldom waited for: what is started for a lone request has to be small.
            Box::pin(inner.take_each(slot, parts)).await;
        }
        // What one asks next can go at once.
        if driver.had_one() {
            continue;
        }
        // Those who have just been answered ask again before the next batch is taken: one for all, instead of one
        // for whoever is first and another for the rest.
        tokio::task::yield_now().await;
        // A worker with many tasks comes back before it has been to all of them, once.
        if driver.has_more_to_come() {
            tokio::task::yield_now().await;
        }
    }
}

impl Inner {
    fn lane(&self, slot: Slot) -> &Lane {
        match &self.lanes {
            Lanes::One(lane) => lane,
            Lanes::PerSlot(lanes) => lanes[slot.index()].get_or_init(Box::default),
        }
    }

    /// Takes parts of a batch, each by itself.
    async fn take_each(self: &Arc<Self>, slot: Slot, parts: Vec<Batch>) {
        let mut calls = JoinSet::new();
        for part in parts {
            let inner = Arc::clone(self);
            // What has one set of keys is not divided again.
            calls.spawn(async move { inner.take(slot, part, None).await });
        }
        calls.join_all().await;
    }

    /// Makes one call of it and answers everybody. Only if the server refuses the keys together and may take some of
    /// them alone, nobody is answered: nothing was charged, and each of the returned parts may be taken by itself.
    async fn take(&self, slot: Slot, batch: Batch, driver: Option<&mut Driver<'_>>) -> Vec<Batch> {
        let sent = instant();
        let (requests, mut waiters) = still_awaited(batch, sent);
        let Some(last) = waiters.iter().map(|waiter| waiter.deadline).max() else { return vec![] };
        let merged = Merged::new(&requests);
        let call = script::encode(&merged.groups());
        let divisible = if merged.has_one_set_of_keys() { Divisible::No } else { Divisible::Yes };
        let first = waiters.iter().map(|waiter| waiter.deadline).min().unwrap_or(last);
        // Again in a box whatever a lone request hardly ever waits for.
        let reply = if last > first + SLACK {
            Box::pin(self.call_for_all(slot, &call, divisible, last, &mut waiters)).await
        } else if requests.len() >= CROWD {
            self.busy_poll.reply(Box::pin(self.topology.call(slot, &call, divisible, last))).await
        } else {
            self.topology.call(slot, &call, divisible, last).await
        };
        let received = instant();
        if divisible == Divisible::Yes && reply.as_ref().is_err_and(Trouble::may_be_of_some_keys) {
            return divide(requests, waiters);
        }
        // Replies that came together would else be followed by batches that go together, and then server and client
        // take turns at waiting for each other.
        if driver.is_some_and(Driver::hand_out) {
            tokio::task::yield_now().await;
        }
        let done = reply.map_err(StoreError::from).and_then(script::decode).and_then(|reply| {
            // First, because who is told that its window is not open asks again at once, by the time known then.
            self.time.learn(reply.now(), sent, received);
            merged.hand_out(reply, |index, answer| waiters[index].answer(Ok(answer)))
        });
        if let Err(error) = done {
            waiters.iter_mut().for_each(|waiter| waiter.answer(Err(error.clone())));
        }
        vec![]
    }

    /// Calls, and meanwhile tells those whose deadline comes first that it is over for them.
    async fn call_for_all(
        &self,
        slot: Slot,
        call: &[u8],
        divisible: Divisible,
        last: Instant,
        waiters: &mut [Waiter],
    ) -> Result<Value, Trouble> {
        let mut reply = pin!(self.topology.call(slot, call, divisible, last));
        loop {
            let next = waiters.iter().filter(|it| !it.is_answered()).map(|it| it.deadline).min();
            let Some(next) = next else { return Err(Trouble::TimedOut) };
            if last <= next + SLACK {
                return reply.await;
            }
            tokio::select! {
                biased;
                reply = &mut reply => return reply,
                () = tokio::time::sleep_until(next) => {
                    for waiter in waiters.iter_mut().filter(|waiter| waiter.deadline <= next) {
                        waiter.answer(Err(RedisError::TimedOut.into()));
                    }
                }
            }
        }
    }
}

/// Leaves out whoever has gone away, and whoever has waited too long: those were not sent, so nothing was charged.
fn still_awaited(batch: Batch, now: Instant) -> (Vec<Request>, Vec<Waiter>) {
    let is_awaited = |(_, waiter): &mut (Request, Waiter)| {
        if waiter.deadline <= now {
            waiter.answer(Err(RedisError::Overloaded.into()));
        }
        !waiter.is_gone()
    };
    batch.into_iter().filter_map(|mut it| is_awaited(&mut it).then_some(it)).unzip()
}

/// One part for each set of keys.
fn divide(requests: Vec<Request>, waiters: Vec<Waiter>) -> Vec<Batch> {
    let mut parts = BTreeMap::<_, Batch>::new();
    for (request, waiter) in requests.into_iter().zip(waiters) {
        parts.entry(request.keys.clone()).or_default().push((request, waiter));
    }
    parts.into_values().collect()
}
