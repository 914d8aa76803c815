//! One counter's place in the table.

use super::fingerprint::Fingerprint;
use super::state::{Base, EMPTY, FROZEN, State, TAG_SHIFT, Word};
use super::sync::{AtomicU64, Ordering};

/// Position, tag and state: 24 bytes. All zeros in a slot that was never used.
///
/// - The position is the fingerprint's; 0 ends a search.
/// - The tag word has the fingerprint's kept tag in its upper 16 bits, and below what a wide state has no room
///   for in the state word.
/// - Whoever puts [`FROZEN`] into the state word owns the slot until the next store to it.
pub(super) type Words = [AtomicU64; 3];

/// See [`Words`].
#[derive(Clone, Copy)]
pub(super) struct Slot<'a>(pub(super) &'a Words);

impl Slot<'_> {
    /// Relaxed: it is only a hint where to look closer.
    #[inline(always)]
    pub(super) fn position(self) -> u64 {
        let [position, ..] = self.0;
        position.load(Ordering::Relaxed)
    }

    /// Whether the slot is this counter's. Asked after a state was loaded: then that state was published by
    /// this counter, or the slot has changed hands since, which a swap of the state or a second look at it finds.
    #[inline(always)]
    pub(super) fn is_of(self, fingerprint: Fingerprint) -> bool {
        // Acquire, so that the second look does not move before these.
        let [position, tag, _] = self.0;
        position.load(Ordering::Acquire) == fingerprint.position
            && tag.load(Ordering::Acquire) >> TAG_SHIFT == fingerprint.kept_tag()
    }

    /// The state word. Acquire, with the release of every store to it: fingerprint and tag are at least as new.
    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        let [.., state] = self.0;
        state.load(Ordering::Acquire)
    }

    /// Whether the state still is this word.
    #[inline(always)]
    pub(super) fn still_is(self, word: u64) -> bool {
        // Relaxed: the acquire loads before it cannot move behind it.
        let [.., state] = self.0;
        state.load(Ordering::Relaxed) == word
    }

    /// Changes the state if it still is `word`, and says whether it did.
    #[inline(always)]
    pub(super) fn swap(self, word: u64, new: u64) -> bool {
        // AcqRel: a release for those who load it, an acquire for the slice's moves that are read after.
        let [.., state] = self.0;
        state.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot from everybody else. Only under the slice's lock, so nobody else has frozen it.
    pub(super) fn freeze(self) -> u64 {
        // AcqRel: what the last owner wrote is seen, and this comes after it. What is written next is a release
        // of it: see `fill`.
        let [.., state] = self.0;
        state.swap(FROZEN, Ordering::AcqRel)
    }

    /// Gives back a frozen slot with this state word.
    pub(super) fn thaw(self, word: u64) {
        let [.., state] = self.0;
        state.store(word, Ordering::Release);
    }

    /// The state behind a word that was read under the slice's lock, or that is checked by the slice's version.
    pub(super) fn state(self, base: Base, word: u64) -> Option<State> {
        let [_, tag, _] = self.0;
        match base.word(word) {
            Word::Empty | Word::Frozen => None,
            Word::Compact(state) => Some(state),
            Word::Wide(used) => Some(base.wide_state(used, tag.load(Ordering::Relaxed))),
        }
    }

    /// Writes a frozen slot and publishes it.
    pub(super) fn write(self, base: Base, fingerprint: Fingerprint, state: State, generation: u64) {
        self.thaw(self.fill(base, fingerprint, state, generation));
    }

    /// Writes a frozen slot but for its state word, and gives that.
    pub(super) fn fill(self, base: Base, fingerprint: Fingerprint, state: State, generation: u64) -> u64 {
        let compact = base.compact(state, generation).map(|word| (word, 0));
        let (word, below) = compact.unwrap_or_else(|| base.wide(state));
        // Release, with the acquire of `is_of`: whoever sees them sees the slot frozen, and so does not find the
        // state of the counter before still there.
        let [position, tag, _] = self.0;
        position.store(fingerprint.position, Ordering::Release);
        tag.store(fingerprint.kept_tag() << TAG_SHIFT | below, Ordering::Release);
        word
    }

    /// Empties a frozen slot.
    pub(super) fn clear(self) {
        // Relaxed: no counter has position 0, so nobody takes the slot for its own.
        let [position, tag, _] = self.0;
        position.store(0, Ordering::Relaxed);
        tag.store(0, Ordering::Relaxed);
        self.thaw(EMPTY);
    }

    /// The fingerprint kept in a frozen slot.
    pub(super) fn fingerprint(self) -> Fingerprint {
        let [position, tag, _] = self.0;
        Fingerprint { position: position.load(Ordering::Relaxed), tag: tag.load(Ordering::Relaxed) }
    }
}
