//! Units in flight: how many of each key are live.
//!
//! They have no window, and end when their owner says so, so they are not in the table: maps next to it have a count for
//! each key, and their keys count against the same cap. `hold` takes and frees them.

use std::collections::hash_map::Entry;
use std::sync::PoisonError;

use super::fingerprint::{Fingerprint, FingerprintMap, shrink};
use super::sync::{MODELLED, Mutex, MutexGuard};

/// Locks, so that threads with different keys rarely meet. In models, they shall.
const SHARDS: usize = if MODELLED { 1 } else { 64 };

/// How many places of the cap a key with live units takes. A map keeps the memory of four times as many entries as it has,
/// so an entry takes up to 150 bytes of it.
pub(super) const PLACES: usize = 5;

/// The live units of a store.
pub(super) struct LiveUnits(Box<[Mutex<LiveMap>]>);

/// The live units under one lock.
#[derive(Default)]
pub(super) struct LiveMap {
    counts: FingerprintMap<LiveCount>,
    /// Tells the counts of a key apart that was reset.
    next_generation: u64,
}

/// The live units of a key: at least one.
struct LiveCount {
    units: u32,
    generation: u64,
}

impl Default for LiveUnits {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl LiveUnits {
    /// A panic under the lock, in an allocation for example, leaves the map intact.
    pub(super) fn lock(&self, fingerprint: Fingerprint) -> MutexGuard<'_, LiveMap> {
        let shard = fingerprint.position as usize % SHARDS;
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveMap {
    pub(super) fn units(&self, fingerprint: Fingerprint) -> u32 {
        self.counts.get(&fingerprint).map_or(0, |count| count.units)
    }

    /// Adds live units, and returns the generation of their count.
    pub(super) fn add(&mut self, fingerprint: Fingerprint, units: u32) -> u64 {
        match self.counts.entry(fingerprint) {
            Entry::Occupied(mut count) => {
                count.get_mut().units += units;
                count.get().generation
            }
            Entry::Vacant(place) => {
                let generation = self.next_generation;
                self.next_generation += 1;
                place.insert(LiveCount { units, generation });
                generation
            }
        }
    }

    /// Frees units of this generation. Returns whether the key has none any more because of that.
    pub(super) fn free(&mut self, fingerprint: Fingerprint, units: u32, generation: u64) -> bool {
        let Entry::Occupied(mut count) = self.counts.entry(fingerprint) else { return false };
        if count.get().generation != generation {
            return false;
        }
        count.get_mut().units -= units;
        let is_last = count.get().units == 0;
        if is_last {
            count.remove();
            shrink(&mut self.counts);
        }
        is_last
    }

    /// Forgets the units of a key. Returns whether it had any.
    pub(super) fn forget(&mut self, fingerprint: Fingerprint) -> bool {
        let had_units = self.counts.remove(&fingerprint).is_some();
        shrink(&mut self.counts);
        had_units
    }

    /// Returns whether a key has units of this generation.
    pub(super) fn has(&self, fingerprint: Fingerprint, generation: u64) -> bool {
        self.counts.get(&fingerprint).is_some_and(|count| count.generation == generation)
    }
}
