//! Holds when the store fails: each policy under each fault, and where a hold is counted.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::error::Error;
use std::time::Duration;

use tollgate::{
    Charge, CountDenied, FallbackStore, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldPlace,
    HoldStates, HoldStep, HoldTerms, InFlight, InFlightCharge, Key, ManualClock, MemoryStore, OnStoreFailure,
    PolicyInFlight, PolicyQuota, Quota, Reason, Source, Store, StoreError,
};
use tollgate_testkit::{FaultyStore, StoreFault, StoreSteps, Unreachable, block_on};

type Memory = MemoryStore<ManualClock>;
type Fallback = FallbackStore<FaultyStore<Memory>, ManualClock>;

/// A store that several processes share.
struct Shared {
    faulty: FaultyStore<Memory>,
    clock: ManualClock,
}

/// What a hold is for. It belongs to `alice`.
struct Parts {
    jobs: PolicyInFlight,
    words: PolicyQuota,
}

impl Shared {
    fn new() -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { faulty: FaultyStore::new(store), clock }
    }

    fn process(&self, on_failure: OnStoreFailure) -> Fallback {
        let memory = MemoryStore::builder().clock(self.clock.clone()).build();
        FallbackStore::new(self.faulty.clone(), on_failure).memory(memory)
    }
}

impl Parts {
    fn new(in_flight: u32, words: u32) -> Self {
        let jobs = PolicyInFlight::new("jobs", InFlight::new(in_flight).unwrap());
        Self { jobs, words: PolicyQuota::new("words", Quota::per_hour(words)) }
    }

