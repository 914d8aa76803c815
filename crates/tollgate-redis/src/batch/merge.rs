//! The order of a batch: requests of one call are adjacent, and so are equal requests, which become one step of the
//! script.
//!
//! Any order is correct, because the requests were in flight at the same time. Each is answered as if all had been
//! taken one by one in this order.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use tollgate::StoreError;

use crate::calls::Calls;
use crate::error::RedisError;
use crate::node::Node;
use crate::resp::RespValue;
use crate::script::{self, Group, Reply, Request, ScriptAnswer};
use crate::slot::ClusterSlot;
use crate::time::{Instant, Probable, instant};
use crate::waiter::WaitingRequest;

/// The requests of a batch, in the order in which they are taken.
#[derive(Debug)]
pub(crate) struct MergedRequests {
    /// Indices of requests.
    order: SmallVec<[usize; 1]>,
    /// The ranges of equal requests, which are taken as one.
    runs: SmallVec<[Range<usize>; 1]>,
    parts: SmallVec<[SlotCall; 1]>,
}

/// The requests of one call: on a Cluster, those of one slot. Steps on holds are another script's, so they are calls of
/// their own.
#[derive(Debug, Clone)]
struct SlotCall {
    slot: ClusterSlot,
    are_holds: bool,
    /// The range of its runs.
    runs: Range<usize>,
}

impl MergedRequests {
    pub(crate) fn new(entries: &[WaitingRequest]) -> Self {
        let mut order: SmallVec<[usize; 1]> = (0..entries.len()).collect();
        if entries.len() > 1 {
            order.sort_unstable_by(|a, b| {
                let (a, b) = (&entries[*a], &entries[*b]);
                a.slot.cmp(&b.slot).then_with(|| a.request.cmp(&b.request))
            });
        }
        let (mut runs, mut parts) = (SmallVec::<[Range<usize>; 1]>::new(), SmallVec::<[SlotCall; 1]>::new());
        for (place, index) in order.iter().enumerate() {
            let WaitingRequest { slot, request, .. } = &entries[*index];
            let are_holds = request.hold.is_some();
            let is_next = parts.last().is_none_or(|part| (part.slot, part.are_holds) != (*slot, are_holds));
            match runs.last_mut() {
                Some(run)
                    if !is_next && request.merges() && *request == entries[order[run.start]].request =>
                {
                    run.end += 1;
                }
                _ => runs.push(place..place + 1),
            }
            if is_next {
                parts.push(SlotCall { slot: *slot, are_holds, runs: runs.len() - 1..runs.len() });
            }
            if let Some(part) = parts.last_mut() {
                part.runs.end = runs.len();
            }
        }
        Self { order, runs, parts }
    }

    /// The number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Indices of the requests of the part at this place, in the order in which they are taken.
    pub(crate) fn order(&self, place: usize) -> &[usize] {
        let runs = &self.runs[self.parts[place].runs.clone()];
        let (first, last) = (runs.first().map_or(0, |run| run.start), runs.last().map_or(0, |run| run.end));
        &self.order[first..last]
    }

    /// Whether all requests are of the same counters.
    pub(crate) fn has_one_set_of_keys(&self, entries: &[WaitingRequest]) -> bool {
        let mut firsts = self.runs.iter().map(|run| &self.first(run, entries).keys);
        firsts.next().is_none_or(|keys| firsts.all(|others| others == keys))
    }

    /// Writes the call of this part.
    pub(crate) fn encode(
        &self,
        place: usize,
        entries: &[WaitingRequest],
        probable: Option<Probable>,
        calls: &mut Calls,
    ) {
        if self.parts[place].are_holds {
            // No two of them are taken as one.
            let requests: SmallVec<[&Request; 4]> =
                self.runs(place).map(|run| self.first(&run, entries)).collect();
            script::encode_holds(&requests, calls);
        } else {
            script::encode(&self.groups(place, entries), probable, calls);
        }
    }

    /// One group for all runs of this part with the same shapes and the same number of requests.
    pub(crate) fn groups<'a>(&self, place: usize, entries: &'a [WaitingRequest]) -> SmallVec<[Group<'a>; 1]> {
        let mut groups = SmallVec::<[Group<'a>; 1]>::new();
        for run in self.runs(place) {
            let Request { before, shapes, keys, .. } = self.first(&run, entries);
            let times = run.len();
            match groups.last_mut() {
                Some(group)
                    if group.times == times
                        && group.before == *before
                        && group.shapes == shapes.as_slice() =>
                {
                    group.requests.push(keys);
                }
                _ => groups.push(Group {
                    shapes,
                    before: *before,
                    times,
                    requests: smallvec![keys.as_slice()],
                }),
            }
        }
        groups
    }

    /// Answers all requests of this part from the server's reply to a call that was sent then. If any number of the
    /// reply makes no sense, nothing of it is believed.
    pub(crate) fn answer(
        &self,
        place: usize,
        entries: &mut [WaitingRequest],
        reply: RespValue,
        server: &Node,
        sent: Instant,
    ) {
        match script::decode(reply).and_then(|reply| Ok((reply.now(), self.read(place, entries, reply)?))) {
            Ok((now, answers)) => {
                // Learn the time first: callers with a stale window retry at once and use it.
                server.lane().time().learn(now, sent, instant());
                self.hand_out(place, entries, answers);
            }
            Err(error) => {
                for index in self.order(place) {
                    entries[*index].waiter.answer(Err(error.clone()));
                }
            }
        }
    }

    /// Reads the answer to the first request of each run of this part.
    pub(crate) fn read(
        &self,
        place: usize,
        entries: &[WaitingRequest],
        mut reply: Reply,
    ) -> Result<SmallVec<[ScriptAnswer; 1]>, StoreError> {
        let answers: Result<_, StoreError> =
            self.runs(place).map(|run| reply.next(self.first(&run, entries))).collect();
        if reply.is_over() { answers } else { Err(RedisError::BadReply.into()) }
    }

    /// Answers every request of the part, from the answers to the first of each run.
    pub(crate) fn hand_out(
        &self,
        place: usize,
        entries: &mut [WaitingRequest],
        answers: SmallVec<[ScriptAnswer; 1]>,
    ) {
        for (run, mut answer) in self.runs(place).zip(answers) {
            let first = self.order[run.start];
            for index in &self.order[run] {
                entries[*index].waiter.answer(Ok(answer.clone()));
                answer.step_on(&entries[first].request);
            }
        }
    }

    fn runs(&self, place: usize) -> impl Iterator<Item = Range<usize>> {
        self.runs[self.parts[place].runs.clone()].iter().cloned()
    }

    fn first<'a>(&self, run: &Range<usize>, entries: &'a [WaitingRequest]) -> &'a Request {
        &entries[self.order[run.start]].request
    }
}
