//! The model of one counter: which answers an operation may give.
//!
//! One counter follows the rules of the testkit's reference model. It takes nothing from the store but the times in its
//! answers. Where several outcomes are possible, it keeps a world for each. An answer removes the worlds that cannot give it,
//! and a history without a world left is not linearizable.
//!
//! The order of operations with answers is searched by stateright. Those of unknown outcome take place here, between
//! two others, in all ways that are possible: there are too many for a search that tries one after another.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::Duration;

use stateright::semantics::SequentialSpec;
use tollgate::{Anchor, CountDenied, Key, Mark, Quota, Timestamp};
use tollgate_testkit::ModelCounter;
use tollgate_testkit::windows::holding;

/// Of what quota the counter is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) limit: u64,
    /// In milliseconds.
    pub(crate) window: i64,
    pub(crate) opens: Opens,
    /// The quota that clients charge, if it has no such windows. Nothing comes back while a history lasts, so all answers
    /// but the marks are those of the window, and nothing is refunded.
    pub(crate) kind: Option<&'static str>,
}

/// When a window starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    /// Where the one before it ends, from the epoch on.
    FromEpoch,
    /// With the first unit. No history is as long as such a window.
    AtFirstUnit,
}

/// An operation with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op {
    /// Its bit.
    pub(crate) bit: u128,
    pub(crate) what: What,
}

/// An operation of unknown outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unknown {
    /// Its bit.
    pub(crate) bit: u128,
    pub(crate) what: What,
    /// The operations with answers that were over when it was called.
    pub(crate) after: u128,
    /// The last operation of unknown outcome before it that asks for the same: that one can do whatever this one can.
    pub(crate) equal: u128,
}

/// What is asked of a counter. Times are in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Charge {
        units: u64,
    },
    Peek,
    /// Gives back units that were charged in the window with this start.
    Refund {
        units: u64,
        start: i64,
    },
    Reset,
    /// A replica with an earlier state takes over. Not an operation of a client.
    Failover,
}

/// What a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The time of the server.
    pub(crate) now: i64,
    /// The start of the window that was counted.
    pub(crate) start: i64,
    pub(crate) used: u64,
    /// Units that were taken or given back.
    pub(crate) units: u64,
    pub(crate) has_room: bool,
}

/// A counter as a server has it: none before the first operation, and after a reset.
type ServerCount = Option<ModelCounter>;

/// What the servers may have. While a replica takes over, both servers count for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct World {
    primary: ServerCount,
    promoted: Option<ServerCount>,
    /// Operations of unknown outcome that took place.
    spent: u128,
}

/// The counter at one point of a search, which tries orders of the operations with answers.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    worlds: BTreeSet<World>,
    /// What a primary has ever had: a replica has one of these.
    past: BTreeSet<ServerCount>,
    /// Operations that were taken.
    taken: u128,
    search: Rc<Search>,
}

/// What all points of a search share.
#[derive(Debug)]
pub(crate) struct Search {
    limit: u64,
    /// The quota of the counter; its limit is the above.
    quota: Quota,
    unknown: Vec<Unknown>,
    /// The starts of all windows that answers name. An operation of unknown outcome may be in any.
    starts: BTreeSet<i64>,
    /// Points that were reached before, by the operations that were taken and a hash of all worlds: from there, nothing
    /// leads to the end.
    seen: RefCell<HashSet<(u128, u64)>>,
    hashes: RandomState,
    is_too_long: Cell<bool>,
}

/// Points of one search, and worlds at one of them. Most histories have fewer than a hundred of each.
const POINTS: usize = 30_000;
const WORLDS: usize = 20_000;

impl Counter {
    /// A counter that nobody has touched.
    pub(crate) fn new(search: &Rc<Search>) -> Self {
        let world = World { primary: None, promoted: None, spent: 0 };
        Self {
            worlds: BTreeSet::from([world]),
            past: BTreeSet::from([None]),
            taken: 0,
            search: Rc::clone(search),
        }
    }

    /// Takes the operation in all worlds. Returns whether any is left, and this point is new.
    fn take(&mut self, op: &Op, answer: &Answer) -> bool {
        self.take_unknown();
        let mut worlds = BTreeSet::new();
        for world in &self.worlds {
            worlds.extend(world.each(|count| {
                let (after, expected) = self.search.step(count, op.what, answer.now);
                (expected == *answer).then_some(after).into_iter().collect()
            }));
            if world.promoted.is_some() && self.may_come_from_a_replica(op.what, answer) {
                worlds.insert(*world);
            }
        }
        self.past.extend(worlds.iter().flat_map(|world| [world.primary].into_iter().chain(world.promoted)));
        self.worlds = frugal(&worlds);
        self.taken |= op.bit;
        !self.worlds.is_empty() && self.is_new()
    }

    /// Whether a primary that has become a replica may have answered. It refuses only what writes, and is filled again
    /// by its new primary, so it may have anything that was there before, or nothing yet.
    fn may_come_from_a_replica(&self, what: What, answer: &Answer) -> bool {
        let writes = what == What::Reset || answer.units > 0;
        !writes && self.past.iter().any(|count| self.search.step(*count, what, answer.now).1 == *answer)
    }

