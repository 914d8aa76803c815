//! Holds with an id in memory: what is particular to this store. The conformance suite has the rules of every store.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{
    Charge, Clock, Counter, Full, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep,
    HoldTerms, InFlight, InFlightCharge, InFlightLimiter, Key, Limiter, ManualClock, MemoryError,
    MemoryStore, PolicyInFlight, PolicyQuota, Quota, QuotaStates, Reason, Step,
};

const LENGTH: Duration = Duration::from_secs(60);

/// A store under a manual clock, with a limit in flight and a quota.
struct Desk {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
    jobs: PolicyInFlight,
    words: PolicyQuota,
}

/// One hold of the key, with its id.
#[derive(Clone, Copy)]
struct Asked {
    id: HoldId,
    key: &'static str,
    units: u32,
    cost: u32,
}

impl Asked {
    fn new(key: &'static str, units: u32, cost: u32) -> Self {
        Self { id: HoldId::random(), key, units, cost }
    }
}

impl Desk {
    fn new(limit: u32, max_counters: usize) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(max_counters).build();
        let jobs = PolicyInFlight::new("jobs", InFlight::new(limit).unwrap());
        Self { store, clock, jobs, words: PolicyQuota::new("jobs", Quota::per_hour(100)) }
    }

    fn with_terms<A>(&self, asked: Asked, take: impl FnOnce(HoldTerms<'_>) -> A) -> A {
        let key = Key::from(asked.key);
        let units = [InFlightCharge::new(&self.jobs, &key, asked.units)];
        let charges = [Charge::new(&self.words, &key, asked.cost)];
        let charges = if asked.cost > 0 { &charges[..] } else { &[] };
        take(HoldTerms::new(asked.id, &units, charges, HoldLength::new(LENGTH).unwrap()))
    }

    fn reserve(&self, asked: Asked) -> Result<HoldStates, MemoryError> {
        self.with_terms(asked, |terms| self.store.take_hold(HoldStep::Reserve(terms))).map(decided)
    }

    fn look(&self, asked: Asked) -> Result<HoldStates, MemoryError> {
        self.with_terms(asked, |terms| self.store.take_hold(HoldStep::Look(terms))).map(decided)
    }

    fn renew(&self, asked: Asked) -> Result<HoldAnswer, MemoryError> {
        self.with_terms(asked, |terms| self.store.take_hold(HoldStep::Renew(terms)))
    }

    fn settle(&self, asked: Asked, adjustment: HoldAdjustment) -> Result<HoldAnswer, MemoryError> {
        self.with_terms(asked, |terms| self.store.take_hold(HoldStep::Settle(terms, &[adjustment])))
    }

    fn live(&self, key: &'static str) -> u32 {
        self.guards().peek(key).live()
    }

    fn used(&self, key: &'static str) -> u64 {
        let key = Key::from(key);
        self.store.take(Step::Peek(&[Charge::new(&self.words, &key, 0)])).unwrap()[0].used()
    }

    /// The guards of this process on the same counters.
    fn guards(&self) -> InFlightLimiter<ManualClock> {
        InFlightLimiter::with_store(self.jobs.clone(), self.store.clone())
    }
}

fn decided(answer: HoldAnswer) -> HoldStates {
    let HoldAnswer::Decided(states) = answer else { panic!("{answer:?}") };
    states
}

/// Guards of this process and holds with an id take units of one counter.
#[test]
fn guards_and_holds_with_an_id_share_one_count() -> Result<(), MemoryError> {
    let desk = Desk::new(3, 1_000);
    let guards = desk.guards();
    let guard = guards.hold("alice")?.into_hold().unwrap();
    let two = Asked::new("alice", 2, 0);
    assert!(desk.reserve(two)?.is_admitted());
    assert_eq!(guards.peek("alice").live(), 3);
    assert_eq!(guards.hold("alice")?.reason(), Some(Reason::InFlightExceeded));
    assert_eq!(desk.reserve(Asked::new("alice", 1, 0))?.reason(), Some(Reason::InFlightExceeded));
    // The end of a hold is seen by guards, which have no id.
    desk.clock.advance(LENGTH);
    assert_eq!(guards.peek("alice").live(), 1);
    assert!(guards.hold_units("alice", 2, 1)?.is_allowed());
    drop(guard);
    assert_eq!((guards.peek("alice").live(), desk.store.counters()), (0, 0));
    Ok(())
}

