//! The random part of a pause.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Makes random times of hashes of a counter: its keys are random, and no better randomness is needed.
#[derive(Default)]
pub(super) struct Jitter {
    random: RandomState,
    pauses: AtomicU64,
}

impl Jitter {
    /// Returns a random time up to this.
    pub(super) fn up_to(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: all that matters is that no two pauses get the same number.
        let random = self.random.hash_one(self.pauses.fetch_add(1, Ordering::Relaxed));
        // The high half of the product is spread evenly enough over 0..=most.
        Duration::from_nanos(((u128::from(random) * (u128::from(most) + 1)) >> 64) as u64)
    }
}
