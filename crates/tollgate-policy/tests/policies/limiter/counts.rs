//! Counts under a caller's own limits.

use std::time::Duration;

use tollgate::{
    Answer, Charge, ManualClock, MemoryStore, OnStoreFailure, Quota, QuotaStates, Source, Step, StepDeadline,
    Store, StoreError,
};
use tollgate_policy::{
    AskedCount, BlockError, CheckError, CountOperation, CountState, CountTerms, Policy, PolicyLimiter,
    QuotaChanges, WhenFull,
};
use tollgate_testkit::{FaultyStore, StoreFault, Unreachable, block_on};

use super::{ALICE, attributes, limiter, limiter_at, policies_of};

const NONE: &str = "\n  - { name: all, key: global, quotas: [9/1m] }";

fn limits(quotas: &[&str]) -> Policy {
    Policy::of_caller("login", quotas.iter().map(|quota| quota.parse::<Quota>().unwrap()), None).unwrap()
}

fn count<S: Store>(
    limiter: &PolicyLimiter<S, ManualClock>,
    limits: Policy,
    operation: CountOperation,
) -> Result<QuotaChanges<CountState>, CheckError> {
    let alice = attributes(ALICE);
    let asked = AskedCount::new(&alice, CountTerms::new(limits, operation));
    block_on(limiter.count_each_until(None, [asked])).pop().unwrap()
}

/// Returns the used units of each quota, and whether it has room.
fn counted<S: Store>(
    limiter: &PolicyLimiter<S, ManualClock>,
    quotas: &[&str],
    operation: CountOperation,
) -> Vec<(u64, bool)> {
    let counted = count(limiter, limits(quotas), operation).unwrap();
    counted.iter().map(|(.., counted)| (counted.state.used(), counted.state.has_room())).collect()
}

#[test]
fn counts_past_the_limit_and_tells_when_there_is_room() {
    let clock = ManualClock::default();
    let limiter = limiter_at(&clock, NONE);
    let both = ["2/1m@first_hit", "9/1h"];
    let add = |cost| counted(&limiter, &both, CountOperation::Add(cost));
    assert_eq!(add(2), [(2, true), (2, true)]);
    assert_eq!(add(1), [(3, false), (3, true)], "each by itself");
    let state = |cost: u32| {
        let counted = count(&limiter, limits(&both), CountOperation::Add(cost)).unwrap();
        counted.iter().next().unwrap().2.state
    };
    clock.advance(Duration::from_secs(20));
    assert_eq!(state(1).retry_after(), Some(Duration::from_secs(40)));
    assert_eq!(state(3).retry_after(), None, "it never fits");
    assert_eq!(counted(&limiter, &both, CountOperation::Get(1)), [(7, false), (7, true)]);
    assert_eq!(counted(&limiter, &both, CountOperation::Get(3)), [(7, false), (7, false)]);
    assert_eq!(counted(&limiter, &both, CountOperation::Subtract(6)), [(1, true), (1, true)]);
    assert_eq!(counted(&limiter, &both, CountOperation::Subtract(6)), [(0, true), (0, true)]);
    assert_eq!(counted(&limiter, &both, CountOperation::Set(9)), [(9, true), (9, true)]);
    assert_eq!(counted(&limiter, &both, CountOperation::Reset), [(0, true), (0, true)]);
}

/// A memory store in which something happens between the look of a subtraction and its refund.
struct EventfulStore {
    memory: MemoryStore<ManualClock>,
    event: Event,
}

enum Event {
    /// The window ends, and the next one is charged.
    WindowEnds(ManualClock),
    /// The look fails, and the store is back for the refund.
    LookFails,
}

impl Store for EventfulStore {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        self.memory.step_until(step, deadline)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        Answer::Later(async move {
            let answers = match self.memory.step_each_until(steps, deadline) {
                Answer::Now(answers) => answers,
                Answer::Later(answers) => answers.await,
            };
            let [Step::Peek([charge, ..])] = steps else { return answers };
            match &self.event {
                Event::WindowEnds(clock) => {
                    clock.advance(Duration::from_secs(60));
                    let again = Charge::new(charge.counter().quota(), charge.counter().key(), 3);
                    let _ = self.memory.step(Step::Record(again));
                }
                Event::LookFails => return vec![Err(StoreError::trouble(Unreachable))],
            }
            answers
        })
    }
}

