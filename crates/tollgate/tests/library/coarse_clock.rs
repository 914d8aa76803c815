//! A store whose clock has two readings: a precise one, and a coarse one that lags behind it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tollgate::{
    Charge, Clock, Counter, HoldId, HoldLength, HoldStep, HoldTerms, Key, Limiter, MemoryError, MemoryStore,
    PolicyQuota, Quota, Reason, Step, Timestamp,
};

/// Its coarse reading is the time of the last tick of 4 ms, or of an earlier one if ticks were missed.
#[derive(Default)]
struct TickingClock {
    millis: AtomicI64,
    missed_ticks: i64,
}

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.millis.load(Ordering::Relaxed))
    }

    fn coarse_now(&self) -> Timestamp {
        let ticks = self.millis.load(Ordering::Relaxed).div_euclid(4);
        Timestamp::from_unix_millis((ticks - self.missed_ticks) * 4)
    }

    fn coarse_resolution(&self) -> Duration {
        Duration::from_millis(4)
    }
}

#[test]
fn admits_clients_that_wait_as_told_although_the_coarse_clock_lags() {
    for (quota, missed_ticks) in
        [("1/1s", 0), ("1/1s", 8), ("1/1s@first_hit", 8), ("1/1s@staggered", 8), ("1/10ms", 8)]
    {
        for true_time in 5_100..5_140 {
            let clock = TickingClock { millis: AtomicI64::new(true_time), missed_ticks };
            let store = MemoryStore::builder().clock(&clock).build();
            let limiter = Limiter::with_store(quota.parse().unwrap(), store);
            assert!(limiter.check("alice").unwrap().is_allowed());
            let denied = limiter.check("alice").unwrap();
            assert_eq!(denied.reason(), Some(Reason::QuotaExceeded), "{quota} at {true_time} ms");
            let wait = i64::try_from(denied.retry_after().unwrap().as_millis()).unwrap();
            clock.millis.fetch_add(wait, Ordering::Relaxed);
            let back = limiter.check("alice").unwrap();
            assert!(back.is_allowed(), "{quota}: told to wait {wait} ms at {true_time} ms");
        }
    }
}

/// A `first_hit` window began at the coarse reading, up to several ticks before its first unit, and ended too early by
/// as much. So one client could use two limits in less than a window.
#[test]
fn a_window_begins_at_its_first_unit_and_not_at_the_last_tick() {
    let clock = TickingClock { millis: AtomicI64::new(5_103), missed_ticks: 8 };
    let store = MemoryStore::builder().clock(&clock).build();
    let limiter = Limiter::with_store("1/1s@first_hit".parse().unwrap(), store);
    let start = |time: i64| {
        clock.millis.store(time, Ordering::Relaxed);
        let decision = limiter.check("alice").unwrap();
        assert!(decision.is_allowed(), "at {time} ms");
        decision.quotas()[0].window().unwrap().start().as_unix_millis()
    };
    // The first window, the next one of the same counter, and one long after.
    assert_eq!([5_103, 6_107, 9_999].map(start), [5_103, 6_107, 9_999]);
}

/// A client may learn from another source when its window ends, and return at that very instant.
#[test]
fn a_closed_window_denies_no_client() {
    let day = PolicyQuota::new("day", Quota::per_day(9));
    for (missed_ticks, late) in (0..=8).flat_map(|missed| (0..4).map(move |late| (missed, late))) {
        let clock = TickingClock { millis: AtomicI64::new(5_500), missed_ticks };
        let store = MemoryStore::builder().clock(&clock).build();
        let second = PolicyQuota::new("second", Quota::per_second(1));
        let key = Key::from("alice");
        let (one, both) =
            ([Charge::new(&second, &key, 1)], [&second, &day].map(|it| Charge::new(it, &key, 1)));
        for charges in [&one[..], &both] {
            let end = 1_000 * (clock.millis.load(Ordering::Relaxed) / 1_000 + 1);
            while store.take(Step::Charge(charges)).unwrap().is_admitted() {}
            clock.millis.store(end + late, Ordering::Relaxed);
            let counted = store.take(Step::Charge(charges)).unwrap();
            assert!(counted.is_admitted(), "{late} ms after the end, {missed_ticks} ticks missed");
        }
    }
}

