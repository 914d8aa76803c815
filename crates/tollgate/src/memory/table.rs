//! The table: all shards, and the cap on their counters.

use std::mem::size_of;
use std::sync::Arc;

use prefetch_index::prefetch_index;
use smallvec::SmallVec;

use super::fingerprint::{Fingerprint, Fingerprinter};
use super::hold_ids::HoldIds;
use super::live::LiveUnits;
use super::logs::{LogGuards, Logs, StoredLog, log_entries, places, remove_log};
use super::names::{NamedCounter, Names, Naming};
use super::shard::{DroppedCounters, FULL, Guard, Header, Look, Shard};
use super::slot::SlotReading;
use super::slots::{ROW, ROWS, SHARD_BYTES, Slots};
use super::stored::StoredCounter;
use super::sync::{AtomicI64, AtomicUsize, Backoff, MODELLED, Ordering};
use super::word::{is_compact, state};
use crate::freed::FreedSignal;
use crate::in_flight::PolicyInFlight;
use crate::kind::Standing;
use crate::{Counter, Key, Timestamp};

/// Counters for which a shard is planned under a cap on counters, of the 992 that it can hold: 62 % of its slots, so
/// that most counters are in their places.
const PLANNED: usize = ROW * ROWS * 5 / 8;

/// Counters for which a shard is planned under a cap on memory: as many as it holds before counters are far from their
/// places. Hashing fills shards unevenly, by 28 counters more or less. So one of them can be full before the cap is
/// reached only if it is off by nearly seven times that, which has a chance of less than 10^-10.
const PLANNED_BY_BYTES: usize = if MODELLED { FULL } else { ROW * ROWS * 25 / 32 };

pub(super) struct Table {
    fingerprinter: Fingerprinter,
    headers: Box<[Header]>,
    slots: Slots,
    /// Counters held, those of closed windows included until their slots are needed.
    counters: AtomicUsize,
    max_counters: usize,
    /// The shard that is searched next for closed counters when the cap is reached.
    hand: AtomicUsize,
    /// When a search for closed counters in all shards last found none, in Unix milliseconds.
    looked_through: AtomicI64,
    pub(super) names: Option<Names>,
    pub(super) logs: Logs,
    pub(super) live: LiveUnits,
    pub(super) hold_ids: HoldIds,
    /// Tells those that wait for units in flight.
    pub(super) freed: Arc<FreedSignal>,
}

/// How large a table may grow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cap {
    Counters(usize),
    /// Bytes of memory, including the table's own headers.
    Bytes(usize),
}

impl Table {
    /// # Panics
    ///
    /// If there is no address space for it.
    pub(super) fn new(cap: Cap, naming: Naming) -> Self {
        let (shards, max_counters) = match cap {
            Cap::Counters(counters) => (counters.div_ceil(PLANNED).max(1), counters),
            Cap::Bytes(bytes) => {
                let shards = (bytes / (SHARD_BYTES + size_of::<Header>())).max(1);
                (shards, shards * PLANNED_BY_BYTES)
            }
        };
        // Fingerprints distinguish this many shards.
        let has_space = u32::try_from(shards).is_ok();
        let slots = has_space.then(|| Slots::new(shards)).flatten();
        let headers = slots.is_some().then(|| reserved(shards, Header::default)).flatten();
        let names = if headers.is_some() { Names::new(shards, naming) } else { None };
        let (Some(slots), Some(headers)) = (slots, headers) else {
            panic!("no address space for {max_counters} counters in a memory store: lower its cap")
        };
        Self {
            fingerprinter: Fingerprinter::new(),
            headers,
            slots,
            counters: AtomicUsize::new(0),
            max_counters,
            hand: AtomicUsize::new(0),
            looked_through: AtomicI64::new(i64::MIN),
            names,
            logs: Logs::default(),
            live: LiveUnits::default(),
            hold_ids: HoldIds::default(),
            freed: Arc::default(),
        }
    }

    #[inline(always)]
    pub(super) fn fingerprint(&self, counter: &Counter<'_>) -> Fingerprint {
        self.fingerprinter.of(counter)
    }

    pub(super) fn live_fingerprint(&self, in_flight: &PolicyInFlight, key: &Key<'_>) -> Fingerprint {
        self.fingerprinter.of_key(in_flight.scope_digest(), key)
    }

