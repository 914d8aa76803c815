//! The answers when the store fails: each policy under each fault.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::error::Error;
use std::time::Duration;

use tollgate::{
    Charge, CountDenied, Counter, Decision, FallbackStore, Key, ManualClock, MemoryStore, OnStoreFailure,
    PolicyQuota, Quota, QuotaState, QuotaStates, Reason, SharedLimiter, Source, Store, StoreError, Timestamp,
};
use tollgate_testkit::{
    FaultyStore, GivenBackUnits, StoreFault, StoreSteps, StoreUnderTest, Unreachable, block_on,
};

type Memory = MemoryStore<ManualClock>;

/// A store that several processes can share, and their common clock.
struct Shared {
    faulty: FaultyStore<Memory>,
    clock: ManualClock,
}

impl Shared {
    fn new() -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { faulty: FaultyStore::new(store), clock }
    }

    /// Returns one process on the store.
    fn process(&self, on_failure: OnStoreFailure) -> impl Store + use<> {
        let memory = MemoryStore::builder().clock(self.clock.clone()).max_counters(100).build();
        // Real time: only a store that hangs comes to this deadline.
        let deadline = || tokio::time::sleep(Duration::from_millis(5));
        FallbackStore::new(self.faulty.clone(), on_failure).memory(memory).deadline(deadline)
    }
}

fn local(text: &str) -> OnStoreFailure {
    OnStoreFailure::Local(text.parse().unwrap())
}

fn quota(limit: u32) -> PolicyQuota {
    PolicyQuota::new("test", Quota::per_minute(limit))
}

fn take(store: &impl Store, quota: &PolicyQuota, cost: u32) -> Result<Decision<'static>, StoreError> {
    let key = Key::from("alice");
    charge(store, &[Charge::new(quota, &key, cost)])
}

