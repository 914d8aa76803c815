//! The state of a counter in its slot, packed into two words.
//!
//! The state word is one of these:
//!
//! ```text
//!  0                  empty: never used
//!  1                  free: its counter is gone, the slot waits for another
//!  from 2^60          upper 20 bits of the end │ level (40)             wide
//!  from 2^63          second (17) │ generation (15) │ level (32)        compact
//!  all ones           frozen: another thread is at it
//! ```
//!
//! The tag word has 16 bits of the fingerprint. The bits below change only under the shard's lock:
//!
//! ```text
//!  tag (16) │ lead (10) │ era (20) │ generation (18)      compact
//!  tag (16) │ lower 30 bits of the end │ generation (18)  wide
//! ```
//!
//! In a compact state, everything that a charge changes is in one word, so one compare-and-swap decides. The state ends
//! `lead` milliseconds before the second `era * 2^14 + second` of Unix time. For at least thirteen hours, states follow
//! each other in one era; then, or if windows are longer, the next one is written under the lock. It fits levels below
//! 2^32; larger ones are wide: as small, but changed only under the lock.

use super::stored::State;
use crate::Timestamp;

pub(super) const EMPTY: u64 = 0;
pub(super) const FREE: u64 = 1;
pub(super) const FROZEN: u64 = u64::MAX;

/// The number of generations that a state word distinguishes.
pub(super) const GENERATIONS: u64 = 1 << 15;
/// The number that a tag word distinguishes.
pub(super) const TAG_GENERATIONS: u64 = 1 << ERA_SHIFT;

const SECOND_SHIFT: u32 = 47;
const GENERATION_SHIFT: u32 = 32;
const COMPACT_LEVEL: u64 = 1 << 32;
const FIRST_SECOND: u64 = 1 << 16;
/// One less than fits: a frozen slot has the last.
const LAST_SECOND: u64 = (1 << 17) - 2;
/// The least compact word.
const COMPACT: u64 = FIRST_SECOND << SECOND_SHIFT;

pub(super) const TAG_SHIFT: u32 = 48;
const LEAD_SHIFT: u32 = 38;
const ERA_SHIFT: u32 = 18;
/// An era has this power of two seconds.
const ERA: u32 = 14;
/// The eras before and after 1970 that fit into the tag word: 272 years.
const ERAS: i64 = 1 << 19;

const WIDE: u64 = 1 << 60;
const WIDE_LEVEL_BITS: u32 = 40;
const WIDE_END_BITS: u32 = 30;
/// Wide ends are counted from this far before 1970, in milliseconds: 17,839 years.
const WIDE_ORIGIN: i64 = 1 << 49;

/// The earliest and the latest time that a store keeps, in Unix milliseconds: outside of them its clock stands still.
/// So a window that ends later than a slot can express never looks closed.
const REACH: (i64, i64) = (-WIDE_ORIGIN / 2, WIDE_ORIGIN / 2);

/// The time, limited to the range of a store.
pub(super) fn clamp(now: Timestamp) -> Timestamp {
    // As `Ord::clamp`, without its check that the bounds are in order.
    Timestamp::from_unix_millis(now.as_unix_millis().max(REACH.0).min(REACH.1))
}

/// Returns whether one compare-and-swap changes a counter with this state word.
#[inline(always)]
pub(super) const fn is_compact(word: u64) -> bool {
    COMPACT <= word && word < FROZEN
}

/// Returns whether the state word belongs to a counter.
pub(super) const fn is_held(word: u64) -> bool {
    WIDE <= word && word < FROZEN
}

/// Returns whether both words are of the same generation; a compact state always has one.
#[inline(always)]
pub(super) const fn is_one_generation(word: u64, tag: u64) -> bool {
    (word >> GENERATION_SHIFT ^ tag) & (GENERATIONS - 1) == 0
}

/// The state in a compact word and its tag word.
#[inline(always)]
pub(super) const fn open(word: u64, tag: u64) -> State {
    let second = (era(tag) << ERA) + (word >> SECOND_SHIFT).cast_signed();
    let end = Timestamp::from_unix_millis(second * 1000 - lead(tag).cast_signed());
    State { level: word & (COMPACT_LEVEL - 1), end }
}

/// The state in both words, if there is a counter.
pub(super) const fn state(word: u64, tag: u64) -> Option<State> {
    if is_compact(word) {
        return Some(open(word, tag));
    }
    if !is_held(word) {
        return None;
    }
    let (wide, end_below) = (word - WIDE, tag >> ERA_SHIFT & ((1 << WIDE_END_BITS) - 1));
    let end = (wide >> WIDE_LEVEL_BITS << WIDE_END_BITS | end_below).cast_signed() - WIDE_ORIGIN;
    let level = wide & ((1 << WIDE_LEVEL_BITS) - 1);
    Some(State { level, end: Timestamp::from_unix_millis(end) })
}

