//! The answers to calls about holds.

use std::time::Duration;

use tollgate::{PolicyQuota, QuotaState};

use super::PolicyHold;
use crate::limiter::PolicyDecision;

/// The answer to a reservation.
#[derive(Debug, Clone)]
#[must_use = "a request that is denied must not go on"]
#[expect(
    clippy::large_enum_variant,
    reason = "the largest one is the usual one, and a box would be an allocation"
)]
pub enum ReserveAnswer {
    /// The policies decided.
    Decided {
        /// Their decision.
        decision: PolicyDecision,
        /// The hold; `None` if the request is denied, if no limit applies to it (it is exempt or unlimited), or if it asks
        /// for 0 units in flight. Then there is nothing to renew or to settle.
        hold: Option<PolicyHold>,
        /// Whether the id was admitted before, so that this call took nothing. The states are those of the first answer.
        is_repeated: bool,
    },
    /// The id belongs to another hold: to other policies, keys, units or costs. Nothing was changed.
    Conflict,
    /// The hold of this id was settled before. Nothing was changed.
    Ended,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewAnswer {
    /// The hold lives.
    Renewed {
        /// For how long from now.
        left: Duration,
    },
    /// The hold lives, but its units in flight do not: they were reset, or the store lost them. Settling it still settles
    /// its charges.
    Lost,
    /// The store does not know the id, or the hold has expired.
    Expired,
    /// The hold was settled before.
    Ended,
    /// The id belongs to another hold.
    Conflict,
    /// The hold was admitted while the store could not answer, and nothing counts it.
    Gone,
}

/// The answer to the end of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleAnswer {
    /// The hold has ended: what changed, for each quota of which the cost was settled and was another one. A repeated call
    /// gets the first answer, and has to be made with the same cost.
    Settled(Vec<HoldSettlement>),
    /// The store does not know the id, or the hold has expired: nothing was given back or charged.
    Expired,
    /// The id belongs to another hold, or the hold was settled before at another cost: nothing was changed.
    Conflict,
    /// The hold was admitted while the store could not answer, and nothing counts it.
    Gone,
}

/// What settling changed for one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldSettlement {
    /// The quota.
    pub quota: PolicyQuota,
    /// Units that were given back to the window that was charged: none, if it has closed.
    pub given: u32,
    /// Units that were charged beyond the reserved cost.
    pub charged: u32,
    /// Units beyond the reserved cost that were not charged, because the limit has no room and the policy says
    /// `overrun: cap`.
    pub forgiven: u32,
    /// The state of the quota after that.
    pub state: QuotaState,
}
