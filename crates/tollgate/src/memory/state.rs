//! What a slot says of its counter, packed into words.
//!
//! The state word comes in four forms, told apart by its upper 26 bits:
//!
//! ```text
//!  0                  0                                  empty: never used
//!  0                  1 │ lower 37 bits of used          wide: the rest is in the tag word
//!  1 ..= 2^26 - 2     generation (6) │ used (32)         compact: the window ends at base + upper bits, in s
//!  2^26 - 1           all ones                           frozen: another thread is at it
//! ```
//!
//! A compact state says everything in one word, so one compare-and-swap decides. It fits windows that end on a
//! whole second within a year and a half, and counts below 2^32. Everything else is wide: just as small, but
//! it changes under the slice's lock alone.
//!
//! The tag word keeps 16 bits of the fingerprint, and below them, for a wide state, the upper 3 bits of used
//! and the end in milliseconds.

use crate::Timestamp;

pub(super) const EMPTY: u64 = 0;
pub(super) const FROZEN: u64 = u64::MAX;
/// A counter that was forgotten: compact, nothing used, long closed.
pub(super) const FORGOTTEN: u64 = 1 << END_SHIFT;

/// After how many generations of a slice a word can come back: see [`Base::compact`].
pub(super) const GENERATIONS: u64 = 1 << 6;

const END_SHIFT: u32 = 38;
const GENERATION_SHIFT: u32 = 32;
const LAST_END: u64 = (1 << 26) - 2;
const COMPACT_USED: u64 = 1 << 32;

const WIDE: u64 = 1 << 37;
const WIDE_END_BITS: u32 = 45;
/// Wide ends are counted from this far before the base: 557 years.
const WIDE_ORIGIN: i64 = 1 << (WIDE_END_BITS - 1);
/// How far from its base a store can keep time.
const REACH: i64 = WIDE_ORIGIN / 2;

pub(super) const TAG_SHIFT: u32 = 48;

/// A state word, told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Empty,
    Frozen,
    Compact(State),
    /// With the lower bits of used.
    Wide(u64),
}

/// What a counter has used, and when its window ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) used: u64,
    pub(super) end: Timestamp,
}

/// The generation of a compact word.
pub(super) const fn generation(word: u64) -> u64 {
    word >> GENERATION_SHIFT & (GENERATIONS - 1)
}

/// A compact word with so many more units used, if they fit.
pub(super) const fn add_used(word: u64, cost: u64) -> Option<u64> {
    // Carried into the generation, the sum would stand for another state.
    if (word & (COMPACT_USED - 1)) + cost < COMPACT_USED { Some(word + cost) } else { None }
}

/// From where a store counts time: half a year before it was made, so that its clock may step back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base {
    seconds: i64,
    /// The earliest and the latest time that can be kept, in Unix milliseconds.
    reach: (i64, i64),
}

impl Base {
    pub(super) fn new(now: Timestamp) -> Self {
        // In the middle of all time, where nothing below can overflow.
        let seconds = now.as_unix_millis().div_euclid(1000).clamp(-(1 << 52), 1 << 52);
        let seconds = seconds - (1 << 24);
        Self { seconds, reach: (seconds * 1000 - REACH, seconds * 1000 + REACH) }
    }

    /// The time as far as a store can keep it: 278 years from its base its clock stands still. So a window
    /// that ends beyond what a slot can say is never taken for one that has closed.
    pub(super) fn clamp(self, now: Timestamp) -> Timestamp {
        // As `Ord::clamp`, without its check that the bounds are in order.
        Timestamp::from_unix_millis(now.as_unix_millis().max(self.reach.0).min(self.reach.1))
    }

    pub(super) fn word(self, word: u64) -> Word {
        match (word, word >> END_SHIFT) {
            (EMPTY, _) => Word::Empty,
            (FROZEN, _) => Word::Frozen,
            (_, 0) => Word::Wide(word & (WIDE - 1)),
            (_, end) => {
                let millis = self.seconds.saturating_add_unsigned(end) * 1000;
                Word::Compact(State {
                    used: word & (COMPACT_USED - 1),
                    end: Timestamp::from_unix_millis(millis),
                })
            }
        }
    }