/// A window that a precise reading opened is not left again because a coarse one lags behind it.
#[test]
fn a_coarse_reading_does_not_move_a_counter_back() {
    let clock = TickingClock::default();
    let store = MemoryStore::builder().clock(&clock).build();
    let (second, tick) = ("2/1s".parse().unwrap(), "9/10ms".parse().unwrap());
    let (second, tick) = (PolicyQuota::new("a", second), PolicyQuota::new("b", tick));
    let key = Key::from("alice");
    let both = [Charge::new(&second, &key, 1), Charge::new(&tick, &key, 1)];

    // The short quota needs the precise clock, and takes the long one along into its second window at 1,001 ms.
    clock.millis.store(1_001, Ordering::Relaxed);
    let counted = store.take(Step::Charge(&both)).unwrap();
    assert_eq!(counted[0].window().unwrap().start(), Timestamp::from_unix_millis(1_000));
    let alone = store.take(Step::Charge(&both[..1])).unwrap();
    assert_eq!((alone[0].used(), alone[0].window().unwrap()), (2, counted[0].window().unwrap()));
    assert!(!store.take(Step::Charge(&both[..1])).unwrap().is_admitted());
}

/// Room was made by the precise clock, but decisions by the coarse one. So one step could drop a counter because its
/// window was over, and the next could open it again in that same window. On the real clock, 2,000 busy keys of `1/1s`
/// and a stream of new ones had 66 units too many of 42,000 within 20 seconds.
#[test]
fn a_window_that_was_left_is_not_opened_again() {
    for (windows, at_first) in [("1s", 5_500), ("1s@staggered", 5_500), ("1s@first_hit", 5_003)] {
        let quota = PolicyQuota::new("", format!("1/{windows}").parse().unwrap());
        let blink = PolicyQuota::new("", "1/10ms".parse().unwrap());
        let [alice, bob, carol] = ["alice", "bob", "carol"].map(Key::from);
        let clock = TickingClock { millis: AtomicI64::new(at_first), missed_ticks: 1 };
        let store = MemoryStore::builder().clock(&clock).max_counters(2).build();
        let charge = |quota: &PolicyQuota, key: &Key<'_>| {
            Some(store.take(Step::Charge(&[Charge::new(quota, key, 1)])).ok()?[0]).filter(|it| it.has_room())
        };
        let first = [&alice, &carol].map(|key| charge(&quota, key).unwrap().window().unwrap());
        let mut windows = vec![first[0]];
        for late in 1..20 {
            clock.millis.store(first[0].end().as_unix_millis() + late, Ordering::Relaxed);
            // Bob's key needs room, which takes the precise clock.
            charge(&blink, &bob);
            windows.extend(charge(&quota, &alice).map(|admitted| admitted.window().unwrap()));
        }
        assert!(
            windows.windows(2).all(|pair| pair[0].end() <= pair[1].start()),
            "one unit each: {windows:?}"
        );
    }
}

/// For a moment, the coarse reading shows a window as open that is over. A unit charged then was counted in the old
/// window, so three times the limit could pass within the length of one.
#[test]
fn nothing_is_counted_in_a_window_that_is_over() {
    for windows in ["1s", "1s@staggered", "1s@first_hit"] {
        for (known, missed_ticks) in [(false, 8), (true, 0), (true, 8)] {
            let clock = TickingClock { millis: AtomicI64::new(5_100), missed_ticks };
            let store = MemoryStore::builder().clock(&clock).build();
            let limiter = Limiter::with_store(format!("9/{windows}").parse().unwrap(), store);
            let end = limiter.peek("alice").unwrap().quotas()[0].window().unwrap().end();
            if known {
                assert!(limiter.check("alice").unwrap().is_allowed());
            }
            clock.millis.store(end.as_unix_millis() + 1, Ordering::Relaxed);
            let counted = limiter.check("alice").unwrap().quotas()[0];
            assert!(counted.window().unwrap().end() > end, "{windows}, known: {known}: {counted:?}");
        }
    }
}

/// After a step back, the coarse reading was ahead of the clock. So a step of 993 ms was taken for one of more than a
/// second, and a window whose counter had been dropped was opened again.
#[test]
fn a_step_back_is_as_long_as_the_precise_clock_says() {
    /// Shows this time, with a coarse reading that lags this far behind.
    struct LaggingClock(AtomicI64, AtomicI64);

    impl LaggingClock {
        fn set(&self, millis: i64, lag: i64) {
            self.0.store(millis, Ordering::Relaxed);
            self.1.store(lag, Ordering::Relaxed);
        }
    }

    impl Clock for LaggingClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_millis(self.0.load(Ordering::Relaxed))
        }

        fn coarse_now(&self) -> Timestamp {
            self.now() - Duration::from_millis(self.1.load(Ordering::Relaxed).unsigned_abs())
        }

        fn coarse_resolution(&self) -> Duration {
            Duration::from_millis(4)
        }
    }

    let clock = LaggingClock(AtomicI64::new(5_000), AtomicI64::new(0));
    let store = MemoryStore::builder().clock(&clock).max_counters(1).build();
    let quota = PolicyQuota::new("", "1/1s@first_hit".parse().unwrap());
    let [alice, bob] = ["alice", "bob"].map(Key::from);
    let charge = |key| store.take(Step::Charge(&[Charge::new(&quota, key, 1)])).unwrap()[0];
    let first = charge(&alice).window().unwrap();
    // Bob's counter takes the room of Alice's.
    clock.set(6_000, 0);
    assert!(charge(&bob).has_room());
    store.take(Step::Reset(Counter::new(&quota, &bob))).unwrap();
    clock.set(5_007, 15);
    let again = charge(&alice).window().unwrap();
    assert!(again.start() >= first.end(), "{again:?} after {first:?}");
}

