//! Guards of units in flight, which need no id: steps that take them, and charge quotas with them.
//!
//! A step locks the map of its key before anything in the table, and no step locks a map while it has locked the table.

use super::live::{LivePart, PLACES};
use crate::clock::Clock;
use crate::freed::FreedListener;
use crate::in_flight::{InFlightState, PolicyInFlight};
use crate::store::{Full, QuotaStates};
use crate::{Charge, Key, MemoryStore};

/// Units of one counter that a step asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveCharge<'a> {
    pub(crate) in_flight: &'a PolicyInFlight,
    pub(crate) key: &'a Key<'a>,
    pub(crate) units: u32,
}

/// The answer to a step.
pub(crate) struct LiveAnswer<C: Clock> {
    /// The state of the units in flight.
    pub(crate) state: InFlightState,
    /// The states of the charges.
    pub(crate) charged: QuotaStates,
    /// The units that it took, if it was admitted.
    pub(crate) held: Option<HeldUnits<C>>,
}

/// Live units, which are free again when this is dropped.
pub(crate) struct HeldUnits<C: Clock> {
    store: MemoryStore<C>,
    part: LivePart,
}

impl<C: Clock> MemoryStore<C> {
    /// Takes units in flight and charges, all or nothing.
    pub(crate) fn hold(&self, live: &LiveCharge<'_>, charges: &[Charge<'_>]) -> Result<LiveAnswer<C>, Full> {
        self.inner.end_due_holds();
        let table = &self.inner.table;
        let fingerprint = table.live_fingerprint(live.in_flight, live.key);
        let mut map = table.live.lock(fingerprint);
        let before = map.units(fingerprint);
        let state = InFlightState::decide(live.in_flight.in_flight(), before, live.units);
        if !state.has_room() && live.units == 0 {
            return Ok(LiveAnswer { state, charged: self.look(charges), held: None });
        }
        if !state.has_room() {
            // The map stays locked meanwhile: nobody takes or frees units of this key.
            let charged = self.inner.deny(charges);
            return Ok(LiveAnswer { state, charged, held: None });
        }
        // A key with live units has its places.
        let further = if before == 0 { PLACES } else { 0 };
        if live.units == 0 {
            let charged = self.inner.peek(charges, further)?;
            return Ok(LiveAnswer { state, charged, held: None });
        }
        let charged = match charges {
            _ if further > 0 => self.inner.charge_with_places(charges, further)?,
            [] => QuotaStates::none(),
            _ => self.charge(charges).finish_in_step()?,
        };
        if !charged.is_admitted() {
            return Ok(LiveAnswer { state, charged, held: None });
        }
        let part = map.add(fingerprint, live.units);
        drop(map);
        let held = HeldUnits { store: self.clone(), part };
        Ok(LiveAnswer { state: state.taken(live.units), charged, held: Some(held) })
    }

    /// Returns the units in flight of a key, without taking any.
    pub(crate) fn live(&self, in_flight: &PolicyInFlight, key: &Key<'_>) -> InFlightState {
        self.inner.end_due_holds();
        let table = &self.inner.table;
        let fingerprint = table.live_fingerprint(in_flight, key);
        let units = table.live.lock(fingerprint).units(fingerprint);
        InFlightState::decide(in_flight.in_flight(), units, 0)
    }

    /// Listens for units in flight of a key that are freed.
    pub(crate) fn listen(&self, in_flight: &PolicyInFlight, key: &Key<'_>) -> FreedListener {
        let table = &self.inner.table;
        table.freed.listen(table.live_fingerprint(in_flight, key).position)
    }

    /// Forgets the units in flight of a key, and returns how many it had. Their owners free nothing any more.
    pub(crate) fn forget_live(&self, in_flight: &PolicyInFlight, key: &Key<'_>) -> u32 {
        self.inner.end_due_holds();
        let table = &self.inner.table;
        let fingerprint = table.live_fingerprint(in_flight, key);
        let mut map = table.live.lock(fingerprint);
        let units = map.forget(fingerprint);
        if units > 0 {
            table.give_back_counters(PLACES);
        }
        drop(map);
        table.freed.freed(fingerprint.position);
        table.freed.tell();
        units
    }
}

impl<C: Clock> HeldUnits<C> {
    /// Returns the store that has them.
    pub(crate) const fn store(&self) -> &MemoryStore<C> {
        &self.store
    }

    /// Returns whether the units are live: whether the key was not reset.
    pub(crate) fn are_live(&self) -> bool {
        self.store.inner.table.live.lock(self.part.fingerprint()).has(self.part)
    }
}

impl<C: Clock> Drop for HeldUnits<C> {
    fn drop(&mut self) {
        let table = &self.store.inner.table;
        let mut map = table.live.lock(self.part.fingerprint());
        if map.free(self.part) {
            table.give_back_counters(PLACES);
        }
        drop(map);
        table.freed.freed(self.part.fingerprint().position);
        table.freed.tell();
    }
}
