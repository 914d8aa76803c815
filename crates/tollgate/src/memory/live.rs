//! Units in flight: how many of each key are live.
//!
//! They have no window, and end when their owner says so, so they are not in the table: maps next to it have a count for
//! each key, and their keys count against the same cap. `hold` takes and frees them.

use std::collections::hash_map::Entry;
use std::sync::PoisonError;

use smallvec::SmallVec;

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

/// Live units of one key that belong together.
#[derive(Debug, Clone, Copy)]
pub(super) struct LivePart {
    fingerprint: Fingerprint,
    units: u32,
    generation: u64,
}

/// The locked maps of one step.
pub(super) struct LiveGuards<'a>(SmallVec<[(usize, MutexGuard<'a, LiveMap>); 1]>);

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
    #[inline]
    pub(super) fn lock(&self, fingerprint: Fingerprint) -> MutexGuard<'_, LiveMap> {
        self.lock_at(shard_of(fingerprint))
    }

    /// Locks the maps of these keys, in one order for all threads.
    pub(super) fn lock_all(&self, fingerprints: impl Iterator<Item = Fingerprint>) -> LiveGuards<'_> {
        let mut shards: SmallVec<[usize; 1]> = fingerprints.map(shard_of).collect();
        shards.sort_unstable();
        shards.dedup();
        LiveGuards(shards.into_iter().map(|shard| (shard, self.lock_at(shard))).collect())
    }

    /// A panic under the lock, in an allocation for example, leaves the map intact.
    fn lock_at(&self, shard: usize) -> MutexGuard<'_, LiveMap> {
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveGuards<'_> {
    /// The map of a key that was locked.
    pub(super) fn of(&mut self, fingerprint: Fingerprint) -> &mut LiveMap {
        let shard = shard_of(fingerprint);
        // Every key of the step has its map here; the first is only a default for the compiler.
        let index = self.0.iter().position(|(locked, _)| *locked == shard).unwrap_or_default();
        &mut self.0[index].1
    }
}

impl LivePart {
    /// The key.
    #[inline]
    pub(super) const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(super) const fn units(&self) -> u32 {
        self.units
    }
}

impl LiveMap {
    #[inline]
    pub(super) fn units(&self, fingerprint: Fingerprint) -> u32 {
        self.counts.get(&fingerprint).map_or(0, |count| count.units)
    }

    /// Adds live units: at least one.
    pub(super) fn add(&mut self, fingerprint: Fingerprint, units: u32) -> LivePart {
        let generation = match self.counts.entry(fingerprint) {
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
        };
        LivePart { fingerprint, units, generation }
    }

    /// Frees units, unless they were forgotten. Returns whether their key has none any more because of that.
    pub(super) fn free(&mut self, part: LivePart) -> bool {
        let Entry::Occupied(mut count) = self.counts.entry(part.fingerprint) else { return false };
        if count.get().generation != part.generation {
            return false;
        }
        count.get_mut().units -= part.units;
        let is_last = count.get().units == 0;
        if is_last {
            count.remove();
            shrink(&mut self.counts);
        }
        is_last
    }

    /// Forgets the units of a key. Returns how many it had.
    pub(super) fn forget(&mut self, fingerprint: Fingerprint) -> u32 {
        let units = self.counts.remove(&fingerprint).map_or(0, |count| count.units);
        shrink(&mut self.counts);
        units
    }

    /// Returns whether these units are live: whether they were not forgotten.
    pub(super) fn has(&self, part: LivePart) -> bool {
        self.counts.get(&part.fingerprint).is_some_and(|count| count.generation == part.generation)
    }
}

fn shard_of(fingerprint: Fingerprint) -> usize {
    fingerprint.position as usize % SHARDS
}
