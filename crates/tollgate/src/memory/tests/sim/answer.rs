//! What happened in a world, in words of its own: the ledger knows no type of the library.

use super::terms::Span;
use super::world::Ask;

/// One step on the store: what was asked between two moments, and what was answered.
#[derive(Debug, Clone)]
pub(in super::super) struct Event {
    pub(in super::super) thread: usize,
    pub(in super::super) called: u64,
    pub(in super::super) returned: u64,
    /// What the time was when it was called.
    pub(in super::super) time: i64,
    pub(in super::super) step: Step,
    /// The readings of this call, in their order.
    pub(in super::super) readings: Vec<Reading>,
    pub(in super::super) answer: Answer,
    /// How many counters the store held afterwards, if that is known.
    pub(in super::super) held: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Step {
    Charge(Vec<Ask>),
    /// Before this time.
    ChargeBefore(Vec<Ask>, i64),
    Peek(Vec<Ask>),
    Record(Ask),
    /// A charge, and its block.
    Block([Ask; 2]),
    /// Of the charge with this mark.
    Refund(Ask, i64),
    Reset(Ask),
    Set(Ask, u64),
    Sweep,
    List,
}

impl Step {
    pub(super) fn asks(&self) -> &[Ask] {
        match self {
            Self::Charge(asks) | Self::ChargeBefore(asks, _) | Self::Peek(asks) => asks,
            Self::Block(asks) => asks,
            Self::Record(ask) | Self::Refund(ask, _) | Self::Reset(ask) | Self::Set(ask, _) => {
                std::slice::from_ref(ask)
            }
            Self::Sweep | Self::List => &[],
        }
    }

    /// Whether it charges all or nothing.
    pub(super) fn is_charge(&self) -> bool {
        matches!(self, Self::Charge(_) | Self::ChargeBefore(..))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Answer {
    /// For each charge where its quota stands, and the verdict if the limiter was asked.
    Counted(Vec<State>, Option<Verdict>),
    /// What was given back and what is used then, unless it was a fixed window that is over.
    Refunded(Option<(u64, u64)>),
    Full,
    /// The end of the step had come at this time.
    Ended(i64),
    /// The counters that were listed: quota, key, used and end.
    Listed(Vec<Named>),
    Swept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct State {
    pub(in super::super) limit: u64,
    pub(in super::super) used: u64,
    /// Of a fixed window.
    pub(in super::super) window: Option<Span>,
    pub(in super::super) now: i64,
    pub(in super::super) denial: Option<Denial>,
    /// What was taken for this charge.
    pub(in super::super) units: u64,
    pub(in super::super) reset_at: i64,
    pub(in super::super) next_at: Option<i64>,
    pub(in super::super) retry_at: Option<i64>,
    pub(in super::super) mark: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Denial {
    Exceeded,
    CostAboveLimit,
}

/// What a decision says besides its quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Verdict {
    pub(in super::super) allowed: bool,
    pub(in super::super) deciding: usize,
    pub(in super::super) retry_after: Option<i64>,
    pub(in super::super) remaining: u64,
}

/// A counter under its name, as the hook and the list of live counters show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Named {
    pub(in super::super) scope: usize,
    pub(in super::super) key: usize,
    pub(in super::super) used: u64,
    pub(in super::super) end: i64,
}

/// A schedule that was run.
pub(in super::super) struct History {
    /// Of each thread its events; the last are those of the end, when all threads are done.
    pub(in super::super) threads: Vec<Vec<Event>>,
    /// All readings, in their order.
    pub(in super::super) readings: Vec<Reading>,
    pub(in super::super) has_stepped_back: bool,
    /// The counters that the hook received, and how many it missed.
    pub(in super::super) received: Vec<Named>,
    pub(in super::super) lost: u64,
}

/// A reading of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Reading {
    pub(in super::super) moment: u64,
    pub(in super::super) thread: usize,
    pub(in super::super) is_coarse: bool,
    /// What it showed.
    pub(in super::super) time: i64,
    /// What the time was.
    pub(in super::super) truth: i64,
}
