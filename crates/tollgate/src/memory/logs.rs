//! Logs of charges, which have no place in a slot.
//!
//! They are in maps next to the table, each under a lock of its own, and count against the same cap.

use std::sync::PoisonError;

use smallvec::SmallVec;

use super::fingerprint::{Fingerprint, FingerprintMap, shrink};
use super::sync::{MODELLED, Mutex, MutexGuard};
use crate::Timestamp;
use crate::kind::{LogEntries, Standing};

/// Locks, so that threads with different keys rarely meet. In models, they shall.
const SHARDS: usize = if MODELLED { 1 } else { 64 };

/// The logs of a store.
pub(super) struct Logs(Box<[Mutex<LogMap>]>);

/// The logs under one lock.
pub(super) type LogMap = FingerprintMap<StoredLog>;

/// A log that is not empty.
pub(super) struct StoredLog {
    pub(super) entries: LogEntries,
    /// From then on, nothing of it counts.
    pub(super) end: Timestamp,
}

/// The locked maps of one step.
pub(super) struct LogGuards<'a>(SmallVec<[(usize, MutexGuard<'a, LogMap>); 1]>);

impl Default for Logs {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

/// Returns how many places of the cap a log of so many entries takes: five for itself, and one for every three of them.
///
/// A place is 31 bytes. A map has seven filled slots in sixteen after it has grown, so that a log takes up to 130 bytes
/// of it; and its entries, at most 8 bytes each and 24 bytes of spare room and of the allocator's. After resets, a map
/// may have half as many filled slots until closed logs are next dropped.
pub(super) fn places(entries: usize) -> usize {
    if entries == 0 { 0 } else { 5 + entries.div_ceil(3) }
}

/// Returns how many places of the cap this counter takes as a log once it is charged.
pub(super) fn places_with_another(standing: &Standing) -> usize {
    match standing {
        Standing::Log(log) => places(log.entries_with_another()),
        _ => 0,
    }
}

/// The entries of a log.
pub(super) fn log_entries(standing: &Standing) -> &LogEntries {
    static NONE: LogEntries = LogEntries::new();
    match standing {
        Standing::Log(log) => log.entries(),
        _ => &NONE,
    }
}

impl Logs {
    pub(super) fn lock(&self, fingerprint: Fingerprint) -> MutexGuard<'_, LogMap> {
        self.lock_at(shard_of(fingerprint))
    }

    /// Locks the maps of these logs, in one order for all threads.
    pub(super) fn lock_all(&self, fingerprints: impl Iterator<Item = Fingerprint>) -> LogGuards<'_> {
        let mut shards: SmallVec<[usize; 1]> = fingerprints.map(shard_of).collect();
        shards.sort_unstable();
        shards.dedup();
        LogGuards(shards.into_iter().map(|shard| (shard, self.lock_at(shard))).collect())
    }

    /// Removes the logs of which nothing counts any more, one map after another, and passes on those of each map while it
    /// is locked. So a thread that finds none of them finds their places. Returns whether there were any.
    pub(super) fn drop_closed(
        &self,
        now: Timestamp,
        mut removed: impl FnMut(Vec<(Fingerprint, usize)>),
    ) -> bool {
        let mut any = false;
        for shard in 0..SHARDS {
            let mut logs = self.lock_at(shard);
            let closed = drop_closed(&mut logs, now, |_| true);
            any |= !closed.is_empty();
            removed(closed);
        }
        any
    }

    /// Returns all logs, one map after another.
    pub(super) fn all(&self) -> Vec<(Fingerprint, LogEntries)> {
        let copies = |shard| {
            let logs = self.lock_at(shard);
            let copy = |(fingerprint, log): (&Fingerprint, &StoredLog)| (*fingerprint, log.entries.clone());
            logs.iter().map(copy).collect::<Vec<_>>()
        };
        (0..SHARDS).flat_map(copies).collect()
    }

    /// A panic under the lock, in an allocation for example, leaves the map intact.
    fn lock_at(&self, shard: usize) -> MutexGuard<'_, LogMap> {
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogGuards<'_> {
    /// The map of a log that was locked.
    pub(super) fn of(&mut self, fingerprint: Fingerprint) -> Option<&mut LogMap> {
        let shard = shard_of(fingerprint);
        self.0.iter_mut().find(|(locked, _)| *locked == shard).map(|(_, logs)| &mut **logs)
    }

    /// Removes the logs of these maps of which nothing counts any more, of those that may go, and returns what they were.
    pub(super) fn drop_closed(
        &mut self,
        now: Timestamp,
        may_go: impl Fn(&Fingerprint) -> bool,
    ) -> Vec<(Fingerprint, usize)> {
        self.0.iter_mut().flat_map(|(_, logs)| drop_closed(logs, now, &may_go)).collect()
    }
}

