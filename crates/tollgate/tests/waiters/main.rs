//! Waiting for room: order, honest sleeps, deadlines, cancellation and bounds, under a manual clock.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

mod holds;
mod keeper;
mod remote;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use tollgate::{
    Clock, CountDenied, Key, Limiter, ManualClock, MemoryStore, Quota, Reason, StoreError, WaitError, Waiters,
};
use tollgate_testkit::{StoreFault, block_on};

use self::world::End::{Allowed, Denied, StoreFailed, TooMany};
use self::world::{Tallied, Timer, World, faulty_limiter, limiter};

/// Creates waiters for a limiter, without jitter, and the world that they wait in.
macro_rules! waiters {
    ($limiter:expr) => {{
        let (limiter, clock) = $limiter;
        let (timer, store) = (Timer::new(&clock), limiter.store().clone());
        let sleep = timer.clone();
        let waiters = Waiters::new(limiter, move |length| sleep.sleep(length)).max_jitter(Duration::ZERO);
        (waiters, store, timer, clock)
    }};
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn waiters_of_a_key_are_served_in_the_order_in_which_they_came() {
    let (waiters, _, timer, clock) = waiters!(limiter("2/1s"));
    let mut world = World::new(&clock, &timer);
    for _ in 0..7 {
        world.start(waiters.until_allowed("alice"));
    }
    assert_eq!(world.ends(), [(0, Allowed, 0), (1, Allowed, 0)]);
    world.advance(2_500);
    let later = [(2, Allowed, 1_000), (3, Allowed, 1_000), (4, Allowed, 2_000), (5, Allowed, 2_000)];
    assert_eq!(world.ends(), later);
    world.advance(500);
    assert_eq!(world.ends(), [(6, Allowed, 3_000)]);
    assert_eq!(waiters.waiting(), 0);
}

/// The window has turned and the first waiter is not awake yet, or it waits for more than is free.
#[test]
fn a_later_call_does_not_overtake_waiters_and_other_keys_are_not_delayed() {
    let (waiters, _, timer, clock) = waiters!(limiter("4/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed_cost("alice", 2));
    let large = world.start(waiters.until_allowed_cost("alice", 3));
    let small = world.start(waiters.until_allowed_cost("alice", 1));
    let bob = world.start(waiters.until_allowed_cost("bob", 3));
    assert_eq!(world.ends(), [(0, Allowed, 0), (bob, Allowed, 0)], "two units are free, and not for `small`");
    world.pass(1_000);
    let late = world.add(waiters.until_allowed_cost("alice", 1));
    // The latecomer is polled before the tasks that were woken.
    world.poll(late);
    assert_eq!(world.ends(), []);
    world.run();
    assert_eq!(world.ends(), [(large, Allowed, 1_000), (small, Allowed, 1_000)]);
    world.advance(1_000);
    assert_eq!(world.ends(), [(late, Allowed, 2_000)]);
}

#[test]
fn sleeps_no_shorter_than_told_and_no_longer_than_the_jitter_allows() {
    let (limiter, clock) = limiter("1/1s");
    let timer = Timer::new(&clock);
    let sleep = timer.clone();
    let waiters = Waiters::new(limiter, move |length| sleep.sleep(length)).max_jitter(millis(40));
    let mut world = World::new(&clock, &timer);
    clock.advance(millis(1));
    for key in 0..200_u64 {
        world.start(waiters.until_allowed(key));
        world.start(waiters.until_allowed(key));
    }
    let slept = timer.slept();
    assert_eq!(slept.len(), 200);
    assert!(slept.iter().all(|slept| (millis(999)..=millis(1_039)).contains(slept)), "{slept:?}");
    // Spread over the whole range, which is the purpose of jitter.
    assert!(
        slept.iter().any(|slept| *slept < millis(1_004)) && slept.iter().any(|slept| *slept > millis(1_034))
    );

    // A tenth of the wait, if that is less.
    world.advance(1_039 + 900);
    timer.slept();
    world.ends();
    for key in 0..200_u64 {
        world.start(waiters.until_allowed(key));
    }
    let slept = timer.slept();
    let rest = 1_000 - clock.now().as_unix_millis() as u64 % 1_000;
    assert!(slept.iter().all(|slept| (millis(rest)..=millis(rest) * 11 / 10).contains(slept)), "{slept:?}");
    assert_eq!(slept.len(), 200);
}

/// A timer that fires slightly early causes one more question, and no denial.
#[test]
fn a_timer_that_fires_early_is_slept_again() {
    let (limiter, clock) = limiter("1/1s");
    let timer = Timer::new(&clock);
    let sleep = timer.clone();
    let early = move |length: Duration| sleep.sleep(length.saturating_sub(millis(3)).max(millis(1)));
    let store = limiter.store().clone();
    let waiters = Waiters::new(limiter, early).max_jitter(Duration::ZERO);
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    world.start(waiters.until_allowed("alice"));
    world.advance(1_000);
    assert_eq!(world.ends(), [(0, Allowed, 0), (1, Allowed, 1_000)]);
    assert_eq!(timer.slept(), [millis(997), millis(1), millis(1), millis(1)]);
    assert_eq!(store.asked(), (6, 0));
}

#[test]
fn a_wait_beyond_the_deadline_is_denied_at_once_and_takes_nothing() {
    let (waiters, store, timer, clock) = waiters!(limiter("1/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    clock.advance(millis(400));
    world.start(waiters.until_allowed_within(millis(599), "alice", 1));
    world.start(waiters.until_allowed_within(Duration::ZERO, "alice", 1));
    let denied = Denied { retry_after: Some(600) };
    assert_eq!(world.ends(), [(0, Allowed, 0), (1, denied, 400), (2, denied, 400)]);
    assert_eq!((waiters.waiting(), timer.slept()), (0, vec![]));

    // The last instant is in time.
    world.start(waiters.until_allowed_within(millis(600), "alice", 1));
    assert_eq!(world.ends(), []);
    world.advance(600);
    assert_eq!(world.ends(), [(3, Allowed, 1_000)]);
    world.start(waiters.until_allowed_within(Duration::MAX, "alice", 1));
    world.advance(1_000);
    assert_eq!(world.ends(), [(4, Allowed, 2_000)]);
    assert_eq!(store.store.counters(), 1);
}

#[test]
fn jitter_does_not_pass_the_deadline() {
    let (limiter, clock) = limiter("1/1s");
    let timer = Timer::new(&clock);
    let sleep = timer.clone();
    let waiters = Waiters::new(limiter, move |length| sleep.sleep(length)).max_jitter(millis(100));
    let mut world = World::new(&clock, &timer);
    for key in 0..100_u64 {
        world.start(waiters.until_allowed(key));
        world.start(waiters.until_allowed_within(millis(1_000), key, 1));
    }
    assert_eq!(timer.slept(), vec![millis(1_000); 100]);
    world.advance(1_000);
    assert!(world.ends().iter().all(|(_, end, _)| *end == Allowed));
}

/// A waiter that is not the first does not sleep by itself, and must not stay past its deadline.
#[test]
fn a_waiter_behind_others_leaves_when_they_sleep_past_its_deadline() {
    let (waiters, store, timer, clock) = waiters!(limiter("1/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    clock.advance(millis(200));
    let first = world.start(waiters.until_allowed("alice"));
    let short = world.start(waiters.until_allowed_within(millis(799), "alice", 1));
    let long = world.start(waiters.until_allowed_within(millis(1_799), "alice", 1));
    let enough = world.start(waiters.until_allowed_within(millis(1_800), "alice", 1));
    assert_eq!(world.ends(), [(0, Allowed, 0), (short, Denied { retry_after: Some(800) }, 200)]);
    world.advance(800);
    // `long` asks at its turn: the next window is too late for it, and just in time for `enough`.
    assert_eq!(world.ends(), [(first, Allowed, 1_000), (long, Denied { retry_after: Some(1_000) }, 1_000)]);
    world.advance(1_000);
    assert_eq!(world.ends(), [(enough, Allowed, 2_000)]);
    // Each of the three with a deadline peeked once.
    assert_eq!(store.asked(), (6, 3));
}

/// The first waits for more than is free, so a peek tells nothing about those behind it.
#[test]
fn a_waiter_that_others_delay_too_long_gets_their_denial() {
    let (waiters, _, timer, clock) = waiters!(limiter("3/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    let large = world.start(waiters.until_allowed_cost("alice", 3));
    clock.advance(millis(300));
    let small = world.start(waiters.until_allowed_within(millis(100), "alice", 1));
    assert_eq!(world.ends(), [(0, Allowed, 0), (small, Denied { retry_after: Some(700) }, 300)]);

    // Its time is just enough for the first to be served, but not to wait for the window after that.
    let exact = world.start(waiters.until_allowed_within(millis(700), "alice", 1));
    assert_eq!(world.ends(), []);
    // Waiters that joined while the first had time learn of its second denial.
    let next = world.start(waiters.until_allowed_cost("alice", 3));
    let behind = world.start(waiters.until_allowed_within(millis(900), "alice", 1));
    world.advance(700);
    let denied = Denied { retry_after: Some(1_000) };
    assert_eq!(world.ends(), [(large, Allowed, 1_000), (exact, denied, 1_000), (behind, denied, 1_000)]);
    world.advance(1_000);
    assert_eq!(world.ends(), [(next, Allowed, 2_000)]);
}

#[test]
fn a_sleep_that_was_cut_short_delays_no_other_waiter() {
    let (waiters, _, timer, clock) = waiters!(limiter("3/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    let large = world.start(waiters.until_allowed_cost("alice", 3));
    let [middle, small] = [(); 2].map(|()| world.start(waiters.until_allowed("alice")));
    // A waiter that leaves from the middle does not affect later ones.
    world.cancel(middle);
    let late = world.start(waiters.until_allowed_within(millis(100), "alice", 1));
    assert_eq!(world.ends(), [(0, Allowed, 0), (late, Denied { retry_after: Some(1_000) }, 0)]);
    world.cancel(large);
    // It comes before the next one has asked, and has less time than the one that left wanted to sleep.
    let hasty = world.add(waiters.until_allowed_within(millis(100), "alice", 1));
    world.poll(hasty);
    world.run();
    assert_eq!(world.ends(), [(small, Allowed, 0), (hasty, Allowed, 0)]);
}

/// Only the first waiter of a key had a timer. Waiters behind one that was never polled, or had no answer from the
/// store, stayed past their deadlines.
#[test]
fn a_waiter_behind_one_that_stands_still_ends_at_its_deadline() {
    let (waiters, store, timer, clock) = waiters!(faulty_limiter("1/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    let [held, next] = [(); 2].map(|()| world.start(waiters.until_allowed("alice")));
    let behind = world.start(waiters.until_allowed_within(millis(1_200), "alice", 1));
    world.ends();
    // The first one is woken, but not polled.
    world.pass(1_200);
    world.poll(behind);
    assert_eq!(world.ends(), [(behind, Denied { retry_after: Some(0) }, 1_200)]);

    // It is dropped, and the next one is not polled, so the denial is an earlier one.
    world.cancel(held);
    let behind = world.add(waiters.until_allowed_within(millis(100), "alice", 1));
    for after in [0, 99, 1] {
        assert_eq!(world.ends(), []);
        world.pass(after);
        world.poll(behind);
    }
    assert_eq!(world.ends(), [(behind, Denied { retry_after: Some(0) }, 1_300)]);

    // The store delays its answer to the first one.
    let behind = world.start(waiters.until_allowed_within(millis(700), "alice", 1));
    let last = world.start(waiters.until_allowed_within(millis(900), "alice", 1));
    assert_eq!(world.ends(), [(next, Allowed, 1_300)]);
    store.store.begin(StoreFault::HoldsAnswers);
    world.advance(899);
    assert_eq!(world.ends(), []);
    world.advance(1);
    assert_eq!(world.ends(), [(last, Denied { retry_after: Some(0) }, 2_200)]);
    store.store.end();
    world.run();
    assert_eq!((world.ends(), waiters.waiting()), (vec![(behind, Allowed, 2_200)], 0));
}

/// A waiter's turn comes at the instant of its deadline: it asks.
#[test]
fn the_last_instant_of_a_queued_waiter_is_in_time() {
    let (waiters, _, timer, clock) = waiters!(limiter("2/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed_cost("alice", 2));
    let first = world.start(waiters.until_allowed("alice"));
    let exact = world.start(waiters.until_allowed_within(millis(1_000), "alice", 1));
    world.advance(1_000);
    assert_eq!(world.ends(), [(0, Allowed, 0), (first, Allowed, 1_000), (exact, Allowed, 1_000)]);
}

/// A waiter may be told the denial of another, whose charge it must not refund.
#[test]
fn a_denial_of_another_waiter_gives_back_nothing() {
    let clock = ManualClock::default();
    let store = Tallied::new(MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build());
    let quota = "3/1s".parse().unwrap();
    let builder = Limiter::builder("test").quota(quota).count_denied(CountDenied::Yes);
    let (waiters, store, timer, clock) = waiters!((builder.build_shared(store).unwrap(), clock));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    let first = world.start(waiters.until_allowed_cost("alice", 3));
    let second = world.start(waiters.until_allowed_cost("alice", 3));
    let behind = world.start(waiters.until_allowed_within(millis(1_100), "alice", 1));
    world.advance(1_000);
    // It is told the denial of `second`; `End` looks at its receipt.
    let denied = Denied { retry_after: Some(1_000) };
    assert_eq!(world.ends(), [(0, Allowed, 0), (first, Allowed, 1_000), (behind, denied, 1_000)]);
    assert_eq!(store.asked(), (4, 1));
    world.advance(1_000);
    assert_eq!(world.ends(), [(second, Allowed, 2_000)]);
}

#[test]
fn a_cost_above_the_limit_is_denied_at_once_also_behind_waiters() {
    let (waiters, _, timer, clock) = waiters!(limiter("2/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed_cost("alice", 3));
    let never = Denied { retry_after: None };
    assert_eq!(world.ends(), [(0, never, 0)]);
    world.start(waiters.until_allowed_cost("alice", 2));
    world.start(waiters.until_allowed("alice"));
    world.start(waiters.until_allowed_cost("alice", 3));
    world.start(waiters.until_allowed_within(millis(1), "alice", u32::MAX));
    assert_eq!(world.ends(), [(1, Allowed, 0), (3, never, 0), (4, never, 0)]);
    assert_eq!(waiters.waiting(), 1);

    let (nothing, _, timer, clock) = waiters!(limiter("0/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(nothing.until_allowed("alice"));
    assert_eq!((world.ends(), timer.slept()), (vec![(0, never, 0)], vec![]));
}

#[test]
fn several_quotas_are_waited_for_together() {
    let clock = ManualClock::default();
    let store = Tallied::new(MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build());
    let builder = Limiter::builder("test").quota(Quota::per_second(2)).quota("3/5s".parse().unwrap());
    let (waiters, store, timer, clock) = waiters!((builder.build_shared(store).unwrap(), clock));
    let mut world = World::new(&clock, &timer);
    for _ in 0..4 {
        world.start(waiters.until_allowed("alice"));
    }
    world.advance(4_999);
    assert_eq!(world.ends(), [(0, Allowed, 0), (1, Allowed, 0), (2, Allowed, 1_000)]);
    world.advance(1);
    assert_eq!(world.ends(), [(3, Allowed, 5_000)]);
    // First for the second's window, then for the rest of the five seconds.
    assert_eq!(timer.slept(), [millis(1_000), millis(4_000)]);
    assert_eq!(store.asked(), (6, 0));

    // If both deny, for the longer one at once.
    world.start(waiters.until_allowed("alice"));
    world.start(waiters.until_allowed("alice"));
    world.advance(1_000);
    world.ends();
    world.start(waiters.until_allowed_cost("bob", 2));
    world.start(waiters.until_allowed_cost("bob", 2));
    assert_eq!(timer.slept(), [millis(1_000), millis(4_000)]);

    // If one of them can never pass, there is nothing to wait for.
    let never = world.start(waiters.until_allowed_cost("alice", 3));
    assert_eq!(world.ends()[1..], [(never, Denied { retry_after: None }, 6_000)]);
}

#[test]
fn waiters_are_bounded_and_leave_nothing_behind() {
    let (waiters, _, timer, clock) = waiters!(limiter("1/1s"));
    let waiters = waiters.max_waiters(2);
    let mut world = World::new(&clock, &timer);
    for key in ["alice", "bob", "alice", "bob"] {
        world.start(waiters.until_allowed(key));
    }
    assert_eq!((world.ends(), waiters.waiting()), (vec![(0, Allowed, 0), (1, Allowed, 0)], 2));
    world.start(waiters.until_allowed("alice"));
    world.start(waiters.until_allowed_within(Duration::MAX, "bob", 1));
    assert_eq!(world.ends(), [(4, TooMany, 0), (5, TooMany, 0)]);
    // Calls that need not wait are not affected: served, denied for good, or out of time.
    world.start(waiters.until_allowed("carol"));
    world.start(waiters.until_allowed_cost("alice", 2));
    world.start(waiters.until_allowed_within(Duration::ZERO, "carol", 1));
    let (never, late) = (Denied { retry_after: None }, Denied { retry_after: Some(1_000) });
    assert_eq!(world.ends(), [(6, Allowed, 0), (7, never, 0), (8, late, 0)]);
    world.start(waiters.until_allowed("carol"));
    assert_eq!(world.ends(), [(9, TooMany, 0)]);

    world.cancel(2);
    assert_eq!(waiters.waiting(), 1);
    world.start(waiters.until_allowed("carol"));
    world.advance(1_000);
    assert_eq!(world.ends(), [(3, Allowed, 1_000), (10, Allowed, 1_000)]);
    assert_eq!(waiters.waiting(), 0);
    let error = WaitError::TooManyWaiters;
    assert_eq!(error.to_string(), "too many callers are waiting already");
}

/// One waiter is dropped, in each possible state. The others must still get their turn, and no unit may be lost.
#[test]
fn a_waiter_that_is_dropped_takes_nothing_and_wakes_the_next() {
    // Before its first poll.
    let (waiters, store, timer, clock) = waiters!(limiter("1/1s"));
    let mut world = World::new(&clock, &timer);
    let unpolled = world.add(waiters.until_allowed("alice"));
    world.cancel(unpolled);
    assert_eq!((waiters.waiting(), store.asked()), (0, (0, 0)));
    let served = world.start(waiters.until_allowed("alice"));
    assert_eq!(world.ends(), [(served, Allowed, 0)]);

    let [first, second, third, fourth] = [(); 4].map(|()| world.start(waiters.until_allowed("alice")));
    // While it queues: no other is woken for it.
    world.cancel(second);
    assert_eq!(waiters.waiting(), 3);
    assert!(![first, third, fourth].iter().any(|task| world.is_woken(*task)));
    // While it sleeps: the next one asks how long to sleep.
    clock.advance(millis(250));
    store.asked();
    timer.slept();
    world.cancel(first);
    assert!(world.is_woken(third) && !world.is_woken(fourth));
    world.run();
    assert_eq!((store.asked(), timer.slept()), ((1, 0), vec![millis(750)]));
    // After the timer woke it, before it is polled.
    world.pass(750);
    assert!(world.is_woken(third));
    world.cancel(third);
    assert!(world.is_woken(fourth));
    world.run();
    assert_eq!(world.ends(), [(fourth, Allowed, 1_000)], "the unit that `third` was woken for");

    // After it was woken because the one in front left, before it is polled.
    let [first, second, third] = [(); 3].map(|()| world.start(waiters.until_allowed("alice")));
    world.cancel(first);
    assert!(world.is_woken(second) && !world.is_woken(third));
    world.cancel(second);
    assert!(world.is_woken(third));
    world.run();
    world.advance(1_000);
    assert_eq!(world.ends(), [(third, Allowed, 2_000)]);
    assert_eq!(waiters.waiting(), 0);
}

#[test]
fn a_waiter_that_is_dropped_while_the_store_is_asked_wakes_the_next() {
    let (waiters, store, timer, clock) = waiters!(faulty_limiter("2/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed_cost("alice", 2));
    let [first, second] = [(); 2].map(|()| world.start(waiters.until_allowed("alice")));
    world.pass(1_000);
    store.store.begin(StoreFault::HoldsAnswers);
    world.run();
    assert_eq!(store.store.held(), 1, "the first asks, and the second does not");
    world.cancel(first);
    store.store.end();
    world.run();
    assert_eq!(world.ends(), [(0, Allowed, 0), (second, Allowed, 1_000)]);
    // The units that the first had asked for were taken.
    let third = world.start(waiters.until_allowed("alice"));
    assert_eq!(world.ends(), []);
    // While it peeks, for the time: it already has its place, and leaves it.
    store.store.begin(StoreFault::HoldsAnswers);
    let peeks = world.start(waiters.until_allowed_within(Duration::MAX, "alice", 1));
    assert_eq!(waiters.waiting(), 2);
    world.cancel(peeks);
    assert_eq!(waiters.waiting(), 1);
    store.store.end();
    world.advance(1_000);
    assert_eq!(world.ends(), [(third, Allowed, 2_000)]);
}

/// Two ask before any waits. Both are denied, and queue in the order of their denials.
#[test]
fn concurrent_calls_queue_in_the_order_of_their_denials() {
    let (waiters, store, timer, clock) = waiters!(faulty_limiter("1/1s"));
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed("alice"));
    store.store.begin(StoreFault::HoldsAnswers);
    let [first, second] = [(); 2].map(|()| world.start(waiters.until_allowed("alice")));
    assert_eq!((store.asked(), waiters.waiting()), ((3, 0), 0));
    store.store.end();
    world.run();
    assert_eq!((waiters.waiting(), timer.slept()), (2, vec![millis(1_000)]));
    world.advance(2_000);
    assert_eq!(world.ends(), [(0, Allowed, 0), (first, Allowed, 1_000), (second, Allowed, 2_000)]);
}

#[test]
fn an_error_of_the_store_ends_one_wait_and_the_next_asks_for_itself() {
    let (waiters, store, timer, clock) = waiters!(faulty_limiter("1/1s"));
    let mut world = World::new(&clock, &timer);
    for _ in 0..3 {
        world.start(waiters.until_allowed("alice"));
    }
    world.ends();
    world.pass(1_000);
    store.store.begin(StoreFault::unreachable());
    world.run();
    assert_eq!(world.ends(), [(1, StoreFailed, 1_000), (2, StoreFailed, 1_000)]);
    let failed = block_on(waiters.until_allowed("alice")).unwrap_err();
    assert!(matches!(failed, WaitError::Store(StoreError::Trouble { .. })));
    assert!(std::error::Error::source(&failed).is_some());
    store.store.end();
    world.start(waiters.until_allowed("alice"));
    assert_eq!((world.ends(), waiters.waiting()), (vec![(3, Allowed, 1_000)], 0));
}

#[test]
fn a_storm_gets_exactly_the_limit_of_each_window_with_one_question_each() {
    const WAITERS: usize = 1_000;
    const LIMIT: usize = 150;
    let (waiters, store, timer, clock) = waiters!(limiter("150/1s"));
    let mut world = World::new(&clock, &timer);
    for _ in 0..WAITERS {
        world.add(waiters.until_allowed("alice"));
    }
    world.run();
    assert_eq!(waiters.waiting(), WAITERS - LIMIT);
    // Later ones did not ask, because others were waiting.
    assert_eq!(store.asked(), (LIMIT + 1, 0));
    let mut admitted = world.ends();
    assert_eq!(admitted.len(), LIMIT);
    while waiters.waiting() > 0 {
        let left = waiters.waiting();
        world.advance(1_000);
        let served = world.ends();
        assert_eq!(served.len(), left.min(LIMIT));
        // One each, and one by the first, which has to sleep again.
        assert_eq!(store.asked(), (served.len() + usize::from(left > LIMIT), 0));
        admitted.extend(served);
    }
    let order: Vec<_> = admitted.iter().map(|(task, ..)| *task).collect();
    assert_eq!(order, (0..WAITERS).collect::<Vec<_>>());
    assert!(admitted.iter().all(|(task, end, at)| *end == Allowed && *at == (task / LIMIT) as u64 * 1_000));
}

#[test]
fn keys_are_told_apart_however_long_they_are_and_whoever_owns_them() {
    let (waiters, _, timer, clock) = waiters!(limiter("1/1s"));
    let long = "x".repeat(100);
    let key = Key::from(long.clone());
    let mut world = World::new(&clock, &timer);
    world.start(waiters.until_allowed(long.clone()));
    world.start(waiters.until_allowed(&long));
    world.start(waiters.until_allowed(long.as_bytes()));
    world.start(waiters.until_allowed(&key));
    assert_eq!((world.ends(), waiters.waiting()), (vec![(0, Allowed, 0), (2, Allowed, 0)], 2));
    world.advance(2_000);
    assert_eq!(world.ends(), [(1, Allowed, 1_000), (3, Allowed, 2_000)]);
}

#[test]
fn a_call_that_need_not_wait_allocates_nothing() {
    let limiter = Limiter::new(Quota::per_day(1_000));
    let tasks = Waiters::new(limiter.clone(), tokio::time::sleep);
    let threads = Waiters::blocking(limiter, std::thread::sleep);
    let long = "x".repeat(100);
    let calls = || {
        let mut call = std::pin::pin!(tasks.until_allowed(&long));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(served) = call.as_mut().poll(&mut context) else { panic!("it waits") };
        assert!(served.unwrap().is_allowed());
        assert!(threads.until_allowed_within(millis(1), "alice", 1).unwrap().is_allowed());
    };
    // Warms up what is created once per thread and key.
    calls();
    assert_eq!(allocation_counter::measure(calls).count_total, 0);
}

#[test]
fn threads_wait_in_memory_by_any_timer() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build();
    let slept = Mutex::new(Vec::new());
    let waiters = Waiters::blocking(Limiter::with_store("2/1s".parse().unwrap(), store), |length| {
        slept.lock().unwrap().push(length);
        clock.advance(length);
    })
    .max_jitter(Duration::ZERO);
    for _ in 0..4 {
        assert!(waiters.until_allowed("alice").unwrap().is_allowed());
    }
    assert_eq!(*slept.lock().unwrap(), [millis(1_000)]);
    let denied = waiters.until_allowed_within(millis(999), "alice", 1).unwrap();
    assert_eq!(denied.retry_after(), Some(millis(1_000)));
    let never = waiters.until_allowed_cost("alice", 3).unwrap();
    assert_eq!(never.reason(), Some(Reason::CostExceedsLimit));
    assert!(waiters.until_allowed_cost("alice", 2).unwrap().is_allowed());
    assert_eq!(*slept.lock().unwrap(), [millis(1_000); 2]);
}

/// A parked thread had no timer of its own: behind one that kept sleeping, it stayed past its deadline.
#[test]
fn a_parked_thread_ends_at_its_deadline() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build();
    let (wakes, woken) = std::sync::mpsc::channel::<()>();
    let woken = Mutex::new(woken);
    let waiters = Waiters::blocking(Limiter::with_store("1/10ms".parse().unwrap(), store), |_| {
        woken.lock().unwrap().recv().unwrap();
    })
    .max_jitter(Duration::ZERO);
    assert!(waiters.until_allowed("alice").unwrap().is_allowed());
    std::thread::scope(|scope| {
        let waiting = |count| {
            while waiters.waiting() < count {
                std::thread::yield_now();
            }
        };
        let sleeps = scope.spawn(|| waiters.until_allowed("alice").unwrap().is_allowed());
        waiting(1);
        let parked =
            scope.spawn(|| waiters.until_allowed_within(millis(15), "alice", 1).unwrap().is_allowed());
        waiting(2);
        // The other thread may not have read the time yet.
        while !parked.is_finished() {
            clock.advance(millis(1));
            std::thread::yield_now();
        }
        assert!(!parked.join().unwrap());
        wakes.send(()).unwrap();
        assert!(sleeps.join().unwrap());
    });
}

/// Threads that are parked behind a sleeping one get their turn, and each window admits exactly its limit.
#[test]
fn many_threads_are_served_by_turns() {
    const THREADS: u64 = 24;
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build();
    let (sleeps, sleeping) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all_wait = Barrier::new(2);
    let waiters = Waiters::blocking(Limiter::with_store("3/1s".parse().unwrap(), store), |length| {
        assert_eq!(sleeping.fetch_add(1, Ordering::SeqCst), 0, "only the first waiter of a key sleeps");
        if sleeps.fetch_add(1, Ordering::SeqCst) == 0 {
            all_wait.wait();
        }
        clock.advance(length);
        sleeping.fetch_sub(1, Ordering::SeqCst);
    })
    .max_jitter(Duration::ZERO);
    let start = clock.now();
    let mut windows: Vec<u64> = std::thread::scope(|scope| {
        let call = || {
            let decision = waiters.until_allowed("alice").unwrap();
            assert!(decision.is_allowed());
            decision.state().now().since(start).as_secs()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(call)).collect();
        while waiters.waiting() < THREADS as usize - 3 {
            std::thread::yield_now();
        }
        all_wait.wait();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    windows.sort_unstable();
    assert_eq!(windows, (0..THREADS).map(|number| number / 3).collect::<Vec<_>>());
    assert_eq!(waiters.waiting(), 0);
}
