//! A slot: one counter's place in the table.

use super::fingerprint::Fingerprint;
use super::stored::State;
use super::sync::{AtomicU64, Ordering};
use super::word::{self, EMPTY, FROZEN, TAG_SHIFT};

/// Position, tag and state: 24 bytes. All zeros in a slot that was never used.
///
/// - The position is the fingerprint's; 0 ends a search.
/// - The tag word has the fingerprint's kept tag in its upper 16 bits; the rest belongs to the [state](super::word).
/// - The thread that puts [`FROZEN`] into the state word owns the slot until the next store to it.
pub(super) type Words = [AtomicU64; 3];

/// See [`Words`].
#[derive(Clone, Copy)]
pub(super) struct Slot<'a>(pub(super) &'a Words);

/// A counter's slot with the words that were read from it.
#[derive(Clone, Copy)]
pub(super) struct SlotReading<'a> {
    pub(super) slot: Slot<'a>,
    pub(super) word: u64,
    pub(super) tag: u64,
    /// How often slots of the shard had been [rewritten](super::shard::Shard::rewrites) before.
    pub(super) rewrites: u64,
}

impl<'a> Slot<'a> {
    /// Relaxed: it is only a hint for the search.
    #[inline(always)]
    pub(super) fn position(self) -> u64 {
        let [position, ..] = self.0;
        position.load(Ordering::Relaxed)
    }

    /// Returns the words of this counter, whose state word was loaded before, if the slot still belongs to it.
    ///
    /// Then this counter published that word, or the slot was rewritten since, which a swap or a second load detects.
    #[inline(always)]
    pub(super) fn seen(self, word: u64, fingerprint: Fingerprint, rewrites: u64) -> Option<SlotReading<'a>> {
        // Acquire, so that the second load does not move before these.
        let [position, tag, _] = self.0;
        let is_at = position.load(Ordering::Acquire) == fingerprint.position;
        let tag = tag.load(Ordering::Acquire);
        (is_at && tag >> TAG_SHIFT == fingerprint.tag).then_some(SlotReading {
            slot: self,
            word,
            tag,
            rewrites,
        })
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

    /// The tag word after a swap. Acquire: what is read of the shard afterwards is at least as new.
    #[inline(always)]
    pub(super) fn tag_behind_swap(self) -> u64 {
        let [_, tag, _] = self.0;
        tag.load(Ordering::Acquire)
    }

    /// Returns whether the state is still this word.
    #[inline(always)]
    pub(super) fn still_is(self, word: u64) -> bool {
        // Relaxed: the acquire loads before it cannot move behind it.
        let [.., state] = self.0;
        state.load(Ordering::Relaxed) == word
    }

    /// Changes the state if it is still `word`. Returns whether it did.
    #[inline(always)]
    pub(super) fn swap(self, word: u64, new: u64) -> bool {
        // AcqRel: a release for later loads, an acquire for the tag and the shard's rewrites that are read next.
        let [.., state] = self.0;
        state.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot for this thread. Only under the shard's lock, so no other thread has frozen it.
    pub(super) fn freeze(self) -> u64 {
        // AcqRel: this thread sees what the last owner wrote. The next writes release this one: see `write`.
        let [.., state] = self.0;
        state.swap(FROZEN, Ordering::AcqRel)
    }

    /// Gives back a frozen slot with this state word.
    pub(super) fn thaw(self, word: u64) {
        let [.., state] = self.0;
        state.store(word, Ordering::Release);
    }

    /// The state of a word that was read under the shard's lock.
    pub(super) fn state(self, word: u64) -> Option<State> {
        word::state(word, self.tag())
    }

    /// Writes a frozen slot except for its state word, and returns that word, of the slot's next generation.
    pub(super) fn fill(self, fingerprint: Fingerprint, state: State) -> u64 {
        let (word, new_tag) = word::pack(fingerprint.tag, state, self.tag());
        // Release, with the acquire of `seen`: a thread that sees these words sees the slot frozen, so it cannot find
        // the former counter's state.
        let [position, tag, _] = self.0;
        position.store(fingerprint.position, Ordering::Release);
        tag.store(new_tag, Ordering::Release);
        word
    }

    /// Empties a frozen slot.
    pub(super) fn clear(self) {
        let emptied = word::emptied(self.tag());
        // Relaxed: no counter has position 0, so no search finds the slot.
        let [position, tag, _] = self.0;
        position.store(0, Ordering::Relaxed);
        tag.store(emptied, Ordering::Relaxed);
        self.thaw(EMPTY);
    }

    /// Writes what a slot without a counter holds anyway. The first access to a page is cheaper if it is a write: a
    /// read costs a page fault of its own.
    pub(super) fn touch(self) {
        let [position, ..] = self.0;
        position.store(0, Ordering::Relaxed);
    }

    /// The fingerprint kept in a frozen slot.
    pub(super) fn fingerprint(self) -> Fingerprint {
        Fingerprint { position: self.position(), tag: self.tag() >> TAG_SHIFT }
    }
}
