//! A part of the table: an open-addressed run of slots with a lock for its structure.
//!
//! Counters are found, charged and denied without the lock. It is taken to give a slot to another counter, to
//! grow, and for steps over several counters. Its version is odd while it is held, so that a reader who found
//! nothing, or something wide, knows whether to look again.

use super::fingerprint::{Fingerprint, scale};
use super::slot::Slot;
use super::slots::{ROW, ROWS, Slots};
use super::state::{Base, EMPTY, FORGOTTEN, FROZEN, State, Word};
use super::sync::{AtomicI64, AtomicU32, AtomicU64, Backoff, Ordering, fence};
use crate::Timestamp;

/// Slots that are looked at first: about two cache lines.
const NEAR: usize = if cfg!(test) { 2 } else { 4 };

/// What is known of a slice as a whole. On a cache line of its own, because its lock is written.
#[repr(align(64))]
pub(super) struct Header {
    /// Odd while the lock is held; grows with each taking and giving back.
    version: AtomicU64,
    /// How often counters have changed places, or been forgotten, swept or taken back.
    moves: AtomicU64,
    /// Rows in use.
    rows: AtomicU32,
    /// Slots that are not empty. Changed under the lock alone, as is what follows.
    filled: AtomicU32,
    /// Slots whose counters were forgotten; they are filled.
    forgotten: AtomicU32,
    /// No counter's window ends before this (Unix milliseconds): a sweep before it finds nothing.
    earliest_end: AtomicI64,
}

/// See the [module](self).
#[derive(Clone, Copy)]
pub(super) struct Slice<'a> {
    pub(super) header: &'a Header,
    pub(super) slots: &'a Slots,
    pub(super) index: usize,
}

/// What a look at a slice found.
pub(super) enum Look<'a> {
    /// The counter's slot and its state word: compact or wide.
    Found(Slot<'a>, u64),
    /// No slot, if the version is still the same.
    Absent,
    /// Another thread is at it: look again.
    Busy,
}

/// The right to change a slice's structure.
pub(super) struct Guard<'a> {
    slice: Slice<'a>,
    base: Base,
    /// Whether to say which counters were dropped.
    watched: bool,
    version: u64,
}

/// Counters that were dropped because their windows have closed.
#[derive(Default)]
pub(super) struct Dropped {
    pub(super) count: usize,
    /// Which they were, if the store watches its counters.
    pub(super) watched: Vec<(Fingerprint, State)>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            rows: AtomicU32::new(0),
            filled: AtomicU32::new(0),
            forgotten: AtomicU32::new(0),
            earliest_end: AtomicI64::new(i64::MAX),
        }
    }
}

impl<'a> Slice<'a> {
    /// The version, to be compared by [`unchanged`](Self::unchanged).
    pub(super) fn version(self) -> u64 {
        self.header.version.load(Ordering::Acquire)
    }

    /// Whether nothing has changed the slice's structure, or a wide state, since the version was read.
    pub(super) fn unchanged(self, version: u64) -> bool {
        // The fence keeps what was read of the slice before this; it meets the release fence of `lock`.
        fence(Ordering::Acquire);
        version.is_multiple_of(2) && self.header.version.load(Ordering::Relaxed) == version
    }

    /// How often counters have changed places. Acquire, because it is read before a look at the slots.
    #[inline(always)]
    pub(super) fn moves(self) -> u64 {
        self.header.moves.load(Ordering::Acquire)
    }