    /// Adds the worlds in which operations of unknown outcome take place now, in any order.
    fn take_unknown(&mut self) {
        let mut latest: Vec<World> = self.worlds.iter().copied().collect();
        while let Some(world) = latest.pop() {
            for unknown in &self.search.unknown {
                let is_possible = world.spent & unknown.bit == 0
                    && world.spent & unknown.equal == unknown.equal
                    && self.taken & unknown.after == unknown.after;
                if !is_possible {
                    continue;
                }
                for next in self.after(&world, unknown.what) {
                    let is_changed = (next.primary, next.promoted) != (world.primary, world.promoted);
                    let next = World { spent: world.spent | unknown.bit, ..next };
                    if is_changed && self.worlds.insert(next) {
                        self.past.extend([next.primary].into_iter().chain(next.promoted));
                        latest.push(next);
                    }
                }
            }
            if self.worlds.len() > WORLDS {
                self.search.is_too_long.set(true);
                self.worlds.clear();
                return;
            }
        }
    }

    /// What may come of an operation of unknown outcome that takes place.
    fn after(&self, world: &World, what: What) -> Vec<World> {
        if what == What::Failover {
            return self.past.iter().map(|count| World { promoted: Some(*count), ..*world }).collect();
        }
        world.each(|count| {
            let starts = self.search.starts.iter().copied();
            let current = count.map(|counter| counter.window.start().as_unix_millis());
            let later = starts.filter(|start| current.is_none_or(|current| *start > current));
            let times = current.into_iter().chain(later);
            times.map(|now| self.search.step(count, what, now).0).collect()
        })
    }

    /// Notes this point. The search is given up if there are too many.
    fn is_new(&self) -> bool {
        let Search { seen, hashes, is_too_long, .. } = &*self.search;
        let mut seen = seen.borrow_mut();
        is_too_long.set(is_too_long.get() || seen.len() >= POINTS);
        !is_too_long.get() && seen.insert((self.taken, hashes.hash_one((&self.worlds, &self.past))))
    }
}

impl World {
    /// The worlds after a step of one of the servers: clients do not know which one they ask.
    fn each(&self, step: impl Fn(ServerCount) -> Vec<ServerCount>) -> Vec<Self> {
        let by_primary = step(self.primary).into_iter().map(|primary| Self { primary, ..*self });
        let by_promoted = self.promoted.into_iter().flat_map(&step);
        by_primary.chain(by_promoted.map(|count| Self { promoted: Some(count), ..*self })).collect()
    }
}

/// Of worlds with the same counters, those that have spent the least: these can go on wherever the others can.
fn frugal(worlds: &BTreeSet<World>) -> BTreeSet<World> {
    let is_frugal = |world: &&World| {
        let is_better = |other: &World| {
            other.spent != world.spent
                && other.spent & world.spent == other.spent
                && (other.primary, other.promoted) == (world.primary, world.promoted)
        };
        !worlds.iter().any(is_better)
    };
    worlds.iter().filter(is_frugal).copied().collect()
}

impl Terms {
    /// The quota that clients charge.
    pub(crate) fn charged_quota(self) -> Quota {
        self.kind.map_or_else(|| self.quota(), |text| text.parse().unwrap())
    }

    /// The quota of the model.
    pub(crate) fn quota(self) -> Quota {
        let anchor = match self.opens {
            Opens::FromEpoch => Anchor::Epoch,
            Opens::AtFirstUnit => Anchor::FirstHit,
        };
        let window = Duration::from_millis(self.window.unsigned_abs());
        Quota::new(self.limit, window).unwrap().with_anchor(anchor).unwrap()
    }
}

impl Search {
    /// A search for an order of operations with these answers.
    pub(crate) fn new<'a>(
        terms: Terms,
        answers: impl Iterator<Item = &'a Answer>,
        unknown: Vec<Unknown>,
    ) -> Self {
        Self {
            limit: terms.limit,
            quota: terms.quota(),
            unknown,
            starts: answers.map(|answer| answer.start).collect(),
            seen: RefCell::default(),
            hashes: RandomState::new(),
            is_too_long: Cell::new(false),
        }
    }

    /// The counter after an operation at this time of its server, and the answer.
    fn step(&self, count: ServerCount, what: What, now: i64) -> (ServerCount, Answer) {
        let time = Timestamp::from_unix_millis(now);
        let opened = holding(&self.quota, &Key::from(""), time);
        let unused = ModelCounter::unused(opened);
        let answer = |counter: ModelCounter, units, has_room| {
            let start = counter.window.start().as_unix_millis();
            Answer { now, start, used: counter.used, units, has_room }
        };
        let counter = count.map_or(unused, |counter| counter.at(time, opened));
        let has_room = |units| counter.has_room(units, self.limit, CountDenied::No);
        let (after, answer) = match what {
            // It forgets the window as well.
            What::Reset => return (None, answer(unused, 0, true)),
            What::Charge { units } if has_room(units) => {
                let after = counter.with(units);
                (after, answer(after, units, true))
            }
            What::Charge { .. } => (counter, answer(counter, 0, false)),
            What::Peek => (counter, answer(counter, 0, has_room(1))),
            What::Refund { units, start } => {
                let (after, given) = counter.refunded(Mark::at(Timestamp::from_unix_millis(start)), units);
                (after, answer(after, given, true))
            }
            What::Failover => unreachable!("no operation on a counter"),
        };
        // A look opens no window.
        let is_open = self.quota.anchor() == Anchor::Epoch || count.is_some() || after.used > 0;
        (is_open.then_some(after), answer)
    }

    /// Whether it was given up.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long.get()
    }
}

impl SequentialSpec for Counter {
    type Op = Op;
    type Ret = Answer;

    fn invoke(&mut self, _: &Op) -> Answer {
        unreachable!("it asks only for operations in flight, of which there are none")
    }

    fn is_valid_step(&mut self, op: &Op, answer: &Answer) -> bool {
        self.take(op, answer)
    }
}