/// A reset by a guard's limiter and one by a step are the same.
#[test]
fn a_reset_forgets_the_units_of_guards_and_ids() -> Result<(), MemoryError> {
    let desk = Desk::new(3, 1_000);
    let guard = desk.guards().hold("alice")?.into_hold().unwrap();
    let (first, second) = (Asked::new("alice", 2, 0), Asked::new("alice", 3, 0));
    assert!(desk.reserve(first)?.is_admitted());
    let key = Key::from("alice");
    let reset = HoldStep::Reset(InFlightCharge::new(&desk.jobs, &key, 0));
    assert_eq!(desk.store.take_hold(reset)?, HoldAnswer::Forgotten { units: 3 });
    assert_eq!(desk.store.take_hold(reset)?, HoldAnswer::Forgotten { units: 0 });
    assert!(guard.is_lost());
    assert!(desk.reserve(second)?.is_admitted());
    assert_eq!(desk.renew(first)?, HoldAnswer::Lost);
    // Neither of the lost ones frees the units of the second.
    drop(guard);
    assert!(matches!(desk.settle(first, HoldAdjustment::Keep)?, HoldAnswer::Settled(_)));
    assert_eq!(desk.live("alice"), 3);
    desk.guards().reset("alice");
    assert_eq!(desk.renew(second)?, HoldAnswer::Lost);
    Ok(())
}

/// An id takes twelve places, each further part five, and a key in flight five.
#[test]
fn ids_take_places_of_the_cap_and_give_them_back() -> Result<(), MemoryError> {
    let desk = Desk::new(2, 41);
    let first = Asked::new("alice", 1, 40);
    assert!(desk.reserve(first)?.is_admitted());
    // Twelve and five for the id, five for the key in flight, and one for the quota's counter.
    assert_eq!(desk.store.counters(), 23);
    // The same key needs only places for the id.
    assert!(desk.reserve(Asked::new("alice", 1, 40))?.is_admitted());
    assert_eq!(desk.store.counters(), 40);
    // A denial and a look take none; a reservation of another key has no room, and neither has a look.
    assert!(!desk.reserve(Asked::new("alice", 1, 1))?.is_admitted());
    let bob = Asked::new("bob", 1, 1);
    assert_eq!(desk.reserve(bob).unwrap_err(), Full.into());
    assert_eq!(desk.look(bob).unwrap_err(), Full.into());
    assert_eq!(desk.store.counters(), 40);
    assert_eq!(desk.renew(bob)?, HoldAnswer::Expired);
    // A settled id is remembered for ten seconds.
    assert!(matches!(desk.settle(first, HoldAdjustment::Keep)?, HoldAnswer::Settled(_)));
    assert_eq!(desk.store.counters(), 40);
    desk.clock.advance(Duration::from_secs(10) - Duration::from_millis(1));
    assert!(matches!(desk.settle(first, HoldAdjustment::Keep)?, HoldAnswer::Settled(_)));
    desk.clock.advance(Duration::from_millis(1));
    assert_eq!(desk.settle(first, HoldAdjustment::Keep)?, HoldAnswer::Expired);
    assert_eq!(desk.store.counters(), 23);
    desk.clock.advance(LENGTH);
    assert_eq!(desk.renew(bob)?, HoldAnswer::Expired);
    assert_eq!(desk.store.counters(), 1);
    Ok(())
}

