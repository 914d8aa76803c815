//! A part of the table: an open-addressed run of slots with a lock for its structure.
//!
//! Counters are found, charged and denied without the lock. It is taken to give a slot to another counter, to grow, and
//! for steps over several counters. The version is odd while the lock is held, so that a reader that found nothing, or
//! a wide state, knows whether to search again.

use prefetch_index::prefetch_index;

use super::fingerprint::Fingerprint;
use super::slot::{Slot, SlotReading, Words};
use super::slots::{ROW, ROWS, Slots};
use super::stored::State;
use super::sync::{AtomicI64, AtomicU32, AtomicU64, Backoff, Ordering, fence};
use super::word::{
    EMPTY, FREE, FROZEN, GENERATIONS, TAG_GENERATIONS, generations, is_compact, is_held, is_one_generation,
    succeed,
};
use crate::Timestamp;

/// Slots that are searched first: about two cache lines.
const NEAR: usize = if cfg!(test) { 2 } else { 4 };

/// The most slots of a shard that can be filled. A search ends at an empty one.
pub(super) const FULL: usize = filled_at_most(ROW * ROWS);

/// The state of a whole shard. On its own cache line, because its lock is written.
#[repr(align(64))]
pub(super) struct Header {
    /// Odd while the lock is held; each lock and unlock increments it.
    version: AtomicU64,
    /// How often slots were given to other counters, or to windows that need another tag word.
    rewrites: AtomicU64,
    /// Rows in use.
    rows: AtomicU32,
    /// Slots that are not empty. Changed only under the lock, as are the next fields.
    filled: AtomicU32,
    /// Slots whose counters are gone; they are filled.
    free: AtomicU32,
    /// No counter's window ends before this (Unix milliseconds), so an earlier search for closed ones finds none.
    earliest_end: AtomicI64,
    /// The latest end of a counter that was dropped.
    dropped_until: AtomicI64,
}

/// See the [module](self).
#[derive(Clone, Copy)]
pub(super) struct Shard<'a> {
    pub(super) header: &'a Header,
    pub(super) slots: &'a Slots,
    pub(super) index: usize,
}

/// The result of a search in a shard.
pub(super) enum Look<'a> {
    /// The counter's slot: compact or wide.
    Found(SlotReading<'a>),
    /// No slot, if the version has not changed.
    Absent,
    /// Another thread is changing it: search again.
    Busy,
}

/// The lock of a shard, for changes of its structure.
pub(super) struct Guard<'a> {
    shard: Shard<'a>,
    /// Whether to report which counters were dropped.
    named: bool,
    version: u64,
}

/// Counters that were dropped because their windows have closed.
#[derive(Default)]
pub(super) struct DroppedCounters {
    pub(super) count: usize,
    /// Their fingerprints, if the store remembers names.
    pub(super) counters: Vec<(Fingerprint, State)>,
}

/// A load of about 78 %, so that most counters are near their places.
const fn filled_well(slots: usize) -> usize {
    slots * 25 / 32
}

const fn filled_at_most(slots: usize) -> usize {
    slots * 31 / 32
}

impl Default for Header {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(0),
            rewrites: AtomicU64::new(0),
            rows: AtomicU32::new(0),
            filled: AtomicU32::new(0),
            free: AtomicU32::new(0),
            earliest_end: AtomicI64::new(i64::MAX),
            dropped_until: AtomicI64::new(i64::MIN),
        }
    }
}

impl<'a> Shard<'a> {
    /// The version, to be compared by [`unchanged`](Self::unchanged).
    pub(super) fn version(self) -> u64 {
        self.header.version.load(Ordering::Acquire)
    }

    /// Returns whether nothing has changed the shard's structure, or a wide state, since the version was read.
    pub(super) fn unchanged(self, version: u64) -> bool {
        // The fence orders earlier reads of the shard before this one; it pairs with the release fence of `lock`.
        fence(Ordering::Acquire);
        version.is_multiple_of(2) && self.header.version.load(Ordering::Relaxed) == version
    }

    /// Returns whether a successful swap changed the counter that was seen in the slot.
    ///
    /// It did, unless the slot had gone through all generations before the swap, so that the word came back for another
    /// counter. The slot counts its generations, and the shard its rewrites, which tell whether that count overflowed.
    #[inline(always)]
    pub(super) fn was_of_one_counter(self, seen: SlotReading<'_>) -> bool {
        generations(seen.tag, seen.slot.tag_behind_swap()) < GENERATIONS && self.kept_count(seen)
    }

