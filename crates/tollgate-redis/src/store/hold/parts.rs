//! What a hold has in each slot of a Cluster.

use std::collections::BTreeMap;

use tollgate::{
    Charge, CountDenied, HoldAdjustment, HoldId, HoldLength, HoldTerms, InFlightCharge, InFlightState, Key,
    PerQuota, PolicyInFlight, PolicyQuota, StoreError, Timestamp,
};

use crate::names::CounterNames;
use crate::slot;

/// A hold that outlives its caller.
pub(super) struct OwnedHold {
    id: HoldId,
    length: HoldLength,
    end: Option<Timestamp>,
    in_flight: Vec<(PolicyInFlight, Key<'static>, u32)>,
    charges: Vec<(PolicyQuota, Key<'static>, u32)>,
}

/// A hold, slot by slot, in the order of slots.
pub(super) struct HoldParts<'a> {
    id: HoldId,
    length: HoldLength,
    end: Option<Timestamp>,
    parts: Vec<HoldPart<'a>>,
}

/// What a hold has in one slot, with the places in the whole.
#[derive(Default)]
pub(super) struct HoldPart<'a> {
    in_flight: Vec<InFlightCharge<'a>>,
    flight_places: Vec<usize>,
    charges: Vec<Charge<'a>>,
    charge_places: Vec<usize>,
}

impl OwnedHold {
    pub(super) fn new(terms: &HoldTerms<'_>) -> Self {
        let flights = terms.in_flight().iter();
        let charges = terms.charges().iter().map(|charge| {
            let counter = charge.counter();
            (counter.quota().clone(), counter.key().clone().into_owned(), charge.cost())
        });
        Self {
            id: terms.id(),
            length: terms.length(),
            end: terms.end(),
            in_flight: flights
                .map(|it| (it.in_flight().clone(), it.key().clone().into_owned(), it.units()))
                .collect(),
            charges: charges.collect(),
        }
    }

    pub(super) const fn end(&self) -> Option<Timestamp> {
        self.end
    }

    pub(super) fn charges(&self) -> (Vec<InFlightCharge<'_>>, Vec<Charge<'_>>) {
        let flights = self.in_flight.iter();
        let charges = self.charges.iter();
        (
            flights.map(|(in_flight, key, units)| InFlightCharge::new(in_flight, key, *units)).collect(),
            charges.map(|(quota, key, cost)| Charge::new(quota, key, *cost)).collect(),
        )
    }

    pub(super) fn terms<'a>(
        &self,
        in_flight: &'a [InFlightCharge<'a>],
        charges: &'a [Charge<'a>],
    ) -> HoldTerms<'a> {
        terms_of(self.id, in_flight, charges, self.length, self.end)
    }
}

impl<'a> HoldParts<'a> {
    /// # Errors
    ///
    /// If holds have no names.
    pub(super) fn new(terms: &HoldTerms<'a>, names: &CounterNames) -> Result<Self, StoreError> {
        let holds = names.of_holds()?;
        let slot = |key: &Key<'_>| slot::of(&holds.record(0, Some(&names.counter_identity(key))));
        let mut parts = BTreeMap::<u16, HoldPart<'a>>::new();
        for (place, charge) in terms.in_flight().iter().enumerate() {
            let part = parts.entry(slot(charge.key())).or_default();
            part.in_flight.push(*charge);
            part.flight_places.push(place);
        }
        for (place, charge) in terms.charges().iter().enumerate() {
            let part = parts.entry(slot(charge.counter().key())).or_default();
            part.charges.push(*charge);
            part.charge_places.push(place);
        }
        let (id, length, end) = (terms.id(), terms.length(), terms.end());
        Ok(Self { id, length, end, parts: parts.into_values().collect() })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HoldPart<'a>> {
        self.parts.iter()
    }

    /// The terms of a part.
    pub(super) fn terms<'p>(&self, part: &'p HoldPart<'a>) -> HoldTerms<'p> {
        terms_of(self.id, &part.in_flight, &part.charges, self.length, self.end)
    }
}

impl<'a> HoldPart<'a> {
    pub(super) fn charges(&self) -> &[Charge<'a>] {
        &self.charges
    }

    pub(super) fn flight_places(&self) -> impl Iterator<Item = usize> {
        self.flight_places.iter().copied()
    }

    /// The place in the whole of one of its charges.
    pub(super) fn charge_place(&self, place: usize) -> Option<usize> {
        self.charge_places.get(place).copied()
    }

    /// Its adjustments, of those of the whole.
    pub(super) fn own(&self, adjustments: &[HoldAdjustment]) -> Vec<HoldAdjustment> {
        let own = |place: &usize| adjustments.get(*place).copied().unwrap_or(HoldAdjustment::Keep);
        self.charge_places.iter().map(own).collect()
    }

    pub(super) fn is_overdraft(&self, place: usize) -> bool {
        self.charges
            .get(place)
            .is_some_and(|charge| charge.counter().quota().count_denied() == CountDenied::Overdraft)
    }

    /// The states of its limits in flight, as if no unit were live.
    pub(super) fn no_units(&self) -> PerQuota<InFlightState> {
        let flights = self.in_flight.iter();
        flights.map(|it| InFlightState::decide(it.in_flight().in_flight(), 0, it.units())).collect()
    }
}

fn terms_of<'a>(
    id: HoldId,
    in_flight: &'a [InFlightCharge<'a>],
    charges: &'a [Charge<'a>],
    length: HoldLength,
    end: Option<Timestamp>,
) -> HoldTerms<'a> {
    let terms = HoldTerms::new(id, in_flight, charges, length);
    match end {
        Some(end) => terms.before(end),
        None => terms,
    }
}