fn charge(store: &impl Store, charges: &[Charge<'_>]) -> Result<Decision<'static>, StoreError> {
    block_on(store.charge(charges)).map(|counted| decided(charges, counted))
}

fn decided(charges: &[Charge<'_>], counted: QuotaStates) -> Decision<'static> {
    Decision::of_charges(charges, counted).unwrap().into_owned()
}

/// Returns the trouble of the store, if there is any.
fn trouble<A>(answer: Result<A, StoreError>) -> Option<String> {
    let error = answer.err()?;
    Some(error.source()?.to_string())
}

const UNREACHABLE: &str = "the store cannot be reached";
const LATE: &str = "no answer from the store in time";
const NONSENSE: &str = "the store's answer makes no sense";

/// Charges single units until one is denied. Returns how many passed.
fn passes(store: &impl Store, quota: &PolicyQuota) -> usize {
    (0..1_000).take_while(|_| take(store, quota, 1).unwrap().is_allowed()).count()
}

/// Returns every fault that leaves a charge without a decision, with its error.
fn faults() -> Vec<(StoreFault, &'static str)> {
    vec![
        (StoreFault::unreachable(), UNREACHABLE),
        (StoreFault::Fails(StoreError::unknown(Unreachable)), UNREACHABLE),
        (StoreFault::LosesAnswers, LATE),
        (StoreFault::Hangs, LATE),
        (StoreFault::ForgetsQuotas, NONSENSE),
        (StoreFault::AnswersForAnotherLimit, NONSENSE),
        (StoreFault::AdmitsPastTheLimit, NONSENSE),
    ]
}

#[test]
fn closed_gives_every_error_on() {
    for (fault, error) in faults() {
        let shared = Shared::new();
        let process = shared.process(OnStoreFailure::Closed);
        shared.faulty.begin(fault.clone());
        assert_eq!(trouble(take(&process, &quota(5), 1)).as_deref(), Some(error), "{fault:?}");
        let (quota, key) = (quota(5), Key::from("alice"));
        let charge = [Charge::new(&quota, &key, 1)];
        assert_eq!(trouble(block_on(process.peek(&charge))).as_deref(), Some(error), "{fault:?}");
        let batch = block_on(process.charge_each(&[&charge, &charge]));
        let batch: Vec<_> = batch.into_iter().map(trouble).collect();
        assert_eq!(batch, [Some(error.to_owned()), Some(error.to_owned())], "{fault:?}");
    }
}

#[test]
fn open_admits_whatever_a_window_can_have_and_counts_nothing() {
    for (fault, _) in faults() {
        let shared = Shared::new();
        let process = shared.process(OnStoreFailure::Open);
        shared.faulty.begin(fault.clone());
        for _ in 0..20 {
            let decision = take(&process, &quota(5), 2).unwrap();
            assert!(decision.is_allowed(), "{fault:?}");
            assert_eq!((decision.source(), decision.used(), decision.remaining()), (Source::Fallback, 0, 5));
        }
        let never = take(&process, &quota(5), 6).unwrap();
        assert_eq!((never.reason(), never.source()), (Some(Reason::CostExceedsLimit), Source::Fallback));
        assert!(!take(&process, &quota(0), 1).unwrap().is_allowed(), "{fault:?}");
    }
}

#[test]
fn local_admits_its_share_and_says_what_is_left_of_it() {
    for (fault, _) in faults() {
        let shared = Shared::new();
        let process = shared.process(local("1/3"));
        shared.faulty.begin(fault.clone());
        let quota = quota(10);
        let decision = take(&process, &quota, 3).unwrap();
        assert!(decision.is_allowed(), "{fault:?}");
        let state = *decision.state();
        assert_eq!((state.limit(), state.used(), state.remaining()), (4, 3, 1));
        assert_eq!(decision.source(), Source::Fallback);

        let denied = take(&process, &quota, 2).unwrap();
        assert_eq!((denied.reason(), denied.source()), (Some(Reason::QuotaExceeded), Source::Fallback));
        assert_eq!(denied.retry_after(), Some(Duration::from_secs(60)));
        assert_eq!(passes(&process, &quota), 1, "{fault:?}");

        shared.clock.advance(Duration::from_secs(60));
        assert_eq!(passes(&process, &quota), 4, "{fault:?}");
    }
}

/// An answer with "can never pass" made a client give up for good over an outage of a minute. The one with the end of
/// the window made it come back in vain, window after window, for as long as the outage lasted.
#[test]
fn a_cost_above_the_share_is_denied_with_a_reason_and_without_a_time_to_wait() {
    let shared = Shared::new();
    let process = shared.process(local("0.1"));
    shared.faulty.begin(StoreFault::Hangs);
    for _ in 0..3 {
        let denied = take(&process, &quota(10), 2).unwrap();
        assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsShare), None));
        shared.clock.advance(Duration::from_secs(60));
    }
    shared.faulty.end();
    assert!(take(&process, &quota(10), 2).unwrap().is_allowed());
    shared.faulty.begin(StoreFault::Hangs);
    let used_up = [1, 1].map(|cost| take(&process, &quota(10), cost).unwrap());
    assert_eq!(
        used_up[1].retry_after(),
        Some(Duration::from_secs(60)),
        "a cost within the share waits for the window"
    );
    assert_eq!(take(&process, &quota(10), 11).unwrap().reason(), Some(Reason::CostExceedsLimit));

    // Charges of one step on one counter add up, here to more than the limit.
    let (quota, key) = (quota(10), Key::from("alice"));
    let twice = [Charge::new(&quota, &key, 6), Charge::new(&quota, &key, 6)];
    let never = charge(&process, &twice).unwrap();
    assert_eq!(never.reason(), Some(Reason::CostExceedsLimit));
}

/// The bound of `OnStoreFailure`: L = 100, three processes with a share of 1/10, one lost history, one outage.
#[test]
fn together_they_admit_no_more_than_the_documented_bound() {
    for (on_failure, after_the_outage, bound) in
        [(local("1/10"), 3 * 10, 230), (OnStoreFailure::Closed, 0, 200)]
    {
        let shared = Shared::new();
        let processes: Vec<_> = (0..3).map(|_| shared.process(on_failure)).collect();
        let quota = quota(100);
        let all = || -> usize {
            let admitted = |process| {
                (0..150).filter(|_| take(process, &quota, 1).is_ok_and(|it| it.is_allowed())).count()
            };
            processes.iter().map(admitted).sum()
        };
        assert_eq!(all(), 100);
        // A failover to an empty replica.
        let key = Key::from("alice");
        block_on(shared.faulty.reset(&Counter::new(&quota, &key))).unwrap();
        assert_eq!(all(), 100);
        // The store comes and goes; counts in the processes are kept.
        let mut outages = 0;
        for _ in 0..3 {
            shared.faulty.begin(StoreFault::unreachable());
            outages += all();
            shared.faulty.end();
            assert_eq!(all(), 0);
        }
        assert_eq!(outages, after_the_outage);
        assert_eq!(200 + outages, bound);
    }
}

#[test]
fn several_quotas_are_taken_all_or_nothing_of_their_shares() {
    let shared = Shared::new();
    let process = shared.process(local("1/2"));
    shared.faulty.begin(StoreFault::unreachable());
    let (narrow, wide) = (quota(4), PolicyQuota::new("test", Quota::per_hour(10)));
    let (alice, bob) = (Key::from("alice"), Key::from("bob"));
    let both = |key| {
        let charges = [Charge::new(&narrow, key, 1), Charge::new(&wide, &alice, 1)];
        charge(&process, &charges).unwrap()
    };
    let used = |decision: &Decision<'_>| decision.quotas().iter().map(QuotaState::used).collect::<Vec<_>>();
    assert!(both(&alice).is_allowed() && both(&alice).is_allowed());
    let denied = both(&alice);
    assert_eq!((denied.deciding(), used(&denied)), (0, vec![2, 2]));
    assert_eq!(used(&both(&bob)), [1, 3]);
}

#[test]
fn a_batch_falls_back_request_by_request() {
    let shared = Shared::new();
    let process = shared.process(local("1/2"));
    let (quota, alice, bob) = (quota(4), Key::from("alice"), Key::from("bob"));
    let (alices, bobs) = ([Charge::new(&quota, &alice, 2)], [Charge::new(&quota, &bob, 1)]);
    let batch: [&[Charge<'_>]; 3] = [&alices, &alices, &bobs];
    let verdicts = |answers: Vec<Result<_, StoreError>>| -> Vec<_> {
        let decisions =
            batch.iter().zip(answers).map(|(charges, counted)| decided(charges, counted.unwrap()));
        decisions.map(|decision| (decision.is_allowed(), decision.source())).collect()
    };
    assert_eq!(verdicts(block_on(process.charge_each(&batch))), [(true, Source::Store); 3]);
    // Two of Alice's two and one of Bob's in the first outage, Bob's second in the next, and none in a third.
    let by_fallback = [
        (StoreFault::Hangs, [true, false, true]),
        (StoreFault::ForgetsQuotas, [false, false, true]),
        (StoreFault::LosesAnswers, [false; 3]),
    ];
    for (fault, allowed) in by_fallback {
        shared.faulty.begin(fault);
        let expected = allowed.map(|allowed| (allowed, Source::Fallback));
        assert_eq!(verdicts(block_on(process.charge_each(&batch))), expected);
    }
}

/// An error of a failing store is not a denial, and a denial is not an error.
#[test]
fn a_denial_and_a_full_store_are_given_on_under_every_policy() {
    for on_failure in [OnStoreFailure::Open, OnStoreFailure::Closed, local("1")] {
        let shared = Shared::new();
        let process = shared.process(on_failure);
        assert!(take(&process, &quota(1), 1).unwrap().is_allowed());
        let denied = take(&process, &quota(1), 1).unwrap();
        assert_eq!((denied.is_allowed(), denied.source()), (false, Source::Store));
        shared.faulty.begin(StoreFault::Fails(StoreError::Full));
        assert!(matches!(take(&process, &quota(1), 1), Err(StoreError::Full)), "{on_failure}");
    }
}

/// A charge that no store can ever count was handled like an outage: admitted for good under `open`.
#[test]
fn an_uncountable_charge_is_an_error_under_every_policy() {
    for on_failure in [OnStoreFailure::Open, OnStoreFailure::Closed, local("1")] {
        let shared = Shared::new();
        let process = shared.process(on_failure);
        shared.faulty.begin(StoreFault::Fails(StoreError::Uncountable("its keys lie apart")));
        let answer = take(&process, &quota(1), 1);
        assert!(matches!(answer, Err(StoreError::Uncountable("its keys lie apart"))), "{on_failure}");
    }
}

#[test]
fn the_memory_of_local_is_bounded_too() {
    let shared = Shared::new();
    let process = shared.process(local("1"));
    shared.faulty.begin(StoreFault::Hangs);
    let quota = quota(5);
    let answers: Vec<_> = (0..200_u64)
        .map(|user| block_on(process.charge(&[Charge::new(&quota, &Key::from(user), 1)])).map(drop))
        .collect();
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Err(StoreError::Full))).count(), 100);
}

