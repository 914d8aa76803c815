//! Everything that decides a schedule of holds.

/// Keys are numbers below this.
pub(super) const KEYS: usize = 2;

#[derive(Debug, Clone)]
pub(super) struct HoldWorld {
    /// Chooses the hash of the store.
    pub(super) hash: u64,
    /// Chooses who goes on where there are several threads, which only shuttle can run.
    #[cfg_attr(not(tollgate_shuttle), expect(dead_code, reason = "shuttle is not here"))]
    pub(super) order: u64,
    /// How many places the store has.
    pub(super) cap: usize,
    /// Two with the same policy share their counters.
    pub(super) limits: Vec<LimitTerms>,
    pub(super) quotas: Vec<WindowTerms>,
    /// What each thread does, one after another.
    pub(super) threads: Vec<Vec<HoldOp>>,
}

/// A limit in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitTerms {
    pub(super) policy: usize,
    pub(super) limit: u32,
    /// In milliseconds.
    pub(super) length: Option<i64>,
}

/// A quota in windows that begin at multiples of their length, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowTerms {
    pub(super) policy: usize,
    pub(super) limit: u64,
    pub(super) window: i64,
}

/// A hold, by the numbers of its id, limits, quotas and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HoldAsk {
    pub(super) id: usize,
    pub(super) limits: Vec<usize>,
    pub(super) quotas: Vec<usize>,
    pub(super) key: usize,
    pub(super) units: u32,
    pub(super) cost: u32,
    /// In milliseconds.
    pub(super) length: i64,
}

/// What settling does to every quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settlement {
    Keep,
    GiveBack(u32),
    Charge(u32),
    ChargeUpTo(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HoldOp {
    Reserve(HoldAsk),
    /// Before an end so many milliseconds after the call, by the wall clock.
    ReserveBefore(HoldAsk, i64),
    Look(HoldAsk),
    Renew(HoldAsk),
    Settle(HoldAsk, Settlement),
    /// Of a limit, for a key.
    Reset(usize, usize),
    /// A guard of the process, without an id: the id and the length of the ask mean nothing.
    Guard(HoldAsk),
    /// Drops the oldest guard of this thread.
    Drop,
    /// Forgets it, as a crash of its owner does.
    Forget,
    /// A cost of a quota, for a key.
    Check(usize, usize, u32),
    /// Both clocks move by so many milliseconds.
    Pass(i64),
    /// The wall clock alone steps forward.
    StepWall(i64),
    /// The steady clock steps back.
    StepBack(i64),
}
