//! Steps on holds: a script of their own, made of the same parts, so that a charge without a hold costs nothing more.

mod outcome;

use smallvec::SmallVec;

pub(crate) use self::outcome::{AdjustedCounter, FlightCount, HoldOutcome, HoldSettlement, HoldVerdict};
use super::window_spec::WindowSpec;

/// The text of the script.
pub(crate) const TEXT: &str = include!("text.in");

/// The SHA-1 of [`TEXT`], with which calls name it.
pub(crate) const SHA1: &str = "149cd16fcbb55613340a2b1d4e8bbdb575fc1f98";

/// How many ended units a step removes, or twice as many as it takes if that is more.
const SWEPT: u32 = 100;

/// What a step does with a hold. What it does with its quotas, the request says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HoldShape {
    pub(crate) operation: HoldOperation,
    pub(crate) name: HoldName,
    /// The length of the hold, in milliseconds.
    pub(crate) length: u32,
    pub(crate) in_flight: SmallVec<[FlightShape; 1]>,
}

/// Which hold it is, as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HoldName {
    /// A digest of the id. Who can read the server cannot repeat the hold.
    pub(crate) id: [u8; 16],
    /// A digest of what the id is bound to.
    pub(crate) binding: [u8; 16],
    /// Which attempt to take a hold across slots it is.
    pub(crate) attempt: [u8; 8],
}

/// A limit in flight, and how many of its units the hold has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlightShape {
    pub(crate) units: u32,
    pub(crate) limit: u32,
    /// The most milliseconds that a hold of it lives.
    pub(crate) longest: u32,
}

/// An operation on a hold, in the order in which a call takes them: those first that a server without memory does not
/// refuse. After one that writes, it refuses none of the others either; a refusal would end the whole call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HoldOperation {
    /// Ends the hold, and adjusts the quotas of the request.
    Settle(SettledCounters),
    /// Settles what this attempt has reserved, and forgets the id.
    Undo(SettledCounters),
    /// Starts the length again.
    Renew,
    /// Forgets all units of one limit.
    Reset,
    /// Takes the units, and charges all quotas of the request.
    Reserve,
    /// Looks at the same.
    Look,
}

/// The quotas of a hold that is settled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SettledCounters {
    /// How each of them counts.
    pub(crate) windows: SmallVec<[WindowSpec; 1]>,
    /// Those that are adjusted, in their order.
    pub(crate) adjusted: SmallVec<[AdjustedPlace; 1]>,
}

/// A quota that is adjusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AdjustedPlace {
    /// Its place among the quotas of the hold.
    pub(crate) place: usize,
    /// The limit, if it is charged no more than there is room for.
    pub(crate) limit: Option<u64>,
}

impl HoldOperation {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Look => "look",
            Self::Renew => "renew",
            Self::Settle(_) => "settle",
            Self::Undo(_) => "undo",
            Self::Reset => "reset",
        }
    }

    pub(super) const fn settled(&self) -> Option<&SettledCounters> {
        match self {
            Self::Settle(settled) | Self::Undo(settled) => Some(settled),
            _ => None,
        }
    }
}

impl HoldShape {
    /// Returns whether the step only looks: it asks for no units in flight where it could.
    pub(super) fn is_look(&self) -> bool {
        let only_asks = !self.in_flight.is_empty() && self.in_flight.iter().all(|flight| flight.units == 0);
        self.operation == HoldOperation::Look || self.operation == HoldOperation::Reserve && only_asks
    }
}

impl FlightShape {
    /// Returns how many ended units a step removes at most.
    pub(super) fn most_swept(&self) -> u32 {
        SWEPT.max(2 * self.units.min(tollgate::InFlight::MAX_UNITS))
    }

    /// Returns whether the limit has room for the units while so many are live.
    pub(super) fn has_room(&self, live: u32) -> bool {
        let units = self.units.max(1);
        units <= tollgate::InFlight::MAX_UNITS && live.saturating_add(units) <= self.limit
    }
}
