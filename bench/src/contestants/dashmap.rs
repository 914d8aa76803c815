//! A fixed window over `dashmap`, as users write it by hand.

use std::time::{Duration, SystemTime};

use ::dashmap::DashMap;

use super::{Contestant, Limit};
use tollgate_bench_harness::keys::Chunk;
use tollgate_bench_harness::stopwatch::time_of_day;

struct ByHand {
    counters: DashMap<String, Counter>,
    limit: u64,
    window: Duration,
}

struct Counter {
    window: u64,
    used: u64,
}

pub(super) fn by_hand(limit: Limit, _keys: u32) -> Box<dyn Contestant> {
    let (units, window) = (limit.units().into(), limit.window());
    Box::new(ByHand { counters: DashMap::new(), limit: units, window })
}

impl ByHand {
    fn check(&self, key: &str) -> bool {
        let since_epoch = time_of_day().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let window = since_epoch.as_secs() / self.window.as_secs();
        let mut counter = match self.counters.get_mut(key) {
            Some(counter) => counter,
            None => self.counters.entry(key.to_owned()).or_insert(Counter { window, used: 0 }),
        };
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
