//! Holds over a store behind a network, and their keeper, under a manual clock.

use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tollgate::{
    Answer, FallbackStore, HoldAnswer, HoldEnding, HoldKeeper, HoldLength, HoldLimiter, HoldPlace,
    KeeperFuture, Limiter, LocalShare, ManualClock, MemoryStore, OnStoreFailure, Quota, Reason,
    RenewableHold, SharedHold, StoreError, blocking,
};
use tollgate_testkit::block_on;

use crate::remote::{RemoteStore, Trouble};
use crate::world::End::{self, Allowed};
use crate::world::{Timer, World};

/// A limiter over a store behind a network, its keeper, and the world with the keeper's task.
struct Setup<'w> {
    limiter: HoldLimiter,
    keeper: HoldKeeper,
    store: RemoteStore,
    clock: ManualClock,
    world: World<'w>,
}

/// At most two in flight for 30 seconds, and a thousand an hour.
fn setup<'w>() -> Setup<'w> {
    let clock = ManualClock::default();
    let (timer, store) = (Timer::new(&clock), RemoteStore::new(&clock));
    let sleep = timer.clone();
    let (keeper, task) = HoldKeeper::with_clock(clock.clone(), move |length| sleep.sleep(length));
    let mut world = World::new(&clock, &timer);
    world.start_task(ended(task));
    let builder = Limiter::builder("jobs").quota(Quota::per_hour(1_000));
    let at_most_two = "2~in_flight:30s".parse().unwrap();
    let limiter = builder.build_shared_in_flight(at_most_two, store.clone(), &keeper).unwrap();
    Setup { limiter, keeper, store, clock, world }
}

async fn ended(task: impl Future<Output = ()>) -> End {
    task.await;
    Allowed
}

fn hold(limiter: &HoldLimiter, cost: u32) -> SharedHold {
    block_on(limiter.hold_cost("alice", cost)).unwrap().into_hold().unwrap()
}

/// The live units and the used units of the key, by the store.
fn counts(limiter: &HoldLimiter) -> (u32, u64) {
    let peek = block_on(limiter.peek("alice", 1)).unwrap();
    (peek.in_flight().unwrap().live(), peek.quotas().unwrap().used())
}

#[test]
fn a_hold_is_renewed_as_long_as_its_guard_lives_and_freed_when_it_is_dropped() {
    let Setup { limiter, keeper, store, mut world, .. } = setup();
    let first = hold(&limiter, 5);
    let second = hold(&limiter, 1);
    world.run();
    let third = block_on(limiter.hold("alice")).unwrap();
    assert_eq!((third.reason(), third.retry_after()), (Some(Reason::InFlightExceeded), None));
    assert_eq!((third.into_hold().is_none(), keeper.holds()), (true, 2));
    store.steps();

    world.advance(10 * 60_000);
    assert!(!first.is_lost() && !second.is_lost());
    assert_eq!(counts(&limiter), (2, 6));
    let renewals = store.steps().iter().filter(|step| **step == "renew").count();
    // Every 7.5 to 10 seconds, for each.
    assert!((2 * 60..=2 * 80).contains(&renewals), "{renewals}");
    assert_eq!(store.most_open(), 2, "they are renewed together");

    drop(first);
    // Nothing is sent where the guard is dropped.
    assert_eq!(store.steps(), [] as [&str; 0]);
    world.run();
    assert_eq!(store.steps(), ["settle"]);
    // What quotas were charged stays charged.
    assert_eq!((counts(&limiter), keeper.holds()), ((1, 6), 1));
    drop(second);
    world.run();
    assert_eq!((counts(&limiter), keeper.holds()), ((0, 6), 0));
}

#[test]
fn the_task_ends_when_nobody_can_have_a_hold() {
    let Setup { limiter, keeper, mut world, .. } = setup();
    let kept = hold(&limiter, 1);
    drop((limiter, keeper));
    world.run();
    assert_eq!(world.ends(), []);
    drop(kept);
    world.run();
    assert_eq!(world.ends().len(), 1);
}

