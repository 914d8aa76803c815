//! Requests of many keys under several quotas of all kinds, each request charged to some of these or to none.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Charge, Key, PolicyQuota, Quota, Step, Store, StoreError};

use super::{AdmissionLedger, small_quota};
use crate::SettableClock;

/// Requests of many keys under several quotas.
#[derive(Debug, Clone)]
pub struct CrowdRequests {
    quotas: Vec<Quota>,
    requests: Vec<CrowdRequest>,
}

#[derive(Debug, Clone)]
struct CrowdRequest {
    pause: Duration,
    key: u64,
    /// The places of its quotas, each once.
    quotas: Vec<usize>,
    cost: u32,
}

/// Generates up to this many requests of up to this many keys under up to four quotas.
pub fn crowd_requests(keys: u64, most: usize) -> impl Strategy<Value = CrowdRequests> {
    vec(small_quota(), 1..=4).prop_flat_map(move |quotas| {
        let places: Vec<usize> = (0..quotas.len()).collect();
        let pause = prop_oneof![4 => Just(0_u64), 4 => 0..10_u64, 1 => 0..2_000_u64, 1 => 0..70_000_u64];
        let request = (pause, 0..keys, prop::sample::subsequence(places, 1..=quotas.len()), 1..8_u32);
        let request = request.prop_map(|(pause, key, quotas, cost)| CrowdRequest {
            pause: Duration::from_millis(pause),
            key,
            quotas,
            cost,
        });
        vec(request, 1..most).prop_map(move |requests| CrowdRequests { quotas: quotas.clone(), requests })
    })
}

/// Charges every request, and demands that each answer follows from what was admitted before. A store that is full
/// charges nothing.
///
/// # Panics
///
/// If an answer does not follow.
pub async fn play_crowd(subject: &impl SettableClock, plan: &CrowdRequests) {
    let policy = |(place, quota): (usize, &Quota)| PolicyQuota::new(&format!("crowd-{place}"), quota.clone());
    let quotas: Vec<PolicyQuota> = plan.quotas.iter().enumerate().map(policy).collect();
    let mut ledgers: HashMap<(usize, u64), AdmissionLedger> = HashMap::new();
    let mut now = subject.now().await;
    for request in &plan.requests {
        now = now + request.pause;
        subject.set_time(now);
        let (key, cost) = (Key::from(request.key), u64::from(request.cost));
        let charges: Vec<Charge<'_>> =
            request.quotas.iter().map(|place| Charge::new(&quotas[*place], &key, request.cost)).collect();
        let states = match subject.store().step(Step::Charge(&charges)).await {
            Ok(states) => states,
            Err(StoreError::Full) => continue,
            Err(trouble) => panic!("the store answers {trouble:?}"),
        };
        let mut is_admitted = true;
        for (place, state) in request.quotas.iter().zip(&states) {
            let new = || AdmissionLedger::new(&plan.quotas[*place]);
            let ledger = ledgers.entry((*place, request.key)).or_insert_with(new);
            let has_room = ledger.admits(now, cost);
            assert_eq!(
                state.has_room(),
                has_room,
                "{} at {now:?}, {request:?}: {state:?}",
                plan.quotas[*place]
            );
            is_admitted &= has_room;
        }
        for place in request.quotas.iter().filter(|_| is_admitted) {
            ledgers.get_mut(&(*place, request.key)).expect("a ledger of each quota").admit(now, cost);
        }
    }
}
