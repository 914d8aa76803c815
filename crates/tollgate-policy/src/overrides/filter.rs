//! A filter in front of many overrides: most keys have none, and learn it from one word of memory.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::row::{Digest, KeyRow};
use super::tree::Tree;

/// Shows for most digests that no override has them. It never hides one that an override has.
///
/// All versions of the overrides share it. A change adds bits and takes none away, so an older version may find a bit of
/// a newer one, and then looks at its rows in vain.
#[derive(Debug)]
pub(super) struct DigestFilter {
    words: Box<[AtomicU64]>,
    /// Digests that may still be added before it shows too many as present.
    room: AtomicUsize,
}

/// Bits for each digest when it is full. With four of them set, two looks in a hundred are in vain then, and less than
/// one after it was made.
const BITS: usize = 12;

impl DigestFilter {
    /// Fewer rows are found as fast as a word of the filter.
    const FEWEST: usize = 64;

    /// Creates a filter of these rows, with room for half as many more; `None` if they need none.
    pub(super) fn of(rows: &Tree<KeyRow>) -> Option<Self> {
        if rows.len() < Self::FEWEST {
            return None;
        }
        let most = rows.len() + rows.len() / 2;
        let words = (most * BITS).div_ceil(64);
        let filter =
            Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), room: AtomicUsize::new(most) };
        rows.iter().for_each(|row| _ = filter.add(row.digest()));
        Some(filter)
    }

    /// Returns whether an override may have this digest.
    #[inline]
    pub(super) fn may_have(&self, digest: Digest) -> bool {
        let bits = bits(digest);
        // Relaxed: a digest is added before the version with its override is published, and readers hold a version.
        self.word(digest).is_none_or(|word| word.load(Ordering::Relaxed) & bits == bits)
    }

    /// Adds a digest. Returns whether there was room for it.
    pub(super) fn add(&self, digest: Digest) -> bool {
        let bits = bits(digest);
        // Relaxed: as above.
        let Some(word) = self.word(digest) else { return false };
        if word.fetch_or(bits, Ordering::Relaxed) & bits == bits {
            return true;
        }
        let room = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(1));
        room.is_ok()
    }

    fn word(&self, digest: Digest) -> Option<&AtomicU64> {
        let place = (u128::from(digest.low) * self.words.len() as u128) >> 64;
        self.words.get(place as usize)
    }
}

/// The bits of a digest in its word, from other parts of the digest than the place of the word.
const fn bits(Digest { high, .. }: Digest) -> u64 {
    1 << (high & 63) | 1 << (high >> 6 & 63) | 1 << (high >> 12 & 63) | 1 << (high >> 18 & 63)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::overrides::OverrideKey;
    use crate::overrides::row::OverrideRow;

    #[test]
    fn a_filter_hides_no_override_and_few_looks_are_in_vain() {
        let mut random = fastrand::Rng::with_seed(1);
        let row = OverrideRow::for_test();
        let mut keys: Vec<u128> = (0..10_000).map(|_| random.u128(..)).collect();
        keys.sort_unstable();
        let rows = keys.iter().map(|key| KeyRow::new(OverrideKey(*key), row.clone()));
        let filter = Arc::new(DigestFilter::of(&Tree::of_sorted([rows.collect()])).unwrap());
        let later: Vec<u128> = (0..4_900).map(|_| random.u128(..)).collect();
        assert!(later.iter().all(|key| filter.add(OverrideKey(*key).into())));
        assert!(keys.iter().chain(&later).all(|key| filter.may_have(OverrideKey(*key).into())));
        let vain = (0..100_000).filter(|_| filter.may_have(OverrideKey(random.u128(..)).into())).count();
        assert!(vain < 3_000, "{vain} of 100,000");
        let added = (0..100_000).take_while(|_| filter.add(OverrideKey(random.u128(..)).into())).count();
        assert!(added < 500, "{added} more");
    }
}
