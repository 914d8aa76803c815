//! Stores that remember keys: listing live counters, and the hook for closed ones.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "an error here is a failed test")]

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tollgate::{Key, Limiter, ManualClock, MemoryStore, NamedCounter, Quota};

const MINUTE: Duration = Duration::from_secs(60);

type Watched = (Limiter<ManualClock>, ManualClock, Receiver<NamedCounter>);

fn watched(quota: Quota, max_counters: usize) -> Watched {
    let (told, closed) = mpsc::channel();
    let clock = ManualClock::default();
    let builder = MemoryStore::builder().clock(clock.clone()).max_counters(max_counters);
    let store = builder.build_with_hook(10_000, move |counter| told.send(counter).unwrap()).unwrap();
    (Limiter::with_store(quota, store), clock, closed)
}

fn next(closed: &Receiver<NamedCounter>) -> NamedCounter {
    closed.recv_timeout(Duration::from_secs(30)).expect("the hook is called")
}

#[test]
fn lists_live_counters_and_the_top_of_them() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).remember_keys().build();
    let limiter = Limiter::with_store(Quota::per_minute(100), store.clone());
    for (name, cost) in [("alice", 3), ("bob", 9), ("carol", 1)] {
        assert!(limiter.check_cost(name, cost).unwrap().is_allowed());
    }
    limiter.reset("carol");

    let mut live = store.live_counters().unwrap();
    live.sort_by_key(|counter| counter.used);
    let seen: Vec<_> = live.iter().map(|counter| (counter.key.clone(), counter.used)).collect();
    assert_eq!(seen, [("alice".into(), 3), ("bob".into(), 9)]);
    assert_eq!((&*live[0].policy, live[0].quota.to_string()), ("default", "100/1m".to_owned()));

    let top = store.top(1).unwrap();
    assert_eq!((top.len(), &top[0].key), (1, &Key::from("bob")));
    clock.advance(MINUTE);
    assert_eq!(store.live_counters(), Some(Vec::new()));
}

/// All live counters were sorted for the first few: seconds with millions of them, each time a dashboard asks.
#[test]
fn the_top_is_the_beginning_of_all_counters_in_order_of_usage() {
    let store = MemoryStore::builder().remember_keys().build();
    let limiter = Limiter::with_store(Quota::per_day(1_000), store);
    for key in 0..300_u32 {
        assert!(limiter.check_cost(key, key * 7 % 100 + 1).unwrap().is_allowed());
    }
    let used = |count| -> Vec<u64> {
        limiter.store().top(count).unwrap().iter().map(|counter| counter.used).collect()
    };
    let all = used(usize::MAX);
    assert!(all.len() == 300 && all.is_sorted_by(|one, next| one >= next), "{all:?}");
    for count in [0, 1, 2, 99, 299, 300, 301] {
        assert_eq!(used(count), all[..count.min(300)]);
    }
}

#[test]
fn a_store_that_remembers_no_keys_lists_none() {
    let limiter = Limiter::new(Quota::per_day(5));
    assert!(limiter.check("alice").unwrap().is_allowed());
    assert_eq!((limiter.store().live_counters(), limiter.store().top(3)), (None, None));
}

#[test]
fn the_hook_is_told_when_a_key_comes_again() {
    let (limiter, clock, closed) = watched(Quota::per_minute(100), 1_000);
    let first = limiter.check_cost("alice", 7).unwrap();
    clock.advance(MINUTE);
    assert!(limiter.check("alice").unwrap().is_allowed());
    let told = next(&closed);
    assert_eq!((told.key, told.used), ("alice".into(), 7));
    assert_eq!(told.reset_at, first.quotas()[0].window().unwrap().end());
}

#[test]
fn the_hook_is_told_when_another_key_takes_the_place() {
    let (limiter, clock, closed) = watched(Quota::per_minute(100), 1);
    assert!(limiter.check_cost("alice", 7).unwrap().is_allowed());
    clock.advance(MINUTE);
    assert!(limiter.check("bob").unwrap().is_allowed());
    let told = next(&closed);
    assert_eq!((told.key, told.used), ("alice".into(), 7));
}