/// Returns a compact word with a level that is higher by this, if it fits.
#[inline(always)]
pub(super) const fn add_level(word: u64, more: u64) -> Option<u64> {
    // A carry into the generation would make it another state.
    if (word & (COMPACT_LEVEL - 1)) + more < COMPACT_LEVEL { Some(word + more) } else { None }
}

/// Returns the next compact word for this state, if the tag word can stay.
pub(super) fn succeed(word: u64, tag: u64, state: State) -> Option<u64> {
    let (second, lead_of_end) = second_and_lead(state.end);
    let compact = compact(second - (era(tag) << ERA), word >> GENERATION_SHIFT, state.level);
    compact.filter(|_| lead(tag) == lead_of_end)
}

/// Returns the words of this state and this part of a fingerprint in a slot that had this tag word, in the next
/// generation.
///
/// A word that a thread has read never comes to mean another counter or window, unless the slot goes through all
/// [`GENERATIONS`] meanwhile, which [`generations`] shows.
pub(super) fn pack(kept_tag: u64, state: State, tag_before: u64) -> (u64, u64) {
    let generation = (tag_before + 1) & (TAG_GENERATIONS - 1);
    let (second, lead) = second_and_lead(state.end);
    // This leaves room for as many seconds as possible.
    let era = (second - FIRST_SECOND.cast_signed()) >> ERA;
    let (word, below) = match compact(second - (era << ERA), generation, state.level) {
        Some(word) if (-ERAS..ERAS).contains(&era) => {
            let era = era.cast_unsigned() & (2 * ERAS.cast_unsigned() - 1);
            (word, lead << LEAD_SHIFT | era << ERA_SHIFT | generation)
        }
        _ => wide(state, generation),
    };
    (word, kept_tag << TAG_SHIFT | below)
}

/// The tag word of a slot without a counter: only the generation is kept.
pub(super) const fn emptied(tag: u64) -> u64 {
    tag & (TAG_GENERATIONS - 1)
}

/// The number of generations that a slot went through from one tag word to another, modulo [`TAG_GENERATIONS`].
pub(super) const fn generations(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & (TAG_GENERATIONS - 1)
}

fn compact(second: i64, generation: u64, level: u64) -> Option<u64> {
    let second = u64::try_from(second).ok()?;
    let fits = (FIRST_SECOND..=LAST_SECOND).contains(&second) && level < COMPACT_LEVEL;
    let generation = generation & (GENERATIONS - 1);
    fits.then_some(second << SECOND_SHIFT | generation << GENERATION_SHIFT | level)
}

fn wide(state: State, generation: u64) -> (u64, u64) {
    let end = state.end.as_unix_millis().saturating_add(WIDE_ORIGIN);
    let end = end.clamp(0, 2 * WIDE_ORIGIN - 1).cast_unsigned();
    let (above, below) = (end >> WIDE_END_BITS, end & ((1 << WIDE_END_BITS) - 1));
    let word = WIDE + (above << WIDE_LEVEL_BITS | state.level);
    (word, below << ERA_SHIFT | generation)
}

/// The second of a window's end, rounded up, and the milliseconds from the end to it.
fn second_and_lead(end: Timestamp) -> (i64, u64) {
    let second = end.as_unix_millis().div_euclid(1000) + i64::from(end.as_unix_millis().rem_euclid(1000) > 0);
    (second, (second * 1000 - end.as_unix_millis()).cast_unsigned())
}

#[inline(always)]
const fn era(tag: u64) -> i64 {
    // Signed: there are eras before 1970.
    (tag << (64 - LEAD_SHIFT)).cast_signed() >> (64 - LEAD_SHIFT + ERA_SHIFT)
}