    /// Looks for a counter's slot.
    pub(super) fn find(self, fingerprint: Fingerprint) -> Look<'a> {
        match self.find_near(fingerprint) {
            Some((slot, word)) => Look::Found(slot, word),
            None => self.search(fingerprint),
        }
    }

    /// Looks for a counter's slot where most are, where they should be or close by, if its state is compact.
    #[inline(always)]
    pub(super) fn find_near(self, fingerprint: Fingerprint) -> Option<(Slot<'a>, u64)> {
        for words in self.near(fingerprint)?.iter().take(NEAR) {
            let slot = Slot(words);
            if slot.position() == fingerprint.position {
                let word = slot.word();
                return (slot.is_of(fingerprint) && FORGOTTEN < word && word < FROZEN)
                    .then_some((slot, word));
            }
        }
        None
    }

    #[inline(never)]
    fn search(self, fingerprint: Fingerprint) -> Look<'a> {
        for slot in self.probe(fingerprint) {
            let position = slot.position();
            if position == 0 {
                break;
            }
            if position != fingerprint.position {
                continue;
            }
            let word = slot.word();
            if slot.is_of(fingerprint) && word != FORGOTTEN {
                return if word == FROZEN || word == EMPTY { Look::Busy } else { Look::Found(slot, word) };
            }
        }
        Look::Absent
    }

    /// Reads where the counter should be, so that its memory is at hand when it is looked for.
    pub(super) fn touch(self, fingerprint: Fingerprint) -> u64 {
        let near = self.near(fingerprint).unwrap_or_default();
        let (first, last) = (near.first(), near.get(..NEAR).unwrap_or(near).last());
        first.map_or(0, |words| Slot(words).position()) ^ last.map_or(0, |words| Slot(words).word())
    }

    /// Takes the lock.
    pub(super) fn lock(self, base: Base, watched: bool) -> Guard<'a> {
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
                return Guard { slice: self, base, watched, version: version + 1 };
            }
            backoff.wait();
        }
    }

    /// From where the counter should be to the end of that row.
    #[inline(always)]
    fn near(self, fingerprint: Fingerprint) -> Option<&'a [super::slot::Words]> {
        let start = scale(fingerprint.position >> 32, self.count());
        (self.count() > 0).then(|| &self.slots.row(self.index, start / ROW)[start % ROW..])
    }

    /// The slots where a counter can be, from where it should be.
    fn probe(self, fingerprint: Fingerprint) -> impl Iterator<Item = Slot<'a>> {
        let count = self.count();
        let start = scale(fingerprint.position >> 32, count);
        (start..count).chain(0..start).map(move |index| self.slot(index))
    }

    fn slot(self, index: usize) -> Slot<'a> {
        Slot(&self.slots.row(self.index, index / ROW)[index % ROW])
    }

    /// How many slots there are now. Acquire: counters that have been put into new places are seen there.
    #[inline(always)]
    fn count(self) -> usize {
        self.header.rows.load(Ordering::Acquire) as usize * ROW
    }
}

impl<'a> Guard<'a> {
    /// As [`Slice::find`]; under the lock nothing is busy but what this thread has frozen.
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<(Slot<'a>, u64)> {
        match self.slice.find(fingerprint) {
            Look::Found(slot, word) => Some((slot, word)),
            Look::Absent | Look::Busy => None,
        }
    }

    /// The generation of words written now.
    pub(super) fn generation(&self) -> u64 {
        self.slice.header.moves.load(Ordering::Relaxed)
    }

    /// Starts a new generation: words written from now on are told apart from those before.
    pub(super) fn renew(&self) {
        // Relaxed: the release store of a word that carries the new generation publishes it.
        self.slice.header.moves.store(self.generation() + 1, Ordering::Relaxed);
    }

    /// Sees to it that so many counters can be inserted: where the slice is full, it drops what has closed or
    /// takes more rows. Counters may change places, so nothing may be frozen. Says whether there is room.
    pub(super) fn make_room(&self, counters: usize, now: Timestamp) -> (bool, Dropped) {
        let mut dropped = Dropped::default();
        // Above 25/32, about 78 %, too many counters are far from where they should be.
        while self.filled() + counters > self.slice.count() * 25 / 32 {
            let slots = self.slice.count();
            let closed = if self.may_hold_closed(now) {
                self.all().filter(|slot| self.is_closed(slot.word(), *slot, now)).count()
            } else {
                self.slice.header.forgotten.load(Ordering::Relaxed) as usize
            };
            // Growing is worth it when dropping what has closed would not help for long.
            let grow = closed * 8 <= slots && slots < ROWS * ROW;
            if closed == 0 && !grow {
                return (false, dropped);
            }
            let Dropped { count, watched } = self.rebuild(grow, now);
            dropped.count += count;
            dropped.watched.extend(watched);
        }
        (true, dropped)
    }