#[test]
fn counts_of_the_store_return_with_it() {
    let shared = Shared::new();
    let process = shared.process(local("1"));
    let quota = quota(5);
    assert!(take(&process, &quota, 3).unwrap().is_allowed());
    shared.faulty.begin(StoreFault::unreachable());
    assert!(take(&process, &quota, 5).unwrap().is_allowed());
    shared.faulty.end();
    let back = take(&process, &quota, 1).unwrap();
    assert_eq!((back.source(), back.used()), (Source::Store, 4));
}

#[test]
fn a_peek_takes_nothing_and_a_record_counts_where_a_charge_would() {
    let (quota, key) = (quota(4), Key::from("alice"));
    let charge = Charge::new(&quota, &key, 2);
    let after = |on_failure| {
        let shared = Shared::new();
        let process = shared.process(on_failure);
        shared.faulty.begin(StoreFault::unreachable());
        for _ in 0..3 {
            let peeked = block_on(process.peek(&[charge])).map(|counted| decided(&[charge], counted));
            if let Ok(peeked) = &peeked {
                assert_eq!((peeked.used(), peeked.source()), (0, Source::Fallback));
            }
            assert_eq!(peeked.is_ok(), on_failure != OnStoreFailure::Closed);
        }
        let recorded = block_on(process.record(&charge)).ok()?;
        // A record is not told about room, however much there is.
        assert_eq!((recorded.reason(), recorded.source()), (None, Source::Fallback));
        Some((recorded.used(), recorded.limit(), take(&process, &quota, 1).ok()?.is_allowed()))
    };
    assert_eq!(after(OnStoreFailure::Closed), None);
    assert_eq!(after(OnStoreFailure::Open), Some((0, 4, true)));
    assert_eq!(after(local("1/2")), Some((2, 2, false)));
}

