//! What happened in a world of holds, in words of its own: the ledger knows no type of the library.

use super::world::{HoldAsk, Settlement};

/// One step on the store: what was asked between two moments, and what was answered.
#[derive(Debug, Clone)]
pub(super) struct HoldEvent {
    pub(super) called: u64,
    pub(super) returned: u64,
    /// What the steady clock showed when it was called.
    pub(super) time: i64,
    /// The last readings of this call.
    pub(super) wall: Option<i64>,
    pub(super) steady: Option<i64>,
    pub(super) act: HoldAct,
    pub(super) reply: HoldReply,
    /// Afterwards the live units of each policy and key, if one thread runs alone.
    pub(super) live: Option<Vec<u32>>,
    /// How many places the store had taken.
    pub(super) held: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HoldAct {
    Reserve(HoldAsk),
    /// Before this time.
    ReserveBefore(HoldAsk, i64),
    Look(HoldAsk),
    Renew(HoldAsk),
    /// With the start of the window that was charged, for each quota.
    Settle(HoldAsk, Settlement, Vec<i64>),
    Reset(usize, usize),
    /// With a number of its own.
    Guard(HoldAsk, u64),
    Drop(u64),
    Check(usize, usize, u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HoldReply {
    Decided {
        in_flight: Vec<UnitsReply>,
        charged: Vec<ChargeReply>,
        is_repeated: bool,
    },
    Renewed(i64),
    Settled {
        states: Vec<ChargeReply>,
        is_repeated: bool,
    },
    Forgotten(u32),
    Lost,
    Expired,
    Ended,
    Conflict,
    Full,
    /// The end of the step had come at this time.
    TooLate(i64),
    /// Of what answers nothing.
    Done,
}

impl HoldReply {
    /// The answer to a repetition: only the first one reports expired units.
    pub(super) fn repeated(mut self) -> Self {
        if let Self::Decided { in_flight, .. } = &mut self {
            in_flight.iter_mut().for_each(|units| units.expired = 0);
        }
        if let Self::Decided { is_repeated, .. } | Self::Settled { is_repeated, .. } = &mut self {
            *is_repeated = true;
        }
        self
    }
}

/// Units in flight after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitsReply {
    pub(super) live: u32,
    pub(super) units: u32,
    pub(super) expired: u32,
    pub(super) is_exceeded: bool,
    pub(super) can_never_pass: bool,
}

/// A quota after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChargeReply {
    pub(super) used: u64,
    pub(super) units: u32,
    pub(super) is_denied: bool,
    /// The start of its window.
    pub(super) start: i64,
}