#[test]
fn a_subtraction_never_gives_back_to_a_later_window() {
    for quota in ["9/1m", "9/1m@first_hit", "9/1m@staggered"] {
        let clock = ManualClock::default();
        let memory = || MemoryStore::builder().clock(clock.clone()).max_counters(100).build();
        let store = EventfulStore { memory: memory(), event: Event::WindowEnds(clock.clone()) };
        let limiter = PolicyLimiter::new(store, policies_of(NONE), "test").memory(memory());
        assert_eq!(counted(&limiter, &[quota], CountOperation::Add(5)), [(5, true)]);
        assert_eq!(counted(&limiter, &[quota], CountOperation::Subtract(4)), [(3, true)], "{quota}");
    }
}

/// The answer of the policy for outages named a window by the clock of this process.
#[test]
fn a_subtraction_without_a_look_gives_nothing_back() {
    let clock = ManualClock::default();
    let memory = || MemoryStore::builder().clock(clock.clone()).max_counters(100).build();
    let store = EventfulStore { memory: memory(), event: Event::LookFails };
    let limiter = PolicyLimiter::new(store, policies_of(NONE), "test").memory(memory());
    assert_eq!(counted(&limiter, &["9/1m"], CountOperation::Add(5)), [(5, true)]);
    count(&limiter, limits(&["9/1m"]), CountOperation::Subtract(4)).unwrap_err();
    assert_eq!(counted(&limiter, &["9/1m"], CountOperation::Add(1)), [(6, true)]);
}

#[test]
fn an_outage_is_what_the_call_says() {
    let limiter = limiter(NONE);
    let closed = || limits(&["2/1m"]).with_on_store_failure(OnStoreFailure::Closed);
    assert_eq!(counted(&limiter, &["2/1m"], CountOperation::Add(2)), [(2, true)]);
    limiter.store().begin(StoreFault::unreachable());
    for operation in [CountOperation::Add(9), CountOperation::Get(1)] {
        let open = count(&limiter, limits(&["2/1m"]), operation).unwrap();
        let states: Vec<(u64, bool, Source)> = open
            .iter()
            .map(|(.., it)| it.state)
            .map(|state| (state.used(), state.has_room(), state.source()))
            .collect();
        assert_eq!(states, [(0, true, Source::Fallback)], "{operation:?}");
        let error = count(&limiter, closed(), operation).unwrap_err();
        assert!(matches!(error, CheckError::Store(StoreError::Trouble { .. })), "{error}");
    }
    for operation in [CountOperation::Subtract(1), CountOperation::Set(1), CountOperation::Reset] {
        let error = count(&limiter, limits(&["2/1m"]), operation).unwrap_err();
        assert!(matches!(error, CheckError::Store(StoreError::Trouble { .. })), "{operation:?}: {error}");
    }
    limiter.store().end();
    assert_eq!(counted(&limiter, &["2/1m"], CountOperation::Get(1)), [(2, false)], "nothing was counted");

    // The look succeeds, and the refund does not.
    limiter.store().begin_after(1, StoreFault::unreachable());
    count(&limiter, limits(&["2/1m"]), CountOperation::Subtract(1)).unwrap_err();
    limiter.store().end();
    assert_eq!(counted(&limiter, &["2/1m"], CountOperation::Get(1)), [(2, false)]);
}

