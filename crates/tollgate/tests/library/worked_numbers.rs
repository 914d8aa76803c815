//! The worked numbers of five published documents on fixed windows. Where a document is wrong, the test says so, and
//! has the right number.
//!
//! The documents, by system: RLaaS Users Service, Hammer, the LeetDezine case study, the Spring Boot Redis rate limiter
//! starter, and the Valkey server user-rate-limit. `examples/seeds/PARITY.md` has their addresses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{
    Charge, CountDenied, FallbackStore, Key, Limiter, ManualClock, MemoryStore, OnStoreFailure, PolicyQuota,
    Quota, QuotaErrorKind, Timestamp, Window, whole_seconds,
};
use tollgate_testkit::{FaultyStore, StoreFault, StoreSteps, block_on, instant};

/// A calculation in a document.
struct Calculation {
    document: &'static str,
    now: i64,
    window: u64,
    index: i64,
    start: i64,
    reset_after: u64,
}

const CALCULATIONS: [Calculation; 12] = [
    Calculation {
        document: "RLaaS: second 1700000100 is in window 28333335, which begins with it",
        now: 1_700_000_100_000,
        window: 60_000,
        index: 28_333_335,
        start: 1_700_000_100_000,
        reset_after: 60_000,
    },
    Calculation {
        document: "LeetDezine: second 1745000145 is in window 29083335, 45 s after its start",
        now: 1_745_000_145_000,
        window: 60_000,
        index: 29_083_335,
        start: 1_745_000_100_000,
        reset_after: 15_000,
    },
    Calculation {
        document: "LeetDezine: T+0 is in window W (T is a minute's start)",
        now: 1_745_000_100_000,
        window: 60_000,
        index: 29_083_335,
        start: 1_745_000_100_000,
        reset_after: 60_000,
    },
    Calculation {
        document: "LeetDezine: T+30 is in the same",
        now: 1_745_000_130_000,
        window: 60_000,
        index: 29_083_335,
        start: 1_745_000_100_000,
        reset_after: 30_000,
    },
    Calculation {
        document: "LeetDezine: T+59 is in the same",
        now: 1_745_000_159_000,
        window: 60_000,
        index: 29_083_335,
        start: 1_745_000_100_000,
        reset_after: 1_000,
    },
    Calculation {
        document: "LeetDezine: T+60 is in window W+1",
        now: 1_745_000_160_000,
        window: 60_000,
        index: 29_083_336,
        start: 1_745_000_160_000,
        reset_after: 60_000,
    },
    Calculation {
        document: "LeetDezine: T+90 is still in window W+1",
        now: 1_745_000_190_000,
        window: 60_000,
        index: 29_083_336,
        start: 1_745_000_160_000,
        reset_after: 30_000,
    },
    Calculation {
        document: "LeetDezine: its key user:abc:/search:28350000 is of second 1701000000",
        now: 1_701_000_000_000,
        window: 60_000,
        index: 28_350_000,
        start: 1_701_000_000_000,
        reset_after: 60_000,
    },
    Calculation {
        document: "Spring starter: its tests' 10 s at 1700000005123",
        now: 1_700_000_005_123,
        window: 10_000,
        index: 170_000_000,
        start: 1_700_000_000_000,
        reset_after: 4_877,
    },
    Calculation {
        document: "Spring starter: WRONG there: 1678900825000 mod 60000 is 25000 and not 5000, so its window starts at \
                   ...800000 and not ...820000, and resets in 35 s and not in 55",
        now: 1_678_900_825_000,
        window: 60_000,
        index: 27_981_680,
        start: 1_678_900_800_000,
        reset_after: 35_000,
    },
    Calculation {
        document: "Spring starter: the start that it names is one of 20 s windows, and of those that divide them",
        now: 1_678_900_825_000,
        window: 20_000,
        index: 83_945_041,
        start: 1_678_900_820_000,
        reset_after: 15_000,
    },
    Calculation {
        document: "Hammer: window 2 of a minute each begins with second 60; WRONG in that both are said to hold it: \
                   windows are half-open",
        now: 60_000,
        window: 60_000,
        index: 1,
        start: 60_000,
        reset_after: 60_000,
    },
];

#[test]
fn windows_are_those_of_the_documents_or_the_right_ones() {
    for Calculation { document, now, window, index, start, reset_after } in CALCULATIONS {
        let (now, length) = (Timestamp::from_unix_millis(now), Duration::from_millis(window));
        let found = Window::aligned(now, length, Duration::ZERO);
        assert_eq!(found.start().as_unix_millis(), start, "{document}");
        assert_eq!(start / i64::try_from(window).unwrap(), index, "{document}");
        let limiter = Limiter::with_store(Quota::new(1, length).unwrap(), at(now).0);
        assert_eq!(
            limiter.check("alice").unwrap().reset_after(),
            Duration::from_millis(reset_after),
            "{document}"
        );
        let denied = limiter.check("alice").unwrap();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(reset_after)), "{document}");
    }
}