#[test]
fn a_record_above_the_limit_has_no_reason_either() {
    let shared = Shared::new();
    shared.faulty.begin(StoreFault::Hangs);
    let (quota, key) = (quota(1), Key::from("alice"));
    for on_failure in [OnStoreFailure::Open, local("1")] {
        let recorded = block_on(shared.process(on_failure).record(&Charge::new(&quota, &key, 9))).unwrap();
        assert_eq!(recorded.reason(), None, "{on_failure}");
    }
}

/// No client waits for a change of a counter, so no answer is made up: the change happened in the store, or it failed.
#[test]
fn a_change_that_the_store_did_not_make_fails_under_every_policy() {
    let (quota, key) = (quota(4), Key::from("alice"));
    let (charge, counter) = (Charge::new(&quota, &key, 1), Counter::new(&quota, &key));
    for on_failure in [OnStoreFailure::Open, OnStoreFailure::Closed, local("1")] {
        for (fault, error) in [(StoreFault::unreachable(), UNREACHABLE), (StoreFault::Hangs, LATE)] {
            let shared = Shared::new();
            let process = shared.process(on_failure);
            let decision = take(&process, &quota, 2).unwrap();
            let mark = decision.state().mark();
            shared.faulty.begin(fault);
            assert_eq!(trouble(block_on(process.refund(&charge, mark))).as_deref(), Some(error));
            assert_eq!(trouble(block_on(process.reset(&counter))).as_deref(), Some(error));
            assert_eq!(trouble(block_on(process.set(&counter, 9))).as_deref(), Some(error));
            shared.faulty.end();
            let refunded = block_on(process.refund(&charge, mark)).unwrap();
            assert_eq!(GivenBackUnits::of(&refunded, mark), Some(GivenBackUnits { units: 1, used: 1 }));
        }
    }
}

/// A unit that no store counted cannot be refunded to one.
#[test]
fn a_refund_of_a_fallback_decision_gives_nothing() {
    let shared = Shared::new();
    for on_failure in [OnStoreFailure::Open, local("1")] {
        let limiter = SharedLimiter::new(Quota::per_minute(4), shared.process(on_failure));
        block_on(async {
            assert!(limiter.check("alice").await.unwrap().is_allowed());
            shared.faulty.begin(StoreFault::unreachable());
            let mut receipt = limiter.check("alice").await.unwrap().into_receipt();
            shared.faulty.end();
            assert!(receipt.is_empty());
            assert!(limiter.refund(&mut receipt).await.unwrap().is_empty());
        });
    }
}

