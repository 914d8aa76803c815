//! Models of holds: loom runs a guard and a hold with an id, which want the last unit of one key, and a check that needs the
//! places of a hold that another step ends, in every order that has two preemptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use loom::model::Builder;
use loom::thread;

use super::super::{LiveCharge, MemoryStore};
use crate::{
    Charge, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlight, InFlightCharge, Key, ManualClock,
    PolicyInFlight, PolicyQuota,
};

/// A store, a limit of one, and the units that the test knows to be live.
#[derive(Clone)]
struct LastUnit {
    store: MemoryStore<ManualClock>,
    limit: PolicyInFlight,
    key: Key<'static>,
    live: Arc<AtomicU32>,
}

impl LastUnit {
    fn new() -> Self {
        // Two ids and a key in flight.
        let store = MemoryStore::builder().clock(ManualClock::default()).max_counters(29).build();
        let limit = PolicyInFlight::new("", InFlight::new(1).unwrap());
        Self { store, limit, key: Key::from(1_u64), live: Arc::default() }
    }

    fn guard(&self) -> bool {
        let asked = LiveCharge { in_flight: &self.limit, key: &self.key, units: 1 };
        let Some(held) = self.store.hold(&asked, &[]).unwrap().held else { return false };
        self.own(|| drop(held));
        true
    }

    fn reserve(&self, id: u8) -> bool {
        let units = [InFlightCharge::new(&self.limit, &self.key, 1)];
        let terms = HoldTerms::new(HoldId::from_bytes([id; 16]), &units, &[], HoldLength::default());
        let answer = self.store.take_hold(HoldStep::Reserve(terms)).unwrap();
        let HoldAnswer::Decided(states) = answer else { panic!("{answer:?}") };
        if !states.is_admitted() {
            return false;
        }
        self.own(|| {
            let answer = self.store.take_hold(HoldStep::Settle(terms, &[])).unwrap();
            assert!(matches!(answer, HoldAnswer::Settled(_)), "{answer:?}");
        });
        true
    }

    /// Owns the unit until it is given back. Loom switches threads in the store only.
    fn own(&self, give_back: impl FnOnce()) {
        assert_eq!(self.live.fetch_add(1, Ordering::SeqCst), 0, "two own the last unit");
        self.live.fetch_sub(1, Ordering::SeqCst);
        give_back();
    }
}

#[test]
fn a_guard_and_an_id_never_get_the_last_unit_both() {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 10_000;
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let unit = LastUnit::new();
        let other = unit.clone();
        let thread = thread::spawn(move || other.reserve(1));
        let guard = unit.guard();
        let id = thread.join().unwrap();
        // Somebody gets it, and whoever comes after both does.
        assert!(guard || id);
        assert!(unit.guard() && unit.reserve(2));
        assert_eq!(unit.store.counters(), if id { 24 } else { 12 });
    });
    println!("RESULT prove/memory/last_unit preemptions=2 orders={}", orders.load(Ordering::Relaxed));
}

/// A check that found no room was refused if another step had just ended the hold that was due.
#[test]
fn a_check_gets_the_places_of_a_hold_that_another_step_ends() {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 10_000;
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let clock = ManualClock::default();
        // An id and its counter.
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(13).build();
        let (quota, key) = (PolicyQuota::new("", "9/1h".parse().unwrap()), Key::from(1_u64));
        let held = [Charge::new(&quota, &key, 1)];
        let terms = HoldTerms::new(HoldId::from_bytes([1; 16]), &[], &held, HoldLength::default());
        assert!(matches!(store.take_hold(HoldStep::Reserve(terms)), Ok(HoldAnswer::Decided(_))));
        assert_eq!(store.counters(), 13);
        clock.advance(Duration::from_secs(60));
        let other = store.clone();
        let thread = thread::spawn(move || other.holds());
        let charged = store.charge(&[Charge::new(&quota, &Key::from(2_u64), 1)]).finish();
        assert!(charged.is_ok_and(|states| states.is_admitted()));
        assert_eq!((thread.join().unwrap(), store.counters()), (0, 2));
    });
    println!("RESULT prove/memory/room_of_due preemptions=2 orders={}", orders.load(Ordering::Relaxed));
}
