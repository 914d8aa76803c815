//! Steps that come before an end, when the store fails: each policy under each fault.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::time::Duration;

use tollgate::{
    AnswerError, Charge, Clock, CountDenied, FallbackStore, HoldAnswer, HoldId, HoldLength, HoldStates,
    HoldStep, HoldTerms, InFlight, InFlightCharge, Key, ManualClock, MemoryStore, OnStoreFailure,
    PolicyInFlight, PolicyQuota, Quota, QuotaStates, Reason, Source, Store, StoreError, Timestamp,
};
use tollgate_testkit::{FaultyStore, StoreFault, StoreSteps, Unreachable, block_on};

const SECOND: Duration = Duration::from_secs(1);

/// A process on a store that fails on command, and their common clock.
struct Process {
    faulty: FaultyStore<MemoryStore<ManualClock>>,
    store: FallbackStore<FaultyStore<MemoryStore<ManualClock>>, ManualClock>,
    clock: ManualClock,
}

impl Process {
    fn new(on_failure: OnStoreFailure) -> Self {
        let clock = ManualClock::default();
        let memory = || MemoryStore::builder().clock(clock.clone()).build();
        let faulty = FaultyStore::new(memory());
        let store = FallbackStore::new(faulty.clone(), on_failure).memory(memory());
        Self { faulty, store, clock }
    }

    fn away(on_failure: OnStoreFailure) -> Self {
        let process = Self::new(on_failure);
        process.faulty.begin(StoreFault::unreachable());
        process
    }