/// Only steps on holds ended those that were due: if none came, their places were lost to plain counters.
#[test]
fn holds_that_are_due_make_room_for_counters() -> Result<(), MemoryError> {
    let words = PolicyQuota::new("jobs", Quota::per_hour(100));
    let key = Key::from("bob");
    let (counter, charge) = (Counter::new(&words, &key), [Charge::new(&words, &key, 1)]);
    for step in
        [Step::Charge(&charge), Step::Peek(&charge), Step::Record(charge[0]), Step::Set { counter, used: 1 }]
    {
        let desk = Desk::new(1, 17);
        assert!(desk.reserve(Asked::new("alice", 1, 0))?.is_admitted());
        assert_eq!(desk.store.take(step).unwrap_err(), Full.into());
        desk.clock.advance(LENGTH);
        assert!(desk.store.take(step).is_ok(), "{step:?}");
    }
    Ok(())
}

/// A hold takes all or nothing, over limits in flight, quotas and keys.
#[test]
fn a_hold_without_room_for_one_part_takes_none() -> Result<(), MemoryError> {
    let desk = Desk::new(2, 1_000);
    let team = PolicyInFlight::new("team", InFlight::new(3).unwrap());
    let (alice, all) = (Key::from("alice"), Key::from("all"));
    let units =
        |count| [InFlightCharge::new(&desk.jobs, &alice, count), InFlightCharge::new(&team, &all, count)];
    let charges = |cost| [Charge::new(&desk.words, &alice, cost), Charge::new(&desk.words, &all, 1)];
    let take = |count: u32, cost: u32| -> Result<HoldStates, MemoryError> {
        let (units, charges) = (units(count), charges(cost));
        let terms = HoldTerms::new(HoldId::random(), &units, &charges, HoldLength::default());
        desk.store.take_hold(HoldStep::Reserve(terms)).map(decided)
    };
    let live = |states: &HoldStates| states.in_flight().iter().map(|state| state.live()).collect::<Vec<_>>();
    assert_eq!(live(&take(2, 60)?), [2, 2]);
    let used = |states: &QuotaStates| states.iter().map(|state| state.used()).collect::<Vec<_>>();
    // `jobs` is full, and `team` has room; the other way around with another key.
    let denied = take(1, 1)?;
    assert_eq!((denied.reason(), live(&denied)), (Some(Reason::InFlightExceeded), vec![2, 2]));
    assert_eq!(used(denied.charged()), [60, 1]);
    let denied = take(1, 90)?;
    assert_eq!(denied.reason(), Some(Reason::QuotaExceeded));
    assert_eq!((live(&denied), used(denied.charged())), (vec![2, 2], vec![60, 1]));
    Ok(())
}

/// Units of one key add up, if two parts of a hold are on it after all.
#[test]
fn two_parts_on_one_counter_never_pass_its_limit() -> Result<(), MemoryError> {
    let desk = Desk::new(3, 1_000);
    let key = Key::from("alice");
    for (counts, is_admitted) in [([2, 2], false), ([2, 1], true)] {
        let units = counts.map(|count| InFlightCharge::new(&desk.jobs, &key, count));
        let terms = HoldTerms::new(HoldId::random(), &units, &[], HoldLength::default());
        let states = decided(desk.store.take_hold(HoldStep::Reserve(terms))?);
        assert_eq!(states.is_admitted(), is_admitted);
    }
    assert_eq!(desk.live("alice"), 3);
    Ok(())
}

