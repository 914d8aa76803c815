//! Group commit: requests that arrive while a batch is in flight form the next batch.
//!
//! ```text
//! request ─▶ lane of its server ─▶ batch ─▶ merge ─▶ calls of the script, sent at once
//!            a queue, and drivers           equals become one step;
//!            while it is not empty          on a Cluster one call for each slot
//! ```
//!
//! No request waits for others: one that finds the lane idle starts a driver and is sent at once. Others gather while
//! its batch is in flight. So batches grow with the load, and more requests share the cost of each. Once batches are
//! full, more of them are in flight at once.
//!
//! A call that the server certainly did not run is [retried](apart) apart from its batch, so that no other request
//! waits for it.
//!
//! Drivers are separate tasks, except for what a driver does before it first waits: the caller whose request starts it
//! does that. A caller may go away at any time; its request stays in flight, and its answer is dropped.

mod apart;
mod busy_poll;
mod deadlines;
mod merge;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate::StoreError;

use self::apart::ask_apart;
use self::busy_poll::{BusyPoll, CROWD};
use self::deadlines::{Deadlines, slack};
pub(crate) use self::merge::MergedRequests;
use crate::calls::Calls;
use crate::error::RedisError;
use crate::lane::{Batch, Driver, Lane, Next};
use crate::node::{Exchange, Node, Sender};
use crate::script::Request;
use crate::slot::ClusterSlot;
use crate::time::{CallTime, Instant, Probable, instant};
use crate::topology::Topology;
use crate::trouble::Trouble;
pub(crate) use crate::waiter::AnswerReceiver;
use crate::waiter::{ProcessPause, Waiter, WaitingRequest};

/// Sends requests in batches. Clones share the lanes.
#[derive(Debug, Clone)]
pub(crate) struct Committer(Arc<CommitterInner>);

#[derive(Debug)]
struct CommitterInner {
    topology: Arc<Topology>,
    /// The deadline of a decision.
    timeout: Duration,
    busy_poll: BusyPoll,
}

/// Whether the same caller sends more requests at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// No more requests follow. Then the caller itself does what a driver does before it waits: the call is sent before
    /// a task waits for the reply.
    Alone,
    /// More requests follow, and go together.
    Others,
}

impl Committer {
    pub(crate) fn new(topology: Arc<Topology>, timeout: Duration) -> Self {
        Self(Arc::new(CommitterInner { topology, timeout, busy_poll: BusyPoll::default() }))
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// The deadline of a decision that began at this time.
    pub(crate) fn deadline(&self, begun: Instant) -> Instant {
        begun + self.0.timeout
    }

    /// Puts the request into the next batch of this lane. The answer comes within the deadline of a decision that began
    /// at this time, or when the caller stops waiting.
    ///
    /// # Errors
    ///
    /// If that time is up, or too many counters wait already. Nothing is charged then.
    pub(crate) fn submit(
        &self,
        lane: Arc<Lane>,
        slot: ClusterSlot,
        request: Request,
        time: CallTime,
        company: Company,
    ) -> Result<AnswerReceiver, StoreError> {
        let CallTime { begun, now, .. } = time;
        let deadline = self.deadline(begun);
        if deadline <= now {
            // Earlier steps of the call have used it up.
            return Err(Trouble::Late.into());
        }
        let waits_until = time.wait_for_step()?;
        let (waiter, awaited) = Waiter::new(deadline);
        // A driver may be busy with requests that came earlier and may take longer.
        let slack = slack(self.0.timeout);
        let is_later_step = now > begun + slack;
        let own = is_later_step.then(|| deadline + slack);
        let awaited = awaited.until([own, waits_until].into_iter().flatten().min());
        if let Some(driver) = lane.push(WaitingRequest { slot, request, waiter })? {
            let mut driving = Box::pin(drive(Arc::clone(&self.0), driver));
            let mut context = Context::from_waker(Waker::noop());
            if company == Company::Others || driving.as_mut().poll(&mut context).is_pending() {
                tokio::spawn(driving);
            }
        }
        Ok(awaited)
    }
}

/// Takes batches from the lane while there are any for this driver.
async fn drive(inner: Arc<CommitterInner>, mut driver: Driver) {
    loop {
        let Batch { entries, held_up, another } = match driver.next() {
            Next::Take(batch) => batch,
            Next::Wait { until } => {
                driver.room(until).await;
                continue;
            }
            Next::End => return,
        };
        if let Some(another) = another {
            spawn(&inner, another);
        }
        inner.take(entries, held_up, &mut driver).await;
        // A lone caller's next request can go at once.
        if driver.had_one() {
            continue;
        }
        // Lets callers that were just answered ask again before the next batch is taken, so that they share one batch.
        tokio::task::yield_now().await;
        // A worker with many tasks may return before it has run all of them, so this yields once more.
        if driver.has_more_to_come() {
            tokio::task::yield_now().await;
        }
    }
}

/// A separate function, because a future cannot contain itself.
fn spawn(inner: &Arc<CommitterInner>, driver: Driver) {
    let driving: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(drive(Arc::clone(inner), driver));
    tokio::spawn(driving);
}

impl CommitterInner {
    /// Sends a batch and answers all its requests, except those that are sent apart.
    async fn take(
        self: &Arc<Self>,
        mut entries: Vec<WaitingRequest>,
        held_up: Option<ProcessPause>,
        driver: &mut Driver,
    ) {
        if let Some(held_up) = held_up {
            // They waited for a driver that did not run.
            entries.iter_mut().for_each(|entry| _ = held_up.extend(&mut entry.waiter, self.timeout));
        }
        drop_late(&mut entries, RedisError::Overloaded);
        if let Some(server) = self.server(&mut entries, driver)
            && let Some(sender) = self.sender(&server, &mut entries).await
        {
            self.send(entries, server, sender, driver).await;
        }
        driver.answered();
    }

