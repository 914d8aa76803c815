//! Where slots live: pages of slots, handed out to slices one by one and never taken back.

use std::sync::OnceLock;

use super::fingerprint::Fingerprint;
use super::state::{Base, EMPTY, FROZEN, State, TAG_SHIFT, Word};
use super::sync::{AtomicU32, AtomicU64, Ordering};

/// Slots of a page: the step in which a slice grows.
pub(super) const SLOTS: usize = if cfg!(loom) { 2 } else { 32 };

/// Pages that are allocated together, 192 KiB: little enough to be cleared within a charge.
const SEGMENT: usize = if cfg!(loom) { 4 } else { 256 };

/// One counter's place: 24 bytes.
#[derive(Default)]
pub(super) struct Slot {
    /// The fingerprint's position; 0 in a slot that was never used, where probing ends.
    position: AtomicU64,
    /// The fingerprint's kept tag in the upper 16 bits, what a wide state has no room for below.
    tag: AtomicU64,
    /// The state word. Whoever freezes it owns the slot until the next store to it.
    state: AtomicU64,
}

#[derive(Default)]
#[repr(align(64))]
pub(super) struct Page {
    slots: [Slot; SLOTS],
}

/// All pages there are.
pub(super) struct Pages {
    segments: Box<[OnceLock<Box<[Page]>>]>,
    max: u32,
    next: AtomicU32,
}

/// The memory a page takes, in bytes.
pub(super) const PAGE_BYTES: usize = size_of::<Page>();

impl Pages {
    pub(super) fn new(max: u32) -> Self {
        let segments = (0..(max as usize).div_ceil(SEGMENT)).map(|_| OnceLock::new()).collect();
        Self { segments, max, next: AtomicU32::new(0) }
    }

    /// A page that nobody else has, if there is one left.
    pub(super) fn take(&self) -> Option<u32> {
        // Relaxed: the number guards nothing; the page is published with the slice's page count.
        let below_max = |next: u32| (next < self.max).then_some(next + 1);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_max).ok()
    }

    pub(super) fn slots(&self, page: u32) -> &[Slot; SLOTS] {
        let (segment, page) = (page as usize / SEGMENT, page as usize % SEGMENT);
        let segment = self.segments[segment].get_or_init(|| (0..SEGMENT).map(|_| Page::default()).collect());
        &segment[page].slots
    }
}

impl Slot {
    /// Acquire: whoever sees a position also sees what was there before it.
    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Whether the slot is this counter's. Asked after a state was loaded: then that state was published by
    /// this counter or the slot has changed hands since, which a swap of the state or a second look at it finds.
    pub(super) fn is_of(&self, fingerprint: Fingerprint) -> bool {
        self.position.load(Ordering::Acquire) == fingerprint.position
            && self.tag.load(Ordering::Acquire) >> TAG_SHIFT == fingerprint.kept_tag()
    }

    /// Acquire, with the release of every store to it: fingerprint and tag are at least as new.
    pub(super) fn word(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// Whether the state still is this word.
    pub(super) fn still_is(&self, word: u64) -> bool {
        // Relaxed: the acquire loads before it cannot move behind it.
        self.state.load(Ordering::Relaxed) == word
    }

    /// Changes the state if it still is `word`, and says whether it did.
    pub(super) fn swap(&self, word: u64, new: u64) -> bool {
        // AcqRel: a release for those who load it, an acquire for the slice's generation that is read after.
        self.state.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot from everybody else. Only under the slice's lock, so nobody else has frozen it.
    pub(super) fn freeze(&self) -> u64 {
        self.state.swap(FROZEN, Ordering::AcqRel)
    }

    /// Gives back a frozen slot with this state word.
    pub(super) fn thaw(&self, word: u64) {
        self.state.store(word, Ordering::Release);
    }

    /// The state behind a word that was read under the slice's lock.
    pub(super) fn state(&self, base: Base, word: u64) -> Option<State> {
        match base.word(word) {
            Word::Empty | Word::Frozen => None,
            Word::Compact(state) => Some(state),
            Word::Wide(used) => Some(base.wide_state(used, self.tag.load(Ordering::Relaxed))),
        }
    }

    /// Writes a frozen slot and publishes it.
    pub(super) fn write(&self, base: Base, fingerprint: Fingerprint, state: State, generation: u64) {
        self.thaw(self.fill(base, fingerprint, state, generation));
    }

    /// Writes a frozen slot but for its state word, and gives that.
    pub(super) fn fill(&self, base: Base, fingerprint: Fingerprint, state: State, generation: u64) -> u64 {
        let compact = base.compact(state, generation).map(|word| (word, 0));
        let (word, below) = compact.unwrap_or_else(|| base.wide(state));
        // Relaxed: the release store of the state word publishes both.
        self.position.store(fingerprint.position, Ordering::Relaxed);
        self.tag.store(fingerprint.kept_tag() << TAG_SHIFT | below, Ordering::Relaxed);
        word
    }

    /// Empties a frozen slot.
    pub(super) fn clear(&self) {
        self.position.store(0, Ordering::Relaxed);
        self.tag.store(0, Ordering::Relaxed);
        self.state.store(EMPTY, Ordering::Release);
    }

    /// The fingerprint kept in a frozen slot.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let tag = self.tag.load(Ordering::Relaxed);
        Fingerprint { position: self.position.load(Ordering::Relaxed), tag }
    }
}