/// If the store is full, settling changes nothing and can be repeated.
#[test]
fn settling_without_room_changes_nothing() -> Result<(), MemoryError> {
    let desk = Desk::new(1, 23);
    let asked = Asked::new("alice", 1, 10);
    assert!(desk.reserve(asked)?.is_admitted());
    let end = desk.store.take(Step::Peek(&[Charge::new(&desk.words, &"alice".into(), 0)]))?[0].reset_at();
    desk.clock.set(end - Duration::from_secs(1));
    let late = Asked::new("alice", 1, 10);
    assert!(matches!(desk.renew(asked)?, HoldAnswer::Expired));
    assert!(desk.reserve(late)?.is_admitted());
    desk.clock.set(end);
    // Another counter replaces the closed one.
    let bob = Key::from("bob");
    assert!(desk.store.take(Step::Charge(&[Charge::new(&desk.words, &bob, 1)]))?.is_admitted());
    assert_eq!(desk.settle(late, HoldAdjustment::Charge(5)).unwrap_err(), Full.into());
    assert_eq!(desk.live("alice"), 1);
    desk.store.take(Step::Reset(Counter::new(&desk.words, &bob)))?;
    assert!(matches!(desk.settle(late, HoldAdjustment::Charge(5))?, HoldAnswer::Settled(_)));
    assert_eq!((desk.live("alice"), desk.used("alice")), (0, 5));
    Ok(())
}

/// The end of a hold follows a clock that steps back: it is never further away than its length.
#[test]
fn a_step_back_leaves_no_hold_longer_than_its_length() -> Result<(), MemoryError> {
    let desk = Desk::new(1, 1_000);
    assert!(desk.reserve(Asked::new("alice", 1, 0))?.is_admitted());
    let now = desk.clock.now();
    desk.clock.set(now - 100 * LENGTH);
    assert_eq!(desk.live("alice"), 1);
    desk.clock.advance(LENGTH - Duration::from_millis(1));
    assert_eq!(desk.live("alice"), 1);
    desk.clock.advance(Duration::from_millis(1));
    assert_eq!(desk.live("alice"), 0);
    Ok(())
}

/// A question for no units in flight charged quotas that count denials.
#[test]
fn no_units_in_flight_charge_no_denial() -> Result<(), MemoryError> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock).build();
    let builder = Limiter::builder("jobs").quota(Quota::per_day(9));
    let jobs = builder
        .count_denied(tollgate::CountDenied::Overdraft)
        .build_in_flight(InFlight::new(1).unwrap(), store)
        .unwrap();
    let _first = jobs.hold("alice")?.into_hold().unwrap();
    assert_eq!(jobs.hold_units("alice", 0, 5)?.reason(), Some(Reason::InFlightExceeded));
    assert_eq!(jobs.limiter().peek("alice")?.used(), 1);
    Ok(())
}

/// Eight threads, half of which use ids. Each counts from outside, after it has its unit and before it gives it back.
#[test]
fn threads_with_guards_and_ids_never_hold_more_than_the_limit() {
    const LIMIT: u32 = 3;
    let desk = Desk::new(LIMIT, 1_000_000);
    let (guards, live) = (desk.guards(), AtomicU32::new(0));
    let own = || {
        assert!(live.fetch_add(1, Ordering::SeqCst) < LIMIT);
        thread::yield_now();
        live.fetch_sub(1, Ordering::SeqCst);
    };
    let admitted: u32 = thread::scope(|scope| {
        let with_guard = || {
            guards.hold("alice").unwrap().into_hold().map(|guard| {
                own();
                drop(guard);
            })
        };
        let with_id = || {
            let asked = Asked::new("alice", 1, 0);
            desk.reserve(asked).unwrap().is_admitted().then(|| {
                own();
                assert!(matches!(desk.settle(asked, HoldAdjustment::Keep).unwrap(), HoldAnswer::Settled(_)));
            })
        };
        let work = |number: usize| {
            let rounds =
                move || (0..2_000).filter_map(move |_| if number < 4 { with_guard() } else { with_id() });
            scope.spawn(move || u32::try_from(rounds().count()).unwrap())
        };
        let threads: Vec<_> = (0..8).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(admitted >= 2_000, "{admitted} admitted");
    desk.clock.advance(LENGTH);
    assert_eq!((guards.peek("alice").live(), desk.store.counters()), (0, 0));
}
