//! `governor`: GCRA over a dashmap, with its default clock.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{Contestant, FEW, Limit};

struct Governor(DefaultKeyedRateLimiter<String>);

pub(super) fn keyed(limit: Limit, _keys: u32) -> Box<dyn Contestant> {
    let units = |units| NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN);
    let quota = match limit {
        // One a nanosecond: the highest rate it can express.
        Limit::NeverReached => Quota::per_second(units(1_000_000_000)),
        Limit::Few => Quota::per_hour(units(FEW)),
    };
    Box::new(Governor(RateLimiter::keyed(quota)))
}

impl Contestant for Governor {
    fn decide(&self, keys: &[String]) -> usize {
        keys.iter().filter(|key| self.0.check_key(key).is_ok()).count()
    }
}
