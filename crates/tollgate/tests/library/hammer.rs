//! The tests of Hammer's fixed windows, on our API: its `hit`, `inc`, `get`, `set` and `expires_at` are
//! [`check_cost`](Limiter::check_cost), [`record`](Limiter::record), [`peek`](Limiter::peek), [`set`](Limiter::set) and
//! [`window_end`](Limiter::window_end). Hammer counts denials, and so do these limiters.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

#[path = "../../examples/hammer.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod example;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::mpsc;
use std::time::Duration;

use tollgate::{
    Clock, CountDenied, Key, Limiter, ManualClock, MemoryStore, MemoryStoreBuilder, NamedCounter,
    PolicyQuota, Quota, QuotaErrorKind,
};

const SCALE: Duration = Duration::from_secs(1);

/// The answer of its `hit`: the count, or the milliseconds to wait.
#[derive(Debug, PartialEq, Eq)]
enum Hit {
    Allow(u64),
    Deny(u128),
}

struct Ladder {
    limiter: Limiter<ManualClock>,
    clock: ManualClock,
}

impl Ladder {
    fn new(limit: u64) -> Self {
        Self::over(limit, |builder| builder.build())
    }

    fn over(
        limit: u64,
        build: impl FnOnce(MemoryStoreBuilder<ManualClock>) -> MemoryStore<ManualClock>,
    ) -> Self {
        let clock = ManualClock::default();
        let quota = Quota::new(limit, SCALE).unwrap();
        let builder = Limiter::builder("ladder").quota(quota).count_denied(CountDenied::Yes);
        let limiter = builder.build(build(MemoryStore::builder().clock(clock.clone()))).unwrap();
        Self { limiter, clock }
    }

    fn hit(&self, key: &str, cost: u32) -> Hit {
        let decision = self.limiter.check_cost(key, cost).unwrap();
        match decision.retry_after() {
            None => Hit::Allow(decision.used()),
            Some(wait) => Hit::Deny(wait.as_millis()),
        }
    }

    fn inc(&self, key: &str, units: u32) -> u64 {
        self.limiter.record(key, units).unwrap()[0].used()
    }

    fn get(&self, key: &str) -> u64 {
        self.limiter.peek(key).unwrap().used()
    }

    fn set(&self, key: &str, count: u64) -> u64 {
        self.limiter.set(key, count).unwrap()[0].used()
    }

    fn expires_at(&self, key: &str) -> i64 {
        self.limiter.window_end(key).map_or(0, |end| end.as_unix_millis())
    }
}

#[test]
fn hit_counts_up_and_then_denies() {
    let ladder = Ladder::new(2);
    assert_eq!(ladder.hit("key", 1), Hit::Allow(1));
    assert_eq!(ladder.hit("key", 1), Hit::Allow(2));
    ladder.clock.advance(Duration::from_millis(400));
    assert_eq!(ladder.hit("key", 1), Hit::Deny(600));
    assert_eq!(ladder.hit("key", 1), Hit::Deny(600));

    let roomy = Ladder::new(10);
    for count in 1..=4 {
        assert_eq!(roomy.hit("key", 1), Hit::Allow(count));
    }
}

#[test]
fn a_client_that_sleeps_as_told_begins_anew() {
    let ladder = Ladder::new(1);
    assert_eq!(ladder.hit("key", 1), Hit::Allow(1));
    ladder.clock.advance(Duration::from_millis(250));
    assert_eq!(ladder.hit("key", 1), Hit::Deny(750));
    ladder.clock.advance(Duration::from_millis(749));
    assert_eq!(ladder.hit("key", 1), Hit::Deny(1));
    ladder.clock.advance(Duration::from_millis(1));
    assert_eq!(ladder.hit("key", 1), Hit::Allow(1));
}

#[test]
fn costs_and_denials_are_counted() {
    let ladder = Ladder::new(10);
    assert_eq!(ladder.hit("key", 4), Hit::Allow(4));
    assert_eq!(ladder.hit("key", 5), Hit::Allow(9));
    assert_eq!(ladder.hit("key", 3), Hit::Deny(1_000));
    // The denial is counted: 12 of 10, and the one unit that was left is gone.
    assert_eq!(ladder.get("key"), 12);
    assert_eq!(ladder.hit("key", 1), Hit::Deny(1_000));

    let mixed = Ladder::new(10);
    for (cost, count) in [(1, 1), (4, 5), (2, 7), (3, 10)] {
        assert_eq!(mixed.hit("key", cost), Hit::Allow(count));
    }
    assert_eq!(mixed.hit("key", 1), Hit::Deny(1_000));
}