    /// Returns whether tag words distinguish all generations that the slot can have gone through since it was seen.
    #[inline(always)]
    pub(super) fn kept_count(self, seen: SlotReading<'_>) -> bool {
        // Half of them, because a rewrite may be visible before the tag word that it wrote.
        self.rewrites() - seen.rewrites < TAG_GENERATIONS / 2
    }

    /// How often slots were rewritten. Acquire, because it is read before the slots are.
    #[inline(always)]
    fn rewrites(self) -> u64 {
        self.header.rewrites.load(Ordering::Acquire)
    }

    /// Returns whether there may be a counter whose window has closed.
    pub(super) fn may_hold_closed(self, now: Timestamp) -> bool {
        self.header.earliest_end.load(Ordering::Relaxed) <= now.as_unix_millis()
    }

    /// The latest end of a counter that was dropped.
    pub(super) fn dropped_until(self) -> Timestamp {
        Timestamp::from_unix_millis(self.header.dropped_until.load(Ordering::Relaxed))
    }

    /// Looks for a counter's slot.
    pub(super) fn find(self, fingerprint: Fingerprint) -> Look<'a> {
        match self.find_near(fingerprint) {
            Some(seen) => Look::Found(seen),
            None => self.search(fingerprint),
        }
    }

    /// Searches for a counter's slot at its place and close by, where most are, if its state is compact.
    #[inline(always)]
    pub(super) fn find_near(self, fingerprint: Fingerprint) -> Option<SlotReading<'a>> {
        let rewrites = self.rewrites();
        for words in self.near(fingerprint)?.iter().take(NEAR) {
            let slot = Slot(words);
            if slot.position() == fingerprint.position {
                let word = slot.word();
                let seen = slot.seen(word, fingerprint, rewrites)?;
                return (is_compact(word) && is_one_generation(word, seen.tag)).then_some(seen);
            }
        }
        None
    }

    #[inline(never)]
    fn search(self, fingerprint: Fingerprint) -> Look<'a> {
        let rewrites = self.rewrites();
        for slot in self.probe(fingerprint) {
            let position = slot.position();
            if position == 0 {
                break;
            }
            if position != fingerprint.position {
                continue;
            }
            let word = slot.word();
            let Some(seen) = slot.seen(word, fingerprint, rewrites).filter(|_| word != FREE) else {
                continue;
            };
            let is_whole = !is_compact(word) || is_one_generation(word, seen.tag);
            return if is_held(word) && is_whole { Look::Found(seen) } else { Look::Busy };
        }
        Look::Absent
    }

    /// Prefetches the slots where the counter is looked for first.
    #[inline(always)]
    pub(super) fn prefetch(self, fingerprint: Fingerprint) {
        if let Some(near) = self.near(fingerprint) {
            prefetch_index(near, 0);
            prefetch_index(near, NEAR - 1);
        }
    }

    /// Takes the lock.
    pub(super) fn lock(self, named: bool) -> Guard<'a> {
        let lock = &self.header.version;
        let mut backoff = Backoff::default();
        loop {
            let version = lock.load(Ordering::Relaxed);
            let free = version.is_multiple_of(2);
            // Acquire: what the last holder wrote is seen.
            let take =
                || lock.compare_exchange_weak(version, version + 1, Ordering::Acquire, Ordering::Relaxed);
            if free && take().is_ok() {
                // No store of the holder is seen before the odd version.
                fence(Ordering::Release);
                return Guard { shard: self, named, version: version + 1 };
            }
            backoff.wait();
        }
    }

    /// From the counter's place to the end of that row.
    #[inline(always)]
    fn near(self, fingerprint: Fingerprint) -> Option<&'a [Words]> {
        let start = fingerprint.place(self.count());
        (self.count() > 0).then(|| &self.slots.row(self.index, start / ROW)[start % ROW..])
    }

    /// The slots where a counter can be, starting at its place.
    fn probe(self, fingerprint: Fingerprint) -> impl Iterator<Item = Slot<'a>> {
        let count = self.count();
        let start = fingerprint.place(count);
        (start..count).chain(0..start).map(move |index| self.slot(index))
    }

    fn slot(self, index: usize) -> Slot<'a> {
        Slot(&self.slots.row(self.index, index / ROW)[index % ROW])
    }

    /// The number of slots. Acquire: counters that moved are seen in their new places.
    #[inline(always)]
    fn count(self) -> usize {
        self.header.rows.load(Ordering::Acquire) as usize * ROW
    }
}

