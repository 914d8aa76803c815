//! What a step on a hold came to.

use smallvec::SmallVec;
use tollgate::{InFlight, Timestamp};

use crate::script::step::{CountChange, CounterStep};

/// The outcome of a step on a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HoldOutcome {
    Decided(HoldVerdict),
    Renewed,
    Settled(HoldSettlement),
    /// The units that were live.
    Forgotten(u32),
    Lost,
    Expired,
    Ended,
    Conflict,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldVerdict {
    /// The time of the step that decided.
    pub(crate) then: Timestamp,
    pub(crate) is_repeated: bool,
    pub(crate) is_admitted: bool,
    pub(crate) in_flight: SmallVec<[FlightCount; 1]>,
    /// Each counter of a quota.
    pub(crate) found: SmallVec<[CountChange; 1]>,
}

/// The units of one limit in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlightCount {
    /// The limit of the step that decided.
    pub(crate) limit: InFlight,
    /// Those that were live before that step.
    pub(crate) live: u32,
    /// Those that had ended, and that this step has removed.
    pub(crate) expired: u32,
}

/// What was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldSettlement {
    /// The time of the step that settled.
    pub(crate) then: Timestamp,
    pub(crate) is_repeated: bool,
    /// Each counter that was adjusted.
    pub(crate) counters: Vec<AdjustedCounter>,
}

/// A counter that a settlement has adjusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdjustedCounter {
    /// Its place among the quotas of the hold.
    pub(crate) place: usize,
    pub(crate) step: CounterStep,
    pub(crate) change: CountChange,
    /// Whether the window that was to get units back has closed.
    pub(crate) is_closed: bool,
}
