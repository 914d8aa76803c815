//! What happened in a world, in words of its own: the ledger knows no type of the library.

use super::clock::Reading;
use super::terms::Span;
use super::world::Ask;

/// One step on the store: what was asked between two moments, and what was answered.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) thread: usize,
    pub(super) called: u64,
    pub(super) returned: u64,
    /// What the time was when it was called.
    pub(super) time: i64,
    pub(super) step: Step,
    /// The readings of this call, in their order.
    pub(super) readings: Vec<Reading>,
    pub(super) answer: Answer,
    /// How many counters the store held afterwards, if that is known.
    pub(super) held: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Charge(Vec<Ask>),
    Peek(Vec<Ask>),
    Record(Ask),
    /// In the window with this start.
    Refund(Ask, i64),
    Reset(Ask),
    Set(Ask, u64),
    Sweep,
    List,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// For each charge where its quota stands, and the verdict if the limiter was asked.
    Counted(Vec<State>, Option<Verdict>),
    /// What was given back and what is used then, unless the window is over.
    Refunded(Option<(u64, u64)>),
    Full,
    /// The counters that were listed: quota, key, used and end.
    Listed(Vec<Named>),
    Swept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) limit: u64,
    pub(super) used: u64,
    pub(super) window: Span,
    pub(super) now: i64,
    pub(super) denial: Option<Denial>,
    /// What was taken for this charge.
    pub(super) units: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    Exceeded,
    CostAboveLimit,
}

/// What a decision says besides its quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    pub(super) deciding: usize,
    pub(super) retry_after: Option<i64>,
    pub(super) remaining: u64,
}

/// A counter under its name, as the hook and the list of live counters show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) scope: usize,
    pub(super) key: usize,
    pub(super) used: u64,
    pub(super) end: i64,
}

/// A schedule that was run.
pub(super) struct History {
    /// Of each thread its events; the last are those of the end, when all threads are done.
    pub(super) threads: Vec<Vec<Event>>,
    /// All readings, in their order.
    pub(super) readings: Vec<Reading>,
    pub(super) has_stepped_back: bool,
    /// The counters that the hook received, and how many it missed.
    pub(super) told: Vec<Named>,
    pub(super) lost: u64,
}
