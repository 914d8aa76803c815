//! Overrides that live and end with this process.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use tollgate::{Key, SystemClock};

use super::{OverrideDigest, OverrideSet};

/// A keyed digest of this process. Two hashes of 64 bits, each with a random key of its own, which the standard library
/// has from the operating system: nobody can find two keys with the same digest.
#[derive(Default)]
struct ProcessDigest {
    high: RandomState,
    low: RandomState,
}

impl OverrideDigest for ProcessDigest {
    fn digest(&self, key: &Key<'_>) -> u128 {
        let bytes = key.canonical_bytes();
        let [high, low] = [&self.high, &self.low].map(|state| u128::from(state.hash_one(&*bytes)));
        high << 64 | low
    }
}

/// An empty set for overrides that no other process has: its digests have no meaning outside this process. Overrides end
/// by the system's clock.
impl Default for OverrideSet {
    fn default() -> Self {
        Self::new(Arc::new(ProcessDigest::default()), Arc::new(SystemClock))
    }
}
