//! Units in flight: never more than the limit live, all free again when their holds end, together with quotas or not at
//! all.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    CountDenied, Full, Hold, InFlight, InFlightLimiter, Limiter, ManualClock, MemoryStore, Quota, QuotaState,
    Reason,
};

fn at_most(limit: u32) -> InFlight {
    InFlight::new(limit).unwrap()
}

#[test]
fn a_denial_has_no_wait_unless_a_quota_denies_as_well() -> Result<(), Full> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let builder = Limiter::builder("jobs").quota(Quota::per_minute(2));
    let jobs = builder.build_in_flight(at_most(1), store).unwrap();

    let first = jobs.hold("alice")?;
    assert_eq!(
        (first.in_flight().live(), first.in_flight().units(), first.in_flight().remaining()),
        (1, 1, 0)
    );
    let first = first.into_hold().unwrap();
    clock.advance(Duration::from_secs(18));
    let denied = jobs.hold("alice")?;
    assert!(!denied.is_allowed());
    assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::InFlightExceeded), None));
    assert_eq!(denied.quotas().unwrap().used(), 1);
    assert!(denied.into_hold().is_none());

    // The second unit of the quota; nothing else is left of it.
    assert!(jobs.limiter().check("alice")?.is_allowed());
    let denied = jobs.hold("alice")?;
    assert_eq!(denied.reason(), Some(Reason::QuotaExceeded));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(42)));

    // What a quota denies is not in flight.
    drop(first);
    assert_eq!(jobs.hold("alice")?.reason(), Some(Reason::QuotaExceeded));
    assert_eq!(jobs.peek("alice").live(), 0);
    clock.advance(Duration::from_secs(42));
    assert!(jobs.hold("alice")?.is_allowed());
    Ok(())
}

#[test]
fn a_hold_settles_what_quotas_were_charged_and_frees_its_units() -> Result<(), Full> {
    let words = Limiter::builder("words").quota(Quota::per_day(1_000));
    let words = words.build_in_flight(at_most(2), MemoryStore::new()).unwrap();
    let left = |words: &InFlightLimiter| words.limiter().peek("alice").map(|decision| decision.remaining());
    let hold = |cost| words.hold_cost("alice", cost).map(|decision| decision.into_hold().unwrap());

    hold(800)?.settle(120)?;
    assert_eq!(left(&words)?, 880);
    // More than was estimated is charged.
    hold(100)?.settle(150)?;
    assert_eq!(left(&words)?, 730);
    hold(700)?.release();
    assert_eq!(left(&words)?, 730);
    // An abandoned one stays charged, and is not in flight.
    drop(hold(30)?);
    assert_eq!((left(&words)?, words.peek("alice").live()), (700, 0));
    Ok(())
}

/// A denial by the limit in flight charges what any denial charges.
#[test]
fn denials_in_flight_charge_quotas_that_count_denials() -> Result<(), Full> {
    for (count_denied, used) in [(CountDenied::No, 1), (CountDenied::Yes, 1), (CountDenied::Overdraft, 6)] {
        let builder = Limiter::builder("jobs").quota(Quota::per_day(9)).count_denied(count_denied);
        let jobs = builder.build_in_flight(at_most(1), MemoryStore::new()).unwrap();
        let _first = jobs.hold("alice")?.into_hold().unwrap();
        assert_eq!(jobs.hold_cost("alice", 5)?.reason(), Some(Reason::InFlightExceeded));
        assert_eq!(jobs.limiter().peek("alice")?.used(), used, "{count_denied:?}");
    }
    Ok(())
}

#[test]
fn a_reset_forgets_holds_and_they_free_nothing_of_later_ones() -> Result<(), Full> {
    let jobs = InFlightLimiter::new(at_most(1));
    let old = jobs.hold("alice")?.into_hold().unwrap();
    assert!(!old.is_lost());
    jobs.reset("alice");
    assert!(old.is_lost());
    let new = jobs.hold("alice")?.into_hold().unwrap();
    drop(old);
    assert_eq!((jobs.peek("alice").live(), new.is_lost()), (1, false));
    assert!(!jobs.hold("alice")?.is_allowed());
    Ok(())
}