    /// Gives a slot to a counter that has none, and says whose it was if its window had closed. There must be
    /// [room](Self::make_room).
    pub(super) fn insert(&self, fingerprint: Fingerprint, state: State, now: Timestamp) -> Dropped {
        let mut dropped = Dropped::default();
        for slot in self.slice.probe(fingerprint) {
            let word = slot.word();
            let (empty, forgotten) = (word == EMPTY, word == FORGOTTEN);
            // A swap, because the counter of a closed window may be rolling over to the next one just now.
            if empty || forgotten || (self.is_closed(word, slot, now) && slot.swap(word, FROZEN)) {
                if !empty && !forgotten {
                    self.note_dropped(&mut dropped, slot, word);
                }
                slot.write(self.base, fingerprint, state, self.generation());
                self.note(usize::from(empty), state.end);
                self.add_forgotten(-i32::from(forgotten));
                break;
            }
        }
        dropped
    }

    /// Forgets the counters whose windows have closed; they keep their slots until those are needed.
    pub(super) fn reap(&self, now: Timestamp) -> Dropped {
        let mut dropped = Dropped::default();
        if !self.may_hold_closed(now) {
            return dropped;
        }
        let mut earliest_end = Timestamp::from_unix_millis(i64::MAX);
        for slot in self.all() {
            let word = slot.word();
            if word == FORGOTTEN {
                continue;
            }
            if self.is_closed(word, slot, now) && slot.swap(word, FORGOTTEN) {
                self.note_dropped(&mut dropped, slot, word);
            } else if let Some(state) = slot.state(self.base, slot.word()) {
                earliest_end = earliest_end.min(state.end);
            }
        }
        self.slice.header.earliest_end.store(earliest_end.as_unix_millis(), Ordering::Relaxed);
        self.add_forgotten(dropped.count as i32);
        if dropped.count > 0 {
            // A forgotten slot no longer says when its window ended. The next counter's window may end then too, if
            // the clock steps back.
            self.renew();
        }
        dropped
    }