#[test]
fn a_hold_is_settled_or_released_once() {
    let Setup { limiter, store, keeper, mut world, .. } = setup();
    let settled = block_on(hold(&limiter, 800).settle(120)).unwrap();
    assert!(matches!(settled, HoldAnswer::Settled(states) if states[0].units() == 680));
    assert_eq!(counts(&limiter), (0, 120));
    let released = block_on(hold(&limiter, 800).release()).unwrap();
    assert!(matches!(released, HoldAnswer::Settled(states) if states[0].units() == 800));
    // A cost above the estimate is charged.
    let settled = block_on(hold(&limiter, 10).settle(2_000)).unwrap();
    assert!(matches!(settled, HoldAnswer::Settled(states) if states[0].units() == 1_990));
    assert_eq!(counts(&limiter), (0, 2_120));
    store.steps();
    world.run();
    assert_eq!((store.steps(), keeper.holds()), (vec![], 0));
}

#[test]
fn a_reservation_that_is_dropped_is_given_back_if_its_limiter_says_so() {
    let Setup { limiter, mut world, .. } = setup();
    let limiter = limiter.release_on_drop();
    let (first, mut second) = (hold(&limiter, 100), hold(&limiter, 10));
    second.on_drop(HoldEnding::Settle(3));
    drop((first, second));
    world.run();
    assert_eq!(counts(&limiter), (0, 3));
}

/// The answer to a settlement was lost, or its future is dropped: the keeper repeats it, and the store settles once.
#[test]
fn a_settlement_whose_answer_is_lost_is_repeated_and_counts_once() {
    let Setup { limiter, store, keeper, mut world, .. } = setup();
    let kept = hold(&limiter, 800);
    store.trouble(Trouble::LosesAnswers);
    assert!(block_on(kept.settle(120)).is_err());
    assert_eq!(counts_in(&store, &limiter), (0, 120));
    world.advance(1_000);
    store.trouble(Trouble::None);
    world.advance(10_000);
    assert_eq!((counts(&limiter), keeper.holds()), ((0, 120), 0));

    let kept = hold(&limiter, 800);
    store.trouble(Trouble::Fails);
    let task = world.start_task(async {
        let _ = kept.settle(100).await;
        Allowed
    });
    assert_eq!(world.ends().len(), 1, "task {task} has ended with an error");
    assert_eq!(counts_in(&store, &limiter), (1, 920));
    store.trouble(Trouble::None);
    world.advance(10_000);
    assert_eq!((counts(&limiter), keeper.holds()), ((0, 220), 0));
}

/// As [`counts`], whatever the network does.
fn counts_in(store: &RemoteStore, limiter: &HoldLimiter) -> (u32, u64) {
    let (builder, at_most_two) =
        (Limiter::builder("jobs").quota(Quota::per_hour(1_000)), limiter.in_flight());
    let near = builder.build_in_flight(at_most_two.unwrap().in_flight(), store.store.clone()).unwrap();
    (near.peek("alice").live(), near.limiter().peek("alice").unwrap().used())
}

/// A future that is dropped during its reservation, whatever becomes of the call. A caller that got an error instead was
/// charged for a request that it had to refuse.
#[test]
fn a_cancelled_or_failed_reservation_frees_its_units() {
    for (trouble, release) in [
        (Trouble::Hangs, false),
        (Trouble::Hangs, true),
        (Trouble::LosesAnswers, false),
        (Trouble::LosesAnswers, true),
    ] {
        let Setup { limiter, store, keeper, mut world, .. } = setup();
        let limiter = if release { limiter.release_on_drop() } else { limiter };
        store.trouble(trouble);
        let asking = limiter.clone();
        let task = world.start_task(async move {
            let _ = asking.hold_cost("alice", 7).await;
            Allowed
        });
        assert_eq!(counts_in(&store, &limiter), (1, 7), "it is admitted, and nobody knows");
        store.trouble(Trouble::None);
        if trouble == Trouble::Hangs {
            world.cancel(task);
        }
        // The first try of the keeper may have failed as well.
        world.advance(if trouble == Trouble::Hangs { 0 } else { 10_000 });
        let charged = if release || trouble == Trouble::LosesAnswers { 0 } else { 7 };
        assert_eq!((counts(&limiter), keeper.holds()), ((0, charged), 0));
    }
}