    /// When the window of a compact word ends, and what is used in it.
    #[inline(always)]
    pub(super) fn open(self, word: u64) -> (Timestamp, u64) {
        let millis = (self.seconds + (word >> END_SHIFT).cast_signed()) * 1000;
        (Timestamp::from_unix_millis(millis), word & (COMPACT_USED - 1))
    }

    /// The state in one word, if it fits.
    ///
    /// A slice's generation grows whenever its counters change places, some are forgotten or swept, or one is taken
    /// back into an earlier window. Without that, a slot goes to another counter only when its window has closed,
    /// and then its end is a later one. So no word that a thread has read of one counter comes to stand for another
    /// one, unless the generation grows by 64 meanwhile: that is looked for by whoever swaps a word.
    pub(super) fn compact(self, state: State, generation: u64) -> Option<u64> {
        let millis = state.end.as_unix_millis();
        let end = u64::try_from(millis.div_euclid(1000) - self.seconds).ok()?;
        let fits = millis.rem_euclid(1000) == 0 && (2..=LAST_END).contains(&end) && state.used < COMPACT_USED;
        let generation = generation % GENERATIONS;
        fits.then_some(end << END_SHIFT | generation << GENERATION_SHIFT | state.used)
    }

    /// The state in a state word and the lower bits of a tag word.
    pub(super) fn wide(self, state: State) -> (u64, u64) {
        let end = state.end.as_unix_millis() - self.seconds * 1000 + WIDE_ORIGIN;
        let end = end.clamp(0, 2 * WIDE_ORIGIN - 1).unsigned_abs();
        (WIDE | (state.used & (WIDE - 1)), (state.used >> 37) << WIDE_END_BITS | end)
    }

    /// The state of a wide slot, from the lower bits of used and the tag word.
    pub(super) fn wide_state(self, used: u64, tag: u64) -> State {
        let end = (tag & ((1 << WIDE_END_BITS) - 1)).cast_signed() - WIDE_ORIGIN + self.seconds * 1000;
        let upper = (tag >> WIDE_END_BITS) & 0b111;
        State { used: upper << 37 | used, end: Timestamp::from_unix_millis(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    const NOW: i64 = 1_700_000_000_000;

    fn state(used: u64, end: i64) -> State {
        State { used, end: Timestamp::from_unix_millis(end) }
    }

    #[test]
    fn compact_states_come_back_and_others_do_not_fit() {
        let base = Base::new(Timestamp::from_unix_millis(NOW));
        for (used, end) in [(0, NOW), (5, NOW + 60_000), (u64::from(u32::MAX), NOW + 365 * 86_400_000)] {
            let word = base.compact(state(used, end), 63 + 64).unwrap();
            assert_eq!(base.word(word), Word::Compact(state(used, end)));
        }
        for (used, end) in
            [(1 << 32, NOW), (1, NOW + 1), (1, NOW + 4 * 365 * 86_400_000), (1, NOW - 86_400_000 * 365)]
        {
            assert_eq!(base.compact(state(used, end), 0), None);
        }
    }

    #[test]
    fn wide_states_come_back() {
        let base = Base::new(Timestamp::from_unix_millis(NOW));
        for used in [0, 1, (1 << 37) - 1, 1 << 37, Quota::MAX_LIMIT] {
            for end in [NOW - REACH / 2, NOW + 1, NOW + REACH / 2] {
                let (word, tag) = base.wide(state(used, end));
                let Word::Wide(lower) = base.word(word) else { panic!("{word:x} is not wide") };
                assert!(tag < 1 << TAG_SHIFT);
                assert_eq!(base.wide_state(lower, tag | 0xabcd << TAG_SHIFT), state(used, end));
            }
        }
    }

    #[test]
    fn a_forgotten_counter_is_closed() {
        let base = Base::new(Timestamp::from_unix_millis(NOW));
        let Word::Compact(State { used: 0, end }) = base.word(FORGOTTEN) else { panic!("not compact") };
        assert!(end < Timestamp::from_unix_millis(NOW));
    }
}
