//! The counters of one quota, under several limits at once.

use std::hash::{BuildHasher as _, RandomState};

use prefetch_index::prefetch_index;
use tollgate::{Quota, Timestamp};

use super::denials::RungBits;

/// A counter for each key under each of some limits, side by side: they are looked up together.
///
/// It is a table of slots. The first two words of a slot are the digest of its key, and 0 in a free one; then the end
/// of its window, and the units used under each limit. Windows that open at a key's first unit may end at another
/// time under each limit, so these ends follow, and the first is the last of them.
#[derive(Debug)]
pub(super) struct RungCounters {
    words: Vec<u64>,
    /// The words of a slot, and the slots: a power of two, and more than one. A division for each lookup would be dear.
    stride: usize,
    slots: usize,
    limits: usize,
    /// The length of a window that opens at its first unit, in milliseconds.
    opening: Option<u64>,
    taken: usize,
    /// An odd factor, drawn for each table: a client that chooses its keys cannot choose where they collide.
    factor: u64,
}

/// The words of a slot before the units.
const HEAD: usize = 3;
const END: usize = 2;

/// The binary logarithm of the slots of a new table. There may be thousands, each with a few keys.
const FIRST: u32 = 3;

/// The words of a cache line.
const LINE: usize = 8;

/// One slot.
pub(super) struct CounterSlot<'a> {
    end: &'a mut u64,
    used: &'a mut [u64],
    ends: &'a mut [u64],
    opening: Option<u64>,
}

impl RungCounters {
    /// Without counters so far, for so many limits of a quota. Memory is taken with the first key: many quotas never
    /// have one.
    pub(super) fn new(limits: usize, opening: Option<u64>) -> Self {
        let factor = RandomState::new().hash_one(0) | 1;
        let stride = HEAD + if opening.is_some() { 2 * limits } else { limits };
        let slots = 1 << FIRST;
        Self { words: Vec::new(), stride, slots, limits, opening, taken: 0, factor }
    }

    /// The memory that it takes, in words.
    pub(super) const fn words(&self) -> usize {
        self.words.len()
    }

    /// Where the slot of a key is. It gets one, as long as the table then takes at most so many words; else it is
    /// `None`.
    pub(super) fn place(&mut self, digest: u128, now: Timestamp, max_words: usize) -> Option<usize> {
        let digest = digest.max(1);
        let mut place = self.find(digest);
        if self.is_free(place) {
            if (self.taken + 1) * 4 > self.slots * 3 || self.words.is_empty() {
                self.make_room(now, max_words)?;
                place = self.find(digest);
            }
            self.taken += 1;
            let [high, low] = halves(digest);
            let slot = self.words.get_mut(place..place + END)?;
            slot.copy_from_slice(&[high, low]);
        }
        Some(place)
    }

    /// The slot at this place.
    pub(super) fn slot(&mut self, place: usize) -> Option<CounterSlot<'_>> {
        let (limits, opening, stride) = (self.limits, self.opening, self.stride);
        let slot = self.words.get_mut(place + END..place + stride)?;
        let (end, rest) = slot.split_first_mut()?;
        let (used, ends) = rest.split_at_mut_checked(limits)?;
        Some(CounterSlot { end, used, ends, opening })
    }

    /// Prefetches the memory of a key.
    pub(super) fn prefetch(&self, digest: u128) {
        let first = self.first(digest.max(1)) * self.stride;
        (first..first + self.stride).step_by(LINE).for_each(|word| prefetch_index(&self.words, word));
    }

    fn first(&self, digest: u128) -> usize {
        let product = ((digest >> 32) as u64).wrapping_mul(self.factor);
        (product >> (64 - self.slots.trailing_zeros())) as usize
    }

    /// The place of the digest, or the free one where it would be.
    fn find(&self, digest: u128) -> usize {
        let (digest, mask) = (halves(digest), self.slots - 1);
        let mut slot = self.first((u128::from(digest[0]) << 64) | u128::from(digest[1]));
        loop {
            let place = slot * self.stride;
            match self.words.get(place..place + END) {
                Some(found) if found == digest || found == [0, 0] => return place,
                None => return place,
                Some(_) => slot = (slot + 1) & mask,
            }
        }
    }

    fn is_free(&self, place: usize) -> bool {
        self.words.get(place..place + END).is_none_or(|digest| *digest == [0, 0])
    }

    /// Forgets keys whose windows are over. If that leaves little room, the table becomes twice as large.
    #[cold]
    fn make_room(&mut self, now: Timestamp, max_words: usize) -> Option<()> {
        let stride = self.stride;
        let now = now.as_unix_millis();
        let is_open = |slot: &&[u64]| {
            slot.get(END).is_some_and(|end| end.cast_signed() > now) && slot.get(..END) != Some(&[0, 0])
        };
        let open = self.words.chunks_exact(stride).filter(is_open).count();
        let slots = if open * 2 > self.slots { self.slots * 2 } else { self.slots };
        if slots * stride > max_words {
            return None;
        }
        let before = std::mem::replace(&mut self.words, vec![0; slots * stride]);
        self.slots = slots;
        for slot in before.chunks_exact(stride).filter(is_open) {
            let [high, low, ..] = *slot else { continue };
            let place = self.find((u128::from(high) << 64) | u128::from(low));
            self.words.get_mut(place..place + stride)?.copy_from_slice(slot);
        }
        self.taken = open;
        Some(())
    }
}

