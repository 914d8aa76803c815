//! A world: a store's settings, a clock, and what some threads do. It is a value, so it can be made from a seed, run
//! again, and cut down.

use std::fmt;

use super::terms::{Cut, Terms, name};

/// Everything that decides a schedule.
#[derive(Debug, Clone)]
pub(in super::super) struct World {
    /// When it begins, in Unix milliseconds.
    pub(in super::super) start: i64,
    pub(in super::super) ticks: Ticks,
    /// How many counters the store may hold.
    pub(in super::super) cap: usize,
    pub(in super::super) naming: Naming,
    /// Chooses the hash of the store, and so where its counters lie.
    pub(in super::super) hash: u64,
    /// Two that differ in their limits or in whether denials count share their counters.
    pub(in super::super) quotas: Vec<Terms>,
    /// Moves of the clock in the middle of calls: before the reading with this number.
    pub(in super::super) drifts: Vec<(usize, Move)>,
    /// What each thread does, one after another.
    pub(in super::super) threads: Vec<Vec<Op>>,
    /// Chooses who goes on where there are several threads.
    pub(in super::super) order: u64,
}

/// How the coarse reading lags: it shows the time of the last tick, and so many ticks in turn are missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Ticks {
    /// In milliseconds; 0 if the coarse reading is the precise one.
    pub(in super::super) length: i64,
    pub(in super::super) missed: i64,
}

/// What the store remembers of its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Naming {
    Off,
    Remembered,
    /// Closed counters go into a queue of this length, for the hook.
    Told(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Op {
    /// Through the limiter.
    Check(Vec<Ask>),
    /// Before an end, which lies where this move would bring the clock.
    CheckBefore(Vec<Ask>, Move),
    /// Several requests at once.
    Batch(Vec<Vec<Ask>>),
    Peek(Vec<Ask>),
    Record(Ask),
    /// If the world has blocks of its quota.
    Block(Ask),
    /// In the window that was seen so many answers ago of this counter.
    Refund(Ask, usize),
    Reset(Ask),
    Set(Ask, u64),
    /// What the hook's thread does when a second has passed.
    Sweep,
    /// The list of live counters.
    List,
    Move(Move),
}

/// One charge: a quota and a key, by their numbers, and a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Ask {
    pub(in super::super) quota: usize,
    pub(in super::super) key: usize,
    pub(in super::super) cost: u32,
}

/// A move of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Move {
    By(i64),
    /// To the next end of a window that an answer has named, and so much further.
    NextEnd(i64),
    /// Back to the last one, and so much further.
    LastEnd(i64),
}

impl World {
    /// Counters belong to policy and windows, whatever the limit: the first quota that has the same.
    pub(super) fn scope(&self, quota: usize) -> usize {
        let same =
            |other: &Terms| (other.policy, other.cut) == (self.quotas[quota].policy, self.quotas[quota].cut);
        self.quotas.iter().position(same).unwrap_or(quota)
    }

    /// The quota that counts the blocks of this one.
    pub(super) fn block_of(&self, quota: usize) -> Option<usize> {
        let Terms { policy, cut, .. } = self.quotas[quota];
        let of = cut.blocked()?;
        let is_block =
            |other: &Terms| other.policy == policy && matches!(other.cut, Cut::Block(_, cut) if cut == of);
        self.quotas.iter().position(is_block)
    }

    pub(super) fn operations(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

impl Op {
    /// The asks of an operation that stands alone.
    pub(super) fn asks_mut(&mut self) -> Vec<&mut Ask> {
        match self {
            Self::Check(asks) | Self::CheckBefore(asks, _) | Self::Peek(asks) => asks.iter_mut().collect(),
            Self::Batch(requests) => requests.iter_mut().flatten().collect(),
            Self::Record(ask)
            | Self::Block(ask)
            | Self::Refund(ask, _)
            | Self::Reset(ask)
            | Self::Set(ask, _) => vec![ask],
            Self::Sweep | Self::List | Self::Move(_) => Vec::new(),
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, ticks, cap, naming, .. } = self;
        writeln!(f, "A store for {cap} counters, names {naming:?}.")?;
        match ticks {
            Ticks { length: 0, .. } => writeln!(f, "Its clock starts at {start} ms and has one reading.")?,
            Ticks { length, missed } => writeln!(
                f,
                "Its clock starts at {start} ms and ticks every {length} ms; {missed} ticks in turn are missed."
            )?,
        }
        for (number, quota) in self.quotas.iter().enumerate() {
            writeln!(f, "Quota {number} is {quota}.")?;
        }
        for (reading, by) in &self.drifts {
            writeln!(f, "Before reading {reading}, {by}.")?;
        }
        Ok(())
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of quota {} for {:?}", self.cost, self.quota, name(self.key))
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(millis) => write!(f, "the clock moves by {millis} ms"),
            Self::NextEnd(more) => write!(f, "the clock moves to the next end of a window {more:+} ms"),
            Self::LastEnd(more) => write!(f, "the clock moves back to the last end of a window {more:+} ms"),
        }
    }
}
