//! A fixed window over `moka`, as users write it by hand: a cache that drops counters by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ::moka::sync::Cache;

use super::{Contestant, Limit};
use tollgate_bench_harness::keys::Chunk;
use tollgate_bench_harness::stopwatch::time_of_day;

struct ByHand {
    counters: Cache<String, Arc<Mutex<Counter>>>,
    limit: u64,
    window: Duration,
}

struct Counter {
    window: u64,
    used: u64,
}

pub(super) fn by_hand(limit: Limit, keys: u32) -> Box<dyn Contestant> {
    // Drops idle counters. By age, a counter would be dropped in the middle of a later window. Twice as large as
    // needed, so that no counter is evicted.
    let counters = Cache::builder().max_capacity(2 * u64::from(keys)).time_to_idle(limit.window()).build();
    Box::new(ByHand { counters, limit: limit.units().into(), window: limit.window() })
}

impl ByHand {
    fn check(&self, key: &str) -> bool {
        let since_epoch = time_of_day().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let window = since_epoch.as_secs() / self.window.as_secs();
        let fresh = || Arc::new(Mutex::new(Counter { window, used: 0 }));
        let counter = self.counters.get_with_by_ref(key, fresh);
        let mut counter = counter.lock().unwrap_or_else(PoisonError::into_inner);
        if counter.window != window {
            *counter = Counter { window, used: 0 };
        }
        let admitted = counter.used < self.limit;
        counter.used += u64::from(admitted);
        admitted
    }
}

impl Contestant for ByHand {
    fn decide(&self, keys: Chunk<'_>) -> usize {
        keys.texts.iter().filter(|key| self.check(key)).count()
    }
}