/// The keeper cannot reach the store either: the hold ends with its length.
#[test]
fn a_cancelled_reservation_expires_within_its_length_if_the_store_is_away() {
    let Setup { limiter, store, mut world, .. } = setup();
    store.trouble(Trouble::Hangs);
    let asking = limiter.clone();
    let task = world.start_task(async move {
        let _ = asking.hold("alice").await;
        Allowed
    });
    store.trouble(Trouble::Fails);
    world.cancel(task);
    world.advance(29_999);
    assert_eq!(counts_in(&store, &limiter).0, 1);
    world.advance(1);
    assert_eq!(counts_in(&store, &limiter).0, 0);
}

/// It says so while the owner waits for it.
#[test]
fn a_hold_is_lost_when_a_renewal_says_so() {
    let Setup { limiter, mut world, .. } = setup();
    let kept = Arc::new(hold(&limiter, 10));
    block_on(limiter.reset("alice")).unwrap();
    assert!(!kept.is_lost());
    let lost = world.start_task(is_lost(Arc::clone(&kept)));
    assert_eq!(world.ends(), []);
    world.advance(10_000);
    assert!(matches!(world.ends()[..], [(ended, Allowed, 7_500..=10_000)] if ended == lost));
    assert!(kept.is_lost());
}

async fn is_lost(kept: Arc<SharedHold>) -> End {
    kept.lost().await;
    Allowed
}

/// A future that is polled once, and dropped, leaves no waker behind.
#[test]
fn a_wait_for_a_loss_that_is_dropped_keeps_no_waker() {
    let Setup { limiter, .. } = setup();
    let kept = hold(&limiter, 1);
    let task = Arc::new(IdleTask);
    let waker = Waker::from(Arc::clone(&task));
    for _ in 0..2 {
        let mut lost = std::pin::pin!(kept.lost());
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 1);
}

struct IdleTask;