    /// The server of most requests. Those of other servers are asked apart, and so are all of them if no server is
    /// known.
    fn server(self: &Arc<Self>, entries: &mut Vec<WaitingRequest>, driver: &mut Driver) -> Option<Arc<Node>> {
        if let Some(server) = self.topology.server_of_all(entries.iter().map(|entry| entry.slot)) {
            return Some(server);
        }
        let mut groups: Vec<(Option<Arc<Node>>, Vec<WaitingRequest>)> = Vec::new();
        for entry in entries.drain(..) {
            let server = self.topology.server(entry.slot);
            let is_same = |other: &Option<Arc<Node>>| {
                other.as_ref().map(Arc::as_ptr) == server.as_ref().map(Arc::as_ptr)
            };
            match groups.iter_mut().find(|(other, _)| is_same(other)) {
                Some((_, group)) => group.push(entry),
                None => groups.push((server, vec![entry])),
            }
        }
        groups.sort_by_key(|(server, group)| (server.is_some(), group.len()));
        let most = groups.pop_if(|(server, _)| server.is_some());
        groups.into_iter().for_each(|(_, group)| ask_apart(self, group, None, driver));
        let (server, group) = most?;
        *entries = group;
        server
    }

    /// A connection to the server. While the batch waits for the first one, callers whose deadlines pass are told that
    /// nothing was sent, and leave the batch. None if no caller is left.
    async fn sender(
        &self,
        server: &Node,
        entries: &mut Vec<WaitingRequest>,
    ) -> Option<Result<Sender, Trouble>> {
        if let Some(sender) = server.sender().transpose() {
            return Some(sender);
        }
        let mut deadlines = Deadlines::of(entries, self.timeout)?;
        let first = Box::pin(server.first_sender());
        let sender = deadlines.in_time(entries, first, || Trouble::Late).await;
        drop_late(entries, RedisError::Unreachable);
        sender
    }

    /// Merges, encodes and sends requests without a wait. A caller that was told that nothing was sent has left the
    /// batch before, so its units are not in these calls.
    async fn send(
        self: &Arc<Self>,
        entries: Vec<WaitingRequest>,
        server: Arc<Node>,
        sender: Result<Sender, Trouble>,
        driver: &mut Driver,
    ) {
        let Some(deadlines) = Deadlines::of(&entries, self.timeout) else { return };
        let probable = server.lane().time().probable_at(instant(), self.topology.settled());
        let mut batch =
            SentBatch { merged: MergedRequests::new(&entries), entries, deadlines, server, probable };
        match sender.and_then(|sender| sender.send(&batch.calls())) {
            Ok(exchange) => batch.receive(self, exchange, driver).await,
            Err(trouble) => {
                for place in 0..batch.merged.parts() {
                    batch.fail(place, trouble.clone(), self, driver);
                }
            }
        }
    }
}

/// A batch in flight.
struct SentBatch {
    entries: Vec<WaitingRequest>,
    merged: MergedRequests,
    deadlines: Deadlines,
    server: Arc<Node>,
    /// The server's probable time when it was sent.
    probable: Option<Probable>,
}

impl SentBatch {
    /// A call for each part.
    fn calls(&self) -> Calls {
        let mut calls = Calls::default();
        for place in 0..self.merged.parts() {
            self.merged.encode(place, &self.entries, self.probable, &mut calls);
        }
        calls
    }

