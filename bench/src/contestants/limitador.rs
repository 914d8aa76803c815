//! `limitador`: fixed windows in its in-memory storage.

use std::collections::HashMap;

use ::limitador::RateLimiter;
use ::limitador::limit::{Limit as Quota, Namespace};

use super::{Contestant, Limit};
use tollgate_bench_harness::keys::Chunk;

struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

#[expect(clippy::expect_used, reason = "the expression is given here")]
pub(super) fn in_memory(limit: Limit, keys: u32) -> Box<dyn Contestant> {
    // Its storage is a cache, and an evicted counter forgets its limit; so the cache is twice as large as needed.
    let limiter = RateLimiter::new(2 * u64::from(keys));
    let variable = "user".try_into().expect("a variable is an expression");
    let (units, seconds) = (limit.units().into(), limit.window().as_secs());
    limiter.add_limit(Quota::new("bench", units, seconds, [], [variable]));
    Box::new(Limitador { limiter, namespace: "bench".into() })
}

impl Contestant for Limitador {
    fn decide(&self, keys: Chunk<'_>) -> usize {
        let admits = |key: &&&str| {
            let context = HashMap::from([("user".to_owned(), (**key).to_owned())]).into();
            let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
            answer.is_ok_and(|answer| !answer.limited && !answer.counters.is_empty())
        };
        keys.texts.iter().filter(admits).count()
    }
}
