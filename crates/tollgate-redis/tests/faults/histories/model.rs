//! The model of one counter: which answers an operation may give.
//!
//! It has its own window arithmetic and its own counts, and takes nothing from the store but the times in its answers.
//! Where several outcomes are possible, it keeps a world for each. An answer removes the worlds that cannot give it, and
//! a history without a world left is not linearizable.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::{cell::RefCell, mem};

use stateright::semantics::SequentialSpec;

/// Of what quota the counter is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) limit: u64,
    /// In milliseconds.
    pub(crate) window: i64,
    pub(crate) opens: Opens,
}

/// When a window starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    /// Where the one before it ends, from the epoch on.
    FromEpoch,
    /// With the first unit. No history is as long as such a window.
    AtFirstUnit,
}

/// An operation, with its place in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) place: usize,
    pub(crate) what: What,
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

/// What a client was told. An operation of unknown outcome has none.
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

/// A counter as a server has it: units used in the window with this start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Count {
    /// None before the first operation, and after a reset.
    start: Option<i64>,
    used: u64,
}

const UNTOUCHED: Count = Count { start: None, used: 0 };

/// What the servers may have. While a replica takes over, both servers count for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct World {
    primary: Count,
    promoted: Option<Count>,
}

/// The counter at one point of a search, which tries orders of the operations.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    terms: Terms,
    worlds: BTreeSet<World>,
    /// What the primary has ever had: a replica that takes over has one of these.
    past: BTreeSet<Count>,
    /// Which operations were taken, a bit for each.
    taken: u128,
    search: Rc<Search>,
}

/// What all points of a search share.
#[derive(Debug)]
pub(crate) struct Search {
    /// The starts of all windows that answers name. An operation of unknown outcome may be in any.
    starts: BTreeSet<i64>,
    /// Operations with answers, a bit for each.
    answered: u128,
    /// For each operation of unknown outcome, the last one before it that asks for the same.
    equals: Vec<Option<usize>>,
    /// Points that were reached before: from there, nothing leads to the end.
    seen: RefCell<HashSet<Point>>,
    is_too_long: Cell<bool>,
}

/// Equal points go on alike.
type Point = (u128, BTreeSet<World>, BTreeSet<Count>);

/// Points of one search. Those of nearly all histories take fewer than a hundred.
const POINTS: usize = 30_000;

/// A step back of a server's clock of up to so many milliseconds moves no counter (rule 12).
const SHORT_STEP: i64 = 1_000;

impl Counter {
    /// A counter that nobody has touched.
    pub(crate) fn new(terms: Terms, search: &Rc<Search>) -> Self {
        let world = World { primary: UNTOUCHED, promoted: None };
        Self {
            terms,
            worlds: BTreeSet::from([world]),
            past: BTreeSet::from([UNTOUCHED]),
            taken: 0,
            search: Rc::clone(search),
        }
    }

    /// Takes the operation in all worlds. Returns whether any is left, and this point is new.
    fn take(&mut self, op: &Op, answer: Option<&Answer>) -> bool {
        // Of equal operations of unknown outcome, the first can do whatever the others can.
        let is_next = self.search.equals[op.place].is_none_or(|equal| self.taken & (1 << equal) != 0);
        if !is_next {
            self.worlds.clear();
            return false;
        }
        let before = mem::take(&mut self.worlds);
        let worlds = self.after(&before, op, answer);
        // One that changes nothing can as well come last.
        let is_over = self.search.answered & !self.taken == 0;
        if answer.is_none() && worlds == before && !is_over {
            return false;
        }
        self.past.extend(worlds.iter().map(|world| world.primary));
        self.taken |= 1 << op.place;
        self.worlds = worlds;
        !self.worlds.is_empty() && self.is_new()
    }

    /// The worlds after the operation.
    fn after(&self, before: &BTreeSet<World>, op: &Op, answer: Option<&Answer>) -> BTreeSet<World> {
        let mut worlds = BTreeSet::new();
        for &world in before {
            if op.what == What::Failover {
                let promoted = |count: &Count| World { promoted: Some(*count), ..world };
                worlds.extend(self.past.iter().map(promoted));
                continue;
            }
            // Clients do not know which of the servers they ask.
            let by_primary = self.outcomes(world.primary, op.what, answer);
            worlds.extend(by_primary.into_iter().map(|primary| World { primary, ..world }));
            if let Some(promoted) = world.promoted {
                let by_promoted = self.outcomes(promoted, op.what, answer);
                worlds.extend(by_promoted.into_iter().map(|count| World { promoted: Some(count), ..world }));
            }
        }
        worlds
    }

