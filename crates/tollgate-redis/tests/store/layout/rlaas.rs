//! RLaaS's sliding window and a log of Tollgate's in one sorted set.

use proptest::prelude::*;
use tollgate::{Charge, CountDenied, Counter, Key, Mark, PolicyQuota, QuotaState, StoreError, Timestamp};
use tollgate_redis::{KeyLayout, RedisStore};
use tollgate_testkit::StoreSteps as _;
use tollgate_testkit::StoreUnderTest as _;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::published::rlaas_sliding;
use tollgate_testkit::servers::{ServerConnection, Software, SteeredServer};

use crate::servers::{build, shared, steered_with, store};

const START: i64 = 1_700_000_040_000;
const WINDOW: i64 = 10_000;

/// Both systems on one server, whose clock is moved by hand.
struct Fleet {
    store: SteeredServer<RedisStore>,
    connection: ServerConnection,
    /// How far the clock of RLaaS's process is ahead of the server's.
    ahead: i64,
}

fn quota(text: &str) -> PolicyQuota {
    PolicyQuota::new("rlaas", text.parse().unwrap())
}

/// What is used, and whether there was room.
fn stands(state: &QuotaState) -> (u64, bool) {
    (state.used(), state.has_room())
}

fn state(charged: Result<tollgate::QuotaStates, StoreError>) -> QuotaState {
    charged.unwrap()[0]
}

impl Fleet {
    fn new(software: Software) -> Self {
        let store = steered_with(software, |builder| builder.layout(KeyLayout::RLAAS));
        let connection = store.server().connection();
        let fleet = Self { store, connection, ahead: 0 };
        fleet.set(START);
        fleet
    }

    fn set(&self, millis: i64) {
        self.store.server().clock().set(Timestamp::from_unix_millis(millis));
    }

    fn charge(&self, quota: &PolicyQuota, cost: u32) -> QuotaState {
        let key = Key::from("alice");
        state(block_on(self.store.store().charge(&[Charge::new(quota, &key, cost)])))
    }

    fn peek(&self, quota: &PolicyQuota) -> QuotaState {
        let key = Key::from("alice");
        state(block_on(self.store.store().peek(&[Charge::new(quota, &key, 1)])))
    }

    fn rlaas_admits(&mut self, limit: u64) -> bool {
        let now = self.store.server().time().as_unix_millis() + self.ahead;
        rlaas_sliding(&mut self.connection, "alice", now, (WINDOW / 1_000, limit))
    }

    fn scores(&self) -> Vec<i64> {
        let found: Vec<String> =
            self.store.server().command(["ZRANGE", "rlaas:rate_limit:alice", "0", "-1", "WITHSCORES"]);
        found.iter().skip(1).step_by(2).map(|score| score.parse().unwrap()).collect()
    }

    fn life(&self) -> i64 {
        self.store.server().command(["PTTL", "rlaas:rate_limit:alice"])
    }
}

/// Milliseconds after the start.
fn after(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.as_unix_millis() - START)
}

#[test]
fn both_count_in_one_set_and_waits_are_exact() {
    for software in Software::ALL {
        let mut fleet = Fleet::new(software);
        let quota = quota("3/10s~log");
        assert!(fleet.rlaas_admits(3));
        fleet.set(START + 1_000);
        assert_eq!(stands(&fleet.charge(&quota, 1)), (2, true), "{software:?}");
        assert_eq!(fleet.life(), 2 * WINDOW);
        fleet.set(START + 2_500);
        assert!(fleet.rlaas_admits(3));
        // Neither of them admits more, and a denial of Tollgate's writes nothing.
        assert!(!fleet.rlaas_admits(3));
        let denied = fleet.charge(&quota, 1);
        assert_eq!(stands(&denied), (3, false), "{software:?}");
        assert_eq!(after(denied.retry_at()), Some(WINDOW));
        assert_eq!(after(Some(denied.reset_at())), Some(2_500 + WINDOW));
        assert_eq!(fleet.scores(), [START, START + 1_000, START + 2_500]);
        fleet.set(START + WINDOW - 1);
        assert!(!fleet.rlaas_admits(3));
        assert_eq!(stands(&fleet.charge(&quota, 1)), (3, false), "{software:?}");
        fleet.set(START + WINDOW);
        assert_eq!(stands(&fleet.charge(&quota, 1)), (3, true), "{software:?}");
        assert!(!fleet.rlaas_admits(3));
        assert_eq!(fleet.scores(), [START + 1_000, START + 2_500, START + WINDOW]);
    }
}