/// Requests during one day, and how many of them are admitted.
struct Timeline {
    document: &'static str,
    quota: &'static str,
    /// The time and the number of simultaneous requests.
    requests: &'static [(&'static str, usize)],
    admitted: &'static [usize],
}

const TIMELINES: [Timeline; 9] = [
    Timeline {
        document: "RLaaS: 5 at second 59 and 5 at second 61, ten within two seconds",
        quota: "5/1m",
        requests: &[("12:00:59", 5), ("12:01:01", 5)],
        admitted: &[5, 5],
    },
    Timeline {
        document: "Hammer: 100 at 11:59:59 and 100 at 12:00:01, 200 within two seconds",
        quota: "100/1m",
        requests: &[("11:59:59", 100), ("12:00:01", 100)],
        admitted: &[100, 100],
    },
    Timeline {
        document: "LeetDezine: 5 at 00:58 and 5 at 01:02, ten from 00:58 to 01:58",
        quota: "5/1m",
        requests: &[("00:00:58", 5), ("00:01:02", 5), ("00:01:57", 1)],
        admitted: &[5, 5, 0],
    },
    Timeline {
        document: "LeetDezine: WRONG on one page: the fifth of five is not blocked, the sixth is",
        quota: "5/1m",
        requests: &[("12:00:00", 4), ("12:00:01", 1), ("12:00:02", 1)],
        admitted: &[4, 1, 0],
    },
    Timeline {
        document: "LeetDezine: WRONG: a request at second 59 cannot bleed into the next window, however long its key \
                   lives",
        quota: "5/1m",
        requests: &[("12:00:59", 9), ("12:01:00", 9), ("12:01:59", 1)],
        admitted: &[5, 5, 0],
    },
    Timeline {
        document: "Spring starter: 10 at 00:00:59 and 10 at 00:01:00, 20 in two seconds",
        quota: "10/1m",
        requests: &[("00:00:59", 10), ("00:01:00", 10)],
        admitted: &[10, 10],
    },
    Timeline {
        document: "Spring starter: 5 in each 10 s, the counter resets at the boundary",
        quota: "5/10s",
        requests: &[("12:00:03", 6), ("12:00:09", 1), ("12:00:10", 6)],
        admitted: &[5, 0, 5],
    },
    Timeline {
        document: "Valkey server: limit 3 in the minute of 12:00, at :10, :30, :45 and :55",
        quota: "3/1m",
        requests: &[("12:00:10", 1), ("12:00:30", 1), ("12:00:45", 1), ("12:00:55", 1), ("12:01:00", 1)],
        admitted: &[1, 1, 1, 0, 1],
    },
    Timeline {
        document: "Valkey server: 10 at 12:00:59 and 10 at 12:01:01, 20 in two seconds; WRONG in that windows are said to \
                   end with 12:00:59: half a second later is in the same",
        quota: "10/1m",
        requests: &[("12:00:59", 10), ("12:00:59.999", 1), ("12:01:01", 10)],
        admitted: &[10, 0, 10],
    },
];

#[test]
fn timelines_admit_what_the_documents_say_or_should() {
    for Timeline { document, quota, requests, admitted } in TIMELINES {
        let (store, clock) = at(Timestamp::EPOCH);
        let limiter = Limiter::with_store(quota.parse().unwrap(), store);
        for ((time, count), admitted) in requests.iter().zip(admitted) {
            clock.set(instant(&format!("2026-03-15T{time}Z")));
            let passed = (0..*count).filter(|_| limiter.check("alice").unwrap().is_allowed()).count();
            assert_eq!(passed, *admitted, "{document}: at {time}");
        }
    }
}

fn at(now: Timestamp) -> (MemoryStore<ManualClock>, ManualClock) {
    let clock = ManualClock::at(now);
    (MemoryStore::builder().clock(clock.clone()).build(), clock)
}

/// RLaaS: WRONG. The time to live of a counter is not the time until its window ends. A counter created 8 s into a
/// window of 10 s lives for 10 s, but its window ends in 2 s.
#[test]
fn the_time_to_wait_is_that_to_the_windows_end() {
    let limiter = Limiter::with_store("1/10s".parse().unwrap(), at(Timestamp::from_unix_millis(8_000)).0);
    assert!(limiter.check("alice").unwrap().is_allowed());
    assert_eq!(limiter.check("alice").unwrap().retry_after(), Some(Duration::from_secs(2)));
}