    #[inline(always)]
    pub(super) fn shard(&self, fingerprint: Fingerprint) -> Shard<'_> {
        self.shard_at(self.shard_index(fingerprint))
    }

    pub(super) fn shard_index(&self, fingerprint: Fingerprint) -> usize {
        fingerprint.shard(self.headers.len())
    }

    /// Prefetches the memory of these counters.
    #[inline(always)]
    pub(super) fn prefetch(&self, fingerprints: &[Fingerprint]) {
        // It changes no outcome, and each load, here of the rows, multiplies the orders that a model has to try.
        if !MODELLED {
            for fingerprint in fingerprints {
                prefetch_index(&self.headers, self.shard_index(*fingerprint));
            }
            for fingerprint in fingerprints {
                self.shard(*fingerprint).prefetch(*fingerprint);
            }
        }
    }

    /// Reads a counter without the lock.
    pub(super) fn read(&self, fingerprint: Fingerprint) -> UnlockedReading<'_> {
        let shard = self.shard(fingerprint);
        let mut backoff = Backoff::default();
        loop {
            let version = shard.version();
            match shard.find(fingerprint) {
                Look::Found(seen) if is_compact(seen.word) => {
                    if let (true, Some(state)) = (seen.slot.still_is(seen.word), state(seen.word, seen.tag)) {
                        return UnlockedReading { stored: StoredCounter::Held(state), compact: Some(seen) };
                    }
                }
                Look::Found(seen) => {
                    if let (true, Some(state)) = (shard.unchanged(version), state(seen.word, seen.tag)) {
                        return UnlockedReading { stored: StoredCounter::Held(state), compact: None };
                    }
                }
                Look::Absent => {
                    let stored = StoredCounter::Absent { dropped_until: shard.dropped_until() };
                    if shard.unchanged(version) {
                        return UnlockedReading { stored, compact: None };
                    }
                }
                Look::Busy => {}
            }
            backoff.wait();
        }
    }

    /// Locks the shards of these counters, in one order for all threads.
    pub(super) fn lock(&self, fingerprints: &[Fingerprint]) -> Guards<'_> {
        let mut order: SmallVec<[usize; 2]> =
            fingerprints.iter().map(|fingerprint| self.shard_index(*fingerprint)).collect();
        order.sort_unstable();
        order.dedup();
        Guards(order.into_iter().map(|index| (index, self.lock_at(index))).collect())
    }

    fn lock_at(&self, index: usize) -> Guard<'_> {
        self.shard_at(index).lock(self.names.is_some())
    }

    #[inline(always)]
    pub(super) fn shard_at(&self, index: usize) -> Shard<'_> {
        Shard { header: &self.headers[index], slots: &self.slots, index }
    }

    pub(super) fn counters(&self) -> usize {
        self.counters.load(Ordering::Relaxed)
    }

    pub(super) fn max_counters(&self) -> usize {
        self.max_counters
    }

    /// Reserves room for `taken` more counters, if there is room for `asked` of them.
    pub(super) fn take_counters(&self, asked: usize, taken: usize) -> bool {
        let fits = |counters: usize| counters.checked_add(asked).is_some_and(|sum| sum <= self.max_counters);
        // Relaxed, here and below: the count guards no other memory.
        let take = |counters: usize| fits(counters).then(|| counters + taken);
        match (asked, taken) {
            (0, _) => true,
            (_, 0) => fits(self.counters()),
            _ => self.counters.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok(),
        }
    }

    /// Records dropped counters of a shard, and queues them for the hook.
    pub(super) fn tell_of_dropped(&self, shard: usize, guard: &Guard<'_>, dropped: &DroppedCounters) {
        let closed = self.note_dropped(shard, guard, dropped);
        if let Some(names) = &self.names {
            closed.into_iter().for_each(|counter| names.tell(counter));
        }
    }

    /// Records dropped counters of a shard, and returns those with usage by their names.
    ///
    /// The names are removed while the shard is locked: a counter that came again in between would lose its name.
    fn note_dropped(
        &self,
        shard: usize,
        _locked: &Guard<'_>,
        dropped: &DroppedCounters,
    ) -> Vec<NamedCounter> {
        self.give_back_counters(dropped.count);
        self.names.as_ref().map(|names| names.take(shard, &dropped.counters)).unwrap_or_default()
    }

    /// Writes a log into its locked map, or removes it if it is empty. It has taken so many places of the cap.
    pub(super) fn write_log(
        &self,
        logs: &mut LogGuards<'_>,
        fingerprint: Fingerprint,
        counter: &Counter<'_>,
        standing: &Standing,
        taken: usize,
    ) {
        let Some(logs) = logs.of(fingerprint) else { return };
        let entries = log_entries(standing).clone();
        self.give_back_counters(taken.saturating_sub(places(entries.len())));
        if entries.is_empty() {
            remove_log(logs, fingerprint);
            self.forget_log(fingerprint, 0);
            return;
        }
        let is_new = logs.insert(fingerprint, StoredLog { entries, end: standing.reset_at() }).is_none();
        if let (true, Some(names)) = (is_new, &self.names) {
            names.remember(self.shard_index(fingerprint), fingerprint, counter);
        }
    }

    /// Gives back the places of a removed log, and forgets its name.
    pub(super) fn forget_log(&self, fingerprint: Fingerprint, places: usize) {
        self.give_back_counters(places);
        if let Some(names) = &self.names {
            names.remove(self.shard_index(fingerprint), fingerprint);
        }
    }

    pub(super) fn forget_logs(&self, removed: Vec<(Fingerprint, usize)>) {
        removed.into_iter().for_each(|(fingerprint, places)| self.forget_log(fingerprint, places));
    }

    /// Drops the counters whose windows have closed, and returns them with their names.
    pub(super) fn drop_closed(&self, now: Timestamp) -> Vec<NamedCounter> {
        self.logs.drop_closed(now, |closed| self.forget_logs(closed));
        let may_hold_closed = |index: &usize| self.shard_at(*index).may_hold_closed(now);
        let drop_closed = |index: usize| {
            let guard = self.lock_at(index);
            self.note_dropped(index, &guard, &guard.drop_closed(now))
        };
        (0..self.headers.len()).filter(may_hold_closed).flat_map(drop_closed).collect()
    }

    /// Drops the closed counters of the first shard that has some. Returns whether one had.
    ///
    /// A search through all shards of a large table takes long. If it finds none, there is no other search for a while,
    /// in which a counter that closes makes room only in its own shard. The pause is a millisecond for each ten
    /// thousand counters, so searches take at most some 3 % of one thread's time.
    pub(super) fn make_room_anywhere(&self, now: Timestamp) -> bool {
        let shards = self.headers.len();
        let pause = (shards / 16) as i64;
        // Relaxed, here and below: hints.
        let looked_through = self.looked_through.load(Ordering::Relaxed);
        if (0..pause).contains(&now.as_unix_millis().saturating_sub(looked_through)) {
            return false;
        }
        if self.logs.drop_closed(now, |closed| self.forget_logs(closed)) {
            return true;
        }
        let first = self.hand.load(Ordering::Relaxed);
        for index in (first..shards).chain(0..first) {
            // Also if it seems to have none: a thread that drops counters gives their places back under the lock, so
            // once this has passed all locks, the count of places has all of them.
            let guard = self.lock_at(index);
            let dropped = guard.drop_closed(now);
            self.tell_of_dropped(index, &guard, &dropped);
            if dropped.count > 0 {
                self.hand.store(index, Ordering::Relaxed);
                return true;
            }
        }
        self.looked_through.store(now.as_unix_millis(), Ordering::Relaxed);
        false
    }

    /// The counters whose windows are open, if their names are remembered.
    pub(super) fn live(&self, now: Timestamp) -> Option<Vec<NamedCounter>> {
        let names = self.names.as_ref()?;
        let live = |index: usize| {
            let guard = self.lock_at(index);
            names.of(index, &guard.live(now), now)
        };
        let logs = self.logs.all().into_iter();
        let logs = logs.filter_map(|(fingerprint, entries)| {
            let stored = StoredCounter::Log(Box::new(entries));
            names.live(self.shard_index(fingerprint), fingerprint, stored, now)
        });
        Some((0..self.headers.len()).flat_map(live).chain(logs.filter(|log| log.used > 0)).collect())
    }

    pub(super) fn give_back_counters(&self, counters: usize) {
        if counters > 0 {
            self.counters.fetch_sub(counters, Ordering::Relaxed);
        }
    }
}

/// The result of a search without the lock.
pub(super) struct UnlockedReading<'a> {
    pub(super) stored: StoredCounter,
    /// Its slot, if the state is compact.
    pub(super) compact: Option<SlotReading<'a>>,
}

/// Allocates this many values, if there is memory for them.
pub(super) fn reserved<T>(count: usize, value: impl FnMut() -> T) -> Option<Box<[T]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    values.resize_with(count, value);
    Some(values.into_boxed_slice())
}

/// The locked shards of one step.
pub(super) struct Guards<'a>(SmallVec<[(usize, Guard<'a>); 2]>);

impl<'a> Guards<'a> {
    /// The guards with the indices of their shards.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(usize, Guard<'a>)> {
        self.0.iter()
    }

    /// The guard of a shard that was locked.
    pub(super) fn of(&self, shard: usize) -> &Guard<'a> {
        // Every fingerprint of the step has its shard here; the first is only a default for the compiler.
        self.0.iter().find(|(index, _)| *index == shard).map_or(&self.0[0].1, |(_, guard)| guard)
    }
}