#[test]
fn steps_change_only_the_units_that_they_mean() {
    let mut fleet = Fleet::new(Software::Redis);
    let (quota, key) = (quota("5/10s~log"), Key::from("alice"));
    let store = fleet.store.store();
    let one = Charge::new(&quota, &key, 1);
    let charged = state(block_on(store.charge(&[Charge::new(&quota, &key, 2)])));
    fleet.set(START + 10);
    assert!(fleet.rlaas_admits(5));
    let store = fleet.store.store();
    let given = block_on(store.refund(&one, charged.mark())).unwrap();
    assert_eq!((given.units(), given.used()), (1, 2));
    let elsewhere = Mark::at(Timestamp::from_unix_millis(START + 5));
    assert_eq!(block_on(store.refund(&one, elsewhere)).unwrap().units(), 0);
    assert_eq!(fleet.scores(), [START, START + 10]);
    assert_eq!(block_on(store.record(&Charge::new(&quota, &key, 7))).unwrap().used(), 9);
    assert_eq!((fleet.peek(&quota).used(), fleet.scores().len()), (9, 9));
    let counter = Counter::new(&quota, &key);
    assert_eq!(block_on(store.set(&counter, 2)).unwrap().used(), 2);
    assert_eq!(fleet.scores(), [START + 10; 2]);
    assert_eq!(block_on(store.set(&counter, 0)).unwrap().used(), 0);
    assert_eq!(fleet.life(), -2);
    fleet.charge(&quota, 3);
    assert_eq!(block_on(store.reset(&counter)).unwrap().used(), 0);
    assert_eq!(fleet.life(), -2);
}

/// A set has a member for each unit, so it is bounded.
#[test]
fn a_set_has_at_most_1024_members() {
    let fleet = Fleet::new(Software::Redis);
    let (quota, key) = (quota("5/10s~log").with_count_denied(CountDenied::Yes), Key::from("alice"));
    let store = fleet.store.store();
    let most = Charge::new(&quota, &key, u32::MAX);
    let recorded = block_on(store.record(&most)).unwrap();
    assert_eq!((recorded.used(), recorded.units(), fleet.peek(&quota).used()), (1_024, 1_024, 1_024));
    assert_eq!(stands(&fleet.charge(&quota, 1)), (1_024, false));
    assert_eq!(fleet.scores().len(), 1_024);
    assert_eq!(block_on(store.set(&Counter::new(&quota, &key), 5_000)).unwrap().used(), 1_024);
    // One of which others have written more cannot be counted.
    fleet.store.server().command::<()>(["ZADD", "rlaas:rate_limit:alice", &START.to_string(), "one-more"]);
    let answer = block_on(store.charge(&[Charge::new(&quota, &key, 1)]));
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(block_on(store.reset(&Counter::new(&quota, &key))).unwrap().used(), 0);
    assert_eq!(stands(&fleet.charge(&quota, 1)), (1, true));
}

#[test]
fn a_step_of_several_counters_takes_all_or_nothing() {
    let fleet = Fleet::new(Software::Redis);
    let (log, window, key) = (quota("2/10s~log"), quota("9/10s"), Key::from("alice"));
    let charge = |cost| {
        let charges = [Charge::new(&window, &key, cost), Charge::new(&log, &key, cost)];
        let charged = block_on(fleet.store.store().charge(&charges)).unwrap();
        charged.iter().map(stands).collect::<Vec<_>>()
    };
    assert_eq!(charge(2), [(2, true), (2, true)]);
    assert_eq!(charge(1), [(2, true), (2, false)]);
    assert_eq!(fleet.scores(), [START; 2]);
    let keys: Vec<String> = fleet.store.server().command(["KEYS", "*"]);
    assert_eq!(keys.len(), 2, "{keys:?}");
}

/// Members of a process whose clock is ahead count from now on, as after a step back.
#[test]
fn members_after_the_current_millisecond_count_from_it() {
    let mut fleet = Fleet::new(Software::Redis);
    let quota = quota("2/10s~log");
    fleet.ahead = 700;
    assert!(fleet.rlaas_admits(2));
    fleet.set(START + 100);
    assert_eq!(fleet.peek(&quota).used(), 1);
    assert_eq!(fleet.scores(), [START + 100]);
    fleet.set(START + 99 + WINDOW);
    assert_eq!(fleet.peek(&quota).used(), 1);
    fleet.set(START + 100 + WINDOW);
    assert_eq!(fleet.peek(&quota).used(), 0);
}