    /// Hands out replies as they arrive, until all are there or no caller waits.
    async fn receive(&mut self, inner: &Arc<CommitterInner>, mut exchange: Exchange, driver: &mut Driver) {
        let (sent, is_crowd) = (exchange.sent(), self.entries.len() >= CROWD);
        if is_crowd {
            inner.busy_poll.look_for(|| exchange.is_there()).await;
        }
        for place in 0..self.merged.parts() {
            let why = || self.server.lateness();
            let Some(reply) = self.deadlines.in_time(&mut self.entries, exchange.next(), why).await else {
                exchange.hold(Arc::new(driver.give_up()));
                exchange.give_up();
                return;
            };
            if place == 0 {
                let now = instant();
                let took = now.saturating_duration_since(sent);
                if is_crowd {
                    inner.busy_poll.learn(took);
                }
                // Otherwise, replies that arrived together would be followed by batches that leave together, and server
                // and client would take turns waiting.
                if driver.hand_out(took, self.deadlines.held_up(now)) {
                    tokio::task::yield_now().await;
                }
            }
            match reply {
                Ok(reply) => {
                    self.merged.answer(place, &mut self.entries, reply, &self.server, sent);
                    if self.probable.is_none() {
                        self.server.lane().time().confirm(sent);
                    }
                }
                Err(trouble) => self.fail(place, trouble, inner, driver),
            }
        }
    }

    /// Repeats calls apart at once if they did not run and may be repeated. All other callers get the error.
    fn fail(&mut self, place: usize, trouble: Trouble, inner: &Arc<CommitterInner>, driver: &mut Driver) {
        let failed = self.merged.order(place).iter().map(|index| self.entries[*index].take());
        if trouble.is_worth_another_try() {
            ask_apart(inner, failed.collect(), Some((&self.server, &trouble)), driver);
            return;
        }
        let error = StoreError::from(trouble);
        failed.for_each(|mut entry| entry.waiter.answer(Err(error.clone())));
    }
}

/// Drops the requests for which no caller waits. A caller whose deadline has passed gets this error, which says that
/// nothing was sent.
fn drop_late(entries: &mut Vec<WaitingRequest>, why: RedisError) {
    let now = instant();
    entries.retain_mut(|WaitingRequest { waiter, .. }| {
        if waiter.deadline <= now {
            waiter.answer(Err(why.into()));
        }
        !waiter.is_gone()
    });
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use smallvec::smallvec;

    use super::*;
    use crate::script;
    use crate::settings::Settings;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A later step of a call waited for drivers that were busy with calls that came after its own, past its deadline.
    /// So did one whose deadline had passed before.
    #[tokio::test(start_paused = true)]
    async fn later_steps_of_a_call_are_answered_by_its_deadline() {
        // Accepts, and never answers.
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut settings =
            Settings::new(format!("redis://{}", server.local_addr().unwrap()).parse().unwrap());
        settings.connect_timeout = 9 * HOUR;
        let topology = Arc::new(Topology::start(settings, script::TEXTS).unwrap());
        let committer = Committer::new(Arc::clone(&topology), HOUR);
        let request = Request { keys: smallvec![b"key".as_slice().into()], ..Request::default() };
        let submit = |begun| {
            let time = CallTime { begun, ..CallTime::begins(None) };
            committer.submit(
                topology.lane(ClusterSlot(0)),
                ClusterSlot(0),
                request.clone(),
                time,
                Company::Alone,
            )
        };
        let call_begun = instant();
        tokio::time::sleep(HOUR / 2).await;
        let _busy = [submit(instant()).unwrap(), submit(instant()).unwrap()];
        let mut step = submit(call_begun).unwrap();
        assert_eq!(RedisError::of(&step.received().await.unwrap_err()), Some(&RedisError::TimedOut));
        assert_eq!(call_begun.elapsed().as_secs(), HOUR.as_secs());
        let refused = submit(call_begun).unwrap_err();
        assert_eq!(RedisError::of(&refused), Some(&RedisError::Unreachable), "it says that nothing was sent");
    }
}
