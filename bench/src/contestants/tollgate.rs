//! Ours: a limiter over a memory store.

use tollgate::{Charge, Clock, Key, Limiter, LimiterBuilder, MemoryStore, Quota, Step, SystemClock};

use super::{Contestant, FEW, Limit};
use tollgate_bench_harness::keys::{Chunk, MILLION};

/// Units a day that no key uses up; below 2^32, which is the common case.
pub const NEVER_REACHED: u32 = 4_000_000_000;

struct Tollgate<C>(Limiter<C>);

/// One quota.
pub fn one_quota(limit: Limit, keys: u32) -> Box<dyn Contestant> {
    let quota = match limit {
        Limit::NeverReached => Quota::per_day(NEVER_REACHED),
        Limit::Few => Quota::per_hour(FEW),
    };
    build(Limiter::builder("bench").quota(quota), SystemClock, roomy(keys))
}

/// One quota of this kind, such as `~burst`, with as many units as [`one_quota`] and its million counters.
pub fn of_kind(kind: Kind, keys: u32) -> Box<dyn Contestant> {
    #[expect(clippy::expect_used, reason = "the quotas are valid")]
    let quota: Quota = kind.quota().parse().expect("a quota");
    build(Limiter::builder("bench").quota(quota), SystemClock, roomy(10 * keys))
}

/// A kind of quota that has no fixed windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A unit is back each 50 ms, as in governor's limiter next to it.
    Burst,
    /// A limit that no key of a million reaches.
    Sliding,
    /// One entry each millisecond, so 64 entries while it is used.
    Log,
}

impl Kind {
    const fn quota(self) -> &'static str {
        match self {
            Self::Burst => "1728000/1d~burst:4000000000",
            Self::Sliding => "1000000/1d~sliding",
            Self::Log => "16000000/64ms~log:1ms",
        }
    }
}

/// A quota an hour and a quota a day, all or nothing, both never reached.
pub fn two_quotas(keys: u32) -> Box<dyn Contestant> {
    let quotas = [Quota::per_hour(NEVER_REACHED), Quota::per_day(NEVER_REACHED)];
    let limiter = quotas.into_iter().fold(Limiter::builder("bench"), LimiterBuilder::quota);
    build(limiter, SystemClock, roomy(2 * keys))
}

/// One quota a day that is never reached, with the caller's clock and this cap.
pub fn with_clock(clock: impl Clock + 'static, max_counters: usize) -> Box<dyn Contestant> {
    let limiter = Limiter::builder("bench").quota(Quota::per_day(NEVER_REACHED));
    build(limiter, clock, max_counters)
}

/// Twice as many as needed, and at least the default; a store at its cap is another case.
fn roomy(counters: u32) -> usize {
    (2 * counters).max(MILLION) as usize
}

#[expect(clippy::expect_used, reason = "the quotas are given above")]
fn build<C: Clock + 'static>(limiter: LimiterBuilder, clock: C, max_counters: usize) -> Box<dyn Contestant> {
    let store = MemoryStore::builder().clock(clock).max_counters(max_counters);
    Box::new(Tollgate(limiter.build(store.build()).expect("the quotas differ in their windows")))
}

impl<C: Clock> Contestant for Tollgate<C> {
    fn decide(&self, keys: Chunk<'_>) -> usize {
        let admits = |key: &&&str| self.0.check(**key).is_ok_and(|decision| decision.is_allowed());
        keys.texts.iter().filter(admits).count()
    }

    fn decide_by_16(&self, keys: Chunk<'_>) -> usize {
        let Some(quota) = self.0.quotas().first() else { return 0 };
        let (batches, _) = keys.texts.as_chunks::<16>();
        let admitted = batches.iter().map(|batch| {
            let keys = batch.map(Key::from);
            let charges = keys.each_ref().map(|key| [Charge::new(quota, key, 1)]);
            let steps = charges.each_ref().map(|charge| Step::Charge(charge));
            let counted = self.0.store().take_each(&steps);
            counted
                .iter()
                .filter(|counted| counted.as_ref().is_ok_and(|counted| counted.is_admitted()))
                .count()
        });
        admitted.sum()
    }
}