/// RLaaS: WRONG. `currentCount` counts a request whether or not it is allowed; ours does so only if configured.
#[test]
fn the_count_is_of_admissions_or_of_attempts() {
    for (count_denied, used) in [(CountDenied::No, 5), (CountDenied::Yes, 8)] {
        let builder = Limiter::builder("users").quota(Quota::per_day(5)).count_denied(count_denied);
        let limiter = builder.build(MemoryStore::new()).unwrap();
        let decisions = [(); 8].map(|()| limiter.check("alice").unwrap());
        let last = &decisions[7];
        assert_eq!((last.is_allowed(), last.used()), (false, used), "{count_denied:?}");
    }
}

/// RLaaS: a window of 0 s admits everybody, and one of half a second fails after it has counted. Here the first is
/// refused, and the second is half a second long.
#[test]
fn a_window_of_nothing_is_refused_and_half_a_second_is_one() {
    assert_eq!(Quota::new(5, Duration::ZERO).unwrap_err().kind(), QuotaErrorKind::WindowOutOfRange);
    assert_eq!("5/500ms".parse::<Quota>().unwrap().limit(), 5);
}

/// Hammer: WRONG on Redis. A window of 100 ms never limits, one of 500 ms limits half of the time, and one of 2,500 ms
/// forgets half a second early. Here every millisecond of a window counts.
#[test]
fn windows_of_parts_of_seconds_limit_all_the_time() {
    for length in [100, 500, 2_500] {
        let (store, clock) = at(Timestamp::from_unix_millis(1_700_000_000_000));
        let limiter = Limiter::with_store(Quota::new(3, Duration::from_millis(length)).unwrap(), store);
        for _window in 0..3 {
            let mut passed = 0;
            for _millisecond in 0..length {
                passed += u64::from(limiter.check("alice").unwrap().is_allowed());
                clock.advance(Duration::from_millis(1));
            }
            assert_eq!(passed, 3, "{length} ms");
        }
    }
}

/// Hammer: WRONG. Its documentation says that `get` counts the last seconds. It counts the open window, and so do we.
#[test]
fn the_usage_is_that_of_the_open_window() {
    let (store, clock) = at(instant("2026-03-15T11:59:59Z"));
    let limiter = Limiter::with_store(Quota::per_minute(100), store);
    assert!(limiter.check_cost("alice", 70).unwrap().is_allowed());
    clock.advance(Duration::from_secs(2));
    assert_eq!(limiter.peek("alice").unwrap().used(), 0);
}

/// LeetDezine: WRONG. In an outage, ten processes that each admit one request admit 10, not 5; twenty admit 20.
#[test]
fn an_outage_admits_the_processes_shares_together() {
    for (processes, expected) in [(5_u32, 5), (10, 10), (20, 20)] {
        let share = OnStoreFailure::Local(format!("1/{processes}").parse().unwrap());
        let quota = PolicyQuota::new("search", Quota::per_day(5));
        let admitted = |_process| {
            let (memory, _) = at(Timestamp::EPOCH);
            let faulty = FaultyStore::new(memory.clone());
            faulty.begin(StoreFault::unreachable());
            let store = FallbackStore::new(faulty, share).memory(memory);
            let key = Key::from("alice");
            let charge = || block_on(store.charge(&[Charge::new(&quota, &key, 1)])).unwrap().is_admitted();
            (0..5).filter(|_| charge()).count()
        };
        let all: usize = (0..processes).map(admitted).sum();
        assert_eq!(all, expected, "{processes} processes");
    }
}

/// LeetDezine: WRONG. A process that denies by its own count above limit/processes denies the first of five requests. A
/// count in the store denies the sixth, whichever processes got the others.
#[test]
fn one_process_can_have_the_whole_limit() {
    let (store, _) = at(Timestamp::EPOCH);
    let processes = [(); 5].map(|()| Limiter::with_store(Quota::per_day(5), store.clone()));
    let all_at_one = (0..6).filter(|_| processes[0].check("alice").unwrap().is_allowed()).count();
    assert_eq!(all_at_one, 5);
    assert!(!processes[4].check("alice").unwrap().is_allowed());
}

/// Spring starter: WRONG. A client that is told 34 s when 34.999 s are left returns too early. Whole seconds are
/// rounded up, and are never 0.
#[test]
fn whole_seconds_are_never_too_few() {
    for (millis, seconds) in [(34_999, 35), (35_000, 35), (1, 1), (1_001, 2)] {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
    }
}

