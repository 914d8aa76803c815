//! All slices, and how many counters they may hold together.

use std::sync::mpsc::SyncSender;

use smallvec::SmallVec;

use super::fingerprint::{Fingerprint, Fingerprinter, Function};
use super::slice::{Dropped, Guard, Header, Look, Slice};
use super::slot::Slot;
use super::slots::{ROW, ROWS, SLICE_BYTES, Slots};
use super::state::{Base, State, Word};
use super::sync::{AtomicUsize, Backoff, MODELLED, Ordering};
use super::watch::{NamedCounter, Watch};
use crate::{Counter, Timestamp};

/// Counters for which a slice is planned, of the 800 that it takes before it is full: hashing fills slices
/// unevenly, by 25 counters more or less, and this leaves room for six times that.
const PLANNED: usize = ROW * ROWS * 5 / 8;

pub(super) struct Table {
    fingerprinter: Fingerprinter,
    pub(super) base: Base,
    headers: Box<[Header]>,
    slots: Slots,
    /// Counters held, those of closed windows included until their slots are needed.
    keys: AtomicUsize,
    max_keys: usize,
    pub(super) watch: Option<Watch>,
}

/// How large a table may grow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cap {
    Keys(usize),
    /// Of memory, the table's own headers included.
    Bytes(usize),
}

impl Table {
    pub(super) fn new(cap: Cap, hash: Function, base: Base) -> Self {
        let (slices, max_keys) = match cap {
            Cap::Keys(keys) => (keys.div_ceil(PLANNED), keys),
            Cap::Bytes(bytes) => (bytes / (SLICE_BYTES + size_of::<Header>()), usize::MAX),
        };
        let slices = slices.clamp(1, u32::MAX as usize);
        Self {
            fingerprinter: Fingerprinter::new(hash),
            base,
            headers: (0..slices).map(|_| Header::default()).collect(),
            slots: Slots::new(slices),
            keys: AtomicUsize::new(0),
            max_keys,
            watch: None,
        }
    }

    /// Remembers the names of counters, and tells of closed ones.
    pub(super) fn watched(self, closed: Option<SyncSender<NamedCounter>>) -> Self {
        let watch = Some(Watch::new(self.headers.len(), closed));
        Self { watch, ..self }
    }

    #[inline(always)]
    pub(super) fn fingerprint(&self, counter: &Counter<'_>) -> Fingerprint {
        self.fingerprinter.of(counter)
    }

    #[inline(always)]
    pub(super) fn slice(&self, fingerprint: Fingerprint) -> Slice<'_> {
        self.slice_at(self.slice_index(fingerprint))
    }

    pub(super) fn slice_index(&self, fingerprint: Fingerprint) -> usize {
        fingerprint.slice(self.headers.len())
    }

    /// Asks for the memory of all these counters before any of it is waited for. Nothing is computed in between that
    /// would keep a processor from asking for the next one.
    #[inline(always)]
    pub(super) fn touch(&self, fingerprints: &[Fingerprint]) {
        // It changes no outcome, and every load multiplies the orders that a model tries.
        if !MODELLED {
            let touched = fingerprints.iter().map(|fingerprint| self.slice(*fingerprint).touch(*fingerprint));
            std::hint::black_box(touched.fold(0, std::ops::BitXor::bitxor));
        }
    }

    /// Reads a counter without the lock.
    pub(super) fn read(&self, fingerprint: Fingerprint) -> Seen<'_> {
        let slice = self.slice(fingerprint);
        let mut backoff = Backoff::default();
        loop {
            let moves = slice.moves();
            let version = slice.version();
            match slice.find(fingerprint) {
                Look::Found(slot, word) => match self.base.word(word) {
                    Word::Compact(state) if slot.still_is(word) => {
                        return Seen { moves, state: Some(state), compact: Some((slot, word)) };
                    }
                    Word::Wide(_) => {
                        let state = slot.state(self.base, word);
                        if slice.unchanged(version) {
                            return Seen { moves, state, compact: None };
                        }
                    }
                    _ => {}
                },
                Look::Absent if slice.unchanged(version) => {
                    return Seen { moves, state: None, compact: None };
                }
                Look::Absent | Look::Busy => {}
            }
            backoff.wait();
        }
    }

    /// Locks the slices of these counters, in one order for all threads.
    pub(super) fn lock(&self, fingerprints: &[Fingerprint]) -> Guards<'_> {
        let mut order: SmallVec<[usize; 2]> =
            fingerprints.iter().map(|fingerprint| self.slice_index(*fingerprint)).collect();
        order.sort_unstable();
        order.dedup();
        Guards(order.into_iter().map(|index| (index, self.lock_at(index))).collect())
    }

    fn lock_at(&self, index: usize) -> Guard<'_> {
        self.slice_at(index).lock(self.base, self.watch.is_some())
    }

    #[inline(always)]
    pub(super) fn slice_at(&self, index: usize) -> Slice<'_> {
        Slice { header: &self.headers[index], slots: &self.slots, index }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// Takes room for so many more counters, or none.
    pub(super) fn take_keys(&self, more: usize) -> bool {
        // Relaxed, here and below: the count guards no other memory.
        let fits = |keys: usize| keys.checked_add(more).filter(|sum| *sum <= self.max_keys);
        more == 0 || self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Takes note of counters of a slice that were dropped.
    pub(super) fn settle(&self, slice: usize, dropped: &Dropped) {
        self.give_back_keys(dropped.count);
        if let Some(watch) = &self.watch {
            watch.take(slice, &dropped.watched).into_iter().for_each(|counter| watch.tell(counter));
        }
    }

    /// Drops the counters whose windows have closed, and gives them under their names.
    pub(super) fn sweep(&self, now: Timestamp) -> Vec<NamedCounter> {
        let sweep = |index: usize| {
            let dropped = self.lock_at(index).reap(now);
            self.give_back_keys(dropped.count);
            self.watch.as_ref().map(|watch| watch.take(index, &dropped.watched)).unwrap_or_default()
        };
        (0..self.headers.len()).flat_map(sweep).collect()
    }

    /// The counters whose windows are open, if their names are remembered.
    pub(super) fn live(&self, now: Timestamp) -> Option<Vec<NamedCounter>> {
        let watch = self.watch.as_ref()?;
        let live = |index: usize| watch.named(index, &self.lock_at(index).live(now));
        Some((0..self.headers.len()).flat_map(live).collect())
    }

    pub(super) fn give_back_keys(&self, keys: usize) {
        if keys > 0 {
            self.keys.fetch_sub(keys, Ordering::Relaxed);
        }
    }
}

/// What was found of a counter without the lock.
pub(super) struct Seen<'a> {
    /// How often counters of the slice had changed places before.
    pub(super) moves: u64,
    pub(super) state: Option<State>,
    /// Its slot and state word, if the state is compact.
    pub(super) compact: Option<(Slot<'a>, u64)>,
}

/// The locked slices of one step.
pub(super) struct Guards<'a>(SmallVec<[(usize, Guard<'a>); 2]>);

impl<'a> Guards<'a> {
    /// The guards with the indices of their slices.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(usize, Guard<'a>)> {
        self.0.iter()
    }

    /// The guard of a slice that was locked.
    pub(super) fn of(&self, slice: usize) -> &Guard<'a> {
        // Every fingerprint of the step has its slice here; the first stands in for what cannot be.
        self.0.iter().find(|(index, _)| *index == slice).map_or(&self.0[0].1, |(_, guard)| guard)
    }
}
