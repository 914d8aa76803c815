//! Waiting for units in flight: order, bounds, deadlines and wake-ups, under a manual clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{
    Clock, CountDenied, Hold, HoldKeeper, HoldLimiter, HoldSource, HoldWaiters, InFlightLimiter, Limiter,
    ManualClock, MemoryStore, Quota, Reason, SharedHold, SystemClock, WaitError, blocking,
};
use tollgate_testkit::block_on;

use crate::remote::RemoteStore;
use crate::world::End::{Allowed, Denied, TooMany};
use crate::world::{Timer, World};

type Jobs = InFlightLimiter<ManualClock>;

/// What is held, in the order in which it was admitted.
type Held<H> = Arc<Mutex<Vec<(u32, H)>>>;

struct Setup {
    clock: ManualClock,
    timer: Timer,
    store: MemoryStore<ManualClock>,
}

fn setup() -> Setup {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build();
    Setup { timer: Timer::new(&clock), store, clock }
}

impl Setup {
    fn waiters<L: HoldSource>(
        &self,
        limiter: L,
    ) -> HoldWaiters<L, impl Fn(Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Sync> {
        let timer = self.timer.clone();
        HoldWaiters::new(limiter, move |length| Box::pin(timer.sleep(length)) as _)
    }

    fn at_most(&self, limit: u32) -> Jobs {
        InFlightLimiter::with_store(tollgate::InFlight::new(limit).unwrap(), self.store.clone())
    }
}

/// A wait for units under this name, and its end.
macro_rules! wait {
    ($waiters:expr, $held:expr, $name:expr, $units:expr) => {
        wait!($waiters, $held, $name, $units, None)
    };
    ($waiters:expr, $held:expr, $name:expr, $units:expr, $longest:expr) => {{
        let (waiters, held) = (&$waiters, Arc::clone(&$held));
        async move {
            let longest: Option<u64> = $longest;
            let waited = match longest {
                Some(millis) => {
                    waiters.until_held_within(Duration::from_millis(millis), "alice", $units, 1).await
                }
                None => waiters.until_held_units("alice", $units, 1).await,
            };
            let decision = match waited {
                Ok(decision) => decision,
                Err(WaitError::TooManyWaiters) => return TooMany,
                Err(error) => panic!("{error}"),
            };
            if !decision.is_allowed() {
                return Denied { retry_after: decision.retry_after().map(|wait| wait.as_millis() as u64) };
            }
            held.lock().unwrap().push(($name, decision.into_hold().unwrap()));
            Allowed
        }
    }};
}

/// Ends the hold that was admitted first.
fn end<H>(held: &Held<H>) -> u32 {
    let (name, hold) = held.lock().unwrap().remove(0);
    drop(hold);
    name
}

fn names<H>(held: &Held<H>) -> Vec<u32> {
    held.lock().unwrap().iter().map(|(name, _)| *name).collect()
}

#[test]
fn the_end_of_a_hold_wakes_the_next_in_turn() {
    let setup = setup();
    let waiters = setup.waiters(setup.at_most(2));
    let held = Held::<Hold<ManualClock>>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    for name in 0..5 {
        world.start_task(wait!(waiters, held, name, 1));
    }
    assert_eq!((names(&held), waiters.waiting()), (vec![0, 1], 3));
    for next in 2..5 {
        end(&held);
        world.run();
        // The clock has not moved.
        assert_eq!(names(&held), [next - 1, next]);
    }
    assert_eq!((waiters.waiting(), world.ends().last().unwrap().2), (0, 0));
}

/// One that needs many units is not overtaken by those that need few, and other keys do not wait for it.
#[test]
fn the_first_of_a_line_waits_for_many_units_and_holds_the_others_up() {
    let setup = setup();
    let waiters = setup.waiters(setup.at_most(3));
    let held = Held::<Hold<ManualClock>>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    for (name, units) in [(0, 1), (1, 1), (2, 3), (3, 1)] {
        world.start_task(wait!(waiters, held, name, units));
    }
    assert_eq!(names(&held), [0, 1], "one unit is free, and not for the fourth");
    assert!(block_on(waiters.until_held("bob")).unwrap().is_allowed());
    end(&held);
    world.run();
    assert_eq!(names(&held), [1]);
    end(&held);
    world.run();
    assert_eq!(names(&held), [2]);
    end(&held);
    world.run();
    assert_eq!(names(&held), [3]);
}

#[test]
fn a_deadline_a_bound_and_what_can_never_pass_end_a_wait() {
    let setup = setup();
    let waiters = setup.waiters(setup.at_most(1)).max_waiters(2);
    let held = Held::<Hold<ManualClock>>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    world.start_task(wait!(waiters, held, 0, 1));
    let first = world.start_task(wait!(waiters, held, 1, 1, Some(300)));
    let behind = world.start_task(wait!(waiters, held, 2, 1, Some(200)));
    world.ends();
    let third = world.start_task(wait!(waiters, held, 3, 1));
    assert_eq!(world.ends(), [(third, TooMany, 0)]);
    let never = world.start_task(wait!(waiters, held, 4, 2));
    assert_eq!(world.ends(), [(never, Denied { retry_after: None }, 0)]);
    world.advance(199);
    assert_eq!(world.ends(), []);
    world.advance(200);
    let denied = Denied { retry_after: None };
    assert_eq!(world.ends(), [(behind, denied, 200), (first, denied, 300)]);
    assert_eq!(waiters.waiting(), 0);
    let denied = block_on(waiters.until_held_within(Duration::ZERO, "carol", 1, 1)).unwrap();
    assert!(denied.is_allowed());
    end(&held);
    drop(denied);
}

/// A waiter that is dropped makes place, wherever it stands.
#[test]
fn a_cancelled_waiter_makes_place() {
    let setup = setup();
    let waiters = setup.waiters(setup.at_most(1));
    let held = Held::<Hold<ManualClock>>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    let tasks: Vec<_> = (0..4).map(|name| world.start_task(wait!(waiters, held, name, 1))).collect();
    world.cancel(tasks[1]);
    world.run();
    end(&held);
    world.run();
    assert_eq!(names(&held), [2]);
    // Woken, and dropped before it runs: the next one is woken in its place.
    end(&held);
    assert!(world.is_woken(tasks[3]));
    let last = world.start_task(wait!(waiters, held, 4, 1));
    world.run();
    assert_eq!(names(&held), [3]);
    world.cancel(last);
    assert_eq!(waiters.waiting(), 0);
}

/// The units of a hold with an id, which expires: nobody ends it, so the first waiter finds out by asking.
#[test]
fn units_that_expire_are_found_by_asking_again() {
    let setup = setup();
    let (keeper, _task) = HoldKeeper::with_clock(setup.clock.clone(), |_| std::future::pending());
    let one = "1~in_flight:5s".parse().unwrap();
    let builder = Limiter::builder("default");
    let elsewhere = builder.build_shared_in_flight(one, setup.store.clone(), &keeper).unwrap();
    let forgotten = block_on(elsewhere.hold("alice")).unwrap().into_hold();
    let waiters = setup.waiters(setup.at_most(1));
    let held = Held::<Hold<ManualClock>>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    let task = world.start_task(wait!(waiters, held, 0, 1));
    world.advance(4_999);
    assert_eq!(world.ends(), []);
    let pauses: Vec<u128> = setup.timer.slept().iter().map(Duration::as_millis).collect();
    assert!(pauses.len() > 5 && pauses.iter().all(|pause| (25..=1_000).contains(pause)), "{pauses:?}");
    world.advance(1_001);
    assert!(matches!(world.ends()[..], [(ended, Allowed, 5_000..=6_000)] if ended == task));
    drop(forgotten);
}

/// The wait for a quota is honest, so nobody asks earlier.
#[test]
fn a_quota_is_waited_for_as_long_as_it_says() {
    let setup = setup();
    let jobs = Limiter::builder("jobs").quota(Quota::per_minute(1));
    let jobs = jobs.build_in_flight(tollgate::InFlight::new(1).unwrap(), setup.store.clone()).unwrap();
    let waiters = setup.waiters(jobs);
    let held = Held::<Hold<ManualClock>>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    world.start_task(wait!(waiters, held, 0, 1));
    end(&held);
    let late = world.start_task(wait!(waiters, held, 1, 1, Some(59_999)));
    assert_eq!(world.ends()[1..], [(late, Denied { retry_after: Some(60_000) }, 0)]);
    let task = world.start_task(wait!(waiters, held, 2, 1, Some(61_000)));
    world.advance(59_999);
    assert_eq!(world.ends(), []);
    world.advance(101);
    assert!(matches!(world.ends()[..], [(ended, Allowed, 60_000..=60_100)] if ended == task));
}

/// The random part of a pause must not cost the answer: there is room within the bound.
#[test]
fn a_quota_that_has_room_just_before_the_deadline_admits() {
    for _ in 0..30 {
        let setup = setup();
        let jobs = Limiter::builder("jobs").quota(Quota::per_second(1));
        let jobs = jobs.build_in_flight(tollgate::InFlight::new(1).unwrap(), setup.store.clone()).unwrap();
        let waiters = setup.waiters(jobs);
        let held = Held::<Hold<ManualClock>>::default();
        let mut world = World::new(&setup.clock, &setup.timer);
        world.start_task(wait!(waiters, held, 0, 1));
        end(&held);
        world.ends();
        world.advance(50);
        let task = world.start_task(wait!(waiters, held, 1, 1, Some(951)));
        world.advance(2_000);
        assert!(matches!(world.ends()[..], [(ended, Allowed, 1_000..=1_001)] if ended == task));
    }
}

/// The quota has room within the bound, but not within the rest of it.
#[test]
fn a_wait_ends_as_soon_as_quotas_have_no_room_in_time() {
    let setup = setup();
    let jobs = Limiter::builder("jobs").quota("2/2s".parse().unwrap());
    let jobs = jobs.build_in_flight(tollgate::InFlight::new(1).unwrap(), setup.store.clone()).unwrap();
    let waiters = setup.waiters(jobs);
    let held = Held::<Hold<ManualClock>>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    world.start_task(wait!(waiters, held, 0, 1));
    world.advance(800);
    world.ends();
    let task = world.start_task(wait!(waiters, held, 1, 1, Some(1_000)));
    world.advance(400);
    assert!(waiters.limiter().limiter().check("alice").unwrap().is_allowed());
    end(&held);
    world.run();
    assert_eq!(world.ends(), [(task, Denied { retry_after: Some(800) }, 1_200)]);
}

/// One arrival, one question, and one charge.
#[test]
fn a_caller_that_has_to_wait_is_denied_once() {
    for (counted, in_flight, charged) in
        [(CountDenied::Yes, 5, 2), (CountDenied::Overdraft, 5, 2), (CountDenied::Overdraft, 1, 2)]
    {
        let setup = setup();
        let jobs = Limiter::builder("jobs").quota(Quota::per_minute(1)).count_denied(counted);
        let in_flight = tollgate::InFlight::new(in_flight).unwrap();
        let jobs = jobs.build_in_flight(in_flight, setup.store.clone()).unwrap();
        let waiters = setup.waiters(jobs);
        let held = Held::<Hold<ManualClock>>::default();
        let mut world = World::new(&setup.clock, &setup.timer);
        world.start_task(wait!(waiters, held, 0, 1));
        world.start_task(wait!(waiters, held, 1, 1, Some(120_000)));
        let used = waiters.limiter().limiter().peek("alice").unwrap().used();
        assert_eq!((waiters.waiting(), used), (1, charged), "{counted:?}");
    }
}

/// The same over a store behind a network.
#[test]
fn a_caller_that_has_to_wait_asks_a_shared_store_once() {
    let setup = setup();
    let store = RemoteStore::new(&setup.clock);
    let (keeper, _task) = HoldKeeper::with_clock(setup.clock.clone(), |_| std::future::pending());
    let one = "1~in_flight:30s".parse().unwrap();
    let limiter = Limiter::builder("jobs").build_shared_in_flight(one, store.clone(), &keeper).unwrap();
    let waiters = setup.waiters(limiter);
    let held = Held::<SharedHold>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    world.start_task(wait!(waiters, held, 0, 1));
    assert_eq!(store.steps(), ["reserve"]);
    world.start_task(wait!(waiters, held, 1, 1));
    assert_eq!((store.steps(), waiters.waiting()), (vec!["reserve"], 1));
}

/// Over a store behind a network: the end of a hold of this process wakes the next, once the store has confirmed it.
#[test]
fn holds_of_a_shared_store_are_waited_for_in_turn() {
    let setup = setup();
    let (store, sleep) = (RemoteStore::new(&setup.clock), setup.timer.clone());
    let (keeper, task) = HoldKeeper::with_clock(setup.clock.clone(), move |length| sleep.sleep(length));
    let one = "1~in_flight:30s".parse().unwrap();
    let builder = || Limiter::builder("jobs");
    let near: HoldLimiter = builder().build_shared_in_flight(one, store.clone(), &keeper).unwrap();
    let far = builder().build_shared_in_flight(one, store.clone(), &keeper).unwrap();
    let waiters = setup.waiters(near);
    let held = Held::<SharedHold>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    world.add_task(async {
        task.await;
        Allowed
    });
    for name in 0..3 {
        world.start_task(wait!(waiters, held, name, 1));
    }
    assert_eq!(names(&held), [0]);
    end(&held);
    world.run();
    assert_eq!(names(&held), [1]);

    // Another process is faster.
    let taken = {
        end(&held);
        block_on(far.hold("alice")).unwrap()
    };
    world.run();
    assert!(taken.reason().is_none_or(|reason| reason == Reason::InFlightExceeded));
    drop(taken);
    world.advance(2_000);
    assert_eq!(names(&held), [2]);
}

/// Nobody has to ask again to find the units that a reset frees.
#[test]
fn a_reset_wakes_the_next_in_turn() {
    let setup = setup();
    let (store, sleep) = (RemoteStore::new(&setup.clock), setup.timer.clone());
    let (keeper, task) = HoldKeeper::with_clock(setup.clock.clone(), move |length| sleep.sleep(length));
    let one = "1~in_flight:30s".parse().unwrap();
    let limiter = Limiter::builder("jobs").build_shared_in_flight(one, store, &keeper).unwrap();
    let waiters = setup.waiters(limiter.clone());
    let held = Held::<SharedHold>::default();
    let mut world = World::new(&setup.clock, &setup.timer);
    world.add_task(async {
        task.await;
        Allowed
    });
    for name in 0..2 {
        world.start_task(wait!(waiters, held, name, 1));
    }
    assert_eq!(names(&held), [0]);
    block_on(limiter.reset("alice")).unwrap();
    world.run();
    assert_eq!(names(&held), [0, 1]);
}

/// Real time: threads take turns, woken by each other.
#[test]
fn threads_wait_in_turn() {
    let waiters = HoldWaiters::new(InFlightLimiter::new("1~in_flight".parse().unwrap()), blocking::sleep);
    let waiters = waiters.max_pause(Duration::from_secs(3_600));
    let begun = SystemClock.steady_now();
    let (inside, rounds) = (std::sync::atomic::AtomicU32::new(0), 200);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let decision = blocking::block_on(waiters.until_held("alice")).unwrap();
                    let hold = decision.into_hold().unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(hold);
                }
            });
        }
    });
    // A wake-up that is missed would cost at least 25 milliseconds.
    let took = SystemClock.steady_now().since(begun);
    assert!(took < Duration::from_secs(10), "{took:?}");
}
