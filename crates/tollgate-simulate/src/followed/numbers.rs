//! A number for each digest.

use std::hash::{BuildHasher as _, RandomState};

use prefetch_index::prefetch_index;

/// Digests of keys, with a number for each: a table of slots of 16 bytes, at most three quarters of them taken.
///
/// A lookup meets one cache line, as a rule. Where it begins is drawn for each table: a client that chooses its keys
/// cannot choose where they collide.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The first 96 bits of a digest, and its number from 1 on in place of the rest; 0 in a free slot.
    slots: Vec<u128>,
    count: usize,
    /// An odd factor.
    factor: u64,
}

/// The bits of a slot that are its number.
const NUMBER: u128 = 0xffff_ffff;

impl Default for Numbers {
    fn default() -> Self {
        Self { slots: vec![0; 1 << 4], count: 0, factor: RandomState::new().hash_one(0) | 1 }
    }
}

impl Numbers {
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, digest: u128) -> Option<u32> {
        let slot = self.slots.get(self.find(digest))?;
        u32::try_from(slot & NUMBER).ok()?.checked_sub(1)
    }

    /// Prefetches the memory of a digest.
    pub(crate) fn prefetch(&self, digest: u128) {
        prefetch_index(&self.slots, self.first(digest));
    }

    /// Puts in a digest that is not there. The last number is kept free.
    pub(crate) fn insert(&mut self, digest: u128, number: u32) {
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            let twice = vec![0; self.slots.len() * 2];
            let before = std::mem::replace(&mut self.slots, twice);
            before.into_iter().filter(|slot| *slot != 0).for_each(|slot| self.put(slot));
        }
        self.put(digest & !NUMBER | (u128::from(number) + 1));
        self.count += 1;
    }

    /// All digests without their last 32 bits, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, u32)> {
        let taken = self.slots.iter().filter(|slot| **slot != 0);
        taken.filter_map(|slot| Some((slot & !NUMBER, u32::try_from((slot & NUMBER) - 1).ok()?)))
    }

    fn put(&mut self, taken: u128) {
        let place = self.find(taken);
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = taken;
        }
    }

    /// The slot of a digest, or the free one where it would be.
    fn find(&self, digest: u128) -> usize {
        let mut place = self.first(digest);
        while self.slots.get(place).is_some_and(|slot| *slot != 0 && (slot ^ digest) & !NUMBER != 0) {
            place = (place + 1) & (self.slots.len() - 1);
        }
        place
    }

    fn first(&self, digest: u128) -> usize {
        // The highest bits say which clients are followed, so the table may hold few values of them.
        let product = ((digest >> 32) as u64).wrapping_mul(self.factor);
        // There is a power of two of slots, and more than one.
        (product >> (64 - self.slots.len().ilog2())) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_found_by_their_first_96_bits() {
        let mut random = fastrand::Rng::with_seed(3);
        let digests: Vec<u128> = (0..50_000).map(|_| random.u128(..)).collect();
        let mut numbers = Numbers::default();
        for (number, digest) in (0..).zip(&digests) {
            assert_eq!(numbers.get(*digest), None);
            numbers.insert(*digest, number);
        }
        assert_eq!(numbers.len(), digests.len());
        for (number, digest) in (0..).zip(&digests) {
            assert_eq!(numbers.get(*digest), Some(number));
            assert_eq!(numbers.get(digest ^ 1), Some(number));
            assert_eq!(numbers.get(digest ^ 1 << 32), None);
            assert_eq!(numbers.get(digest ^ 1 << 127), None);
        }
        let mut all: Vec<(u128, u32)> = numbers.iter().collect();
        all.sort_unstable_by_key(|(_, number)| *number);
        assert!(all.into_iter().eq(digests.iter().map(|digest| digest & !NUMBER).zip(0..)));
    }
}