#[inline(always)]
const fn lead(tag: u64) -> u64 {
    tag >> LEAD_SHIFT & ((1 << (TAG_SHIFT - LEAD_SHIFT)) - 1)
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::Quota;

    const NOW: i64 = 1_700_000_000_000;
    const YEAR: i64 = 365 * 86_400_000;

    fn state_of(level: u64, end: i64) -> State {
        State { level, end: Timestamp::from_unix_millis(end) }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Every state of a counter can be read back, with the fingerprint's bits and in the next generation.
        #[test]
        fn states_come_back(
            used in prop_oneof![0..5_u64, (1_u64 << 32) - 2..(1 << 32) + 2, 0..=Quota::MAX_LIMIT],
            end in prop_oneof![NOW - 2_000..NOW + 2_000, REACH.0..REACH.1 + 11 * YEAR],
            kept_tag in 0..1_u64 << 16,
            tag_before: u64,
        ) {
            let (word, tag) = pack(kept_tag, state_of(used, end), tag_before);
            prop_assert_eq!(state(word, tag), Some(state_of(used, end)));
            // Eras go no further.
            let has_era = (-272..272).contains(&(end / YEAR));
            prop_assert!(is_compact(word) == (used < 1 << 32) || !has_era);
            prop_assert_eq!(tag >> TAG_SHIFT, kept_tag);
            prop_assert_eq!(generations(tag_before, tag), 1);
            prop_assert!(!is_compact(word) || is_one_generation(word, tag));
        }

        /// A window's successor needs one word if the fraction of the second is the same, for at least thirteen hours.
        #[test]
        fn a_window_is_followed_by_others_in_the_same_era(end in NOW - YEAR..NOW + YEAR, later in 0..13 * 3_600_i64) {
            let (word, tag) = pack(0, state_of(7, end), 0);
            let next = state_of(1, end + later * 1_000);
            let followed = succeed(word, tag, next).expect("it fits");
            prop_assert_eq!(state(followed, tag), Some(next));
            prop_assert!(is_one_generation(followed, tag));
            prop_assert_eq!(succeed(word, tag, state_of(1, end + later * 1_000 + 1)), None);
        }
    }

    /// Every fraction of a second, at the seconds where an era or the room for seconds ends, and at the first and last
    /// times that a store keeps; every count where a state changes its form or the bits end; all 64 generations of a
    /// state word and the last ones of a tag word.
    #[test]
    fn all_fractions_counts_and_generations_come_back() {
        let now = (NOW / 1_000) >> ERA;
        let eras = [0, 1, -1, now - 1, now, now + 1].map(|era| era << ERA);
        let seconds = eras.into_iter().flat_map(|first| [-2, -1, 0, 1].map(|near| first + near));
        let seconds =
            seconds.chain([NOW / 1_000, REACH.0 / 1_000, REACH.1 / 1_000, (REACH.1 + 11 * YEAR) / 1_000]);
        let counts = [0, 1, (1 << 32) - 2, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, Quota::MAX_LIMIT];
        let ends = seconds.flat_map(|second| (0..1_000).map(move |millis| second * 1_000 + millis));
        for end in ends {
            for used in counts {
                for before in [0, GENERATIONS - 2, TAG_GENERATIONS - 2, TAG_GENERATIONS - 1] {
                    let (word, tag) = pack(0xabcd, state_of(used, end), before);
                    assert_eq!(state(word, tag), Some(state_of(used, end)), "{used} until {end}");
                    assert_eq!((tag >> TAG_SHIFT, is_held(word)), (0xabcd, true), "{used} until {end}");
                    assert!(!is_compact(word) || is_one_generation(word, tag), "{used} until {end}");
                }
            }
        }
    }

    /// All generations of a state word, at the times and counts where it has fewest bits to spare.
    #[test]
    fn no_two_generations_of_a_state_share_a_word() {
        for end in [0, NOW, NOW + 1, (((NOW / 1_000) >> ERA) << ERA) * 1_000, REACH.0, REACH.1] {
            for used in [0, 1, (1 << 32) - 1] {
                let words = (0..GENERATIONS).map(|before| {
                    let (word, tag) = pack(0, state_of(used, end), before);
                    if is_compact(word) { (word, 0) } else { (word, tag) }
                });
                let words: HashSet<(u64, u64)> = words.collect();
                assert_eq!(words.len() as u64, GENERATIONS, "{used} until {end}");
            }
        }
    }

    /// Each generation of a tag word, and a step over its last one.
    #[test]
    fn generations_are_counted_across_all_forms_of_a_slot() {
        let states = [state_of(1, NOW), state_of(1 << 33, NOW), state_of(7, NOW + 1)];
        let (_, first) = pack(0xabcd, states[0], TAG_GENERATIONS - 3);
        let mut tag = first;
        for generation in 1..GENERATIONS + 3 {
            let state = states[generation as usize % 3];
            (_, tag) = pack(generation, state, if generation % 5 == 0 { emptied(tag) } else { tag });
            assert_eq!(generations(first, tag), generation);
        }
    }

    /// After some 582 days of uptime, no state fit into one word.
    #[test]
    fn states_are_compact_however_late_it_is() {
        for year in -200..200 {
            for length in [0, 1, 10] {
                let (word, _) = pack(0, state_of(5, NOW + (year + length) * YEAR + 123), 0);
                assert!(is_compact(word), "year {year}, {length} years ahead");
            }
        }
    }

    #[test]
    fn units_are_added_up_to_the_end_of_their_bits() {
        let (word, tag) = pack(0, state_of((1 << 32) - 2, NOW), 0);
        let full = add_level(word, 1).unwrap();
        assert_eq!(state(full, tag), Some(state_of((1 << 32) - 1, NOW)));
        assert_eq!(add_level(full, 1), None);
        assert_eq!(succeed(word, tag, state_of(1 << 32, NOW)), None);
    }

    #[test]
    fn a_slot_without_a_counter_holds_nothing() {
        for word in [EMPTY, FREE, FROZEN] {
            assert_eq!((state(word, 0), is_held(word), is_compact(word)), (None, false, false));
        }
    }
}