#[test]
fn the_hook_is_told_of_keys_that_never_come_again_and_not_of_those_that_were_reset() {
    let (limiter, clock, closed) = watched(Quota::per_minute(100), 1_000);
    assert!(limiter.check_cost("alice", 7).unwrap().is_allowed());
    assert!(limiter.check_cost("bob", 8).unwrap().is_allowed());
    limiter.reset("bob");
    clock.advance(MINUTE);
    assert_eq!(next(&closed).key, "alice".into());
    assert!(closed.recv_timeout(Duration::from_millis(1_500)).is_err(), "nobody else is told of");
}

#[test]
fn a_hook_that_panics_is_called_again() {
    let (told, closed) = mpsc::channel();
    let clock = ManualClock::default();
    let hook = move |counter: NamedCounter| {
        told.send(counter.used).unwrap();
        panic!("a hook that fails");
    };
    let store = MemoryStore::builder().clock(clock.clone()).build_with_hook(10, hook).unwrap();
    let limiter = Limiter::with_store(Quota::per_minute(100), store);
    for cost in 1..=3 {
        assert!(limiter.check_cost("alice", cost).unwrap().is_allowed());
        clock.advance(MINUTE);
    }
    assert!(limiter.check("alice").unwrap().is_allowed());
    let told: Vec<u64> = (0..3).map(|_| closed.recv_timeout(Duration::from_secs(30)).unwrap()).collect();
    assert_eq!(told, [1, 2, 3]);
}

#[test]
fn a_hanging_hook_delays_no_charge_and_its_losses_are_counted() {
    let (entered, inside) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let clock = ManualClock::default();
    let hook = move |_: NamedCounter| {
        entered.send(()).unwrap();
        let _ = released.recv();
    };
    let store = MemoryStore::builder().clock(clock.clone()).build_with_hook(2, hook).unwrap();
    let limiter = Limiter::with_store(Quota::per_minute(100), store.clone());
    let come_again = || {
        assert!(limiter.check("alice").unwrap().is_allowed());
        clock.advance(MINUTE);
    };
    come_again();
    come_again();
    inside.recv_timeout(Duration::from_secs(30)).unwrap();
    // One is with the hook, and of the next ten the queue takes two.
    (0..10).for_each(|_| come_again());
    assert_eq!(store.lost_closings(), 8);
    drop(release);
}

/// Every charged unit is reported once, whatever ends its counter.
#[test]
fn every_unit_is_reported_once() {
    let (limiter, clock, closed) = watched("1000/1m@staggered".parse().unwrap(), 200);
    let mut charged: HashMap<u64, u64> = HashMap::new();
    for turn in 0..4_000_u64 {
        let key = turn * 7 % 301;
        if limiter.check(key).is_ok_and(|decision| decision.is_allowed()) {
            *charged.entry(key).or_default() += 1;
        }
        clock.advance(Duration::from_millis(turn % 900));
    }
    clock.advance(2 * MINUTE);
    let mut told: HashMap<u64, u64> = HashMap::new();
    let names: HashMap<Vec<u8>, u64> =
        (0..301_u64).map(|key| (Key::from(key).canonical_bytes().into_owned(), key)).collect();
    while told.values().sum::<u64>() < charged.values().sum() {
        let counter = next(&closed);
        *told.entry(names[&*counter.key.canonical_bytes()]).or_default() += counter.used;
    }
    assert_eq!(told, charged);
    assert!(closed.recv_timeout(Duration::from_millis(1_500)).is_err(), "nothing is told twice");
    assert_eq!(limiter.store().lost_closings(), 0);
}

/// The hook's thread looked for closed counters only if it had nothing else to report for a second. Under steady
/// traffic it never did, and keys that did not return were never reported.
#[test]
fn keys_that_never_return_are_reported_under_steady_traffic() {
    let (limiter, clock, closed) = watched(Quota::per_second(100), 1_000);
    assert!(limiter.check_cost("alice", 7).unwrap().is_allowed());
    let is_told = (0..200).any(|_| {
        assert!(limiter.check("bob").unwrap().is_allowed());
        clock.advance(Duration::from_millis(1_000));
        // Each of Bob's windows is reported within the second after which the thread would look by itself.
        closed.recv_timeout(Duration::from_millis(20)).is_ok_and(|told| told.key == "alice".into())
    });
    assert!(is_told);
}
