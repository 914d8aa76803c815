//! The digests of keys that were digested recently.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use siphasher::sip128::SipHasher13;
use smallvec::SmallVec;
use tollgate::Key;

/// The digests of keys that were digested recently.
///
/// A cryptographic digest takes as long as a part of a check. So a key is first looked up by a keyed hash of 128 bits, of
/// which 110 are compared. The hash key is random, and nobody outside this process learns it, so nobody can find
/// two keys that are taken for each other.
///
/// # Consistency
///
/// A line is one of many small records that are written as a whole or not at all: its count is odd while it is written. A
/// reader that sees another count afterwards has no answer, and a writer that meets another one leaves the line as it is.
pub(super) struct KeyCache {
    /// Lines, after words that are skipped so that each begins where one of the processor's cache does. Zeroed memory of
    /// the operating system, which backs it page by page once it is used.
    words: Box<[AtomicU64]>,
    skipped: usize,
    /// A power of two.
    lines: usize,
    keys: [u64; 2],
}

/// Two keys with their digests, in one line of the processor's cache.
struct CacheLine<'a> {
    /// How often it was written, times two; odd while it is being written.
    count: &'a AtomicU64,
    words: &'a [AtomicU64; WORDS],
}

/// For each of two keys: the low half of its hash, and its digest. The last word has the parts of the high halves that
/// are compared.
const WORDS: usize = 7;

/// 8 MiB in all, which stay in a processor's cache. From memory, a digest would not come sooner than it is computed.
const LINES: usize = 1 << 17;

/// A line as it was at one time.
#[derive(Clone, Copy)]
struct CacheLineRecord([u64; WORDS]);

/// The canonical bytes of a key.
struct KeyBytes(SmallVec<[u8; 64]>);

/// A key's hash.
#[derive(Clone, Copy)]
struct KeyHash {
    high: u64,
    low: u64,
}

impl KeyCache {
    pub(super) fn new() -> Self {
        Self::of_lines(LINES)
    }

    fn of_lines(lines: usize) -> Self {
        let random = RandomState::new();
        // One line more, of which some words are skipped.
        let words = bytemuck::zeroed_slice_box::<AtomicU64>((lines + 1) * (WORDS + 1));
        let skipped = words.as_ptr().align_offset(size_of::<[u64; WORDS + 1]>()).min(WORDS);
        Self { words, skipped, lines, keys: [random.hash_one(0), random.hash_one(1)] }
    }

    /// Returns the line of a key. The place is made of bits that are not compared again.
    fn line(&self, hash: KeyHash) -> Option<CacheLine<'_>> {
        let place = hash.high as usize & (self.lines - 1);
        let (count, words) = self.words.get(self.skipped + place * (WORDS + 1)..)?.split_first()?;
        Some(CacheLine { count, words: words.first_chunk()? })
    }

    /// Returns the digest of a key, which `digest` computes if it is not known.
    #[inline]
    pub(super) fn get(&self, key: &Key<'_>, digest: impl FnOnce() -> u128) -> u128 {
        let hash = self.hash(key);
        let Some(line) = self.line(hash) else { return digest() };
        match line.read() {
            Some((_, record)) if record.get(hash).is_some() => record.get(hash).unwrap_or_default(),
            Some((count, record)) => {
                let digest = digest();
                line.write(count, record.with(hash, digest));
                digest
            }
            None => digest(),
        }
    }
}

impl KeyCache {
    fn hash(&self, key: &Key<'_>) -> KeyHash {
        let [first, second] = self.keys;
        // At once, because each part of a hash costs as much as a short text.
        let mut bytes = KeyBytes(SmallVec::new());
        key.hash(&mut bytes);
        let hash = SipHasher13::new_with_keys(first, second).hash(&bytes.0);
        KeyHash { high: hash.h1, low: hash.h2 }
    }
}

impl Hasher for KeyBytes {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl CacheLine<'_> {
    fn read(&self) -> Option<(u64, CacheLineRecord)> {
        // Acquire, with the release at the end of a write: the words are at least as new as the count.
        let count = self.count.load(Ordering::Acquire);
        let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        // With the fence of a writer: a reader of one of its words also sees its odd count.
        fence(Ordering::Acquire);
        let is_whole = count.is_multiple_of(2) && self.count.load(Ordering::Relaxed) == count;
        is_whole.then_some((count, CacheLineRecord(words)))
    }

    fn write(&self, count: u64, CacheLineRecord(words): CacheLineRecord) {
        // Acquire: the words are written after that. Another writer has been faster if it fails.
        if self.count.compare_exchange(count, count + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.count.store(count.wrapping_add(2), Ordering::Release);
    }
}

impl CacheLineRecord {
    /// Returns the digest of the key with this hash.
    fn get(self, hash: KeyHash) -> Option<u128> {
        let Self([low, high_digest, low_digest, other_low, other_high_digest, other_low_digest, highs]) =
            self;
        let is_same = |low, high| low == hash.low && high == hash.compared();
        if is_same(low, highs as u32) {
            return Some(u128::from(high_digest) << 64 | u128::from(low_digest));
        }
        let is_other = is_same(other_low, (highs >> 32) as u32);
        is_other.then(|| u128::from(other_high_digest) << 64 | u128::from(other_low_digest))
    }

    /// Returns the same with this key in the first place, and without the second one.
    fn with(self, hash: KeyHash, digest: u128) -> Self {
        let Self([low, high_digest, low_digest, .., highs]) = self;
        let highs = highs << 32 | u64::from(hash.compared());
        let (high, low_part) = ((digest >> 64) as u64, digest as u64);
        Self([hash.low, high, low_part, low, high_digest, low_digest, highs])
    }
}

impl KeyHash {
    /// The part of the high half that is compared. It is never 0, because an empty place has no key.
    const fn compared(self) -> u32 {
        (self.high >> 32) as u32 | 1
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use super::*;

    fn digest(number: u64) -> u128 {
        u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    #[test]
    fn a_key_is_digested_once() {
        let cache = KeyCache::of_lines(64);
        let digested = Cell::new(0);
        for _ in 0..3 {
            for number in 0..2_u64 {
                let known = cache.get(&Key::from(number), || {
                    digested.set(digested.get() + 1);
                    digest(number)
                });
                assert_eq!(known, digest(number));
            }
        }
        assert_eq!(digested.get(), 2);
    }

    /// Many keys in two lines, so that they replace each other all the time.
    #[test]
    fn threads_that_replace_keys_never_see_the_digest_of_another_key() {
        let cache = KeyCache::of_lines(2);
        thread::scope(|scope| {
            for seed in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..50_000 {
                        let number = random.u64(..8);
                        assert_eq!(cache.get(&Key::from(number), || digest(number)), digest(number));
                    }
                });
            }
        });
    }
}
