//! A part of the table: an open-addressed run of slots, spread over pages, with a lock for its structure.
//!
//! Counters are found, charged and denied without the lock. It is taken to give a slot to another counter, to
//! grow, and for steps over several counters. Its version is odd while it is held, so that a reader who found
//! nothing, or something wide, knows whether to look again.

use super::fingerprint::{Fingerprint, scale};
use super::page::{Pages, SLOTS, Slot};
use super::state::{Base, FORGOTTEN, FROZEN, State, Word};
use super::sync::{AtomicI64, AtomicU32, AtomicU64, Backoff, Ordering, fence};
use crate::Timestamp;

/// Pages a slice can have: with [`SLOTS`], it grows from 32 to 1,024 slots in steps of 32.
pub(super) const MAX_PAGES: usize = if cfg!(loom) { 2 } else { 32 };

/// See the [module](self).
#[repr(align(64))]
pub(super) struct Slice {
    /// Odd while the lock is held; grows with each taking and giving back.
    version: AtomicU64,
    /// How often the counters have changed places.
    moves: AtomicU64,
    /// Pages in use.
    pages: AtomicU32,
    /// Slots that are not empty. Changed under the lock alone, as is the next.
    filled: AtomicU32,
    /// No counter's window ends before this (Unix milliseconds): a sweep before it finds nothing.
    earliest_end: AtomicI64,
    /// The pages in use, in their order; an entry never changes once it is used.
    page_ids: [AtomicU32; MAX_PAGES],
}

/// What a look at a slice found.
pub(super) enum Look<'a> {
    /// The counter's slot and its state word: compact or wide.
    Found(&'a Slot, u64),
    /// No slot, if the version is still the same.
    Absent,
    /// Another thread is at it: look again.
    Busy,
}

/// The right to change a slice's structure.
pub(super) struct Guard<'a> {
    slice: &'a Slice,
    pages: &'a Pages,
    base: Base,
    version: u64,
}

/// What came of sweeping or moving counters.
pub(super) struct Freed {
    /// Counters dropped because their windows have closed.
    pub(super) counters: usize,
}

impl Default for Slice {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            pages: AtomicU32::new(0),
            filled: AtomicU32::new(0),
            earliest_end: AtomicI64::new(i64::MAX),
            page_ids: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl Slice {
    /// The version, to be compared by [`unchanged`](Self::unchanged).
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether nothing has changed the slice's structure, or a wide state, since the version was read.
    pub(super) fn unchanged(&self, version: u64) -> bool {
        // The fence keeps what was read of the slice before this; it meets the release fence of `lock`.
        fence(Ordering::Acquire);
        version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version
    }

    /// How often the counters have changed places. Acquire, because it is read before a look at the slots.
    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn find<'a>(&'a self, pages: &'a Pages, fingerprint: Fingerprint) -> Look<'a> {
        let count = self.slots();
        if count == 0 {
            return Look::Absent;
        }
        // Most counters are where they should be.
        let slot = self.slot(pages, scale(fingerprint.position >> 32, count));
        let word = slot.word();
        if slot.is_of(fingerprint) && word > FORGOTTEN && word != FROZEN {
            return Look::Found(slot, word);
        }
        self.search(pages, fingerprint)
    }

    #[inline(never)]
    fn search<'a>(&'a self, pages: &'a Pages, fingerprint: Fingerprint) -> Look<'a> {
        for slot in self.probe(pages, fingerprint) {
            let position = slot.position();
            if position == 0 {
                break;
            }
            if position != fingerprint.position {
                continue;
            }
            let word = slot.word();
            if slot.is_of(fingerprint) && word != FORGOTTEN {
                return if word == FROZEN || word == 0 { Look::Busy } else { Look::Found(slot, word) };
            }
        }
        Look::Absent
    }

    /// Reads where the counter should be, so that its memory is at hand when it is looked for.
    pub(super) fn touch(&self, pages: &Pages, fingerprint: Fingerprint) -> u64 {
        let count = self.slots();
        if count == 0 { 0 } else { self.slot(pages, scale(fingerprint.position >> 32, count)).position() }
    }

    /// Takes the lock.
    pub(super) fn lock<'a>(&'a self, pages: &'a Pages, base: Base) -> Guard<'a> {
        let mut backoff = Backoff::default();
        loop {
            let version = self.version.load(Ordering::Relaxed);
            // Acquire: what the last holder wrote is seen.
            let free = version.is_multiple_of(2);
            if free
                && self
                    .version
                    .compare_exchange_weak(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // No store of the holder is seen before the odd version.
                fence(Ordering::Release);
                return Guard { slice: self, pages, base, version: version + 1 };
            }
            backoff.wait();
        }
    }

    /// The slots where a counter can be, from where it should be.
    fn probe<'a>(&'a self, pages: &'a Pages, fingerprint: Fingerprint) -> impl Iterator<Item = &'a Slot> {
        let count = self.slots();
        let start = scale(fingerprint.position >> 32, count);
        (start..count).chain(0..start).map(|index| self.slot(pages, index))
    }

    fn slot<'a>(&self, pages: &'a Pages, index: usize) -> &'a Slot {
        // Relaxed: the page count was loaded with acquire, and ids below it never change.
        let page = self.page_ids[index / SLOTS].load(Ordering::Relaxed);
        &pages.slots(page)[index % SLOTS]
    }

    /// How many slots there are now. Acquire: the ids of their pages are seen.
    fn slots(&self) -> usize {
        self.pages.load(Ordering::Acquire) as usize * SLOTS
    }
}