    fn with_terms<A>(&self, id: HoldId, units: u32, cost: u32, take: impl FnOnce(HoldTerms<'_>) -> A) -> A {
        let key = Key::from("alice");
        let units = [InFlightCharge::new(&self.jobs, &key, units)];
        let charges = [Charge::new(&self.words, &key, cost)];
        take(HoldTerms::new(id, &units, &charges, HoldLength::default()))
    }

    fn reserve(
        &self,
        store: &impl Store,
        id: HoldId,
        units: u32,
        cost: u32,
    ) -> Result<HoldStates, StoreError> {
        let answer = self.with_terms(id, units, cost, |terms| {
            block_on(store.hold_until(HoldStep::Reserve(terms), None).into_future())
        });
        answer.map(decided)
    }

    fn renew_in(&self, place: HoldPlace, store: &Fallback, id: HoldId) -> Result<HoldAnswer, StoreError> {
        self.with_terms(id, 1, 10, |terms| {
            block_on(store.hold_in(place, HoldStep::Renew(terms), None).into_future())
        })
    }

    fn settle_in(
        &self,
        place: HoldPlace,
        store: &Fallback,
        id: HoldId,
        adjustment: HoldAdjustment,
    ) -> Result<HoldAnswer, StoreError> {
        self.with_terms(id, 1, 10, |terms| {
            block_on(store.hold_in(place, HoldStep::Settle(terms, &[adjustment]), None).into_future())
        })
    }
}

fn decided(answer: HoldAnswer) -> HoldStates {
    let HoldAnswer::Decided(states) = answer else { panic!("{answer:?}") };
    states
}

fn local(text: &str) -> OnStoreFailure {
    OnStoreFailure::Local(text.parse().unwrap())
}

fn trouble<A>(answer: Result<A, StoreError>) -> String {
    answer.err().unwrap().source().unwrap().to_string()
}

const NONSENSE: &str = "the store's answer makes no sense";

/// Every fault that leaves a reservation without a decision, with its error.
fn faults() -> Vec<(StoreFault, &'static str)> {
    vec![
        (StoreFault::unreachable(), "the store cannot be reached"),
        (StoreFault::Fails(StoreError::unknown(Unreachable)), "the store cannot be reached"),
        (StoreFault::LosesAnswers, "no answer from the store in time"),
        (StoreFault::ForgetsQuotas, NONSENSE),
        (StoreFault::AnswersForAnotherLimit, NONSENSE),
        (StoreFault::AdmitsPastTheLimit, NONSENSE),
    ]
}

#[test]
fn closed_returns_every_error() {
    for (fault, error) in faults() {
        let (shared, parts) = (Shared::new(), Parts::new(2, 100));
        let process = shared.process(OnStoreFailure::Closed);
        shared.faulty.begin(fault);
        assert_eq!(trouble(parts.reserve(&process, HoldId::random(), 1, 10)), error);
    }
}

#[test]
fn open_admits_a_hold_that_nobody_counts() -> Result<(), StoreError> {
    for (fault, _) in faults() {
        let (shared, parts) = (Shared::new(), Parts::new(2, 100));
        let process = shared.process(OnStoreFailure::Open);
        shared.faulty.begin(fault);
        for _ in 0..5 {
            let id = HoldId::random();
            let states = parts.reserve(&process, id, 1, 10)?;
            assert!(states.is_admitted() && states.place() == HoldPlace::Nowhere);
            assert_eq!((states.in_flight()[0].live(), states.charged()[0].used()), (0, 0));
            assert_eq!(parts.renew_in(states.place(), &process, id)?, HoldAnswer::Gone);
            let settled = parts.settle_in(states.place(), &process, id, HoldAdjustment::Charge(1))?;
            assert_eq!(settled, HoldAnswer::Gone);
        }
        for (units, cost) in [(3, 10), (1, 101)] {
            let denied = parts.reserve(&process, HoldId::random(), units, cost)?;
            assert_eq!(denied.reason(), Some(Reason::CostExceedsLimit));
        }
    }
    Ok(())
}

/// Up to the limit and the shares of all processes are live at once, and each share heals by itself.
#[test]
fn local_counts_holds_against_the_share_of_each_process() -> Result<(), StoreError> {
    for (fault, _) in faults() {
        let (shared, parts) = (Shared::new(), Parts::new(5, 1_000));
        let processes = [(); 2].map(|()| shared.process(local("1/3")));
        let admitted = |process: &Fallback| {
            let admits = |_: &usize| parts.reserve(process, HoldId::random(), 1, 10).unwrap().is_admitted();
            (0..100).take_while(admits).count()
        };
        assert_eq!(admitted(&processes[0]), 5);
        shared.faulty.begin(fault);
        // A third of five, rounded up.
        assert_eq!(processes.each_ref().map(admitted), [2, 2]);
        shared.clock.advance(Duration::from_secs(60));
        assert_eq!(processes.each_ref().map(admitted), [2, 2]);
    }
    Ok(())
}

#[test]
fn a_hold_in_a_process_lives_and_is_settled_there() -> Result<(), StoreError> {
    let (shared, parts) = (Shared::new(), Parts::new(5, 100));
    let [process, other] = [(); 2].map(|()| shared.process(local("1/2")));
    shared.faulty.begin(StoreFault::unreachable());
    let id = HoldId::random();
    let states = parts.reserve(&process, id, 1, 10)?;
    assert_eq!((states.place(), states.is_repeated()), (HoldPlace::Process, false));
    let state = states.charged()[0];
    assert_eq!((state.source(), state.limit(), state.used()), (Source::Fallback, 50, 10));
    assert_eq!((states.in_flight()[0].limit(), states.in_flight()[0].live()), (3, 1));
    assert!(parts.reserve(&process, id, 1, 10)?.is_repeated());

    // What it is asked once the store is back still goes to the process.
    shared.faulty.end();
    let length = HoldLength::default().duration();
    let place = HoldPlace::Process;
    assert_eq!(parts.renew_in(place, &process, id)?, HoldAnswer::Renewed { left: length });
    assert_eq!(parts.renew_in(place, &other, id)?, HoldAnswer::Expired);
    assert_eq!(parts.renew_in(HoldPlace::Store, &process, id)?, HoldAnswer::Expired);
    let give_back = HoldAdjustment::GiveBack { units: 4, mark: state.mark() };
    for _ in 0..2 {
        let HoldAnswer::Settled(states) = parts.settle_in(place, &process, id, give_back)? else { panic!() };
        assert_eq!((states[0].units(), states[0].used(), states[0].source()), (4, 6, Source::Fallback));
    }
    assert_eq!(parts.renew_in(place, &process, id)?, HoldAnswer::Ended);
    Ok(())
}

/// More units or a higher cost than the share, but not than the limit, pass once the store is back.
#[test]
fn more_than_the_share_is_denied_for_the_share() -> Result<(), StoreError> {
    let (shared, parts) = (Shared::new(), Parts::new(4, 100));
    let process = shared.process(local("1/2"));
    shared.faulty.begin(StoreFault::unreachable());
    let reason =
        |units, cost| parts.reserve(&process, HoldId::random(), units, cost).map(|states| states.reason());
    assert_eq!(reason(3, 10)?, Some(Reason::CostExceedsShare));
    assert_eq!(reason(5, 10)?, Some(Reason::CostExceedsLimit));
    assert_eq!(reason(1, 51)?, Some(Reason::CostExceedsShare));
    assert_eq!(reason(2, 50)?, None);
    assert_eq!(reason(1, 0)?, Some(Reason::QuotaExceeded));
    Ok(())
}

/// The strictest policy among all parts decides. With `Local`, the parts with `Open` are not counted.
#[test]
fn the_strictest_policy_of_all_parts_decides() -> Result<(), StoreError> {
    let shared = Shared::new();
    let process = shared.process(OnStoreFailure::Open);
    shared.faulty.begin(StoreFault::unreachable());
    let parts = |in_flight, words| {
        let Parts { jobs, words: quota } = Parts::new(4, 100);
        Parts { jobs: jobs.with_on_store_failure(in_flight), words: quota.with_on_store_failure(words) }
    };
    for [in_flight, words] in
        [[OnStoreFailure::Closed, OnStoreFailure::Open], [local("1/2"), OnStoreFailure::Closed]]
    {
        let closed = parts(in_flight, words).reserve(&process, HoldId::random(), 1, 10);
        assert_eq!(trouble(closed), "the store cannot be reached");
    }

    let parts = parts(local("1/2"), OnStoreFailure::Open);
    let (id, other) = (HoldId::random(), HoldId::random());
    // What is `Open` can never pass, so the other is not taken.
    let never = parts.reserve(&process, other, 2, 101)?;
    assert_eq!((never.reason(), never.in_flight()[0].live()), (Some(Reason::CostExceedsLimit), 0));
    for is_repeated in [false, true] {
        let states = parts.reserve(&process, id, 2, 10)?;
        assert_eq!((states.place(), states.is_repeated()), (HoldPlace::Process, is_repeated));
        assert_eq!((states.in_flight()[0].live(), states.charged()[0].used()), (2, 0));
    }
    let denied = parts.reserve(&process, HoldId::random(), 1, 10)?;
    assert_eq!(denied.reason(), Some(Reason::InFlightExceeded));
    // Settling has a state for the part that nobody counts.
    let answer = parts.with_terms(id, 2, 10, |terms| {
        let settle = HoldStep::Settle(terms, &[HoldAdjustment::Charge(5)]);
        block_on(process.hold_in(HoldPlace::Process, settle, None).into_future())
    })?;
    let HoldAnswer::Settled(states) = answer else { panic!("{answer:?}") };
    assert_eq!((states.len(), states[0].used(), states[0].has_room()), (1, 0, true));
    assert!(parts.reserve(&process, other, 2, 10)?.is_admitted());
    Ok(())
}

/// They change the store, and nothing here can replace that.
#[test]
fn renewing_settling_and_resetting_need_the_store() -> Result<(), StoreError> {
    for on_failure in [OnStoreFailure::Open, OnStoreFailure::Closed, local("1/2")] {
        let (shared, parts) = (Shared::new(), Parts::new(4, 100));
        let process = shared.process(on_failure);
        let id = HoldId::random();
        let states = parts.reserve(&process, id, 1, 10)?;
        assert_eq!(states.place(), HoldPlace::Store);
        shared.faulty.begin(StoreFault::LosesAnswers);
        let late = "no answer from the store in time";
        assert_eq!(trouble(parts.renew_in(HoldPlace::Store, &process, id)), late);
        let settle = || parts.settle_in(HoldPlace::Store, &process, id, HoldAdjustment::Charge(5));
        assert_eq!(trouble(settle()), late);
        // The store has settled it, and the call is repeated.
        shared.faulty.end();
        let HoldAnswer::Settled(states) = settle()? else { panic!() };
        assert_eq!((states[0].units(), states[0].used()), (5, 15));

        shared.faulty.begin(StoreFault::unreachable());
        let key = Key::from("alice");
        let reset = HoldStep::Reset(InFlightCharge::new(&parts.jobs, &key, 0));
        assert_eq!(
            trouble(block_on(process.hold_until(reset, None).into_future())),
            "the store cannot be reached"
        );
    }
    Ok(())
}

/// A look changes nothing: in trouble it surely charged nothing, and here it counts nothing.
#[test]
fn a_look_takes_nothing_anywhere() -> Result<(), StoreError> {
    for (on_failure, place) in
        [(OnStoreFailure::Open, HoldPlace::Nowhere), (local("1/2"), HoldPlace::Process)]
    {
        let (shared, parts) = (Shared::new(), Parts::new(4, 100));
        let words = parts.words.with_count_denied(CountDenied::Overdraft);
        let parts = Parts { words, ..parts };
        let process = shared.process(on_failure);
        shared.faulty.begin(StoreFault::LosesAnswers);
        for _ in 0..5 {
            let looked = parts.with_terms(HoldId::random(), 2, 20, |terms| {
                block_on(process.hold_until(HoldStep::Look(terms), None).into_future())
            });
            let states = decided(looked?);
            assert!(states.is_admitted() && states.place() == place);
        }
        let states = parts.reserve(&process, HoldId::random(), 1, 10)?;
        let lives = u32::from(place == HoldPlace::Process);
        assert_eq!(states.in_flight()[0].live(), lives);
    }
    let (shared, parts) = (Shared::new(), Parts::new(4, 100));
    let process = shared.process(OnStoreFailure::Closed);
    shared.faulty.begin(StoreFault::LosesAnswers);
    let looked = parts.with_terms(HoldId::random(), 2, 20, |terms| {
        block_on(process.hold_until(HoldStep::Look(terms), None).into_future())
    });
    assert!(!looked.unwrap_err().may_have_charged());
    Ok(())
}

/// Without trouble, nothing is different, and later answers are passed on as well.
#[test]
fn a_working_store_is_passed_on() -> Result<(), StoreError> {
    let (shared, parts) = (Shared::new(), Parts::new(2, 100));
    let process = shared.process(OnStoreFailure::Open);
    let id = HoldId::random();
    let states = parts.reserve(&process, id, 1, 10)?;
    assert_eq!((states.place(), states.in_flight()[0].live()), (HoldPlace::Store, 1));
    assert!(parts.reserve(&process, id, 1, 10)?.is_repeated());
    let conflict = parts.with_terms(id, 1, 11, |terms| {
        block_on(process.hold_until(HoldStep::Reserve(terms), None).into_future())
    })?;
    assert_eq!(conflict, HoldAnswer::Conflict);
    let full = MemoryStore::builder().clock(shared.clock.clone()).max_counters(5).build();
    let process = FallbackStore::new(full, OnStoreFailure::Open);
    let refused = parts.reserve(&process, id, 1, 10);
    assert!(matches!(refused, Err(StoreError::Full)));
    let admitted = parts.with_terms(id, 1, 10, |terms| process.uncounted_hold(&terms));
    assert_eq!((admitted.is_admitted(), admitted.place()), (true, HoldPlace::Nowhere));
    let key = Key::from("alice");
    let look = [Charge::new(&parts.words, &key, 0)];
    let looked = block_on(shared.process(OnStoreFailure::Closed).peek(&look))?;
    assert_eq!(looked[0].used(), 10);
    Ok(())
}