    /// Notes this point. The search is given up if there are too many.
    fn is_new(&mut self) -> bool {
        let mut seen = self.search.seen.borrow_mut();
        let is_too_long = seen.len() >= POINTS;
        self.search.is_too_long.set(is_too_long);
        let is_new = !is_too_long && seen.insert((self.taken, self.worlds.clone(), self.past.clone()));
        if !is_new {
            self.worlds.clear();
        }
        is_new
    }

    /// What the counter is after the operation: all that it may be, if the outcome is unknown; nothing, if this answer
    /// is wrong.
    fn outcomes(&self, count: Count, what: What, answer: Option<&Answer>) -> Vec<Count> {
        if let Some(answer) = answer {
            let (after, expected) = self.terms.step(count, what, answer.now);
            return if expected == *answer { vec![after] } else { vec![] };
        }
        let starts = self.search.starts.iter().copied();
        let later = starts.filter(|start| count.start.is_none_or(|current| *start > current));
        let times = count.start.into_iter().chain(later);
        times.map(|now| self.terms.step(count, what, now).0).collect()
    }
}

impl Terms {
    /// The counter after an operation at this time of its server, and the answer.
    fn step(self, count: Count, what: What, now: i64) -> (Count, Answer) {
        if what == What::Reset {
            // It forgets the window as well.
            let start = self.open_at(now);
            return (UNTOUCHED, Answer { now, start, used: 0, units: 0, has_room: true });
        }
        let (start, used) = self.at(count, now);
        let has_room = |units| used + units <= self.limit;
        let (used, units, has_room) = match what {
            What::Charge { units } if has_room(units) => (used + units, units, true),
            What::Charge { .. } => (used, 0, false),
            What::Peek => (used, 0, has_room(1)),
            What::Refund { units, start: named } => {
                let given = if named == start { units.min(used) } else { 0 };
                (used - given, given, true)
            }
            What::Reset | What::Failover => unreachable!("answered above, or no operation on a counter"),
        };
        // Who only looks opens no window.
        let is_open = self.opens == Opens::FromEpoch || count.start.is_some() || used > 0;
        (Count { start: is_open.then_some(start), used }, Answer { now, start, used, units, has_room })
    }

    /// The start of the window that is open at this time, or opens then.
    fn open_at(self, now: i64) -> i64 {
        match self.opens {
            Opens::FromEpoch => now - now.rem_euclid(self.window),
            Opens::AtFirstUnit => now,
        }
    }

    /// The window that the counter is in at this time, and what is used in it.
    fn at(self, count: Count, now: i64) -> (i64, u64) {
        let open = self.open_at(now);
        match count.start {
            Some(start) if self.opens == Opens::AtFirstUnit => (start, count.used),
            // The clock has stepped back by a little, which moves nothing.
            Some(start) if open < start && start - now <= SHORT_STEP => (start, count.used),
            // After a longer step back, what is used stays used.
            Some(start) if open <= start => (open, count.used),
            _ => (open, 0),
        }
    }
}

impl Search {
    /// A search among these operations, with their answers, in the order of their calls.
    pub(crate) fn new(operations: &[(What, Option<Answer>)]) -> Self {
        let starts = operations.iter().filter_map(|(_, answer)| Some(answer.as_ref()?.start)).collect();
        let answered = (0..).zip(operations).filter(|(_, (_, answer))| answer.is_some());
        let answered = answered.fold(0, |bits, (place, _): (u32, _)| bits | 1 << place);
        let equal = |(place, operation): (usize, &(What, Option<Answer>))| {
            let (_, answer) = operation;
            answer.is_none().then(|| operations[..place].iter().rposition(|other| other == operation))?
        };
        let equals = operations.iter().enumerate().map(equal).collect();
        Self { starts, answered, equals, seen: RefCell::default(), is_too_long: Cell::new(false) }
    }

    /// Whether it was given up.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long.get()
    }
}

impl SequentialSpec for Counter {
    type Op = Op;
    /// None if the outcome is unknown.
    type Ret = Option<Answer>;

    fn invoke(&mut self, op: &Op) -> Option<Answer> {
        self.take(op, None);
        None
    }

    fn is_valid_step(&mut self, op: &Op, answer: &Option<Answer>) -> bool {
        self.take(op, answer.as_ref())
    }
}
