//! The fingerprint of a counter in the table.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher, RandomState};

use super::multilinear::Multilinear;
use super::sync::MODELLED;
use crate::{Counter, Key};

/// Each level shortens a text by a factor of 19; six levels shorten 9 GB to one block.
const LEVELS: usize = 6;

/// The hash of a store: a randomly drawn function.
pub(crate) struct Fingerprinter {
    function: Multilinear,
    /// One for each level of shortening.
    levels: Box<[Multilinear; LEVELS]>,
}

#[cfg(test)]
thread_local! {
    static SEED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Creates a table whose hash is the same for a seed, so that a simulation can be run again.
#[cfg(all(test, not(tollgate_loom)))]
pub(super) fn with_seed<T>(seed: u64, make: impl FnOnce() -> T) -> T {
    SEED.set(Some(seed));
    let made = make();
    SEED.set(None);
    made
}

/// A fingerprint of a counter, 80 bits.
///
/// A slot keeps all of them, and they tell counters apart. Two different counters have the same 80 bits with a chance
/// of 2<sup>-80</sup>, whatever their keys. That is [proved](super::multilinear), and holds even if attackers choose
/// the keys, because they see no hash. Ten million live counters are 5 x 10<sup>13</sup> pairs, so the chance that any
/// two of them meet is below 5 x 10<sup>13</sup> x 2<sup>-80</sup> = 4.2 x 10<sup>-11</sup>.
///
/// - A key of more than 192 bytes is first hashed in blocks, and the list of their 80-bit values again until it fits.
///   Each time adds a chance of 2<sup>-80</sup> for a pair of such keys: once for keys of up to 3.6 KB, twice up to 70
///   KB.
/// - The counter's policy and window enter as a digest of 128 bits, by a hash whose key is random in each process, so
///   attackers who choose names of policies cannot choose digests. The counters of one key under two of them meet only
///   if the digests are less than 2<sup>48</sup> apart. For any two that has a chance of 2<sup>-79</sup>, for any of a
///   hundred thousand one below 10<sup>-14</sup>.
/// - The function's random numbers are SipHash of a key that the standard library has from the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Chooses the shard and the place in it. 0 marks a slot that was never used.
    pub(super) position: u64,
    /// 16 bits.
    pub(super) tag: u64,
}

/// A map whose keys are hashes already.
pub(super) type FingerprintMap<T> = HashMap<Fingerprint, T, BuildHasherDefault<PositionHasher>>;

/// Takes the position of a fingerprint for its hash.
#[derive(Debug, Default)]
pub(super) struct PositionHasher(u64);

/// Gives back memory of a map that has become much emptier. Not at each entry, because all others move.
pub(super) fn shrink<K: Eq + Hash, T, S: BuildHasher>(map: &mut HashMap<K, T, S>) {
    if map.len() < map.capacity() / 4 {
        map.shrink_to(2 * map.len());
    }
}

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.position);
    }
}

