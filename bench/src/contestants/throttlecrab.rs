//! `throttlecrab`: GCRA over a hash map with periodic cleanup. It takes `&mut self`, so it is behind a mutex.

use std::sync::{Mutex, PoisonError};

use ::throttlecrab::{PeriodicStore, RateLimiter};

use super::{Contestant, Limit};
use tollgate_bench_harness::keys::Chunk;
use tollgate_bench_harness::stopwatch::time_of_day;

struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    units: i64,
    seconds: i64,
}

pub(super) fn periodic(limit: Limit, keys: u32) -> Box<dyn Contestant> {
    let limiter = RateLimiter::new(PeriodicStore::with_capacity(keys as usize)).into();
    let (units, seconds) = (limit.units().into(), limit.window().as_secs() as i64);
    Box::new(Throttlecrab { limiter, units, seconds })
}

impl Throttlecrab {
    fn check(&self, key: &str) -> bool {
        let now = time_of_day();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = limiter.rate_limit(key, self.units, self.units, self.seconds, 1, now);
        answer.is_ok_and(|(admitted, _)| admitted)
    }
}

impl Contestant for Throttlecrab {
    fn decide(&self, keys: Chunk<'_>) -> usize {
        keys.texts.iter().filter(|key| self.check(key)).count()
    }
}