    fn charge(&self, charges: &[Charge<'_>], end: Timestamp) -> Result<QuotaStates, StoreError> {
        block_on(self.store.charge_before(charges, end))
    }

    /// Reserves a unit in flight, and ten words.
    fn reserve(&self, parts: &Parts, id: HoldId, end: Timestamp) -> Result<HoldStates, StoreError> {
        let key = Key::from("alice");
        let units = [InFlightCharge::new(&parts.jobs, &key, 1)];
        let charges = [Charge::new(&parts.words, &key, 10)];
        let terms = HoldTerms::new(id, &units, &charges, HoldLength::default()).before(end);
        match block_on(self.store.hold_until(HoldStep::Reserve(terms), None).into_future())? {
            HoldAnswer::Decided(states) => Ok(states),
            other => panic!("no decision, but {other:?}"),
        }
    }
}

struct Parts {
    jobs: PolicyInFlight,
    words: PolicyQuota,
}

impl Parts {
    fn new() -> Self {
        let jobs = PolicyInFlight::new("jobs", InFlight::new(4).unwrap());
        Self { jobs, words: PolicyQuota::new("words", Quota::per_hour(100)) }
    }
}

fn local(text: &str) -> OnStoreFailure {
    OnStoreFailure::Local(text.parse().unwrap())
}

fn quota(limit: u32) -> PolicyQuota {
    PolicyQuota::new("test", Quota::per_minute(limit))
}

fn is_ended<A>(answer: &Result<A, StoreError>, at: Timestamp) -> bool {
    matches!(answer, Err(StoreError::Ended { now }) if *now == at)
}

#[test]
fn a_share_is_counted_before_the_end_alone() {
    let process = Process::away(local("1/2"));
    let (quota, key, end) = (quota(4), Key::from("alice"), process.clock.now() + SECOND);
    let charges = [Charge::new(&quota, &key, 1)];
    for used in 1..=2 {
        let states = process.charge(&charges, end).unwrap();
        assert_eq!((states[0].used(), states[0].limit(), states[0].source()), (used, 2, Source::Fallback));
    }
    assert_eq!(process.charge(&charges, end).unwrap()[0].reason(), Some(Reason::QuotaExceeded));
    let above = [Charge::new(&quota, &key, 3)];
    assert_eq!(process.charge(&above, end).unwrap()[0].reason(), Some(Reason::CostExceedsShare));
    process.clock.set(end);
    for charges in [&charges, &above] {
        assert!(is_ended(&process.charge(charges, end), end));
    }
    assert_eq!(block_on(process.store.peek(&charges)).unwrap()[0].used(), 2);
}

#[test]
fn an_open_policy_compares_no_end_and_a_closed_one_returns_the_error() {
    let (quota, key) = (quota(4), Key::from("alice"));
    let charges = [Charge::new(&quota, &key, 1)];
    for later in [Duration::ZERO, SECOND] {
        let open = Process::away(OnStoreFailure::Open);
        let end = open.clock.now() + SECOND;
        open.clock.advance(later);
        assert!(open.charge(&charges, end).unwrap().is_admitted());
        let closed = Process::away(OnStoreFailure::Closed);
        assert_eq!(closed.charge(&charges, end).unwrap_err().trouble_of(), Some(&Unreachable));
    }
}

/// With `Open`, requests were admitted that the store had refused as too late.
#[test]
fn no_policy_decides_about_a_step_that_came_too_late() {
    let (quota, key, parts) = (quota(4), Key::from("alice"), Parts::new());
    for policy in [OnStoreFailure::Open, OnStoreFailure::Closed, local("1/2")] {
        let process = Process::new(policy);
        let now = process.clock.now();
        assert!(is_ended(&process.charge(&[Charge::new(&quota, &key, 1)], now), now), "{policy}");
        assert!(is_ended(&process.reserve(&parts, HoldId::random(), now), now), "{policy}");
        let ends = [now, now + SECOND];
        let charges = [Charge::new(&quota, &key, 1)];
        let steps = ends.map(|end| tollgate::Step::ChargeBefore { charges: &charges, end });
        let answers = block_on(process.store.step_each(&steps).into_future());
        assert!(is_ended(&answers[0], now) && answers[1].is_ok(), "{policy}: {answers:?}");
    }
}

/// An answer that no working store gives says nothing about what was charged.
#[test]
fn an_answer_on_the_wrong_side_of_an_end_is_nonsense() {
    let process = Process::new(OnStoreFailure::Closed);
    let (quota, key, parts) = (quota(4), Key::from("alice"), Parts::new());
    let (charges, now) = ([Charge::new(&quota, &key, 1)], process.clock.now());
    let is_nonsense = |error: StoreError| error.trouble_of() == Some(&AnswerError::Nonsense);
    process.faulty.begin(StoreFault::ForgetsEnds);
    assert!(process.charge(&charges, now + SECOND).is_ok());
    let late = process.charge(&charges, now).unwrap_err();
    assert!(late.may_have_charged() && is_nonsense(late));
    assert!(is_nonsense(process.reserve(&parts, HoldId::random(), now).unwrap_err()));
    process.faulty.begin(StoreFault::Fails(StoreError::Ended { now }));
    assert!(is_nonsense(process.charge(&charges, now + SECOND).unwrap_err()));
    assert!(is_nonsense(block_on(process.store.charge(&charges)).unwrap_err()));
    assert!(is_nonsense(process.reserve(&parts, HoldId::random(), now + SECOND).unwrap_err()));
}

/// A repeated reservation has its first answer, whose time is any.
#[test]
fn a_repeated_reservation_is_no_nonsense_after_its_end() {
    for process in [Process::new(OnStoreFailure::Closed), Process::away(local("1/2"))] {
        let (parts, id, now) = (Parts::new(), HoldId::random(), process.clock.now());
        let end = now + SECOND;
        assert!(process.reserve(&parts, id, end).unwrap().is_admitted());
        process.clock.set(end + SECOND);
        // The first answer came before the one, and not before the other.
        for end in [end, now] {
            assert!(process.reserve(&parts, id, end).unwrap().is_repeated());
        }
        assert!(is_ended(&process.reserve(&parts, HoldId::random(), end), end + SECOND));
    }
}

#[test]
fn a_charge_that_can_never_pass_charges_no_overdraft_at_the_end() {
    let process = Process::away(OnStoreFailure::Closed);
    let never = PolicyQuota::new("never", Quota::per_minute(0)).with_on_store_failure(OnStoreFailure::Open);
    let words = PolicyQuota::new("words", Quota::per_hour(8)).with_on_store_failure(local("1/2"));
    let words = words.with_count_denied(CountDenied::Overdraft);
    let (key, end) = (Key::from("alice"), process.clock.now() + SECOND);
    let charges = [Charge::new(&words, &key, 3), Charge::new(&never, &key, 1)];
    let used = || block_on(process.store.peek(&charges[..1])).unwrap()[0].used();
    assert!(!process.charge(&charges, end).unwrap().is_admitted());
    assert_eq!(used(), 3);
    process.clock.set(end);
    assert!(is_ended(&process.charge(&charges, end), end));
    assert_eq!(used(), 3);
}

#[test]
fn a_reservation_that_is_counted_here_comes_before_its_end() {
    let process = Process::away(local("1/2"));
    let (parts, end) = (Parts::new(), process.clock.now() + SECOND);
    for live in 1..=2 {
        let states = process.reserve(&parts, HoldId::random(), end).unwrap();
        assert_eq!((states.is_admitted(), states.in_flight()[0].live()), (true, live));
    }
    assert_eq!(
        process.reserve(&parts, HoldId::random(), end).unwrap().reason(),
        Some(Reason::InFlightExceeded)
    );
    process.clock.set(end);
    assert!(is_ended(&process.reserve(&parts, HoldId::random(), end), end));
    // One of its parts can never pass.
    let open = parts.words.with_limit(5).with_on_store_failure(OnStoreFailure::Open);
    let never = Parts { words: open, ..Parts::new() };
    assert!(is_ended(&process.reserve(&never, HoldId::random(), end), end));
    process.clock.set(end - SECOND);
    assert!(!process.reserve(&never, HoldId::random(), end).unwrap().is_admitted());
}