/// By default we do not count denials, so the last unit is still available.
#[test]
fn a_denial_that_is_not_counted_burns_nothing() {
    let limiter = Limiter::new(Quota::per_day(10));
    assert!(limiter.check_cost("key", 9).unwrap().is_allowed());
    assert!(!limiter.check_cost("key", 3).unwrap().is_allowed());
    assert!(limiter.check_cost("key", 1).unwrap().is_allowed());
}

/// Its hits with cost 0 only peek.
#[test]
fn a_hit_of_nothing_only_looks() {
    let ladder = Ladder::new(10);
    assert_eq!(ladder.hit("key", 3), Hit::Allow(3));
    assert_eq!(ladder.hit("key", 0), Hit::Allow(3));
    assert_eq!(ladder.get("key"), 3);
}

/// If two callers created the counter at once, one hit was lost.
#[test]
fn concurrent_creators_lose_nothing() {
    for _ in 0..200 {
        let ladder = Ladder::new(10);
        let twice = || (ladder.hit("key", 1), ladder.hit("key", 1));
        let hits: HashSet<u64> = std::thread::scope(|scope| {
            let others = [scope.spawn(twice), scope.spawn(twice)];
            let hits = others.into_iter().flat_map(|other| <[Hit; 2]>::from(other.join().unwrap()));
            hits.map(|hit| if let Hit::Allow(count) = hit { count } else { 0 }).collect()
        });
        assert_eq!(hits, HashSet::from([1, 2, 3, 4]));
        assert_eq!(ladder.get("key"), 4);
    }
}

#[test]
fn inc_and_get_go_together() {
    let ladder = Ladder::new(10);
    assert_eq!(ladder.get("key"), 0);
    assert_eq!(ladder.inc("key", 1), 1);
    assert_eq!(ladder.get("key"), 1);
    assert_eq!(ladder.inc("key", 9), 10);
    // It charges without asking, even beyond the limit.
    assert_eq!(ladder.inc("key", 5), 15);
    assert_eq!(ladder.hit("key", 1), Hit::Deny(1_000));
    ladder.clock.advance(SCALE);
    assert_eq!((ladder.get("key"), ladder.inc("key", 1)), (0, 1));
}

#[test]
fn set_and_get_go_together() {
    let ladder = Ladder::new(10);
    assert_eq!(ladder.set("key", 10), 10);
    assert_eq!(ladder.get("key"), 10);
    assert_eq!(ladder.hit("key", 1), Hit::Deny(1_000));
    assert_eq!(ladder.set("key", 0), 0);
    assert_eq!((ladder.get("key"), ladder.hit("key", 1)), (0, Hit::Allow(1)));
}

#[test]
fn expires_at_is_0_or_the_end_of_the_window() {
    let ladder = Ladder::new(10);
    assert_eq!(ladder.expires_at("key"), 0);
    ladder.clock.advance(Duration::from_millis(300));
    assert_eq!(ladder.hit("key", 1), Hit::Allow(1));
    let now = ladder.clock.now().as_unix_millis();
    assert_eq!(ladder.expires_at("key"), now + 700);
    ladder.clock.advance(Duration::from_millis(700));
    assert_eq!(ladder.expires_at("key"), 0);
}

#[test]
fn keys_of_every_kind_count_for_themselves() {
    let ladder = Ladder::new(1);
    let keys: [Key<'_>; 7] = [
        "key".into(),
        (&b"key"[..]).into(),
        7_u64.into(),
        IpAddr::from([192, 0, 2, 7]).into(),
        Ipv6Addr::LOCALHOST.into(),
        ("key", 7_u64).into(),
        ("key", ("key", 7_u64)).into(),
    ];
    for expected in [true, false] {
        for key in &keys {
            assert_eq!(ladder.limiter.check(key).unwrap().is_allowed(), expected, "{key:?}");
        }
    }
}

fn called(limit: u64, scale: Duration) -> PolicyQuota {
    PolicyQuota::new("called", Quota::new(limit, scale).unwrap())
}

