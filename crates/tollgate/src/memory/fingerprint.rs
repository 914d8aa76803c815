//! What a counter is known by in the table.

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::siphash::sip13;
use super::sync::MODELLED;
use crate::Counter;

/// The hash of a store: its function, and its keys, drawn at random.
pub(super) struct Fingerprinter {
    function: Function,
    keys: (u64, u64),
}

#[cfg(test)]
thread_local! {
    static SEED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Makes a table whose hash is the same for a seed, so that a simulation can be run again.
#[cfg(test)]
pub(super) fn with_seed<T>(seed: u64, make: impl FnOnce() -> T) -> T {
    SEED.set(Some(seed));
    let made = make();
    SEED.set(None);
    made
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// SipHash-1-3.
    Keyed,
    /// XXH3 (128 bits), for keys that nobody chooses to harm: three times as fast, and its collisions can be computed
    /// without knowing its seed.
    Trusting,
}

/// A keyed 128-bit hash of what names a counter.
///
/// The lower half of `tag` chooses the shard; `position` and the upper 16 bits of `tag` are kept in the slot,
/// 80 bits in all, and tell counters apart. Of ten million live counters, 5 x 10^13 pairs, two share all 80
/// bits with a chance of 5 x 10^13 / 2^80 = 4 x 10^-11, and meet only if they share the shard as well. Keys
/// from strangers do not change that: without the random keys of SipHash they cannot aim. A store that trusts its keys
/// has the same bound as far as XXH3 spreads keys as by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) position: u64,
    pub(super) tag: u64,
}

impl Fingerprinter {
    pub(super) fn new(function: Function) -> Self {
        #[cfg(test)]
        if let Some(seed) = SEED.get() {
            return Self { function, keys: (seed, !seed) };
        }
        // The standard library's own source of random keys; two states give two independent words.
        let word = |salt: u64| if MODELLED { salt } else { RandomState::new().hash_one(salt) };
        Self { function, keys: (word(0), word(1)) }
    }

    #[inline(always)]
    pub(super) fn of(&self, counter: &Counter<'_>) -> Fingerprint {
        let (first, second) = counter.quota().scope_digest();
        let (kind, payload) = counter.key().kind_and_payload();
        let (position, tag) = match self.function {
            Function::Keyed => {
                // Policy, window and kind of key go into the hash's key: each gives a hash function of its own, at no
                // cost for each request. They are the operator's choice, not a stranger's.
                sip13((self.keys.0 ^ first, self.keys.1 ^ second ^ u64::from(kind)), payload)
            }
            Function::Trusting => {
                // They go into the hash and not into its seed: a seed has 64 bits, and short keys are added to it.
                let hash = xxh3_128_with_seed(payload, self.keys.0);
                let kind = u64::from(kind).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (hash as u64 ^ first ^ kind, (hash >> 64) as u64 ^ second ^ kind.rotate_left(32))
            }
        };
        // Position 0 says that a slot was never used.
        Fingerprint { position: position.max(1), tag }
    }
}

impl Fingerprint {
    /// No counter's.
    pub(super) const NONE: Self = Self { position: 0, tag: 0 };

    /// The upper 16 bits: what the slot keeps beside the position.
    pub(super) fn kept_tag(self) -> u64 {
        self.tag >> 48
    }

    /// A number below `count`, evenly spread.
    pub(super) fn shard(self, count: usize) -> usize {
        scale(self.tag & 0xffff_ffff, count)
    }
}

/// Maps the 32-bit `value` to a number below `count`: their order is kept, and no division is needed.
pub(super) fn scale(value: u64, count: usize) -> usize {
    ((value * count as u64) >> 32) as usize
}