    /// The counters whose windows are open.
    pub(super) fn live(&self, now: Timestamp) -> Vec<(Fingerprint, State)> {
        let live = |slot: Slot<'_>| {
            let word = slot.word();
            let state = slot.state(self.base, word).filter(|state| word != FORGOTTEN && now < state.end)?;
            Some((slot.fingerprint(), state))
        };
        self.all().filter_map(live).collect()
    }

    /// Forgets the counter of a frozen slot. The slot may go to another counter while the window is open: then the
    /// same word must not come back.
    pub(super) fn forget(&self, slot: Slot<'_>) {
        self.renew();
        self.add_forgotten(1);
        slot.thaw(FORGOTTEN);
    }

    /// Notes that so many empty slots were filled, and that a window ends then.
    pub(super) fn note(&self, filled: usize, end: Timestamp) {
        let Header { filled: all, earliest_end, .. } = self.slice.header;
        // Plain loads and stores: only the lock's holder writes them.
        all.store(all.load(Ordering::Relaxed) + filled as u32, Ordering::Relaxed);
        earliest_end.store(earliest_end.load(Ordering::Relaxed).min(end.as_unix_millis()), Ordering::Relaxed);
    }

    /// Puts the live counters in their places anew, over one row more or as many as before.
    fn rebuild(&self, grow: bool, now: Timestamp) -> Dropped {
        let header = self.slice.header;
        let mut live = Vec::with_capacity(self.filled());
        let mut dropped = Dropped::default();
        for slot in self.all() {
            let word = slot.freeze();
            match slot.state(self.base, word) {
                Some(state) if now < state.end => live.push((slot.fingerprint(), state)),
                Some(_) if word != FORGOTTEN => self.note_dropped(&mut dropped, slot, word),
                _ => {}
            }
        }
        self.renew();
        self.all().for_each(Slot::clear);
        if grow {
            // Release: whoever sees the new count sees the slots cleared, and does not take them for others'.
            header.rows.store(header.rows.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        header.filled.store(0, Ordering::Relaxed);
        header.forgotten.store(0, Ordering::Relaxed);
        header.earliest_end.store(i64::MAX, Ordering::Relaxed);
        for (fingerprint, state) in live {
            self.insert(fingerprint, state, now);
        }
        dropped
    }

    fn note_dropped(&self, dropped: &mut Dropped, slot: Slot<'_>, word: u64) {
        dropped.count += 1;
        if self.watched {
            dropped.watched.extend(slot.state(self.base, word).map(|state| (slot.fingerprint(), state)));
        }
    }

    fn is_closed(&self, word: u64, slot: Slot<'_>, now: Timestamp) -> bool {
        match self.base.word(word) {
            Word::Empty | Word::Frozen => false,
            Word::Compact(State { end, .. }) => end <= now,
            Word::Wide(_) => slot.state(self.base, word).is_some_and(|state| state.end <= now),
        }
    }

    fn may_hold_closed(&self, now: Timestamp) -> bool {
        self.slice.header.earliest_end.load(Ordering::Relaxed) <= now.as_unix_millis()
    }

    fn all(&self) -> impl Iterator<Item = Slot<'a>> + use<'a> {
        let slice = self.slice;
        (0..slice.count()).map(move |index| slice.slot(index))
    }

    fn add_forgotten(&self, slots: i32) {
        let forgotten = &self.slice.header.forgotten;
        forgotten.store(forgotten.load(Ordering::Relaxed).saturating_add_signed(slots), Ordering::Relaxed);
    }

    fn filled(&self) -> usize {
        self.slice.header.filled.load(Ordering::Relaxed) as usize
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Release: what the holder wrote is seen by whoever sees the even version.
        self.slice.header.version.store(self.version + 1, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::fingerprint::Function;
    use super::super::table::{Cap, Table};
    use super::*;
    use crate::{Charge, Key, ManualClock, MemoryStore, PolicyQuota, Quota, StoreError, SyncStore};

    /// What a slice has room for.
    const FULL: usize = ROW * ROWS * 25 / 32;

    #[derive(Debug, Clone)]
    enum Op {
        /// Unless it is there: what is used, and after how many milliseconds the window ends.
        Insert(Fingerprint, u64, u64),
        Forget(Fingerprint),
        Reap,
        Pass(u64),
    }

    /// Fingerprints of few positions, so that they are told apart by their tags alone.
    fn fingerprint() -> impl Strategy<Value = Fingerprint> {
        let position = (0..4_u64, 1..3_u64).prop_map(|(home, rest)| home << 62 | rest);
        (position, 0..4_u64).prop_map(|(position, tag)| Fingerprint { position, tag: tag << 48 })
    }

    fn op() -> impl Strategy<Value = Op> {
        let used = prop_oneof![0..3_u64, Just(u64::from(u32::MAX)), 1 << 36..=Quota::MAX_LIMIT];
        let length = prop_oneof![3 => 1..10_u64, 1 => Just(1_000), 3 => Just(60_000)];
        prop_oneof![
            12 => (fingerprint(), used, length).prop_map(|(fingerprint, used, end)| Op::Insert(fingerprint, used, end)),
            4 => fingerprint().prop_map(Op::Forget),
            1 => Just(Op::Reap),
            2 => (0..9_u64).prop_map(Op::Pass),
            1 => (0..9_u64).prop_map(|units| Op::Pass(units * 1_000)),
        ]
    }

    /// Takes note of what a slice says to have dropped.
    fn remove(held: &mut HashMap<(u64, u64), State>, dropped: &Dropped, now: Timestamp) {
        assert_eq!(dropped.count, dropped.watched.len());
        for (fingerprint, state) in &dropped.watched {
            let was = held.remove(&(fingerprint.position, fingerprint.kept_tag() << 48));
            assert!(was == Some(*state) && state.end <= now, "{was:?} was dropped as {state:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 300 },
            failure_persistence: None,
            ..Default::default()
        })]

        /// Whatever comes and goes, live counters are found with what they hold, and each is either held or said to
        /// have been dropped.
        #[test]
        fn holds_what_it_was_given(ops in vec(op(), 1..if cfg!(miri) { 40 } else { 200 })) {
            let mut now = Timestamp::from_unix_millis(1_700_000_000_000);
            let table = Table::new(Cap::Keys(1), Function::Keyed, Base::new(now)).watched(None);
            let mut held = HashMap::new();
            for op in ops {
                let guard = table.slice_at(0).lock(table.base, true);
                match op {
                    Op::Pass(millis) => now = now + Duration::from_millis(millis),
                    Op::Reap => remove(&mut held, &guard.reap(now), now),
                    Op::Forget(fingerprint) => {
                        if let Some((slot, _)) = guard.find(fingerprint) {
                            slot.freeze();
                            guard.forget(slot);
                            held.remove(&(fingerprint.position, fingerprint.tag));
                        }
                    }
                    Op::Insert(fingerprint, used, end) => {
                        let (room, dropped) = guard.make_room(1, now);
                        remove(&mut held, &dropped, now);
                        prop_assert!(room || held.len() == FULL, "no room beside {}", held.len());
                        if room && guard.find(fingerprint).is_none() {
                            let state = State { used, end: now + Duration::from_millis(end) };
                            remove(&mut held, &guard.insert(fingerprint, state, now), now);
                            held.insert((fingerprint.position, fingerprint.tag), state);
                        }
                    }
                }
                for ((position, tag), state) in &held {
                    let found = guard.find(Fingerprint { position: *position, tag: *tag });
                    prop_assert_eq!(found.and_then(|(slot, word)| slot.state(table.base, word)), Some(*state));
                }
                let forgotten = guard.all().filter(|slot| slot.word() == FORGOTTEN).count();
                prop_assert_eq!(guard.slice.header.forgotten.load(Ordering::Relaxed) as usize, forgotten);
                let slots = guard.all().filter(|slot| ![EMPTY, FORGOTTEN].contains(&slot.word())).count();
                prop_assert_eq!(slots, held.len());
            }
        }
    }

    /// The least table is one slice, which refuses when it is full and takes the next when somebody has left.
    #[test]
    fn a_full_slice_refuses_until_a_window_closes() {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_bytes(0).build();
        let (minute, hour) =
            (PolicyQuota::new("", Quota::per_minute(1)), PolicyQuota::new("", Quota::per_hour(1)));
        let charge = |quota: &PolicyQuota, key: usize| {
            store.charge(&[Charge::new(quota, &Key::from(key), 1)]).map(|counted| counted.is_admitted())
        };
        assert_eq!(charge(&minute, 0), Ok(true));
        assert!((1..FULL).all(|key| charge(&hour, key) == Ok(true)));
        assert_eq!(charge(&hour, FULL), Err(StoreError::Full));
        assert_eq!(charge(&hour, 1), Ok(false));
        clock.advance(Duration::from_secs(60));
        assert_eq!(charge(&hour, FULL), Ok(true));
        assert_eq!(charge(&hour, FULL + 1), Err(StoreError::Full));
        assert_eq!(store.keys(), FULL);
    }

    /// Room was made once: by one row, or by dropping what had closed, if only for a few. So a step over more than
    /// that was answered `Full` by a store that was nearly empty.
    #[test]
    fn a_step_over_many_new_counters_finds_the_room_there_is() -> Result<(), StoreError> {
        let quota = PolicyQuota::new("", Quota::per_minute(1));
        let keys: Vec<Key<'_>> = (0..5 * ROW).map(Key::from).collect();
        let charges: Vec<_> = keys.iter().map(|key| Charge::new(&quota, key, 1)).collect();
        let clock = ManualClock::default();
        // One slice.
        let store = MemoryStore::builder().clock(clock.clone()).max_keys(ROWS * ROW * 5 / 8).build();

        assert!(store.charge(&charges[..2 * ROW])?.is_admitted());
        clock.advance(Duration::from_secs(60));
        assert!(store.charge(&charges[2 * ROW..])?.is_admitted());
        Ok(())
    }
}