impl Hasher for PositionHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, position: u64) {
        // A map reads the lowest bits, which choose among maps and so are the same in one, and the seven highest.
        self.0 = position.rotate_right(16);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Fingerprinter {
    pub(super) fn new() -> Self {
        #[cfg(test)]
        if let Some(seed) = SEED.get() {
            return Self::drawn_by(BuildHasherDefault::<DefaultHasher>::default(), seed);
        }
        if MODELLED {
            Self::drawn_by(BuildHasherDefault::<DefaultHasher>::default(), 0)
        } else {
            Self::drawn_by(RandomState::new(), 0)
        }
    }

    fn drawn_by(source: impl BuildHasher, seed: u64) -> Self {
        let mut numbers = 0_u64..;
        let mut random = || source.hash_one((seed, numbers.next()));
        let function = Multilinear::new(&mut random);
        Self { function, levels: Box::new(std::array::from_fn(|_| Multilinear::new(&mut random))) }
    }

    #[inline(always)]
    pub(super) fn of(&self, counter: &Counter<'_>) -> Fingerprint {
        let scope = counter.quota().scope_digest();
        self.of_key(scope, counter.key())
    }

    /// Returns the fingerprint of a key in the scope with this digest.
    #[inline(always)]
    pub(super) fn of_key(&self, scope: u128, key: &Key<'_>) -> Fingerprint {
        let (kind, payload) = key.kind_and_payload();
        // Keys are shorter than 2^44 bytes.
        let head = u64::from(kind) << 44 | payload.len() as u64;
        let value = if payload.len() <= Multilinear::LONGEST {
            self.function.of(scope, head, payload)
        } else {
            self.function.of(scope, head, &self.shorten(payload))
        };
        Fingerprint { position: mix(value.upper()).max(1), tag: value.lower() }
    }

    /// Replaces the text by the list of its blocks' values, and repeats this until one block is left.
    #[cold]
    fn shorten(&self, text: &[u8]) -> Vec<u8> {
        let by_blocks = |text: &[u8], level: &Multilinear| -> Vec<u8> {
            text.chunks(Multilinear::LONGEST).flat_map(|block| level.of(0, 0, block).bytes()).collect()
        };
        let [first, others @ ..] = &*self.levels;
        others.iter().fold(by_blocks(text, first), |text, level| {
            if text.len() <= Multilinear::LONGEST { text } else { by_blocks(&text, level) }
        })
    }
}

impl Fingerprint {
    /// No counter's.
    pub(super) const NONE: Self = Self { position: 0, tag: 0 };

    /// Returns an evenly distributed number below `count`.
    #[inline(always)]
    pub(super) fn shard(self, count: usize) -> usize {
        scale(self.position & 0xffff_ffff, count)
    }

    /// Returns the counter's place in its shard: a number below `count`, evenly distributed over the shard's counters.
    #[inline(always)]
    pub(super) fn place(self, count: usize) -> usize {
        scale(self.position >> 32, count)
    }
}

/// Permutes numbers. The hash keeps distances: under some of its functions, sequential keys would fall into few places.
#[inline(always)]
const fn mix(number: u64) -> u64 {
    // Each step can be undone: a shift of half the bits, and a product with an odd number (of Stafford's Mix13).
    let mixed = (number ^ number >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

/// Maps the 32-bit `value` to a number below `count`: their order is kept, and no division is needed.
pub(super) fn scale(value: u64, count: usize) -> usize {
    ((value * count as u64) >> 32) as usize
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use super::*;
    use crate::{PolicyQuota, Quota};

    /// The hash alone keeps distances: under some of its functions, sequential keys fell into few places.
    #[test]
    fn keys_in_sequence_are_spread_as_by_chance() {
        const KEYS: u32 = 640;
        const CELLS: usize = 64;
        let quota = PolicyQuota::new("", Quota::per_day(5));
        let sequences: [fn(u32) -> Key<'static>; 3] = [
            |number| number.into(),
            |number| format!("user:{number:08}").into(),
            |number| (number, "/search").into(),
        ];
        let spreads: [fn(Fingerprint) -> usize; 2] = [|it| it.shard(CELLS), |it| it.place(CELLS)];
        for (sequence, spread) in
            sequences.iter().flat_map(|sequence| spreads.map(|spread| (sequence, spread)))
        {
            for _ in 0..500 {
                let fingerprinter = Fingerprinter::new();
                let mut counts = [0_u32; CELLS];
                for key in (0..KEYS).map(sequence) {
                    counts[spread(fingerprinter.of(&Counter::new(&quota, &key)))] += 1;
                }
                let expected = f64::from(KEYS) / CELLS as f64;
                let chi_squared = counts.map(|count| (f64::from(count) - expected).powi(2) / expected);
                // By chance, their sum is the number of cells, plus or minus 11.
                assert!(chi_squared.iter().sum::<f64>() < CELLS as f64 + 110.0, "{counts:?}");
            }
        }
    }
}