/// Returns the fingerprints of the removed logs, with the places that they took.
fn drop_closed(
    logs: &mut LogMap,
    now: Timestamp,
    may_go: impl Fn(&Fingerprint) -> bool,
) -> Vec<(Fingerprint, usize)> {
    let closed = logs.extract_if(|fingerprint, log| log.end <= now && may_go(fingerprint));
    let closed: Vec<_> = closed.map(|(fingerprint, log)| (fingerprint, places(log.entries.len()))).collect();
    // Takes no longer than the search did.
    if !closed.is_empty() {
        logs.shrink_to_fit();
    }
    closed
}

/// Removes a log.
pub(super) fn remove_log(logs: &mut LogMap, fingerprint: Fingerprint) {
    logs.remove(&fingerprint);
    shrink(logs);
}

fn shard_of(fingerprint: Fingerprint) -> usize {
    fingerprint.position as usize % SHARDS
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    fn full_map() -> LogMap {
        let log = |position: u32| {
            let end = Timestamp::from_unix_millis(1_000 + i64::from(position.is_multiple_of(10)));
            let entries = [(0, 1)].into_iter().collect();
            (Fingerprint { position: position.into(), tag: 0 }, StoredLog { entries, end })
        };
        (0_u32..1_000).map(log).collect()
    }

    /// Fingerprints of one map agree in the bits that choose it.
    #[test]
    fn the_logs_of_a_map_are_spread_over_it() {
        let hash = |number: u64| {
            let position = u64::MAX / 1_009 * number / SHARDS as u64 * SHARDS as u64;
            LogMap::default().hasher().hash_one(Fingerprint { position, tag: 0 })
        };
        let places: HashSet<u64> = (0..1_000).map(|number| hash(number) % 1_024).collect();
        let tags: HashSet<u64> = (0..1_000).map(|number| hash(number) >> 57).collect();
        assert!(places.len() > 500 && tags.len() > 100, "{} places, {} tags", places.len(), tags.len());
    }

    /// A map kept the room of its logs after they had left. Windows then took the places of these, so the store took more
    /// memory than its cap.
    #[test]
    fn a_map_gives_back_the_room_of_closed_logs() {
        let mut logs = full_map();
        assert_eq!(drop_closed(&mut logs, Timestamp::from_unix_millis(1_000), |_| true).len(), 900);
        assert_eq!(logs.len(), 100);
        assert!(logs.capacity() < 200, "{}", logs.capacity());
        assert_eq!(drop_closed(&mut logs, Timestamp::from_unix_millis(1_001), |_| true).len(), 100);
        assert_eq!(logs.capacity(), 0);
    }

    /// The same, one by one, as by resets.
    #[test]
    fn a_map_gives_back_the_room_of_removed_logs() {
        let mut logs = full_map();
        while let Some(fingerprint) = logs.keys().next().copied() {
            remove_log(&mut logs, fingerprint);
            // A map has room for three at least.
            assert!(logs.capacity() <= 4 * logs.len() + 3, "{} for {}", logs.capacity(), logs.len());
        }
        assert_eq!(logs.capacity(), 0);
    }
}