#[test]
fn a_full_store_takes_nothing_in_flight_and_closed_counters_make_room() -> Result<(), Full> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(7).build();
    let builder = Limiter::builder("jobs").quota(Quota::per_second(9));
    let jobs = builder.build_in_flight(at_most(2), store.clone()).unwrap();
    let first = jobs.hold("alice")?.into_hold().unwrap();
    // Five places for the key in flight, and one for its quota.
    assert_eq!(store.counters(), 6);
    assert_eq!(jobs.hold("bob").unwrap_err(), Full);
    assert_eq!(jobs.hold_units("bob", 0, 1).unwrap_err(), Full);
    assert_eq!(store.counters(), 6);
    // A key that is in flight needs no other place.
    let second = jobs.hold("alice")?.into_hold().unwrap();
    drop(first);
    assert_eq!(store.counters(), 6);
    drop(second);
    assert_eq!(store.counters(), 1);
    assert!(jobs.hold("bob")?.is_allowed());
    for key in 0_u32..5 {
        assert!(jobs.limiter().check(key).is_ok());
    }
    assert_eq!(jobs.hold("carol").unwrap_err(), Full);
    clock.advance(Duration::from_secs(1));
    assert!(jobs.hold("carol")?.is_allowed());
    Ok(())
}

/// A hold took its places before its quotas denied it: it was refused where a check was denied, and others were refused
/// because of places that it gave back.
#[test]
fn a_hold_that_quotas_deny_needs_no_place() -> Result<(), Full> {
    let store = MemoryStore::builder().max_counters(3).build();
    for count_denied in [CountDenied::No, CountDenied::Overdraft] {
        let policy = format!("{count_denied:?}");
        let builder = Limiter::builder(&policy).quota("1/1d@first_hit".parse().unwrap());
        let jobs = builder.count_denied(count_denied).build_in_flight(at_most(1), store.clone()).unwrap();
        assert!(jobs.limiter().check("alice")?.is_allowed());
        assert_eq!(jobs.hold("alice")?.reason(), Some(Reason::QuotaExceeded));
        let counted = u64::from(count_denied == CountDenied::Overdraft);
        assert_eq!(jobs.limiter().peek("alice")?.used(), 1 + counted);
    }
    assert_eq!(store.counters(), 2);
    Ok(())
}

/// Threads that make room for each other were refused, though there was room for all.
#[test]
fn threads_that_make_room_for_each_other_are_not_refused() {
    for _ in 0..300 {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(60).build();
        let limiter = Limiter::with_store(Quota::per_second(1), store.clone());
        for key in 0_u32..60 {
            assert!(limiter.check(key).unwrap().is_allowed());
        }
        clock.advance(Duration::from_secs(1));
        let jobs = InFlightLimiter::with_store(at_most(1), store);
        thread::scope(|scope| {
            for key in 0_u32..4 {
                let jobs = &jobs;
                scope.spawn(move || assert!(jobs.hold(key).unwrap().is_allowed()));
            }
        });
    }
}

#[test]
fn a_lowered_limit_ends_no_hold() -> Result<(), Full> {
    let store = MemoryStore::new();
    let [two, one] = [2, 1].map(|limit| InFlightLimiter::with_store(at_most(limit), store.clone()));
    let [first, second] = [(); 2].map(|()| two.hold("alice").unwrap().into_hold().unwrap());
    let state = one.hold("alice")?.in_flight();
    assert_eq!((state.live(), state.remaining(), state.reason()), (2, 0, Some(Reason::InFlightExceeded)));
    drop(first);
    assert!(!one.hold("alice")?.is_allowed());
    drop(second);
    assert!(one.hold("alice")?.is_allowed());
    Ok(())
}

/// All quotas are charged or none, and what can never pass has no wait.
#[test]
fn several_quotas_are_charged_with_a_hold_or_not_at_all() -> Result<(), Full> {
    let builder = Limiter::builder("jobs").quota(Quota::per_hour(1)).quota(Quota::per_day(9));
    let jobs =
        builder.count_denied(CountDenied::Yes).build_in_flight(at_most(1), MemoryStore::new()).unwrap();
    let used = || -> Vec<u64> {
        let decision = jobs.limiter().peek("alice").unwrap();
        decision.quotas().iter().map(QuotaState::used).collect()
    };
    let first = jobs.hold("alice")?.into_hold().unwrap();
    assert_eq!(used(), [1, 1]);
    // Both the hour and the limit in flight deny it; the hour counts the denial.
    assert_eq!(jobs.hold("alice")?.reason(), Some(Reason::QuotaExceeded));
    assert_eq!(used(), [2, 1]);
    let never = jobs.hold_units("alice", 2, 1)?;
    assert_eq!((never.reason(), never.retry_after()), (Some(Reason::CostExceedsLimit), None));
    drop(first);
    assert_eq!(jobs.hold("alice")?.reason(), Some(Reason::QuotaExceeded));
    assert_eq!((used(), jobs.peek("alice").live()), (vec![4, 1], 0));
    let nothing = Limiter::builder("").count_denied(CountDenied::Yes);
    assert!(nothing.build_in_flight(at_most(1), MemoryStore::new()).is_err());
    Ok(())
}