/// A step made room by one reading and decided by the next. If the clock stepped back in between, the first reading
/// closed what the step had just written, and its second counter took the place of its first one.
#[test]
fn a_step_back_within_a_step_drops_nothing_that_it_writes() {
    /// Steps back by 300 ms after two readings.
    struct SteppingClock(AtomicI64);

    impl Clock for SteppingClock {
        fn now(&self) -> Timestamp {
            let readings = self.0.fetch_add(1, Ordering::Relaxed);
            Timestamp::from_unix_millis(if readings < 2 { 1_000 } else { 700 })
        }
    }

    let store = MemoryStore::builder().clock(SteppingClock(AtomicI64::new(0))).max_counters(40).build();
    let quota = PolicyQuota::new("", "1/300ms@first_hit".parse().unwrap());
    // Enough keys for some to collide.
    let keys: Vec<Key<'_>> = (0..40_u64).map(Key::from).collect();
    let charges: Vec<_> = keys.iter().map(|key| Charge::new(&quota, key, 1)).collect();
    let counted = store.take(Step::Charge(&charges)).unwrap();
    assert!(counted.is_admitted());
    assert_eq!((store.counters(), counted[0].now()), (40, Timestamp::from_unix_millis(700)));
}

/// The coarse reading lags, so a step in the millisecond of its end, or ticks later, came before it.
#[test]
fn an_end_is_not_compared_with_the_coarse_clock() {
    let key = Key::from("alice");
    for text in ["9/1h", "9/1h~burst", "9/1h~sliding", "9/1h~log"] {
        let clock = TickingClock { millis: AtomicI64::new(5_000), missed_ticks: 8 };
        let store = MemoryStore::builder().clock(&clock).build();
        let quota = PolicyQuota::new("", text.parse().unwrap());
        let (charges, end) = ([Charge::new(&quota, &key, 1)], Timestamp::from_unix_millis(5_501));
        let reserve = || {
            let terms = HoldTerms::new(HoldId::random(), &[], &charges, HoldLength::default()).before(end);
            store.take_hold(HoldStep::Reserve(terms)).map(drop)
        };
        for millis in 5_490..5_540 {
            clock.millis.store(millis, Ordering::Relaxed);
            let now = Timestamp::from_unix_millis(millis);
            let expected = if now < end { Ok(()) } else { Err(MemoryError::Ended { now }) };
            assert_eq!(
                store.take(Step::ChargeBefore { charges: &charges, end }).map(drop),
                expected,
                "{text}"
            );
            assert_eq!(reserve(), expected, "{text}");
        }
    }
}

/// Of all kinds but windows, usage falls all the time. Peeks read the coarse clock, so for some milliseconds after a step
/// that had read the precise one, a peek showed a unit more than was used.
#[test]
fn a_peek_shows_what_a_step_before_an_end_has_left() {
    let key = Key::from("alice");
    for text in ["9/10s", "9/10s@first_hit", "9/10s~burst", "9/10s~sliding", "9/10s~log"] {
        for missed_ticks in [0, 8] {
            // A unit of a sliding window is back at 12,000 ms.
            for millis in 11_980..12_020 {
                let clock = TickingClock { millis: AtomicI64::new(5_000), missed_ticks };
                let store = MemoryStore::builder().clock(&clock).build();
                let quota = PolicyQuota::new("", text.parse().unwrap());
                let charges = |cost| [Charge::new(&quota, &key, cost)];
                assert!(store.take(Step::Charge(&charges(5))).unwrap().is_admitted());
                clock.millis.store(millis, Ordering::Relaxed);
                let end = Timestamp::from_unix_millis(20_000);
                let charged = store.take(Step::ChargeBefore { charges: &charges(1), end }).unwrap()[0];
                let seen = store.take(Step::Peek(&charges(1))).unwrap()[0];
                assert_eq!(seen.used(), charged.used(), "{text} at {millis}, {missed_ticks} ticks missed");
            }
        }
    }
}
