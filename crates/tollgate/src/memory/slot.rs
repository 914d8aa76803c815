//! One counter's place in the table.

use super::fingerprint::Fingerprint;
use super::fixed_window::State;
use super::sync::{AtomicU64, Ordering};
use super::word::{self, EMPTY, FROZEN, TAG_SHIFT};

/// Position, tag and state: 24 bytes. All zeros in a slot that was never used.
///
/// - The position is the fingerprint's; 0 ends a search.
/// - The tag word has the fingerprint's kept tag in its upper 16 bits; the rest belongs to the [state](super::word).
/// - Whoever puts [`FROZEN`] into the state word owns the slot until the next store to it.
pub(super) type Words = [AtomicU64; 3];

/// See [`Words`].
#[derive(Clone, Copy)]
pub(super) struct Slot<'a>(pub(super) &'a Words);

/// A counter's slot with the words that were read of it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) slot: Slot<'a>,
    pub(super) word: u64,
    pub(super) tag: u64,
    /// How often slots of the shard had been [rewritten](super::shard::Shard::rewrites) before.
    pub(super) rewrites: u64,
}

impl<'a> Slot<'a> {
    /// Relaxed: it is only a hint where to look closer.
    #[inline(always)]
    pub(super) fn position(self) -> u64 {
        let [position, ..] = self.0;
        position.load(Ordering::Relaxed)
    }

    /// What the slot says of this counter, whose state word was loaded before, if it still is this counter's.
    ///
    /// Then that word was published by this counter, or the slot was rewritten since, which a swap of the state or a
    /// second look at it finds.
    #[inline(always)]
    pub(super) fn seen(self, word: u64, fingerprint: Fingerprint, rewrites: u64) -> Option<Seen<'a>> {
        // Acquire, so that the second look does not move before these.
        let [position, tag, _] = self.0;
        let is_at = position.load(Ordering::Acquire) == fingerprint.position;
        let tag = tag.load(Ordering::Acquire);
        (is_at && tag >> TAG_SHIFT == fingerprint.tag).then_some(Seen { slot: self, word, tag, rewrites })
    }

    /// The state word. Acquire, with the release of every store to it: fingerprint and tag are at least as new.
    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        let [.., state] = self.0;
        state.load(Ordering::Acquire)
    }

    /// The tag word. Relaxed: it is read under the lock, or after an acquire of the state.
    #[inline(always)]
    pub(super) fn tag(self) -> u64 {
        let [_, tag, _] = self.0;
        tag.load(Ordering::Relaxed)
    }

    /// The tag word as it is behind a swap. Acquire: what is read of the shard after it is no older.
    #[inline(always)]
    pub(super) fn tag_behind_swap(self) -> u64 {
        let [_, tag, _] = self.0;
        tag.load(Ordering::Acquire)
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
        // AcqRel: a release for those who load it, an acquire for the tag and the shard's rewrites that are read after.
        let [.., state] = self.0;
        state.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot from everybody else. Only under the shard's lock, so nobody else has frozen it.
    pub(super) fn freeze(self) -> u64 {
        // AcqRel: what the last owner wrote is seen, and this comes after it. What is written next is a release
        // of it: see `write`.
        let [.., state] = self.0;
        state.swap(FROZEN, Ordering::AcqRel)
    }

    /// Gives back a frozen slot with this state word.
    pub(super) fn thaw(self, word: u64) {
        let [.., state] = self.0;
        state.store(word, Ordering::Release);
    }

    /// The state behind a word that was read under the shard's lock.
    pub(super) fn state(self, word: u64) -> Option<State> {
        word::state(word, self.tag())
    }

    /// Writes a frozen slot but for its state word, and gives that: of the slot's next generation.
    pub(super) fn fill(self, fingerprint: Fingerprint, state: State) -> u64 {
        let (word, new_tag) = word::pack(fingerprint.tag, state, self.tag());
        // Release, with the acquire of `seen`: whoever sees them sees the slot frozen, and so does not find the
        // state of the counter before still there.
        let [position, tag, _] = self.0;
        position.store(fingerprint.position, Ordering::Release);
        tag.store(new_tag, Ordering::Release);
        word
    }

    /// Empties a frozen slot.
    pub(super) fn clear(self) {
        let emptied = word::emptied(self.tag());
        // Relaxed: no counter has position 0, so nobody takes the slot for its own.
        let [position, tag, _] = self.0;
        position.store(0, Ordering::Relaxed);
        tag.store(emptied, Ordering::Relaxed);
        self.thaw(EMPTY);
    }

    /// The fingerprint kept in a frozen slot.
    pub(super) fn fingerprint(self) -> Fingerprint {
        Fingerprint { position: self.position(), tag: self.tag() >> TAG_SHIFT }
    }
}