#[test]
fn a_counted_denial_counts_against_the_share_alone() {
    let shared = Shared::new();
    let process = shared.process(local("1/2"));
    let quota = quota(2).with_count_denied(CountDenied::Yes);
    shared.faulty.begin(StoreFault::unreachable());
    let used: Vec<u64> = (0..3).map(|_| take(&process, &quota, 1).unwrap().used()).collect();
    assert_eq!(used, [1, 2, 3]);
    shared.faulty.end();
    assert_eq!(take(&process, &quota, 1).unwrap().used(), 1);
}

/// An outage that counts locally counts overdrafts as the store does, against the share; one that admits denies none.
#[test]
fn an_overdraft_counts_against_the_share_whatever_the_verdict() {
    let shared = Shared::new();
    let overdraft = |limit| quota(limit).with_count_denied(CountDenied::Overdraft);
    let process = shared.process(local("1/2"));
    shared.faulty.begin(StoreFault::unreachable());
    let answers: Vec<_> = (0..3).map(|_| take(&process, &overdraft(8), 3).unwrap()).collect();
    let answers: Vec<_> = answers.iter().map(|answer| (answer.is_allowed(), answer.used())).collect();
    assert_eq!(answers, [(true, 3), (true, 6), (false, 9)]);
    let open = shared.process(OnStoreFailure::Open);
    assert!(take(&open, &overdraft(8), 9).unwrap().is_allowed());
    let denied = take(&open, &overdraft(0), 9).unwrap();
    assert_eq!(denied.reason(), Some(Reason::CostExceedsLimit));
    // The store's own answer, above the limit, is not taken for nonsense.
    shared.faulty.end();
    assert_eq!(take(&open, &overdraft(8), 9).unwrap().used(), 9);
}

/// A policy that is open denied a cost above its limit, and the bytes of the same request were not counted.
#[test]
fn an_overdraft_is_counted_locally_although_an_open_policy_denies() {
    let shared = Shared::new();
    let process = shared.process(OnStoreFailure::Open);
    let strict = PolicyQuota::new("strict", Quota::per_minute(5));
    let counted = |name| PolicyQuota::new(name, Quota::per_minute(9)).with_on_store_failure(local("1"));
    let (plain, bytes) = (counted("plain"), counted("bytes").with_count_denied(CountDenied::Overdraft));
    let key = Key::from("alice");
    shared.faulty.begin(StoreFault::unreachable());
    let charges = |strict_cost| {
        [(&strict, strict_cost), (&plain, 2), (&bytes, 4)].map(|(quota, cost)| Charge::new(quota, &key, cost))
    };
    let denied = charge(&process, &charges(6)).unwrap();
    let units = |decision: &Decision<'_>| -> Vec<_> {
        decision.quotas().iter().map(|state| (state.has_room(), state.used(), state.units())).collect()
    };
    assert_eq!(units(&denied), [(false, 0, 0), (true, 0, 0), (true, 4, 4)]);
    let admitted = charge(&process, &charges(5)).unwrap();
    assert_eq!(units(&admitted)[1..], [(true, 2, 2), (true, 8, 4)]);
    let looked = block_on(process.peek(&charges(6))).unwrap();
    assert_eq!(looked[2].used(), 8);
}

/// The memory had no room for an overdraft of a request that an open policy denies, and the answer was that the store
/// is full. With `when_full: allow`, a request was admitted that can never be.
#[test]
fn an_open_policy_denies_although_the_memory_is_full() {
    let shared = Shared::new();
    let memory = MemoryStore::builder().clock(shared.clock.clone()).max_counters(1).build();
    let process = FallbackStore::new(shared.faulty.clone(), OnStoreFailure::Open).memory(memory);
    let strict = PolicyQuota::new("strict", Quota::per_minute(5));
    let counted = |name| PolicyQuota::new(name, Quota::per_minute(9)).with_on_store_failure(local("1"));
    let overdraft = |name| counted(name).with_count_denied(CountDenied::Overdraft);
    let (plain, known, new) = (counted("plain"), overdraft("known"), overdraft("new"));
    let key = Key::from("alice");
    shared.faulty.begin(StoreFault::unreachable());
    assert_eq!(take(&process, &known, 4).unwrap().used(), 4);
    let costs = [(&known, 4), (&plain, 2), (&new, 4), (&strict, 6)];
    let charges = costs.map(|(quota, cost)| Charge::new(quota, &key, cost));
    let states = |counted: QuotaStates| -> Vec<_> {
        counted.iter().map(|state| (state.has_room(), state.used(), state.units())).collect()
    };
    // The counter that exists is charged, and the verdict does not need room for the others.
    let denied = states(block_on(process.charge(&charges)).unwrap());
    assert_eq!(denied, [(true, 8, 4), (true, 0, 0), (true, 0, 0), (false, 0, 0)]);
    let looked = states(block_on(process.peek(&charges)).unwrap());
    assert_eq!(looked, [(true, 8, 0), (true, 0, 0), (true, 0, 0), (false, 0, 0)]);
    let admitted = block_on(process.charge(&charges[..3]));
    assert!(matches!(admitted, Err(StoreError::Full)), "{admitted:?}");
}

