//! Logs, units in flight and ids of holds take no more memory than the places of the cap that they are charged. Alone in its process,
//! because memory is measured per process.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::mem;

use tollgate::{
    Charge, HoldId, HoldLength, HoldStep, HoldTerms, InFlight, InFlightCharge, InFlightLimiter, Key, Limiter,
    MemoryStore, PolicyInFlight, PolicyQuota, Quota,
};

/// Returns the resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

/// A log was charged two places and one for every three entries, but its maps have spare room as well: a store whose cap
/// was in bytes took nearly twice as many. This cap is reached soon after the maps have grown, when most room is spare.
#[test]
fn a_store_full_of_logs_takes_no_more_than_its_cap_in_bytes() {
    const CAP: usize = 5_500_000;
    let store = MemoryStore::builder().max_bytes(CAP).build();
    let limiter = Limiter::with_store("3/1d~log".parse().unwrap(), store);
    let before = resident();
    let logs = (0_u64..).take_while(|key| limiter.check(*key).is_ok()).count();
    let grown = resident().saturating_sub(before);
    assert!(logs > 25_000, "{logs} logs");
    assert!(grown <= CAP, "{logs} logs took {grown} bytes");
    in_flight();
    ids([1, 0], 12);
    ids([0, 1], 12);
    ids([1, 1], 17);
    ids([2, 3], 32);
}

/// The same of units in flight. In the same test, because two would measure each other.
fn in_flight() {
    const CAP: usize = 5_500_000;
    let store = MemoryStore::builder().max_bytes(CAP).build();
    let limiter = InFlightLimiter::with_store(InFlight::new(3).unwrap(), store);
    let before = resident();
    let hold = |key: &u64| limiter.hold(*key).map(|decision| mem::forget(decision.into_hold())).is_ok();
    let keys = (0_u64..).take_while(hold).count();
    let grown = resident().saturating_sub(before);
    assert!(keys > 30_000, "{keys} keys");
    assert!(grown <= CAP, "{keys} keys took {grown} bytes");
}

/// The same of ids, whose holds have so many parts in flight and so many charges, all on the same counters.
fn ids([in_flight, charged]: [usize; 2], places: usize) {
    // A map grows when it has 14,336 of them.
    let cap = 15_000 * 31 * places;
    let store = MemoryStore::builder().max_bytes(cap).build();
    let key = Key::from("alice");
    let limits: Vec<_> = (0..in_flight)
        .map(|part| PolicyInFlight::new(&part.to_string(), InFlight::new(1 << 20).unwrap()))
        .collect();
    let quotas: Vec<_> =
        (0..charged).map(|part| PolicyQuota::new(&part.to_string(), Quota::per_day(1_000_000))).collect();
    let units: Vec<_> = limits.iter().map(|limit| InFlightCharge::new(limit, &key, 1)).collect();
    let charges: Vec<_> = quotas.iter().map(|quota| Charge::new(quota, &key, 1)).collect();
    let before = resident();
    let reserve = |_: &usize| {
        let terms = HoldTerms::new(HoldId::random(), &units, &charges, HoldLength::default());
        store.take_hold(HoldStep::Reserve(terms)).is_ok()
    };
    let ids = (0..).take_while(reserve).count();
    let grown = resident().saturating_sub(before);
    assert!((14_500..16_000).contains(&ids), "{ids} ids");
    assert!(grown <= cap, "{ids} ids took {grown} bytes");
    // The next one shall not get its memory.
    mem::forget(store);
}