impl Wake for IdleTask {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_lost_hold_is_still_settled_once() {
    let Setup { limiter, mut world, .. } = setup();
    let kept = hold(&limiter, 10);
    block_on(limiter.reset("alice")).unwrap();
    world.run();
    world.advance(5 * 60_000);
    assert!(kept.is_lost());
    let settled = block_on(kept.settle(4)).unwrap();
    assert!(matches!(&settled, HoldAnswer::Settled(states) if states[0].units() == 6), "{settled:?}");
    assert_eq!(counts(&limiter), (0, 4));
}

/// Counted from before the last confirmed call was sent, and by the owner's own clock: nobody has to tell it.
#[test]
fn a_hold_is_lost_when_its_length_has_passed_without_a_confirmed_renewal() {
    let Setup { limiter, store, clock, mut world, .. } = setup();
    let kept = Arc::new(hold(&limiter, 1));
    store.trouble(Trouble::LosesAnswers);
    let lost = world.start_task(is_lost(Arc::clone(&kept)));
    world.advance(29_999);
    assert!(!kept.is_lost());
    assert_eq!(world.ends(), []);
    // Nobody runs the task, and the flag tells it.
    clock.advance(Duration::from_millis(1));
    assert!(kept.is_lost());
    world.advance(1);
    assert!(matches!(world.ends()[..], [(ended, Allowed, _)] if ended == lost));
    // What is lost stays lost, and is not renewed.
    store.trouble(Trouble::None);
    store.steps();
    world.advance(60_000);
    assert!(kept.is_lost());
    assert_eq!(store.steps(), [] as [&str; 0]);
}

/// The store's length began when it took the step, which may be long before its answer.
#[test]
fn a_length_is_counted_from_before_a_call_was_sent() {
    let Setup { limiter, store, mut world, .. } = setup();
    let kept = hold(&limiter, 1);
    world.run();
    store.steps();
    store.trouble(Trouble::Delays);
    while store.steps().is_empty() {
        world.advance(1);
    }
    world.advance(5_000);
    // The answer comes, and no other one after it.
    store.trouble(Trouble::Fails);
    world.advance(24_999);
    assert!(!kept.is_lost());
    world.advance(1);
    assert!(kept.is_lost());
    assert_eq!(counts_in(&store, &limiter).0, 0);
}

/// During an outage, a hold is counted in this process or nowhere, and its later steps go there.
#[test]
fn a_hold_is_renewed_and_settled_where_it_is_counted() {
    let Setup { keeper, store, clock, mut world, .. } = setup();
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    let fallback = |on_failure| FallbackStore::new(store.clone(), on_failure).memory(memory.clone());
    let limiter = |on_failure| {
        let builder = Limiter::builder("jobs").quota(Quota::per_hour(1_000));
        let at_most_two = "2~in_flight:30s".parse().unwrap();
        builder.build_shared_in_flight(at_most_two, fallback(on_failure), &keeper).unwrap()
    };
    store.trouble(Trouble::Fails);
    let local = limiter(OnStoreFailure::Local(LocalShare::new(1, 2).unwrap()));
    let kept = hold(&local, 100);
    assert_eq!(kept.place(), HoldPlace::Process);
    assert!(!block_on(local.hold("alice")).unwrap().is_allowed(), "one of two is this process's share");
    world.run();
    world.advance(10 * 60_000);
    assert!(!kept.is_lost());
    store.trouble(Trouble::None);
    assert!(matches!(block_on(kept.settle(40)).unwrap(), HoldAnswer::Settled(_)));
    store.trouble(Trouble::Fails);
    assert_eq!(counts(&local), (0, 40));

    let open = limiter(OnStoreFailure::Open);
    let kept = hold(&open, 100);
    store.trouble(Trouble::None);
    assert_eq!(kept.place(), HoldPlace::Nowhere);
    world.advance(10 * 60_000);
    assert!(!kept.is_lost());
    assert_eq!(block_on(kept.settle(40)).unwrap(), HoldAnswer::Gone);
    assert_eq!(counts(&open), (0, 0));
}

/// A hold of a store without room for another counter.
struct CrampedHold {
    is_far: bool,
    ends: Mutex<Vec<HoldEnding>>,
}

impl RenewableHold for CrampedHold {
    fn renew(&self) -> Answer<KeeperFuture<'_>> {
        Answer::Now(Ok(HoldAnswer::Renewed { left: Duration::from_secs(30) }))
    }

    fn end(&self, ending: HoldEnding) -> Answer<KeeperFuture<'_>> {
        let ended = move || {
            self.ends.lock().unwrap().push(ending);
            match ending {
                HoldEnding::Keep => Ok(HoldAnswer::Expired),
                _ => Err(StoreError::Full),
            }
        };
        if self.is_far { Answer::Later(Box::pin(async move { ended() })) } else { Answer::Now(ended()) }
    }
}

/// The missing units have no room; the units in flight are free all the same.
#[test]
fn a_settlement_without_room_frees_the_units() {
    for is_far in [false, true] {
        let Setup { keeper, mut world, .. } = setup();
        let cramped = Arc::new(CrampedHold { is_far, ends: Mutex::default() });
        let mut kept = keeper.keep(Arc::clone(&cramped) as _, HoldEnding::Keep);
        kept.admitted(HoldLength::default());
        kept.on_drop(HoldEnding::Settle(9));
        drop(kept);
        world.run();
        let ends = [HoldEnding::Settle(9), HoldEnding::Keep];
        assert_eq!(std::mem::take(&mut *cramped.ends.lock().unwrap()), ends);

        let mut kept = keeper.keep(Arc::clone(&cramped) as _, HoldEnding::Keep);
        kept.admitted(HoldLength::default());
        assert!(matches!(block_on(kept.end(HoldEnding::Settle(9))), Err(StoreError::Full)));
        world.run();
        assert_eq!((&cramped.ends.lock().unwrap()[..], keeper.holds()), (&ends[..], 0));
    }
}

