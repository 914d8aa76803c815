//! A hold by policies: its parts, as later calls need them.

use std::fmt;

use smallvec::SmallVec;
use tollgate::{
    Charge, HoldAdjustment, HoldId, HoldLength, HoldPlace, HoldTerms, InFlightCharge, Key, Mark,
    PolicyInFlight, PolicyQuota,
};

use crate::Overrun;

/// A hold: what was charged and taken in flight, for whom, and where it is counted.
///
/// It is all that [renewing](crate::PolicyLimiter::renew_until) and [settling](crate::PolicyLimiter::settle_until) need, so
/// they work in any process with the same store, and do not depend on the policies that are live by then.
///
/// It contains keys, which may identify persons; `Debug` hides them and the id.
#[derive(Debug, Clone)]
pub struct PolicyHold {
    id: HoldId,
    place: HoldPlace,
    length: HoldLength,
    parts: Vec<HoldPart>,
    in_flight: Vec<InFlightPart>,
}

/// The charge of one quota.
#[derive(Clone)]
pub struct HoldPart {
    /// The quota that was charged.
    pub quota: PolicyQuota,
    /// The key.
    pub key: Key<'static>,
    /// The reserved cost.
    pub cost: u32,
    /// Whether the caller gave the cost, so that it is settled. A cost that the policy or an attribute sets stays.
    pub is_asked: bool,
    /// The units that were charged: the cost, or less if that would have passed the highest count.
    pub units: u32,
    /// What a refund of these units names.
    pub mark: Mark,
    /// What settling charges for a cost above the reserved one.
    pub overrun: Overrun,
}

/// The units of one limit in flight.
#[derive(Clone)]
pub struct InFlightPart {
    /// The limit.
    pub in_flight: PolicyInFlight,
    /// The key.
    pub key: Key<'static>,
    /// The units.
    pub units: u32,
}

/// The parts of a hold as charges.
pub(super) struct HoldCharges<'a> {
    hold: &'a PolicyHold,
    in_flight: SmallVec<[InFlightCharge<'a>; 2]>,
    charges: SmallVec<[Charge<'a>; 4]>,
}

impl PolicyHold {
    /// Creates a hold of its parts, in the order in which it was reserved: for holds that come back from a caller.
    #[must_use]
    pub const fn new(
        id: HoldId,
        place: HoldPlace,
        length: HoldLength,
        parts: Vec<HoldPart>,
        in_flight: Vec<InFlightPart>,
    ) -> Self {
        Self { id, place, length, parts, in_flight }
    }

    /// Returns the id.
    #[must_use]
    pub const fn id(&self) -> HoldId {
        self.id
    }

    /// Returns where the hold is counted.
    #[must_use]
    pub const fn place(&self) -> HoldPlace {
        self.place
    }

    /// Returns how long the hold lives from its last renewal.
    #[must_use]
    pub const fn length(&self) -> HoldLength {
        self.length
    }

    /// Returns what quotas were charged, in the order of the charges.
    #[must_use]
    pub fn parts(&self) -> &[HoldPart] {
        &self.parts
    }

    /// Returns the units in flight.
    #[must_use]
    pub fn in_flight(&self) -> &[InFlightPart] {
        &self.in_flight
    }

    /// Returns the name of each policy whose quotas it is charged to or whose units it has, once.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        let mut names = SmallVec::<[&str; 4]>::new();
        let in_flight = self.in_flight.iter().map(|part| part.in_flight.policy());
        for name in self.parts.iter().map(|part| part.quota.policy()).chain(in_flight) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.into_iter()
    }

    /// Returns what it has, as a store is asked for it.
    pub(super) fn charges(&self) -> HoldCharges<'_> {
        let in_flight = self.in_flight.iter();
        let in_flight = in_flight.map(|part| InFlightCharge::new(&part.in_flight, &part.key, part.units));
        let charges = self.parts.iter().map(|part| Charge::new(&part.quota, &part.key, part.cost));
        HoldCharges { hold: self, in_flight: in_flight.collect(), charges: charges.collect() }
    }
}

impl HoldCharges<'_> {
    pub(super) fn terms(&self) -> HoldTerms<'_> {
        HoldTerms::new(self.hold.id, &self.in_flight, &self.charges, self.hold.length)
    }
}

impl HoldPart {
    /// Returns what gives back all of it.
    pub(super) const fn cancellation(&self) -> HoldAdjustment {
        match self.units {
            0 => HoldAdjustment::Keep,
            units => HoldAdjustment::GiveBack { units, mark: self.mark },
        }
    }

    /// Returns what settling at this cost does.
    pub(super) fn adjustment(&self, cost: u32) -> HoldAdjustment {
        if !self.is_asked || cost == self.cost {
            return HoldAdjustment::Keep;
        }
        match cost.checked_sub(self.cost) {
            Some(missing) => match self.overrun {
                Overrun::Charge => HoldAdjustment::Charge(missing),
                Overrun::Cap => HoldAdjustment::ChargeUpTo(missing),
            },
            None => match self.units - cost.min(self.units) {
                0 => HoldAdjustment::Keep,
                units => HoldAdjustment::GiveBack { units, mark: self.mark },
            },
        }
    }
}

/// Without the key, which may identify a person.
impl fmt::Debug for HoldPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldPart")
            .field("quota", &self.quota)
            .field("cost", &self.cost)
            .field("is_asked", &self.is_asked)
            .field("units", &self.units)
            .field("overrun", &self.overrun)
            .finish_non_exhaustive()
    }
}

/// Without the key, which may identify a person.
impl fmt::Debug for InFlightPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightPart")
            .field("in_flight", &self.in_flight)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}