impl<'a> Guard<'a> {
    /// As [`Shard::find`]. Under the lock, only slots that this thread has frozen are busy.
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<SlotReading<'a>> {
        match self.shard.find(fingerprint) {
            Look::Found(seen) => Some(seen),
            Look::Absent | Look::Busy => None,
        }
    }

    /// Ensures room for so many more counters: a full shard drops closed counters or takes more rows. Counters may
    /// move, so nothing may be frozen. Returns whether there is room.
    pub(super) fn make_room(&self, counters: usize, now: Timestamp) -> (bool, DroppedCounters) {
        let mut dropped = DroppedCounters::default();
        while self.filled() + counters > filled_well(self.shard.count()) {
            dropped.extend(self.drop_closed(now));
            let slots = self.shard.count();
            let free = self.shard.header.free.load(Ordering::Relaxed) as usize;
            let grows = slots < ROW * ROWS;
            let fits = self.filled() + counters <= filled_at_most(slots);
            // Growing is worth it when clearing free slots would not help for long.
            if free * 8 > slots || (free > 0 && !grows && !fits) {
                self.rebuild(0);
            } else if grows {
                self.rebuild(1);
            } else {
                return (fits, dropped);
            }
        }
        (true, dropped)
    }

    /// Gives a slot to a counter that has none. Returns the slot's former counter if its window had closed. There must
    /// be [room](Self::make_room).
    pub(super) fn insert(&self, fingerprint: Fingerprint, state: State, now: Timestamp) -> DroppedCounters {
        let mut dropped = DroppedCounters::default();
        for slot in self.shard.probe(fingerprint) {
            let word = slot.word();
            let (empty, free) = (word == EMPTY, word == FREE);
            // A swap, because the counter may be rolling over to its next window at this moment.
            if empty || free || (is_closed(slot, word, now) && slot.swap(word, FROZEN)) {
                if !empty && !free {
                    self.note_dropped(&mut dropped, slot, word);
                }
                self.add_filled(usize::from(empty));
                self.add_free(-i32::from(free));
                slot.thaw(self.fill(slot, fingerprint, state));
                return dropped;
            }
        }
        debug_assert!(false, "there is no room");
        dropped
    }

    /// Returns the state word that thaws a frozen slot whose counter had the word `word`.
    ///
    /// Usually the rest of the slot and its generation stay. A thread that has read `word` may still swap it if it
    /// comes back, because the word has everything that a charge depends on.
    pub(super) fn next_word(&self, slot: Slot<'_>, word: u64, fingerprint: Fingerprint, state: State) -> u64 {
        let Some(next) = succeed(word, slot.tag(), state).filter(|_| is_compact(word)) else {
            return self.fill(slot, fingerprint, state);
        };
        self.note_end(state.end);
        next
    }

    /// Gives a frozen or free slot to a counter, except for the state word, which it returns.
    fn fill(&self, slot: Slot<'_>, fingerprint: Fingerprint, state: State) -> u64 {
        let rewrites = &self.shard.header.rewrites;
        // Relaxed: the release store of the state word publishes it.
        rewrites.store(rewrites.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.note_end(state.end);
        slot.fill(fingerprint, state)
    }

    /// Drops the counters whose windows have closed; their slots are free until they are needed.
    pub(super) fn drop_closed(&self, now: Timestamp) -> DroppedCounters {
        let mut dropped = DroppedCounters::default();
        if !self.shard.may_hold_closed(now) {
            return dropped;
        }
        let mut earliest_end = Timestamp::from_unix_millis(i64::MAX);
        for slot in self.all() {
            let word = slot.word();
            // A swap, because the counter may be rolling over at this moment.
            if is_closed(slot, word, now) && slot.swap(word, FREE) {
                self.note_dropped(&mut dropped, slot, word);
            } else if let Some(state) = slot.state(slot.word()) {
                earliest_end = earliest_end.min(state.end);
            }
        }
        self.shard.header.earliest_end.store(earliest_end.as_unix_millis(), Ordering::Relaxed);
        self.add_free(dropped.count as i32);
        dropped
    }

    /// Like [`Shard::dropped_until`].
    pub(super) fn dropped_until(&self) -> Timestamp {
        self.shard.dropped_until()
    }

    /// Forgets when dropped counters ended, because the clock has stepped back by more than a second.
    pub(super) fn forget_dropped(&self) {
        self.shard.header.dropped_until.store(i64::MIN, Ordering::Relaxed);
    }

    /// The counters whose windows are open.
    pub(super) fn live(&self, now: Timestamp) -> Vec<(Fingerprint, State)> {
        let live = |slot: Slot<'_>| {
            let state = slot.state(slot.word()).filter(|state| now < state.end)?;
            Some((slot.fingerprint(), state))
        };
        self.all().filter_map(live).collect()
    }

    /// Frees a frozen slot.
    pub(super) fn free(&self, slot: Slot<'_>) {
        self.add_free(1);
        slot.thaw(FREE);
    }

    /// Notes that a window ends then.
    pub(super) fn note_end(&self, end: Timestamp) {
        let earliest_end = &self.shard.header.earliest_end;
        // Plain loads and stores, here and below: only the lock's holder writes them.
        earliest_end.store(earliest_end.load(Ordering::Relaxed).min(end.as_unix_millis()), Ordering::Relaxed);
    }

    /// Rehashes all counters, over this many more rows.
    fn rebuild(&self, more: u32) {
        let header = self.shard.header;
        let mut held = Vec::with_capacity(self.filled());
        for slot in self.all() {
            let word = slot.freeze();
            held.extend(slot.state(word).map(|state| (slot.fingerprint(), state)));
            slot.clear();
        }
        let slots = self.shard.count();
        (slots..slots + more as usize * ROW).for_each(|index| self.shard.slot(index).touch());
        // Release: a thread that sees the new count sees cleared slots and no old fingerprints.
        header.rows.store(header.rows.load(Ordering::Relaxed) + more, Ordering::Release);
        header.filled.store(0, Ordering::Relaxed);
        header.free.store(0, Ordering::Relaxed);
        header.earliest_end.store(i64::MAX, Ordering::Relaxed);
        for (fingerprint, state) in held {
            // Closed counters are kept here: none may be dropped.
            self.insert(fingerprint, state, Timestamp::from_unix_millis(i64::MIN));
        }
    }

    fn note_dropped(&self, dropped: &mut DroppedCounters, slot: Slot<'_>, word: u64) {
        dropped.count += 1;
        let Some(state) = slot.state(word) else { return };
        let until = &self.shard.header.dropped_until;
        until.store(until.load(Ordering::Relaxed).max(state.end.as_unix_millis()), Ordering::Relaxed);
        if self.named {
            dropped.counters.push((slot.fingerprint(), state));
        }
    }

    fn all(&self) -> impl Iterator<Item = Slot<'a>> + use<'a> {
        let shard = self.shard;
        (0..shard.count()).map(move |index| shard.slot(index))
    }

    fn add_free(&self, slots: i32) {
        let free = &self.shard.header.free;
        free.store(free.load(Ordering::Relaxed).saturating_add_signed(slots), Ordering::Relaxed);
    }

    fn add_filled(&self, slots: usize) {
        let filled = &self.shard.header.filled;
        filled.store(filled.load(Ordering::Relaxed) + slots as u32, Ordering::Relaxed);
    }

    fn filled(&self) -> usize {
        self.shard.header.filled.load(Ordering::Relaxed) as usize
    }
}