/// The deadline is measured with a store that never answers.
#[test]
fn no_wait_is_longer_than_the_deadline() {
    let shared = Shared::new();
    let process = shared.process(OnStoreFailure::Open);
    shared.faulty.begin(StoreFault::Hangs);
    let quota = quota(5);
    let many = block_on(async {
        let asked = async {
            for _ in 0..20 {
                let key = Key::from("alice");
                process.charge(&[Charge::new(&quota, &key, 1)]).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asked).await
    });
    assert!(many.is_ok(), "twenty deadlines of 5 ms took more than a minute");
}

/// A store without faults behaves the same with a policy above it.
mod without_trouble {
    use super::*;

    struct Untroubled<S> {
        store: S,
        clock: ManualClock,
    }

    impl<S: Store> StoreUnderTest for Untroubled<S> {
        type Store = S;

        fn store(&self) -> &S {
            &self.store
        }

        async fn reach(&self, time: Timestamp) {
            self.clock.set(time.max(tollgate::Clock::now(&self.clock)));
        }

        fn short_window(&self) -> Duration {
            Duration::from_secs(60)
        }
    }

    fn untroubled() -> Untroubled<impl Store> {
        let shared = Shared::new();
        Untroubled { store: shared.process(local("1/2")), clock: shared.clock }
    }

    tollgate_testkit::conformance!(every_store: untroubled());
    tollgate_testkit::conformance!(ends: untroubled());
    tollgate_testkit::conformance!(ends_of_holds: untroubled());

    /// With `Local`, a step comes before its end by the clock of this process.
    #[test]
    fn steps_that_are_counted_here_keep_the_rules_of_ends() {
        use tollgate_testkit::conformance::{ends, prove};
        let away = || {
            let shared = Shared::new();
            shared.faulty.begin(StoreFault::unreachable());
            Untroubled { store: shared.process(local("1")), clock: shared.clock }
        };
        prove(&away(), ends::a_charge_before_its_end_is_an_ordinary_charge(&away()));
        prove(&away(), ends::a_charge_at_its_end_changes_nothing(&away()));
        prove(&away(), ends::a_charge_at_its_end_opens_no_window(&away()));
        prove(&away(), ends::exactly_the_charges_before_the_end_are_counted(&away()));
        prove(&away(), ends::a_denial_is_counted_before_the_end_alone(&away()));
        prove(&away(), ends::several_charges_have_one_end(&away()));
        prove(&away(), ends::each_step_of_a_batch_has_its_own_end(&away()));
        prove(&away(), ends::equal_charges_with_other_ends_are_other_steps(&away()));
        prove(&away(), ends::the_earliest_and_the_latest_end_are_exact(&away()));
    }
}

/// Charges each quota for one key, like a request that matches several policies.
fn take_all(store: &impl Store, quotas: &[&PolicyQuota]) -> Result<Decision<'static>, StoreError> {
    let key = Key::from("alice");
    let charges: Vec<Charge<'_>> = quotas.iter().map(|quota| Charge::new(quota, &key, 1)).collect();
    charge(store, &charges)
}

fn named(name: &str, limit: u32, on_failure: OnStoreFailure) -> PolicyQuota {
    PolicyQuota::new(name, Quota::per_minute(limit)).with_on_store_failure(on_failure)
}

