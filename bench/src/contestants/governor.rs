//! `governor`: GCRA over a dashmap, with its default clock.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

use super::{Contestant, Limit};
use tollgate_bench_harness::keys::Chunk;

struct Governor<C: Clock>(RateLimiter<String, DefaultKeyedStateStore<String>, C, NoOpMiddleware<C::Instant>>);

pub fn keyed(limit: Limit, _keys: u32) -> Box<dyn Contestant> {
    Box::new(Governor(RateLimiter::dashmap_with_clock(quota(limit), DefaultClock::default())))
}

/// The bucket of ours that is compared with it: a unit each 50 ms, and four thousand million at once.
pub fn bucket(_keys: u32) -> Box<dyn Contestant> {
    let burst = NonZeroU32::new(4_000_000_000).unwrap_or(NonZeroU32::MAX);
    let quota = Quota::with_period(Duration::from_millis(50)).unwrap_or(Quota::per_second(burst));
    Box::new(Governor(RateLimiter::dashmap_with_clock(quota.allow_burst(burst), DefaultClock::default())))
}

/// Creates one with a manual clock.
pub fn with_fake_clock(clock: FakeRelativeClock) -> Box<dyn Contestant> {
    Box::new(Governor(RateLimiter::dashmap_with_clock(quota(Limit::NeverReached), clock)))
}

fn quota(limit: Limit) -> Quota {
    let units = NonZeroU32::new(limit.units()).unwrap_or(NonZeroU32::MIN);
    let each = limit.window() / limit.units();
    // Only a period of zero is refused.
    Quota::with_period(each.max(Duration::from_nanos(1)))
        .unwrap_or(Quota::per_second(units))
        .allow_burst(units)
}

impl<C> Contestant for Governor<C>
where
    C: Clock + Send + Sync,
    C::Instant: Send + Sync,
{
    fn decide(&self, keys: Chunk<'_>) -> usize {
        keys.strings.iter().filter(|key| self.0.check_key(key).is_ok()).count()
    }
}