const fn halves(digest: u128) -> [u64; 2] {
    [(digest >> 64) as u64, digest as u64]
}

impl CounterSlot<'_> {
    /// Enters the window that is open now, which ends then unless it opens at its first unit.
    pub(super) fn enter(&mut self, now: Timestamp, end: Timestamp) {
        if self.opening.is_some() {
            let now = now.as_unix_millis();
            let over = self.used.iter_mut().zip(&*self.ends).filter(|(_, end)| end.cast_signed() <= now);
            over.for_each(|(used, _)| *used = 0);
        } else if self.end.cast_signed() != end.as_unix_millis() {
            *self.end = end.as_unix_millis().cast_unsigned();
            self.used.fill(0);
        }
    }

    /// The limits under which so many units do not fit.
    pub(super) fn without_room(&self, units: u64, limits: impl Iterator<Item = u64>) -> RungBits {
        let each = self.used.iter().zip(limits).enumerate();
        each.fold(0, |bits, (rung, (used, limit))| bits | RungBits::from(used + units > limit) << rung)
    }

    /// Adds units under these limits.
    pub(super) fn add(&mut self, units: u64, limits: RungBits, now: Timestamp) {
        if units == 0 {
            return;
        }
        for (rung, used) in self.used.iter_mut().enumerate().filter(|(rung, _)| limits >> rung & 1 == 1) {
            if let (0, Some(length), Some(end)) = (*used, self.opening, self.ends.get_mut(rung)) {
                *end = now.as_unix_millis().saturating_add_unsigned(length).cast_unsigned();
                *self.end = *end;
            }
            *used = (*used + units).min(Quota::MAX_LIMIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(millis)
    }

    /// Keys that come once and never again took memory for ever.
    #[test]
    fn keys_whose_windows_are_over_make_room() {
        let mut counters = RungCounters::new(3, None);
        for number in 0..10_000 {
            let (now, end) = (at(number), at(number / 40 * 40 + 40));
            // The first bits of some are the same.
            let place = counters.place(u128::from(number.unsigned_abs()) << 60, now, 1 << 12).unwrap();
            let mut slot = counters.slot(place).unwrap();
            slot.enter(now, end);
            assert_eq!(slot.without_room(1, [0, 1, 2].into_iter()), 0b001);
            slot.add(1, 0b111, now);
            assert_eq!(slot.without_room(1, [0, 1, 2].into_iter()), 0b011);
        }
        assert!(counters.words() <= 1 << 12, "{}", counters.words());
        let open = |number: u128| {
            let place = counters.place(number << 70 | 1, at(0), 1 << 12)?;
            counters.slot(place).unwrap().enter(at(0), at(1));
            Some(())
        };
        assert!((0..10_000).map(open).any(|open| open.is_none()));
        assert!(counters.words() <= 1 << 12, "{}", counters.words());
    }

    #[test]
    fn a_window_that_opens_at_its_first_unit_is_one_of_each_limit() {
        let mut counters = RungCounters::new(2, Some(100));
        let place = counters.place(7, at(0), 1 << 12).unwrap();
        let mut slot = counters.slot(place).unwrap();
        slot.enter(at(0), at(100));
        slot.add(1, 0b01, at(0));
        slot.enter(at(50), at(150));
        slot.add(1, 0b10, at(50));
        slot.enter(at(100), at(200));
        assert_eq!(slot.without_room(1, [1, 1].into_iter()), 0b10);
        slot.enter(at(150), at(250));
        assert_eq!(slot.without_room(1, [1, 1].into_iter()), 0b00);
    }
}