#[test]
fn the_quotas_that_were_changed_before_a_failure_are_named() {
    let limiter = limiter(NONE);
    let both = ["9/1m", "9/1h"];
    assert_eq!(counted(&limiter, &both, CountOperation::Add(2)), [(2, true); 2]);
    for (operation, spared) in [
        (CountOperation::Add(1), 1),
        (CountOperation::Set(5), 1),
        (CountOperation::Reset, 1),
        (CountOperation::Subtract(1), 2),
    ] {
        limiter.store().begin_after(spared, StoreFault::unreachable());
        let closed = limits(&both).with_on_store_failure(OnStoreFailure::Closed);
        let error = count(&limiter, closed, operation).unwrap_err();
        limiter.store().end();
        let CheckError::Partly { changed, .. } = error else { panic!("{operation:?}: {error}") };
        let changed: Vec<String> = changed.iter().map(|quota| quota.quota().to_string()).collect();
        assert_eq!(changed, ["9/1m"], "{operation:?}");
    }
}

#[test]
fn a_full_store_is_answered_as_checks_are() {
    let clock = ManualClock::default();
    let memory = || MemoryStore::builder().clock(clock.clone()).max_counters(1).build();
    for (when_full, is_counted) in [(WhenFull::Deny, false), (WhenFull::Allow, true)] {
        let store = FaultyStore::new(memory());
        let limiter = PolicyLimiter::new(store, policies_of(NONE), "test").memory(memory());
        let limiter = limiter.when_full(when_full);
        assert_eq!(counted(&limiter, &["9/1m"], CountOperation::Add(2)), [(2, true)]);
        for operation in [CountOperation::Add(1), CountOperation::Get(1)] {
            let full = count(&limiter, limits(&["9/1h"]), operation);
            assert_eq!(full.is_ok(), is_counted, "{operation:?}");
        }
        assert_eq!(limiter.store_full(), 2);
        let error = count(&limiter, limits(&["9/1h"]), CountOperation::Set(1)).unwrap_err();
        assert!(matches!(error, CheckError::Store(StoreError::Full)), "{error}");
        assert_eq!(counted(&limiter, &["9/1m"], CountOperation::Subtract(1)), [(1, true)]);
    }
}

/// Counts with a block of ten seconds: the used units, whether there was room, whether the key is blocked, and the time
/// to wait.
fn blocked<S: Store>(
    limiter: &PolicyLimiter<S, ManualClock>,
    quota: &str,
    operation: CountOperation,
) -> (u64, bool, bool, Option<u64>) {
    let alice = attributes(ALICE);
    let terms = CountTerms::new(limits(&[quota]), operation).with_block(Duration::from_secs(10)).unwrap();
    let asked = AskedCount::new(&alice, terms);
    let counted = block_on(limiter.count_each_until(None, [asked])).pop().unwrap().unwrap();
    let counted = *counted.iter().next().unwrap().2;
    let wait = counted.state.retry_after().map(|wait| u64::try_from(wait.as_millis()).unwrap());
    (counted.state.used(), counted.state.has_room(), counted.is_blocked, wait)
}

#[test]
fn a_key_above_its_limit_is_blocked_for_exactly_the_length() {
    for quota in ["2/1m", "2/1m@first_hit", "2/1m@staggered", "2/day@Europe/Berlin"] {
        let clock = ManualClock::default();
        let limiter = limiter_at(&clock, NONE);
        let count = |operation| blocked(&limiter, quota, operation);
        assert_eq!(count(CountOperation::Add(2)), (2, true, false, None), "{quota}");
        assert!(!count(CountOperation::Get(1)).1);
        assert_eq!(count(CountOperation::Add(3)), (5, false, true, None), "3 of 2 never fit");
        assert_eq!(counted(&limiter, &[quota], CountOperation::Get(1)), [(0, true)], "it was reset");
        clock.advance(Duration::from_millis(4_000));
        // Nothing is counted, and nothing prolongs it.
        assert_eq!(count(CountOperation::Add(1)), (5, false, true, Some(6_000)));
        assert_eq!(count(CountOperation::Add(0)), (5, false, true, Some(6_000)));
        assert_eq!(count(CountOperation::Get(1)), (5, false, true, Some(6_000)));
        clock.advance(Duration::from_millis(5_999));
        assert_eq!(count(CountOperation::Add(1)), (5, false, true, Some(1)));
        clock.advance(Duration::from_millis(1));
        assert_eq!(count(CountOperation::Get(1)), (0, true, false, None));
        assert_eq!(count(CountOperation::Add(1)), (1, true, false, None), "it is counted from 0 again");
        // A count without a block exceeds the limit and blocks nobody.
        assert_eq!(counted(&limiter, &[quota], CountOperation::Add(9)), [(10, false)]);
        let (used, has_room, is_blocked, _) = count(CountOperation::Add(0));
        assert_eq!((used, has_room, is_blocked), (10, false, false));
        assert!(count(CountOperation::Add(1)).2);
        assert_eq!(count(CountOperation::Reset), (0, true, false, None));
        assert_eq!(count(CountOperation::Add(1)), (1, true, false, None));
    }
}