/// In Hammer, each call has its limit and scale.
#[test]
fn limit_and_scale_may_come_with_the_call() {
    let ladder = Ladder::new(1);
    let hit = |limit: u64, scale: Duration| {
        let quota = called(limit, scale);
        let decision = ladder.limiter.under(&quota).check("key").unwrap();
        (decision.is_allowed(), decision.used())
    };
    assert_eq!(hit(1, SCALE), (true, 1));
    assert_eq!(hit(1, SCALE), (false, 1));
    assert_eq!(hit(2, SCALE), (true, 2));
    assert_eq!(hit(2, SCALE * 60), (true, 1));
    // Its `inc`, `get` and `set` take a scale as well.
    let minute = called(2, SCALE * 60);
    assert_eq!(ladder.limiter.under(&minute).record("key", 4).unwrap().used(), 5);
    assert_eq!(ladder.limiter.under(&minute).set("key", 7).unwrap().used(), 7);
    assert_eq!(ladder.limiter.under(&minute).peek("key").unwrap().used(), 7);
    assert_eq!((hit(3, SCALE), ladder.get("key")), ((true, 3), 0));
}

/// In Hammer a scale of 0 divides by zero, and a limit of 0 denies. Here both are checked at construction.
#[test]
fn a_scale_of_nothing_is_refused_and_a_limit_of_nothing_denies() {
    let error = Quota::new(10, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), QuotaErrorKind::WindowOutOfRange);
    assert!(!Limiter::new(Quota::per_day(0)).check("key").unwrap().is_allowed());
}

/// Hammer sweeps its whole table once a minute. Here the room of a closed counter is free at once, without a sweep: ten
/// thousand keys pass through a store for one hundred.
#[test]
fn closed_counters_make_room_without_a_sweep() {
    let ladder = Ladder::over(1, |builder| builder.max_counters(100).build());
    for window in 0..100_u64 {
        for key in 0..100_u64 {
            let decision = ladder.limiter.check((window, key)).unwrap();
            assert!(decision.is_allowed(), "window {window}, key {key}");
        }
        ladder.clock.advance(SCALE);
    }
    assert!(ladder.limiter.store().counters() <= 100);
}

/// Its hook gets the algorithm, the key, the value and the expiry in milliseconds. If a hook fails, the failure is
/// logged and the hook called again. Counters without units and windows that are still open are not reported.
#[test]
fn the_hook_is_told_before_a_counter_is_dropped() {
    let (told, dropped) = mpsc::channel();
    let hook = move |counter: NamedCounter| {
        told.send(counter.clone()).unwrap();
        assert_ne!(counter.used, 3, "a hook that fails");
    };
    let ladder = Ladder::over(10, |builder| builder.build_with_hook(100, hook).unwrap());
    let next = || dropped.recv_timeout(Duration::from_secs(30)).unwrap();
    ladder.inc("first", 3);
    ladder.set("nothing", 0);
    let end = ladder.expires_at("first");
    ladder.clock.advance(SCALE);
    ladder.inc("first", 1);
    let counter = next();
    let told = (&*counter.policy, counter.key, counter.used, counter.reset_at.as_unix_millis());
    assert_eq!(told, ("ladder", "first".into(), 3, end));
    ladder.inc("second", 4);
    ladder.clock.advance(SCALE);
    let rest: HashSet<u64> = [next().used, next().used].into();
    assert_eq!(rest, HashSet::from([1, 4]));
}

/// Its example, with a clock that stands still 400 ms into a window.
#[test]
fn the_example_answers_as_hammer_does() {
    let (told, dropped) = mpsc::channel();
    let clock = ManualClock::default();
    clock.advance(Duration::from_millis(400));
    let store = MemoryStore::builder().clock(clock.clone());
    let store = store.build_with_hook(100, move |counter| drop(told.send(example::before_clean(counter))));
    let store = store.unwrap();
    let answers = example::calls(store.clone()).unwrap();
    let answers: Vec<&str> =
        answers.iter().map(|line| line.split_once("  ").unwrap().1.trim_start()).collect();
    let expected = [
        "{:allow, 1}",
        "{:allow, 9}",
        "9",
        "{:deny, 1600}",
        // The denied request is counted.
        "12",
        "4",
        "9",
        "{:allow, 9}",
        "1700000042000",
        "{:allow, 1}",
        "0",
        "0",
        "{:allow, 7}",
    ];
    assert_eq!(answers, expected);
    clock.advance(Duration::from_millis(1_600));
    // Either of the two keys may be dropped first.
    let hooked: HashSet<String> =
        (0..2).map(|_| dropped.recv_timeout(Duration::from_secs(30)).unwrap()).collect();
    let told = |policy: &str, used: u64, end: i64| {
        format!("before_clean: a key of `{policy}` had {used} until {end}")
    };
    let expected = [told("api", 7, 1_700_000_042_000), told("called", 1, 1_700_000_041_000)];
    assert_eq!(hooked, HashSet::from(expected));
    drop(store);
}
