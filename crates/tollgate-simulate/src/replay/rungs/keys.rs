//! A table of keys by their digests.

use std::hash::{BuildHasher as _, RandomState};

use prefetch_index::prefetch_index;

/// The binary logarithm of the places of a new table. There may be thousands, each with a few keys.
const FIRST: u32 = 3;

/// Values of keys. Unlike a map of the standard library, it can prefetch the place of a key.
#[derive(Debug)]
pub(super) struct KeyTable<V> {
    /// A power of two, with 0 in places that are free.
    digests: Vec<u128>,
    values: Vec<V>,
    taken: usize,
    /// An odd factor, drawn for each table: a client that chooses its keys cannot choose where they collide.
    factor: u64,
}

impl<V: Default> KeyTable<V> {
    pub(super) fn new() -> Self {
        let factor = RandomState::new().hash_one(0) | 1;
        Self { digests: Vec::new(), values: Vec::new(), taken: 0, factor }
    }

    /// Returns how many places there are.
    pub(super) const fn places(&self) -> usize {
        self.digests.len()
    }

    /// Returns how many places there will be after one more key, which is new.
    pub(super) const fn places_with_another(&self) -> usize {
        if self.is_full() { self.places_after_growth() } else { self.places() }
    }

    /// Finds a key's value.
    pub(super) fn get_mut(&mut self, digest: u128) -> Option<&mut V> {
        let place = self.find(digest.max(1));
        self.values.get_mut(place).filter(|_| self.digests.get(place) != Some(&0))
    }

    /// Adds a key that is not there yet.
    pub(super) fn insert(&mut self, digest: u128, value: V) -> Option<&mut V> {
        if self.is_full() {
            self.rebuild(self.places_after_growth());
        }
        let place = self.find(digest.max(1));
        *self.digests.get_mut(place)? = digest.max(1);
        self.taken += 1;
        let found = self.values.get_mut(place)?;
        *found = value;
        Some(found)
    }

    /// Forgets the keys of which this is not true, and the places that are then too many.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        for (digest, value) in self.digests.iter_mut().zip(&mut self.values) {
            if *digest != 0 && !is_kept(value) {
                (*digest, *value) = (0, V::default());
                self.taken -= 1;
            }
        }
        let mut places = self.places();
        while places > 1 << FIRST && self.taken * 4 < places {
            places /= 2;
        }
        self.rebuild(places);
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        let taken = self.digests.iter().zip(&self.values).filter(|(digest, _)| **digest != 0);
        taken.map(|(_, value)| value)
    }

    /// Prefetches the memory of a key.
    pub(super) fn prefetch(&self, digest: u128) {
        let first = self.first(digest.max(1));
        prefetch_index(&self.digests, first);
        prefetch_index(&self.values, first);
    }

    const fn is_full(&self) -> bool {
        (self.taken + 1) * 4 > self.places() * 3
    }

    const fn places_after_growth(&self) -> usize {
        if self.places() == 0 { 1 << FIRST } else { self.places() * 2 }
    }

    fn first(&self, digest: u128) -> usize {
        let product = ((digest >> 32) as u64).wrapping_mul(self.factor);
        product.checked_shr(64 - self.places().trailing_zeros()).unwrap_or(0) as usize
    }

    /// The place of the digest, or the free one where it would be.
    fn find(&self, digest: u128) -> usize {
        let mut place = self.first(digest);
        while self.digests.get(place).is_some_and(|found| *found != digest && *found != 0) {
            place = (place + 1) & (self.places() - 1);
        }
        place
    }

    fn rebuild(&mut self, places: usize) {
        let digests = std::mem::replace(&mut self.digests, vec![0; places]);
        let free = std::iter::repeat_with(V::default).take(places).collect();
        let values = std::mem::replace(&mut self.values, free);
        for (digest, value) in digests.into_iter().zip(values).filter(|(digest, _)| *digest != 0) {
            let place = self.find(digest);
            if let Some((found, kept)) = self.digests.get_mut(place).zip(self.values.get_mut(place)) {
                (*found, *kept) = (digest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn keeps_what_a_map_keeps() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut table, mut map) = (KeyTable::new(), HashMap::new());
        for step in 0..20_000_u64 {
            // Some share their first bits.
            let digest = u128::from(random.u64(1..3_000)) << [0, 40][random.usize(0..2)];
            assert_eq!(table.get_mut(digest).copied(), map.get(&digest).copied());
            if map.insert(digest, step).is_none() {
                assert!(table.insert(digest, step).is_some());
            } else {
                *table.get_mut(digest).unwrap() = step;
            }
            if random.u32(0..500) == 0 {
                table.retain(|value| value % 3 == 0);
                map.retain(|_, value| *value % 3 == 0);
            }
            assert_eq!((table.taken, table.values().count()), (map.len(), map.len()));
            assert!(map.len() * 4 <= table.places() * 3, "{} of {}", map.len(), table.places());
        }
    }
}