#[test]
fn the_strictest_of_several_policies_decides() {
    let shared = Shared::new();
    let process = shared.process(OnStoreFailure::Open);
    let open = named("open", 9, OnStoreFailure::Open);
    let closed = named("closed", 9, OnStoreFailure::Closed);
    let half = named("half", 4, local("1/2"));
    let third = named("third", 9, local("1/3"));
    shared.faulty.begin(StoreFault::unreachable());

    assert!(take_all(&process, &[&open]).unwrap().is_allowed());
    let all = [&open, &half, &closed, &third];
    assert_eq!(trouble(take_all(&process, &all)).as_deref(), Some(UNREACHABLE));

    // The refused charge was not counted, and `open` is not counted even next to a policy that counts here.
    let three = [&half, &open, &third];
    for used in 1..=2 {
        let decision = take_all(&process, &three).unwrap();
        let states = decision.quotas().iter();
        let states: Vec<(u64, u64)> = states.map(|state| (state.used(), state.limit())).collect();
        assert_eq!((decision.is_allowed(), states), (true, vec![(used, 2), (0, 9), (used, 3)]));
    }
    let denied = take_all(&process, &three).unwrap();
    assert_eq!((denied.is_allowed(), denied.deciding(), denied.used()), (false, 0, 2));
    assert_eq!(take_all(&process, &[&third]).unwrap().used(), 3);
}

/// All or nothing holds even without the store.
#[test]
fn nothing_is_counted_here_next_to_a_charge_that_can_never_pass() {
    let shared = Shared::new();
    let process = shared.process(OnStoreFailure::Closed);
    let (never, half) = (named("never", 0, OnStoreFailure::Open), named("half", 4, local("1/2")));
    shared.faulty.begin(StoreFault::unreachable());
    let denied = take_all(&process, &[&half, &never]).unwrap();
    assert_eq!((denied.is_allowed(), denied.reason()), (false, Some(Reason::CostExceedsLimit)));
    assert_eq!(take_all(&process, &[&half]).unwrap().used(), 1);
}

/// The memory that had counted for `local` influenced the answer of an `open` policy for the same counters.
#[test]
fn an_open_policy_forgets_counts_in_this_process() {
    let shared = Shared::new();
    let process = shared.process(OnStoreFailure::Closed);
    shared.faulty.begin(StoreFault::unreachable());
    let (before, after) = (named("same", 1, local("1")), named("same", 1, OnStoreFailure::Open));
    assert!(take_all(&process, &[&before]).unwrap().is_allowed());
    assert!(!take_all(&process, &[&before]).unwrap().is_allowed());
    assert!(take_all(&process, &[&after]).unwrap().is_allowed());
}

/// Each policy only added up the costs of its own charges. So two charges on one counter whose sum was above the limit
/// were admitted, and one of them took nothing of the share that the other was counted against.
#[test]
fn charges_on_one_counter_add_up_whatever_their_policies() {
    let shared = Shared::new();
    let process = shared.process(OnStoreFailure::Closed);
    let (open, half) = (named("same", 8, OnStoreFailure::Open), named("same", 8, local("1/2")));
    let key = Key::from("alice");
    let both = |cost| [Charge::new(&open, &key, cost), Charge::new(&half, &key, cost)];
    shared.faulty.begin(StoreFault::unreachable());
    let never = charge(&process, &both(5)).unwrap();
    assert_eq!(never.reason(), Some(Reason::CostExceedsLimit));
    let later = charge(&process, &both(3)).unwrap();
    assert_eq!((later.reason(), later.used()), (Some(Reason::CostExceedsShare), 0));
    let admitted = charge(&process, &both(2)).unwrap();
    let states = admitted.quotas().iter().map(|state| (state.limit(), state.used(), state.units()));
    assert_eq!((admitted.is_allowed(), states.collect::<Vec<_>>()), (true, vec![(4, 4, 2); 2]));
}

/// The upper fallback took the share in the lower one's answer for nonsense, and counted again by its own policy.
#[test]
fn a_fallback_below_another_comes_first() {
    for (lower, used) in
        [(local("1/2"), Some(1)), (OnStoreFailure::Open, Some(0)), (OnStoreFailure::Closed, None)]
    {
        let shared = Shared::new();
        let memory = MemoryStore::builder().clock(shared.clock.clone()).build();
        let upper = FallbackStore::new(shared.process(lower), OnStoreFailure::Closed).memory(memory);
        shared.faulty.begin(StoreFault::unreachable());
        let answer = take(&upper, &quota(4), 1);
        assert_eq!(answer.as_ref().ok().map(Decision::used), used, "{lower}");
        if let Err(error) = answer {
            assert_eq!(error.trouble_of(), Some(&Unreachable));
        }
    }
}