fn is_closed(slot: Slot<'_>, word: u64, now: Timestamp) -> bool {
    slot.state(word).is_some_and(|state| state.end <= now)
}

impl DroppedCounters {
    fn extend(&mut self, others: Self) {
        self.count += others.count;
        self.counters.extend(others.counters);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Release: a thread that sees the even version sees what the holder wrote.
        self.shard.header.version.store(self.version + 1, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::names::Naming;
    use super::super::table::{Cap, Table};
    use super::*;
    use crate::{Charge, Full, Key, ManualClock, MemoryStore, PolicyQuota, Quota};

    #[derive(Debug, Clone)]
    enum Op {
        /// For a missing counter: its usage, and the milliseconds to its window's end.
        Insert(Fingerprint, u64, u64),
        Free(Fingerprint),
        DropClosed,
        Pass(u64),
    }

    /// Fingerprints with few positions, so that only their tags differ.
    fn fingerprint() -> impl Strategy<Value = Fingerprint> {
        let position = (0..4_u64, 1..3_u64).prop_map(|(home, rest)| home << 62 | rest);
        (position, 0..4_u64).prop_map(|(position, tag)| Fingerprint { position, tag })
    }

    fn op() -> impl Strategy<Value = Op> {
        let used = prop_oneof![0..3_u64, Just(u64::from(u32::MAX)), 1 << 36..=Quota::MAX_LIMIT];
        let length = prop_oneof![3 => 1..10_u64, 1 => Just(1_000), 3 => Just(60_000)];
        prop_oneof![
            12 => (fingerprint(), used, length).prop_map(|(fingerprint, used, end)| Op::Insert(fingerprint, used, end)),
            4 => fingerprint().prop_map(Op::Free),
            1 => Just(Op::DropClosed),
            2 => (0..9_u64).prop_map(Op::Pass),
            1 => (0..9_u64).prop_map(|units| Op::Pass(units * 1_000)),
        ]
    }

    /// Records the counters that a shard reports as dropped.
    fn remove(held: &mut HashMap<(u64, u64), State>, dropped: &DroppedCounters, now: Timestamp) {
        assert_eq!(dropped.count, dropped.counters.len());
        for (fingerprint, state) in &dropped.counters {
            let was = held.remove(&(fingerprint.position, fingerprint.tag));
            assert!(was == Some(*state) && state.end <= now, "{was:?} was dropped as {state:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 300 },
            failure_persistence: None,
            ..Default::default()
        })]

        /// Live counters are always found with their state, and each counter is either there or reported as dropped.
        #[test]
        fn holds_what_it_was_given(ops in vec(op(), 1..if cfg!(miri) { 40 } else { 200 })) {
            let mut now = Timestamp::from_unix_millis(1_700_000_000_000);
            let table = Table::new(Cap::Counters(1), Naming::Remembered);
            let mut held = HashMap::new();
            for op in ops {
                let guard = table.shard_at(0).lock(true);
                match op {
                    Op::Pass(millis) => now = now + Duration::from_millis(millis),
                    Op::DropClosed => remove(&mut held, &guard.drop_closed(now), now),
                    Op::Free(fingerprint) => {
                        if let Some(SlotReading { slot, .. }) = guard.find(fingerprint) {
                            slot.freeze();
                            guard.free(slot);
                            held.remove(&(fingerprint.position, fingerprint.tag));
                        }
                    }
                    Op::Insert(fingerprint, used, end) => {
                        let (room, dropped) = guard.make_room(1, now);
                        remove(&mut held, &dropped, now);
                        prop_assert!(room || held.len() == FULL, "no room beside {}", held.len());
                        if room && guard.find(fingerprint).is_none() {
                            let state = State { level: used, end: now + Duration::from_millis(end) };
                            remove(&mut held, &guard.insert(fingerprint, state, now), now);
                            held.insert((fingerprint.position, fingerprint.tag), state);
                        }
                    }
                }
                for ((position, tag), state) in &held {
                    let found = guard.find(Fingerprint { position: *position, tag: *tag });
                    prop_assert_eq!(found.and_then(|seen| seen.slot.state(seen.word)), Some(*state));
                }
                let free = guard.all().filter(|slot| slot.word() == FREE).count();
                prop_assert_eq!(guard.shard.header.free.load(Ordering::Relaxed) as usize, free);
                let slots = guard.all().filter(|slot| ![EMPTY, FREE].contains(&slot.word())).count();
                prop_assert_eq!(slots, held.len());
            }
        }
    }

    /// The number of counters that a shard is planned for by a cap in bytes.
    const PLANNED: usize = ROW * ROWS * 25 / 32;

    /// The smallest table is one shard, which refuses when it is full and accepts the next counter when one has left.
    #[test]
    fn a_full_shard_refuses_until_a_window_closes() {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_bytes(0).build();
        let (minute, hour) =
            (PolicyQuota::new("", Quota::per_minute(1)), PolicyQuota::new("", Quota::per_hour(1)));
        let charge = |quota: &PolicyQuota, key: usize| {
            store
                .charge(&[Charge::new(quota, &Key::from(key), 1)])
                .finish()
                .map(|counted| counted.is_admitted())
        };
        assert_eq!(charge(&minute, 0), Ok(true));
        assert!((1..PLANNED).all(|key| charge(&hour, key) == Ok(true)));
        assert_eq!(charge(&hour, PLANNED), Err(Full));
        assert_eq!(charge(&hour, 1), Ok(false));
        clock.advance(Duration::from_secs(60));
        assert_eq!(charge(&hour, PLANNED), Ok(true));
        assert_eq!(charge(&hour, PLANNED + 1), Err(Full));
        assert_eq!(store.counters(), PLANNED);
    }

    /// Room was made only once: by one row, or by dropping closed counters, even if these were few. So a step over more
    /// than that was answered `Full` by a store that was nearly empty.
    #[test]
    fn a_step_over_many_new_counters_finds_the_room_there_is() -> Result<(), Full> {
        let quota = PolicyQuota::new("", Quota::per_minute(1));
        let keys: Vec<Key<'_>> = (0..5 * ROW).map(Key::from).collect();
        let charges: Vec<_> = keys.iter().map(|key| Charge::new(&quota, key, 1)).collect();
        let clock = ManualClock::default();
        // One shard.
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(ROWS * ROW * 5 / 8).build();

        assert!(store.charge(&charges[..2 * ROW]).finish()?.is_admitted());
        clock.advance(Duration::from_secs(60));
        assert!(store.charge(&charges[2 * ROW..]).finish()?.is_admitted());
        Ok(())
    }
}