/// If too many wait for their end, the others expire.
#[test]
fn dropped_holds_beyond_the_bound_expire() {
    let Setup { limiter, store, keeper, mut world, .. } = setup();
    let _keeper = keeper.clone().max_ending(1);
    let holds = [hold(&limiter, 1), hold(&limiter, 1)];
    drop(holds);
    assert_eq!(keeper.holds(), 1);
    world.run();
    assert_eq!(counts(&limiter), (1, 2));
    world.advance(30_000);
    assert_eq!(counts(&limiter), (0, 2));
    assert_eq!(store.steps().iter().filter(|step| **step == "settle").count(), 1);
}

#[test]
fn a_crowd_is_renewed_in_batches() {
    let Setup { limiter, keeper, store, mut world, .. } = setup();
    let many = Limiter::builder("many");
    let many =
        many.build_shared_in_flight("1000~in_flight:30s".parse().unwrap(), store.clone(), &keeper).unwrap();
    drop(limiter);
    let mut holds = Vec::new();
    for _ in 0..500 {
        holds.push(block_on(many.hold("crowd")).unwrap().into_hold().unwrap());
        // They begin at different times.
        world.advance(10);
    }
    store.most_open();
    world.advance(60_000);
    assert_eq!(store.most_open(), 64);
    assert!(holds.iter().all(|kept| !kept.is_lost()));
    assert_eq!(many_live(&many), 500);
    drop(holds);
    world.run();
    assert_eq!((many_live(&many), keeper.holds()), (0, 0));
}

fn many_live(many: &HoldLimiter) -> u32 {
    block_on(many.peek("crowd", 1)).unwrap().in_flight().unwrap().live()
}

/// A store that answers at once needs no task to free a unit.
#[test]
fn a_store_in_memory_frees_at_once() {
    let clock = ManualClock::default();
    let (keeper, _task) = HoldKeeper::with_clock(clock.clone(), |_| std::future::pending());
    let store = RemoteStore::new(&clock).store;
    let one = "1~in_flight".parse().unwrap();
    let limiter = Limiter::builder("jobs").build_shared_in_flight(one, store, &keeper).unwrap();
    for _ in 0..3 {
        let decision = block_on(limiter.hold("alice")).unwrap();
        assert!(decision.is_allowed() && decision.quotas().is_none());
    }
    assert_eq!(keeper.holds(), 0);
}

/// Real time: a thread renews, and another one blocks.
#[test]
fn threads_hold_without_a_runtime() {
    let (keeper, task) = HoldKeeper::new(blocking::sleep);
    let thread = std::thread::spawn(|| blocking::block_on(task));
    let store = tollgate::MemoryStore::new();
    let one = "1~in_flight:600ms".parse().unwrap();
    let limiter = Limiter::builder("jobs").build_shared_in_flight(one, store, &keeper).unwrap();
    let kept = blocking::block_on(limiter.hold("alice")).unwrap().into_hold().unwrap();
    // Real time: two lengths pass on this thread.
    blocking::block_on(blocking::sleep(Duration::from_millis(1_200)));
    assert!(!kept.is_lost());
    assert!(!blocking::block_on(limiter.hold("alice")).unwrap().is_allowed());
    drop(kept);
    assert!(blocking::block_on(limiter.hold("alice")).unwrap().is_allowed());
    drop((limiter, keeper));
    thread.join().unwrap();
}
