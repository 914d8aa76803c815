//! Steps on holds with an id.
//!
//! Each locks the ids, reads the time, and ends the holds that are due. Then it locks the live units of its keys, and the
//! table last.

use smallvec::SmallVec;

use super::fingerprint::Fingerprint;
use super::hold_ids::{HoldPhase, HoldUnits, IdGuard, IdMap, PolicyDigest, StoredHold, places};
use super::live::{LiveGuards, PLACES};
use super::locked::Needs;
use super::steps::Inner;
use super::table::Table;
use super::time::StepTime;
use crate::charge::{Charge, digest};
use crate::clock::Clock;
use crate::hold::{
    HoldAdjustment, HoldAnswer, HoldStates, HoldStep, HoldTerms, InFlightCharge, SettledStates,
};
use crate::in_flight::InFlightState;
use crate::store::{Full, MemoryError, PerQuota, QuotaStates};
use crate::timestamp::Timestamp;

/// The locked units in flight of some keys, before any are taken.
struct LockedUnits<'a> {
    keys: SmallVec<[Fingerprint; 1]>,
    states: SmallVec<[InFlightState; 1]>,
    asked: &'a [InFlightCharge<'a>],
    guards: LiveGuards<'a>,
}

impl<C: Clock> Inner<C> {
    pub(super) fn take_hold(&self, step: HoldStep<'_>) -> Result<HoldAnswer, MemoryError> {
        let mut ids = self.lock_ids();
        let answer = match step {
            HoldStep::Reserve(terms) => self.reserve(&mut ids, &terms),
            HoldStep::Look(terms) => self.look_at(&terms, None).map(HoldAnswer::Decided),
            HoldStep::Renew(terms) => Ok(self.renew(&mut ids, &terms)),
            HoldStep::Settle(terms, adjustments) => {
                self.settle(&mut ids, &terms, adjustments).map_err(MemoryError::from)
            }
            HoldStep::Reset(asked) => Ok(self.forget(&asked)),
        };
        drop(ids);
        self.table.freed.tell();
        answer
    }

    /// Ends the holds that are due, if there are any.
    pub(super) fn end_due_holds(&self) {
        if !self.table.hold_ids.any() {
            return;
        }
        drop(self.lock_ids());
        self.table.freed.tell();
    }