#[test]
fn what_is_no_sorted_set_fails_only_its_own_request() {
    let fleet = Fleet::new(Software::Redis);
    let (quota, key) = (quota("2/10s~log"), Key::from("alice"));
    fleet.store.server().command::<()>(["SET", "rlaas:rate_limit:alice", "5"]);
    let answer = block_on(fleet.store.store().charge(&[Charge::new(&quota, &key, 1)]));
    assert!(answer.is_err(), "{answer:?}");
    assert!(block_on(fleet.store.store().charge(&[Charge::new(&quota, &"bob".into(), 1)])).is_ok());
    block_on(fleet.store.store().reset(&Counter::new(&quota, &key))).unwrap();
    assert_eq!(stands(&fleet.charge(&quota, 1)), (1, true));
}

#[test]
fn only_logs_of_milliseconds_are_in_the_layout_of_rlaas_and_in_no_other() {
    let validate = |layout: KeyLayout, text: &str| {
        layout.validate(quota(text).quota()).map_err(|error| error.to_string())
    };
    assert_eq!(validate(KeyLayout::RLAAS, "256/1m~log"), Ok(()));
    for (layout, text, said) in [
        (KeyLayout::RLAAS, "5/1m~log:1s", "logs of single milliseconds"),
        (KeyLayout::RLAAS, "257/200ms~log", "at most 256"),
        (KeyLayout::RLAAS, "5/1m~burst", "fixed windows"),
        (KeyLayout::RLAAS, "5/1m~sliding", "fixed windows"),
        (KeyLayout::LEETDEZINE, "5/1m~log", "fixed windows"),
    ] {
        let error = validate(layout, text).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
    let told_apart = |one, other| KeyLayout::RLAAS.tells_apart(&quota(one), &quota(other));
    assert!(told_apart("5/1m~log", "5/1m"));
    assert!(!told_apart("5/1m~log", "9/1m~log") && !told_apart("5/1m~log", "5/1h~log"));
}

/// Eight of each at once, on the real clock: together exactly the limit.
#[test]
fn racing_they_admit_exactly_the_limit() {
    const LIMIT: u64 = 100;
    let server = shared(Software::Redis);
    let store = build(store(&server).layout(KeyLayout::RLAAS));
    // So long that nothing leaves while the test runs.
    let (quota, window) = (quota(&format!("{LIMIT}/1h~log")), 3_600);
    let user = format!("racer-log-{}", std::process::id());
    let key = Key::from(&user);
    let admitted: u64 = std::thread::scope(|scope| {
        let ours = || {
            let charge = |_: &u64| state(block_on(store.charge(&[Charge::new(&quota, &key, 1)]))).has_room();
            (0..20).filter(charge).count() as u64
        };
        let theirs = || {
            let mut connection = server.connection();
            let admits = |_: &u64| {
                let now = server.time().as_unix_millis();
                rlaas_sliding(&mut connection, &user, now, (window, LIMIT))
            };
            (0..20).filter(admits).count() as u64
        };
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (0..8).map(|_| (scope.spawn(ours), scope.spawn(theirs))).unzip();
        ours.into_iter().chain(theirs).map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, LIMIT);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    /// With clocks that agree, no window of any place has more than the limit. With clocks that differ, no window has
    /// that is shorter by the difference.
    #[test]
    fn together_they_never_admit_more_than_the_limit(
        turns in prop::collection::vec((0..3_000_i64, any::<bool>(), 1..4_u32), 1..60),
        ahead in prop_oneof![2 => Just(0), 1 => -900..900_i64],
        limit in 1..6_u64,
    ) {
        let mut fleet = Fleet::new(Software::Redis);
        fleet.ahead = ahead;
        let quota = quota(&format!("{limit}/10s~log"));
        let (mut now, mut admitted) = (START, Vec::<(i64, u64)>::new());
        for (pause, is_ours, cost) in turns {
            now += pause;
            fleet.set(now);
            let units = if is_ours {
                let charged = fleet.charge(&quota, cost);
                if ahead == 0 {
                    let counting = admitted.iter().filter(|(at, _)| now < at + WINDOW).map(|(_, units)| units);
                    let before: u64 = counting.sum();
                    let fits = before + u64::from(cost) <= limit;
                    let used = before + if fits { u64::from(cost) } else { 0 };
                    prop_assert_eq!(stands(&charged), (used, fits));
                }
                if charged.has_room() { cost.into() } else { 0 }
            } else {
                fleet.rlaas_admits(limit).into()
            };
            admitted.push((now, units));
        }
        let length = WINDOW - ahead.abs();
        for (start, _) in &admitted {
            let inside = admitted.iter().filter(|(at, _)| (*start..start + length).contains(at));
            let sum: u64 = inside.map(|(_, units)| units).sum();
            prop_assert!(sum <= limit, "{} in the {} ms from {}", sum, length, start);
        }
    }
}
