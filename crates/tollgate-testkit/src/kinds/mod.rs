//! Quotas that are not fixed windows, judged twice: by vectors of single steps, and by a [ledger](AdmissionLedger)
//! that knows only what was admitted and when, of [one key](play) or of [many](play_crowd). Random steps of all kinds, taken [side by side](take_side_by_side),
//! compare one store with another.

mod crowd;
mod ledger;
mod side_by_side;
mod vectors;

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Charge, Key, PolicyQuota, Quota, Step, Store};

pub use self::crowd::{CrowdRequests, crowd_requests, play_crowd};
pub use self::ledger::AdmissionLedger;
pub use self::side_by_side::{MixedSteps, mixed_steps, take_side_by_side};
pub use self::vectors::{assert_notation, play_vectors};
use crate::SettableClock;

/// Requests of one key under one quota: the pause before each, and its cost.
#[derive(Debug, Clone)]
pub struct Requests {
    /// A bucket, a sliding window or a log.
    pub quota: Quota,
    /// In their order.
    pub requests: Vec<(Duration, u32)>,
}

/// Generates up to this many requests under any small quota that has no fixed windows.
pub fn requests(most: usize) -> impl Strategy<Value = Requests> {
    let pause = prop_oneof![Just(0_u64), 0..10_u64, 0..70_000_u64].prop_map(Duration::from_millis);
    (small_quota(), vec((pause, 1..20_u32), 1..most))
        .prop_map(|(quota, requests)| Requests { quota, requests })
}

/// Generates buckets, some of whose units take no whole number of milliseconds, sliding windows, and logs.
pub fn small_quota() -> impl Strategy<Value = Quota> {
    #[derive(Debug, Clone, Copy)]
    enum Kind {
        Sliding,
        Burst(u64),
        Log(u64),
    }
    let windows = prop_oneof![Just(7_u64), Just(1_000), Just(999), Just(60_000), 1..5_000_u64];
    let kind =
        prop_oneof![Just(Kind::Sliding), (1..60_u64).prop_map(Kind::Burst), (1..=7_u64).prop_map(Kind::Log)];
    (1..40_u64, windows, kind).prop_map(|(limit, window, kind)| {
        let quota = Quota::new(limit, Duration::from_millis(window)).unwrap();
        match kind {
            Kind::Sliding => quota.sliding().unwrap(),
            Kind::Burst(burst) => quota.with_burst(Some(burst)).unwrap(),
            // Exact, or in up to seven steps, of which the last one may be shorter.
            Kind::Log(1) => quota.with_log(Duration::from_millis(1)).unwrap(),
            Kind::Log(steps) => quota.with_log(Duration::from_millis(window.div_ceil(steps))).unwrap(),
        }
    })
}

/// Charges every request, and demands that each answer follows from what was admitted before, and that every promised
/// wait is the shortest that succeeds.
///
/// # Panics
///
/// If an answer does not follow.
pub async fn play(subject: &impl SettableClock, Requests { quota, requests }: &Requests) {
    let mut ledger = AdmissionLedger::new(quota);
    let (quota, key) = (PolicyQuota::new("kinds", quota.clone()), Key::from("alice"));
    let mut now = subject.now().await;
    for (pause, cost) in requests {
        now = now + *pause;
        subject.set_time(now);
        let charges = [Charge::new(&quota, &key, *cost)];
        let state = subject.store().step(Step::Charge(&charges)).await.unwrap()[0];
        let at = format!("{} at {now:?}, cost {cost}: {state:?}", quota.quota());
        assert_eq!(state.now(), now, "{at}");
        assert_eq!(state.has_room(), ledger.admits(now, u64::from(*cost)), "{at}");
        if state.has_room() {
            ledger.admit(now, u64::from(*cost));
        } else if let Some(retry_at) = state.retry_at() {
            assert!(ledger.admits(retry_at, u64::from(*cost)), "{at}");
            assert!(!ledger.admits(retry_at - Duration::from_millis(1), u64::from(*cost)), "{at}");
        } else {
            assert!(u64::from(*cost) > quota.quota().capacity(), "{at}");
        }
    }
}