impl<'a> Guard<'a> {
    /// As [`Slice::find`]; under the lock nothing is busy but what this thread has frozen.
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<(&'a Slot, u64)> {
        match self.slice.find(self.pages, fingerprint) {
            Look::Found(slot, word) => Some((slot, word)),
            Look::Absent | Look::Busy => None,
        }
    }

    /// The generation of words written now.
    pub(super) fn generation(&self) -> u64 {
        self.slice.moves.load(Ordering::Relaxed)
    }

    /// Sees to it that so many counters can be inserted: where the slice is full, it drops what has closed or
    /// takes another page. Counters may change places, so nothing may be frozen. Says whether there is room.
    pub(super) fn make_room(&self, counters: usize, now: Timestamp) -> (bool, Freed) {
        let slots = self.slice.slots();
        let filled = self.filled() + counters;
        // Above 27/32, about 84 %, a search for what is not there grows long.
        if filled <= slots * 27 / 32 {
            return (true, Freed { counters: 0 });
        }
        let closed = self.all().filter(|slot| self.is_closed(slot.word(), slot, now)).count();
        let can_grow = slots < MAX_PAGES * SLOTS;
        // Growing is worth it when dropping what has closed would not help for long.
        let page = if closed * 8 <= slots && can_grow { self.pages.take() } else { None };
        let freed =
            if closed > 0 || page.is_some() { self.rebuild(page, now) } else { Freed { counters: 0 } };
        (self.filled() + counters <= self.slice.slots(), freed)
    }

    /// Gives a slot to a counter that has none, and says whether the slot was another counter's. There must be
    /// [room](Self::make_room).
    pub(super) fn insert(&self, fingerprint: Fingerprint, state: State, now: Timestamp) -> Freed {
        for slot in self.slice.probe(self.pages, fingerprint) {
            let word = slot.word();
            let (empty, forgotten) = (word == 0, word == FORGOTTEN);
            // A swap, because the counter of a closed window may be rolling over to the next one just now.
            if empty || forgotten || (self.is_closed(word, slot, now) && slot.swap(word, FROZEN)) {
                slot.write(self.base, fingerprint, state, self.generation());
                self.note(usize::from(empty), state.end);
                return Freed { counters: usize::from(!empty && !forgotten) };
            }
        }
        Freed { counters: 0 }
    }

    /// Forgets the counters whose windows have closed; they keep their slots until those are needed.
    pub(super) fn reap(&self, now: Timestamp) -> Freed {
        if now.as_unix_millis() < self.slice.earliest_end.load(Ordering::Relaxed) {
            return Freed { counters: 0 };
        }
        let mut counters = 0;
        let mut earliest_end = Timestamp::from_unix_millis(i64::MAX);
        for slot in self.all() {
            let word = slot.word();
            if word == FORGOTTEN {
                continue;
            }
            if self.is_closed(word, slot, now) && slot.swap(word, FORGOTTEN) {
                counters += 1;
            } else if let Some(state) = slot.state(self.base, slot.word()) {
                earliest_end = earliest_end.min(state.end);
            }
        }
        self.slice.earliest_end.store(earliest_end.as_unix_millis(), Ordering::Relaxed);
        Freed { counters }
    }

    /// Notes that so many empty slots were filled, and that a window ends then.
    pub(super) fn note(&self, filled: usize, end: Timestamp) {
        let Slice { filled: all, earliest_end, .. } = self.slice;
        // Plain loads and stores: only the lock's holder writes them.
        all.store(all.load(Ordering::Relaxed) + filled as u32, Ordering::Relaxed);
        earliest_end.store(earliest_end.load(Ordering::Relaxed).min(end.as_unix_millis()), Ordering::Relaxed);
    }

    /// Puts the live counters in their places anew, over one page more if there is one.
    fn rebuild(&self, page: Option<u32>, now: Timestamp) -> Freed {
        let mut live = Vec::with_capacity(self.filled());
        let mut counters = 0;
        for slot in self.all() {
            let word = slot.freeze();
            match slot.state(self.base, word) {
                Some(state) if now < state.end => live.push((slot.fingerprint(), state)),
                Some(_) if word != FORGOTTEN => counters += 1,
                _ => {}
            }
        }
        // Before any word is published that carries it.
        self.slice.moves.store(self.generation() + 1, Ordering::Relaxed);
        self.all().for_each(Slot::clear);
        if let Some(page) = page {
            let pages = self.slice.pages.load(Ordering::Relaxed);
            self.slice.page_ids[pages as usize].store(page, Ordering::Relaxed);
            // Release: whoever sees the count sees the id.
            self.slice.pages.store(pages + 1, Ordering::Release);
        }
        self.slice.filled.store(0, Ordering::Relaxed);
        self.slice.earliest_end.store(i64::MAX, Ordering::Relaxed);
        for (fingerprint, state) in live {
            self.insert(fingerprint, state, now);
        }
        Freed { counters }
    }

    fn is_closed(&self, word: u64, slot: &Slot, now: Timestamp) -> bool {
        match self.base.word(word) {
            Word::Empty | Word::Frozen => false,
            Word::Compact(State { end, .. }) => end <= now,
            Word::Wide(_) => slot.state(self.base, word).is_some_and(|state| state.end <= now),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'a Slot> {
        let (slice, pages) = (self.slice, self.pages);
        (0..slice.slots()).map(move |index| slice.slot(pages, index))
    }

    fn filled(&self) -> usize {
        self.slice.filled.load(Ordering::Relaxed) as usize
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Release: what the holder wrote is seen by whoever sees the even version.
        self.slice.version.store(self.version + 1, Ordering::Release);
    }
}