#[test]
fn limit_0_blocks_with_the_first_unit_and_the_largest_limit_never_does() {
    let limiter = limiter(NONE);
    assert_eq!(blocked(&limiter, "0/1m", CountOperation::Add(0)), (0, true, false, None));
    assert_eq!(blocked(&limiter, "0/1m", CountOperation::Add(1)), (1, false, true, None));
    let largest = format!("{}/1h", Quota::MAX_LIMIT);
    assert_eq!(
        counted(&limiter, &[&largest], CountOperation::Set(Quota::MAX_LIMIT)),
        [(Quota::MAX_LIMIT, true)]
    );
    assert_eq!(blocked(&limiter, &largest, CountOperation::Add(7)), (Quota::MAX_LIMIT, true, false, None));
}

#[test]
fn a_block_that_cannot_be_is_refused() {
    let terms = |quotas: &[&str], operation| CountTerms::new(limits(quotas), operation);
    let second = Duration::from_secs(1);
    for operation in [CountOperation::Subtract(1), CountOperation::Set(1)] {
        assert_eq!(terms(&["2/1m"], operation).with_block(second).unwrap_err(), BlockError::Operation);
    }
    let add = CountOperation::Add(1);
    assert_eq!(terms(&["2/1m", "3/1h"], add).with_block(second).unwrap_err(), BlockError::Quotas);
    for quota in ["2/1m~log", "2/1m~sliding", "2/1m~burst"] {
        assert!(matches!(terms(&[quota], add).with_block(second), Err(BlockError::Quota(_))), "{quota}");
    }
    for length in [Duration::ZERO, Duration::from_micros(1), Quota::MAX_WINDOW + second] {
        assert!(matches!(terms(&["2/1m"], add).with_block(length), Err(BlockError::Quota(_))), "{length:?}");
    }
}

#[test]
fn an_outage_blocks_nobody() {
    let limiter = limiter(NONE);
    limiter.store().begin(StoreFault::unreachable());
    assert_eq!(blocked(&limiter, "2/1m", CountOperation::Add(9)), (0, true, false, None));
    limiter.store().end();
    assert_eq!(blocked(&limiter, "2/1m", CountOperation::Add(2)), (2, true, false, None));
    assert!(blocked(&limiter, "2/1m", CountOperation::Add(1)).2);
    limiter.store().begin(StoreFault::unreachable());
    assert_eq!(blocked(&limiter, "2/1m", CountOperation::Get(1)), (0, true, false, None));
}

/// In a full store, a block replaces its counter.
#[test]
fn a_full_store_still_blocks() {
    let clock = ManualClock::default();
    let memory = || MemoryStore::builder().clock(clock.clone()).max_counters(1).build();
    let limiter = PolicyLimiter::new(FaultyStore::new(memory()), policies_of(NONE), "test").memory(memory());
    assert_eq!(blocked(&limiter, "2/1m", CountOperation::Add(2)), (2, true, false, None));
    assert_eq!(blocked(&limiter, "2/1m", CountOperation::Add(1)), (3, false, true, Some(10_000)));
    assert_eq!(blocked(&limiter, "2/1m", CountOperation::Get(1)), (3, false, true, Some(10_000)));
    clock.advance(Duration::from_secs(10));
    assert_eq!(blocked(&limiter, "2/1m", CountOperation::Add(1)), (1, true, false, None));
}