/// Spring starter: WRONG. Its documentation calls `remainingTime` the time to the reset, which is true only of a
/// denial. The remaining units, the time to wait and the end of the window are three things.
#[test]
fn remaining_units_and_waits_are_told_apart() {
    let limiter = Limiter::with_store(Quota::per_minute(2), at(Timestamp::from_unix_millis(20_000)).0);
    let allowed = limiter.check("alice").unwrap();
    let told = (allowed.remaining(), allowed.retry_after(), allowed.reset_after());
    assert_eq!(told, (1, None, Duration::from_secs(40)));
    let denied = limiter.check_cost("alice", 2).unwrap();
    let told = (denied.remaining(), denied.retry_after(), denied.reset_after());
    assert_eq!(told, (1, Some(Duration::from_secs(40)), Duration::from_secs(40)));
}

/// Spring starter: 50 requests at once with a limit of 20.
#[test]
fn exactly_twenty_of_fifty_at_once_are_admitted() {
    let limiter = &Limiter::new(Quota::per_day(20));
    let admitted = std::thread::scope(|scope| {
        let check = || u64::from(limiter.check("alice").unwrap().is_allowed());
        let callers: Vec<_> = (0..50).map(|_| scope.spawn(check)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum::<u64>()
    });
    assert_eq!(admitted, 20);
}

/// Valkey server: WRONG in the comment that 5 pass and 5 fail. Its client sends 105 requests in 10.4 s with a limit of
/// 100 a minute: 100 pass and 5 fail if no minute ends meanwhile, and all pass if one ends in the middle.
#[test]
fn the_load_client_is_denied_five_times_or_never() {
    for (begins, expected) in [("12:00:00", 100), ("12:00:55", 105)] {
        let (store, clock) = at(instant(&format!("2026-03-15T{begins}Z")));
        let limiter = Limiter::with_store(Quota::per_minute(100), store);
        let mut passed = 0;
        for _ in 0..105 {
            passed += u64::from(limiter.check("alice").unwrap().is_allowed());
            clock.advance(Duration::from_millis(100));
        }
        assert_eq!(passed, expected, "from {begins}");
    }
}

/// LeetDezine: WRONG on the page about its base architecture. It reads the count, compares, and increments if there is
/// room, so two requests that have read 4 of 5 both pass. Here both may see the room, but only one gets it: a check
/// compares and takes in one step, and takes nothing if it denies.
#[test]
fn one_of_two_callers_gets_the_last_unit() {
    const ROUNDS: u64 = 2_000;
    let limiter = &Limiter::new(Quota::per_day(5));
    for round in 0..ROUNDS {
        assert!(limiter.check_cost(round, 4).unwrap().is_allowed());
    }
    // All peek before any of them charges, and then charge at once, which would expose a check in two steps.
    let looked = &AtomicU64::new(0);
    let looks_and_takes = |round| {
        let sees_room = limiter.peek(round).unwrap().is_allowed();
        looked.fetch_add(1, Ordering::SeqCst);
        let mut turns = 0;
        while looked.load(Ordering::SeqCst) < 2 * (round + 1) {
            turns += 1;
            if turns % 1_000 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        (sees_room, limiter.check(round).unwrap().is_allowed())
    };
    let all = || (0..ROUNDS).map(looks_and_takes).collect::<Vec<_>>();
    let (one, other) = std::thread::scope(|scope| {
        let both = [scope.spawn(all), scope.spawn(all)].map(|thread| thread.join().unwrap());
        both.into()
    });
    for (round, (one, other)) in (0_u64..).zip(one.into_iter().zip(other)) {
        assert!(one.1 != other.1, "round {round}: {one:?}, {other:?}");
        assert_eq!(limiter.peek(round).unwrap().used(), 5);
        assert!(one.0 && other.0, "round {round}");
    }
}

/// Valkey server: WRONG on its page about sliding logs. Its rule logs a request before it counts, so the request denied
/// at second 50 is in the log at second 80. That makes 4 of 3, and 429 where the page says 3 and 200. Here
/// `count_denied` decides whether denials count: with it there are 4 at second 50, else 3.
#[test]
fn a_denial_is_in_the_count_or_is_not() {
    let log = |times: &[i64]| times.iter().filter(|time| (21..=80).contains(*time)).count();
    assert_eq!(log(&[10, 25, 45, 50, 80]), 4, "by its rule");
    assert_eq!(log(&[10, 25, 45, 80]), 3, "as it is said");
    for (count_denied, used) in [(CountDenied::Yes, 4), (CountDenied::No, 3)] {
        let (store, clock) = at(Timestamp::EPOCH);
        let builder = Limiter::builder("log").quota(Quota::per_minute(3)).count_denied(count_denied);
        let limiter = builder.build(store).unwrap();
        for (second, expected) in [(10, true), (25, true), (45, true), (50, false)] {
            clock.set(Timestamp::from_unix_millis(second * 1_000));
            assert_eq!(limiter.check("alice").unwrap().is_allowed(), expected, "second {second}");
        }
        assert_eq!(limiter.peek("alice").unwrap().used(), used);
    }
}