    /// Locks the ids, and ends the holds that are due.
    #[cold]
    #[inline(never)]
    fn lock_ids(&self) -> IdGuard<'_> {
        let mut ids = self.table.hold_ids.lock();
        // Read under the lock, so that the readings of all steps are in the order of the steps.
        ids.begin(self.time.steady());
        while let Some(StoredHold { phase, places, .. }) = ids.take_due() {
            if let HoldPhase::Live { units, .. } = phase {
                self.table.hold_ids.note_expired();
                let mut guards = self.lock_units(&units);
                for held in &units {
                    // A reset has forgotten the others.
                    if guards.of(held.part.fingerprint()).has(held.part) {
                        ids.add_expired_units(*held);
                    }
                }
                self.free(&mut guards, &units);
            }
            self.table.give_back_counters(places);
            self.table.hold_ids.note_ended();
        }
        ids
    }

    fn reserve(&self, ids: &mut IdMap, terms: &HoldTerms<'_>) -> Result<HoldAnswer, MemoryError> {
        let binding = self.binding(terms);
        if let Some(hold) = ids.get(terms.id()) {
            let admitted = match &hold.phase {
                _ if hold.binding != binding => return Ok(HoldAnswer::Conflict),
                HoldPhase::Live { admitted, .. } => admitted.clone().repeated(),
                HoldPhase::Settled { .. } => return Ok(HoldAnswer::Ended),
            };
            ids.renew(terms.id(), terms.length());
            return Ok(HoldAnswer::Decided(admitted));
        }
        let (in_flight, charges, end) = (terms.in_flight(), terms.charges(), terms.end());
        if only_asks(in_flight) {
            return self.look_at(terms, end).map(HoldAnswer::Decided);
        }
        let mut units = LockedUnits::new(&self.table, in_flight);
        if !units.has_room() {
            // The maps stay locked meanwhile: nobody takes or frees units of these keys.
            let charged = self.deny_before(charges, end)?;
            return Ok(HoldAnswer::Decided(HoldStates::new(units.reported(ids), charged)));
        }
        let places = places(terms);
        let charged = self.charge_before(charges, units.places() + places, end)??;
        if !charged.is_admitted() {
            return Ok(HoldAnswer::Decided(HoldStates::new(units.reported(ids), charged)));
        }
        let parts = units.take();
        let admitted = HoldStates::new(units.reported(ids), charged);
        drop(units);
        let phase = HoldPhase::Live { units: parts, admitted: admitted.clone() };
        ids.insert(terms, binding, places, phase);
        Ok(HoldAnswer::Decided(admitted))
    }

    /// Answers as a reservation with an unknown id, before an end if there is one, but changes nothing.
    fn look_at(&self, terms: &HoldTerms<'_>, end: Option<Timestamp>) -> Result<HoldStates, MemoryError> {
        let mut units = LockedUnits::new(&self.table, terms.in_flight());
        let time = StepTime::of_peek(end);
        let charged = if units.has_room() {
            let further = units.places() + places(terms);
            self.locked_before(terms.charges(), time, |step| step.peek(further))??
        } else {
            self.lock_by(terms.charges(), time).unless_ended(|step| step.look())?
        };
        Ok(HoldStates::new(units.states(), charged))
    }

    fn renew(&self, ids: &mut IdMap, terms: &HoldTerms<'_>) -> HoldAnswer {
        let units = match self.phase(ids, terms) {
            Ok(HoldPhase::Live { units, .. }) => units.clone(),
            Ok(HoldPhase::Settled { .. }) => return HoldAnswer::Ended,
            Err(answer) => return answer,
        };
        let mut guards = self.lock_units(&units);
        let are_live = units.iter().all(|held| guards.of(held.part.fingerprint()).has(held.part));
        // Its charges live on, and so do its other units.
        ids.renew(terms.id(), terms.length());
        if are_live { HoldAnswer::Renewed { left: terms.length().duration() } } else { HoldAnswer::Lost }
    }

    fn settle(
        &self,
        ids: &mut IdMap,
        terms: &HoldTerms<'_>,
        adjustments: &[HoldAdjustment],
    ) -> Result<HoldAnswer, Full> {
        let made = adjustments_digest(adjustments);
        let units = match self.phase(ids, terms) {
            Ok(HoldPhase::Live { units, .. }) => units.clone(),
            Ok(HoldPhase::Settled { adjustments, .. }) if *adjustments != made => {
                return Ok(HoldAnswer::Conflict);
            }
            Ok(HoldPhase::Settled { answer, .. }) => {
                return Ok(HoldAnswer::Settled(answer.clone().repeated()));
            }
            Err(answer) => return Ok(answer),
        };
        let mut guards = self.lock_units(&units);
        let answer = SettledStates::new(self.adjust(terms.charges(), adjustments)?);
        self.free(&mut guards, &units);
        ids.settle(terms.id(), made, answer.clone());
        Ok(HoldAnswer::Settled(answer))
    }

    /// Adjusts charges, all or nothing. Each adjusted one has a state.
    fn adjust(&self, charges: &[Charge<'_>], adjustments: &[HoldAdjustment]) -> Result<QuotaStates, Full> {
        let units = |adjustment: &HoldAdjustment| match *adjustment {
            HoldAdjustment::Keep => None,
            HoldAdjustment::GiveBack { units, .. } => Some(units),
            HoldAdjustment::Charge(units) | HoldAdjustment::ChargeUpTo(units) => Some(units),
        };
        let each = charges.iter().zip(adjustments);
        let adjusted = each.filter_map(|(charge, adjustment)| {
            Some((charge.counter().charge(units(adjustment)?), *adjustment))
        });
        let (charges, adjustments): (SmallVec<[Charge<'_>; 2]>, SmallVec<[HoldAdjustment; 2]>) =
            adjusted.unzip();
        if charges.is_empty() {
            return Ok(QuotaStates::none());
        }
        self.locked(&charges, Needs::Room, |step| step.adjust(&adjustments))
    }

    /// Forgets the units in flight of a key, whoever holds them.
    fn forget(&self, asked: &InFlightCharge<'_>) -> HoldAnswer {
        let key = self.table.live_fingerprint(asked.in_flight(), asked.key());
        let mut map = self.table.live.lock(key);
        let units = map.forget(key);
        if units > 0 {
            self.table.give_back_counters(PLACES);
        }
        drop(map);
        self.table.freed.freed(key.position);
        HoldAnswer::Forgotten { units }
    }

    /// What has become of a hold, or the answer if it is not known.
    fn phase<'m>(&self, ids: &'m IdMap, terms: &HoldTerms<'_>) -> Result<&'m HoldPhase, HoldAnswer> {
        let Some(hold) = ids.get(terms.id()) else { return Err(HoldAnswer::Expired) };
        if hold.binding != self.binding(terms) {
            return Err(HoldAnswer::Conflict);
        }
        Ok(&hold.phase)
    }

    /// A digest of what an id is bound to: the counters of all parts, with their units and costs.
    ///
    /// The fingerprints stand for the policies, windows and keys, as in the table.
    fn binding(&self, terms: &HoldTerms<'_>) -> u128 {
        let mut bytes = SmallVec::<[u8; 128]>::new();
        let mut part = |Fingerprint { position, tag }: Fingerprint, units: u32| {
            bytes.extend_from_slice(&position.to_ne_bytes());
            bytes.extend_from_slice(&tag.to_ne_bytes());
            bytes.extend_from_slice(&units.to_ne_bytes());
        };
        for asked in terms.in_flight() {
            part(self.table.live_fingerprint(asked.in_flight(), asked.key()), asked.units());
        }
        for charge in terms.charges() {
            part(self.table.fingerprint(&charge.counter()), charge.cost());
        }
        digest(&bytes)
    }

    fn lock_units(&self, units: &[HoldUnits]) -> LiveGuards<'_> {
        self.table.live.lock_all(units.iter().map(|held| held.part.fingerprint()))
    }

    fn free(&self, guards: &mut LiveGuards<'_>, units: &[HoldUnits]) {
        for HoldUnits { part, .. } in units {
            if guards.of(part.fingerprint()).free(*part) {
                self.table.give_back_counters(PLACES);
            }
            self.table.freed.freed(part.fingerprint().position);
        }
    }
}

/// A digest of what settling was asked to do to each charge.
fn adjustments_digest(adjustments: &[HoldAdjustment]) -> u128 {
    let mut bytes = SmallVec::<[u8; 64]>::new();
    for adjustment in adjustments {
        let (kind, units, mark) = match *adjustment {
            HoldAdjustment::Keep => (0, 0, 0),
            HoldAdjustment::GiveBack { units, mark } => (1, units, mark.time().as_unix_millis()),
            HoldAdjustment::Charge(units) => (2, units, 0),
            HoldAdjustment::ChargeUpTo(units) => (3, units, 0),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&units.to_ne_bytes());
        bytes.extend_from_slice(&mark.to_ne_bytes());
    }
    digest(&bytes)
}

/// Returns whether a hold asks for no units in flight where it could: it takes and charges nothing, and is not remembered.
fn only_asks(in_flight: &[InFlightCharge<'_>]) -> bool {
    !in_flight.is_empty() && in_flight.iter().all(|asked| asked.units() == 0)
}

impl<'a> LockedUnits<'a> {
    /// Locks the keys, and decides.
    fn new(table: &'a Table, asked: &'a [InFlightCharge<'a>]) -> Self {
        let keys = asked.iter().map(|asked| table.live_fingerprint(asked.in_flight(), asked.key()));
        let keys: SmallVec<[Fingerprint; 1]> = keys.collect();
        let mut guards = table.live.lock_all(keys.iter().copied());
        let states = asked.iter().zip(&keys).enumerate().map(|(index, (charge, key))| {
            // Units of one key add up.
            let earlier = asked.iter().zip(&keys).take(index).filter(|(_, other)| *other == key);
            let earlier: u32 = earlier.map(|(charge, _)| charge.units().min(1 << 20)).sum();
            let live = guards.of(*key).units(*key).saturating_add(earlier);
            InFlightState::decide(charge.in_flight().in_flight(), live, charge.units())
        });
        let states = states.collect();
        Self { keys, states, asked, guards }
    }

    fn has_room(&self) -> bool {
        self.states.iter().all(InFlightState::has_room)
    }

    /// Returns how many places of the cap they take: those of keys without live units. No units get the answer of one.
    fn places(&mut self) -> usize {
        let only_asks = only_asks(self.asked);
        let taken = self.asked.iter().zip(&self.keys).filter(|(asked, _)| asked.units() > 0 || only_asks);
        let mut new: SmallVec<[Fingerprint; 1]> = SmallVec::new();
        for (_, key) in taken {
            if self.guards.of(*key).units(*key) == 0 && !new.contains(key) {
                new.push(*key);
            }
        }
        PLACES * new.len()
    }

    /// Takes the units, for which there is room.
    fn take(&mut self) -> SmallVec<[HoldUnits; 1]> {
        let mut taken = SmallVec::new();
        for ((asked, key), state) in self.asked.iter().zip(&self.keys).zip(&mut self.states) {
            if asked.units() > 0 {
                let part = self.guards.of(*key).add(*key, asked.units());
                taken.push(HoldUnits { part, policy: PolicyDigest::of(asked.in_flight()) });
                *state = state.taken(asked.units());
            }
        }
        taken
    }

    fn states(&self) -> PerQuota<InFlightState> {
        self.states.iter().copied().collect()
    }

    /// Returns the states, with the units of their policies that have expired. No other answer reports those.
    fn reported(&self, ids: &mut IdMap) -> PerQuota<InFlightState> {
        let policies = self.asked.iter().map(|asked| PolicyDigest::of(asked.in_flight()));
        let each = self.states.iter().zip(policies);
        each.map(|(state, policy)| state.with_expired(ids.take_expired_units(policy))).collect()
    }
}