/// The bounds of [`InFlight`], and a hold of no units.
#[test]
fn units_are_bounded_and_no_units_only_ask() -> Result<(), Full> {
    let jobs = InFlightLimiter::new(at_most(InFlight::MAX_LIMIT));
    let most = jobs.hold_units("alice", InFlight::MAX_UNITS, 1)?;
    assert_eq!(most.in_flight().live(), InFlight::MAX_UNITS);
    for units in [InFlight::MAX_UNITS + 1, u32::MAX] {
        assert_eq!(jobs.hold_units("alice", units, 1)?.reason(), Some(Reason::CostExceedsLimit));
    }
    let nothing = InFlightLimiter::new(at_most(0));
    assert_eq!(nothing.hold("alice")?.reason(), Some(Reason::CostExceedsLimit));
    let asked = jobs.hold_units("bob", 0, 1)?;
    assert!(asked.is_allowed() && asked.into_hold().is_none());
    assert_eq!(jobs.peek("bob").live(), 0);
    Ok(())
}

/// Panics and dropped futures end holds as well: whatever ends the owner does.
#[test]
fn a_hold_of_a_panicking_thread_is_freed() {
    let jobs = InFlightLimiter::new(at_most(1));
    let worker = jobs.clone();
    let panicked = thread::spawn(move || {
        let _hold = worker.hold("alice").unwrap().into_hold().unwrap();
        panic!("the work fails");
    });
    assert!(panicked.join().is_err());
    assert!(jobs.hold("alice").unwrap().is_allowed());
}

