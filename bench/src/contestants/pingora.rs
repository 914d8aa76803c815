//! `pingora-limits`: a count-min sketch. It never forgets a unit within its interval, but counts some twice.

use pingora_limits::rate::Rate;

use super::{Contestant, Limit};
use tollgate_bench_harness::keys::Chunk;

/// The same as its default.
const HASHES: usize = 4;
const LEAST_SLOTS: usize = 1024;

struct Pingora {
    rate: Rate,
    limit: isize,
}

/// With a slot per key for each hash; with fewer, keys would use up the limits of others.
pub(super) fn rate(limit: Limit, keys: u32) -> Box<dyn Contestant> {
    let slots = LEAST_SLOTS.max(keys as usize);
    let rate = Rate::new_with_estimator_config(limit.window(), HASHES, slots);
    Box::new(Pingora { rate, limit: limit.units() as isize })
}

impl Contestant for Pingora {
    fn decide(&self, keys: Chunk<'_>) -> usize {
        keys.texts.iter().filter(|key| self.rate.observe(*key, 1) <= self.limit).count()
    }
}
