//! Ourselves: a limiter over a memory store.

use tollgate::{Charge, Key, Limiter, LimiterBuilder, MemoryStore, Quota, SyncStore};

use super::{Contestant, FEW, Limit};

struct Tollgate(Limiter);

/// One quota an hour.
pub(super) fn one_quota(limit: Limit, keys: u32) -> Box<dyn Contestant> {
    let quota = match limit {
        // The highest of the common case, limits below 2^32.
        Limit::NeverReached => Quota::per_hour(u32::MAX),
        Limit::Few => Quota::per_hour(FEW),
    };
    build(Limiter::builder("bench").quota(quota), keys)
}

/// A quota an hour and a quota a day, all or nothing, both never reached.
pub fn two_quotas(keys: u32) -> Box<dyn Contestant> {
    let quotas = [Quota::per_hour(u32::MAX), Quota::per_day(u32::MAX)];
    build(quotas.into_iter().fold(Limiter::builder("bench"), LimiterBuilder::quota), 2 * keys)
}

#[expect(clippy::expect_used, reason = "the quotas are given above")]
fn build(limiter: LimiterBuilder, counters: u32) -> Box<dyn Contestant> {
    // Twice as many as needed: a cap that is reached is another case.
    let store = MemoryStore::builder().max_keys(2 * counters as usize).build();
    Box::new(Tollgate(limiter.build(store).expect("the quotas differ in their windows")))
}

impl Contestant for Tollgate {
    fn decide(&self, keys: &[String]) -> usize {
        let admits = |key: &&String| self.0.check(key.as_str()).is_ok_and(|decision| decision.is_allowed());
        keys.iter().filter(admits).count()
    }

    fn decide_by_16(&self, keys: &[String]) -> usize {
        let Some(quota) = self.0.quotas().first() else { return 0 };
        let (batches, _) = keys.as_chunks::<16>();
        let admitted = batches.iter().map(|batch| {
            let keys = batch.each_ref().map(|text| Key::from(text.as_str()));
            let charges = keys.each_ref().map(|key| [Charge::new(quota, key, 1)]);
            let requests = charges.each_ref().map(|charge| &charge[..]);
            let counted = SyncStore::charge_each(self.0.store(), &requests);
            counted
                .iter()
                .filter(|counted| counted.as_ref().is_ok_and(|counted| counted.is_admitted()))
                .count()
        });
        admitted.sum()
    }
}