/// Eight threads; each counts the holds from outside, after it has its own and before it frees it.
#[test]
fn threads_never_hold_more_than_the_limit() {
    const LIMIT: u32 = 3;
    let builder = Limiter::builder("jobs").quota(Quota::per_day(1_000_000));
    let jobs = builder.build_in_flight(at_most(LIMIT), MemoryStore::new()).unwrap();
    let live: [AtomicU32; 2] = Default::default();
    let admitted: u64 = thread::scope(|scope| {
        let work = |thread: usize| {
            let (jobs, live) = (&jobs, &live);
            scope.spawn(move || {
                let mut admitted = 0;
                for round in 0..5_000 {
                    let key = (thread + round) % live.len();
                    let Some(hold) = jobs.hold(key as u64).unwrap().into_hold() else { continue };
                    admitted += 1;
                    assert!(live[key].fetch_add(1, Ordering::SeqCst) < LIMIT);
                    thread::yield_now();
                    live[key].fetch_sub(1, Ordering::SeqCst);
                    drop(hold);
                }
                admitted
            })
        };
        let threads: Vec<_> = (0..8).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let used = |key: u64| jobs.limiter().peek(key).unwrap().used();
    assert_eq!(used(0) + used(1), admitted);
    assert_eq!((jobs.peek(0_u64).live(), jobs.peek(1_u64).live()), (0, 0));
    assert_eq!(jobs.limiter().store().counters(), 2);
}

/// A step of a random history.
#[derive(Debug, Clone)]
enum Act {
    /// Asks for units of a key, at a cost.
    Hold(u8, u32, u32),
    /// Ends the hold with this number, if there is one.
    Drop(usize),
    Release(usize),
    Settle(usize, u32),
    Reset(u8),
    Check(u8, u32),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let key = || 0_u8..3;
    prop_oneof![
        6 => (key(), 0_u32..6, 0_u32..5).prop_map(|(key, units, cost)| Act::Hold(key, units, cost)),
        3 => any::<usize>().prop_map(Act::Drop),
        1 => any::<usize>().prop_map(Act::Release),
        1 => (any::<usize>(), 0_u32..9).prop_map(|(hold, cost)| Act::Settle(hold, cost)),
        1 => key().prop_map(Act::Reset),
        1 => (key(), 0_u32..5).prop_map(|(key, cost)| Act::Check(key, cost)),
        1 => (1_u64..900).prop_map(Act::Pass),
    ]
}

/// A hold as the ledger knows it.
struct Known {
    key: u8,
    units: u32,
    cost: u32,
    window: u64,
    is_lost: bool,
}

/// All that was admitted, in lists: nothing is added up until it is asked.
#[derive(Default)]
struct Ledger {
    holds: Vec<(Known, Hold<ManualClock>)>,
    /// Units charged to a key in a window.
    charged: HashMap<(u8, u64), u64>,
}

const LIMIT: u32 = 4;
const QUOTA: u64 = 10;

proptest! {
    /// Random histories, judged by a ledger with a window of a second.
    #[test]
    fn random_histories_agree_with_a_ledger(acts in prop::collection::vec(act(), 1..80)) {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let builder = Limiter::builder("jobs").quota(Quota::per_second(QUOTA as u32));
        let jobs = builder.build_in_flight(at_most(LIMIT), store.clone()).unwrap();
        let (mut ledger, mut passed) = (Ledger::default(), 0_u64);
        for act in acts {
            let window = passed / 1_000;
            match act {
                Act::Hold(key, units, cost) => {
                    let live: u32 = ledger.live(key);
                    let used = ledger.used(key, window);
                    let decision = jobs.hold_units(u32::from(key), units, cost).unwrap();
                    let fits = live + units.max(1) <= LIMIT;
                    let has_room = used + u64::from(cost.max(1)) <= QUOTA;
                    prop_assert_eq!(decision.is_allowed(), fits && has_room);
                    let reason = if units > LIMIT { Some(Reason::CostExceedsLimit) }
                        else if !has_room { Some(Reason::QuotaExceeded) }
                        else if !fits { Some(Reason::InFlightExceeded) }
                        else { None };
                    prop_assert_eq!(decision.reason(), reason);
                    if let Some(hold) = decision.into_hold() {
                        *ledger.charged.entry((key, window)).or_default() += u64::from(cost);
                        ledger.holds.push((Known { key, units, cost, window, is_lost: false }, hold));
                    } else {
                        prop_assert!(!fits || !has_room || units == 0);
                    }
                }
                Act::Drop(which) => drop(ledger.remove(which)),
                Act::Release(which) => if let Some((known, hold)) = ledger.remove(which) {
                    let _ = hold.release();
                    ledger.give_back(&known, known.cost, window);
                },
                Act::Settle(which, actual) => if let Some((known, hold)) = ledger.remove(which) {
                    let _ = hold.settle(actual).unwrap();
                    if actual <= known.cost {
                        ledger.give_back(&known, known.cost - actual, window);
                    } else {
                        let more = u64::from(actual - known.cost);
                        *ledger.charged.entry((known.key, window)).or_default() += more;
                    }
                },
                Act::Reset(key) => {
                    jobs.reset(u32::from(key));
                    ledger.holds.iter_mut().for_each(|(known, _)| known.is_lost |= known.key == key);
                }
                Act::Check(key, cost) => {
                    let used = ledger.used(key, window);
                    let fits = used + u64::from(cost.max(1)) <= QUOTA;
                    let decision = jobs.limiter().check_cost(u32::from(key), cost).unwrap();
                    prop_assert_eq!(decision.is_allowed(), fits);
                    if fits {
                        *ledger.charged.entry((key, window)).or_default() += u64::from(cost);
                    }
                }
                Act::Pass(millis) => {
                    clock.advance(Duration::from_millis(millis));
                    passed += millis;
                }
            }
            let window = passed / 1_000;
            for key in 0..3 {
                prop_assert_eq!(jobs.peek(u32::from(key)).live(), ledger.live(key));
                let used = jobs.limiter().peek(u32::from(key)).unwrap().used();
                prop_assert_eq!(used, ledger.used(key, window));
            }
            for (known, hold) in &ledger.holds {
                prop_assert_eq!(hold.is_lost(), known.is_lost);
            }
        }
    }
}

impl Ledger {
    fn live(&self, key: u8) -> u32 {
        self.holds
            .iter()
            .filter(|(known, _)| known.key == key && !known.is_lost)
            .map(|(known, _)| known.units)
            .sum()
    }

    fn used(&self, key: u8, window: u64) -> u64 {
        self.charged.get(&(key, window)).copied().unwrap_or_default()
    }

    fn remove(&mut self, which: usize) -> Option<(Known, Hold<ManualClock>)> {
        let count = self.holds.len();
        (count > 0).then(|| self.holds.remove(which % count))
    }

    /// A closed window gives back nothing.
    fn give_back(&mut self, known: &Known, units: u32, window: u64) {
        if known.window == window {
            let used = self.charged.entry((known.key, window)).or_default();
            *used = used.saturating_sub(u64::from(units));
        }
    }
}
