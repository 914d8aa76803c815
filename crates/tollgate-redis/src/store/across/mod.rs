//! The handling of requests whose counters are in several slots of a Cluster.

mod give_back;
mod parts;
mod reserve;

use tollgate::{Charge, Counter, HoldTerms, InFlightCharge, StoreError};

pub(super) use self::parts::in_turns;
use crate::names::CounterNames;
use crate::script::Request;
use crate::slot::{self, ClusterSlot};

/// The handling of requests whose counters are in several slots of a Cluster.
///
/// A Cluster runs a step in one slot, and all counters of one [`Key`](tollgate::Key) are in one. So this only concerns
/// requests with several keys, and only on a Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AcrossSlots {
    /// They fail with [`StoreError::Uncountable`]: a request is not split into
    /// several steps without permission.
    #[default]
    Refuse,
    /// They are charged slot by slot, always in the same order, and the units are given back if a later slot denies or
    /// fails, or if the caller disconnects. In the end, all are charged or none. Each slot uses the time of its own
    /// server, so an answer may contain several times.
    ///
    /// # What it costs
    ///
    /// It takes a round trip for each slot, and one more for a denial, within one deadline.
    ///
    /// # Consistency
    ///
    /// No window admits more units than its limit (G1). But units count until they are given back, so another request
    /// may be denied that would have had room (G2). The excess is never more than the costs of the requests in flight
    /// across slots. A process that saw such a count uses it for at most a second, like every denial. Requests whose
    /// denial this process can foresee charge nothing, unless they have an end. Neither do peeks.
    ///
    /// A charge with an end ([`Step::ChargeBefore`](tollgate::Step::ChargeBefore)) is compared with the clock of each
    /// server. If it comes too late for one slot, the others give their units back, and the answer is
    /// [`StoreError::Ended`]. If one slot denies before the end, that is the answer, and slots in which the end has come by
    /// then are not charged for the denial.
    ///
    /// A denial by one slot is the answer even if another slot fails. The quotas of that slot are shown as remembered,
    /// or else as unused with the source [`Fallback`](tollgate::Source::Fallback).
    ///
    /// Units that cannot be given back stay counted until their windows close. This concerns requests in flight when a
    /// process ends, units whose server cannot count for five seconds, and refunds with an unknown outcome, because a
    /// second attempt could create room that does not exist. A request that fails this way [may have
    /// charged](tollgate::StoreError::may_have_charged). A failover that loses a charge but applies its refund admits
    /// that much more, as with any lost write.
    ///
    /// If denials are counted, a denial charges only the quotas that had no room when their slot was asked. An
    /// [overdraft](tollgate::CountDenied::Overdraft) is not given back after a denial, only after a failure. A
    /// `first_hit` window that was opened for units that are given back stays open, with nothing used. A bucket gives back
    /// whole units: one unit, of which a part has drained meanwhile, may stay counted until it has drained as well.
    ///
    /// # Holds
    ///
    /// A hold with an id is taken in the same way, and each slot has the id. If a slot denies or fails, the others give
    /// back what they took and forget the id, so a repetition is decided again. Of attempts with one id at the same time,
    /// the last one decides. Settling and renewing go to all slots at once, and each slot does its part once. A renewal
    /// says [`Lost`](tollgate::HoldAnswer::Lost) if some slots know the hold and others do not; settling it adjusts what
    /// is known. If a process ends between two slots, the first ones keep the hold for its length.
    Reserve,
}

/// What a store does about slots, chosen when it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotStrategy {
    /// One server has all counters.
    OneServer,
    /// On a Cluster: a request across slots is refused.
    Refuse,
    /// On a Cluster: a request across slots is taken slot by slot.
    Reserve,
}

/// The charges of a request that are not given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum KeptCharges {
    /// The request failed, so it has no verdict.
    Nothing,
    /// The request was denied.
    Overdrafts,
}

impl SlotStrategy {
    pub(super) const fn new(across_slots: AcrossSlots, is_cluster: bool) -> Self {
        match across_slots {
            _ if !is_cluster => Self::OneServer,
            AcrossSlots::Refuse => Self::Refuse,
            AcrossSlots::Reserve => Self::Reserve,
        }
    }

    /// Returns whether the parts of a hold may lie in several slots, and are then taken slot by slot. Holds have our own
    /// names, which have a slot for each key.
    pub(super) fn splits_hold(self, terms: &HoldTerms<'_>) -> bool {
        let charged = terms.charges().iter().map(|charge| charge.counter().key());
        let mut keys = terms.in_flight().iter().map(InFlightCharge::key).chain(charged);
        let first = keys.next();
        self == Self::Reserve && keys.any(|key| Some(key) != first)
    }

    pub(super) fn is_cluster(self) -> bool {
        self != Self::OneServer
    }

    /// Returns whether the charges may lie in several slots, and are then taken slot by slot.
    pub(super) fn splits(self, charges: &[Charge<'_>], names: &CounterNames) -> bool {
        let mut counters = charges.iter().map(Charge::counter);
        let Some(first) = counters.next() else { return false };
        let lies_elsewhere = |counter: Counter<'_>| {
            if names.have_slot_for_each_key() { counter.key() != first.key() } else { counter != first }
        };
        self == Self::Reserve && counters.any(lies_elsewhere)
    }

    /// Returns the slot of all keys of a request.
    ///
    /// # Errors
    ///
    /// If they are in several.
    pub(super) fn slot(self, request: &Request) -> Result<ClusterSlot, StoreError> {
        if self == Self::OneServer {
            return Ok(ClusterSlot(0));
        }
        let mut slots = request.keys.iter().map(|key| slot::of(key));
        let first = slots.next().unwrap_or(0);
        if slots.any(|slot| slot != first) {
            return Err(StoreError::Uncountable(
                "on a cluster, all quotas of a request must have the same key, in one slot if a layout writes the keys, unless the store reserves across slots",
            ));
        }
        Ok(ClusterSlot(first))
    }
}
