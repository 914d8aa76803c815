//! Any sequence of steps gives the answers of the reference model, in tables that are crowded all the time.
//!
//! The library's unit tests are built with slices of a few slots. So within one plan counters displace each other,
//! slices are rebuilt and grow row by row, and the slots of closed and forgotten counters go to others.

#![expect(clippy::unwrap_used, reason = "what fails in a test is a failed test")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_testkit::tollgate as outside;
use tollgate_testkit::{Model, Plan, Subject, crowd, replay};

use super::slots::{ROW, ROWS};
use super::*;
use crate::{CountDenied, Key, ManualClock, PolicyQuota, Reason};

/// What one slice has room for, and what is planned for one.
const FULL: usize = ROW * ROWS * 25 / 32;
const PLANNED: usize = ROW * ROWS * 5 / 8;

/// Sequences that are tried, and steps of each.
const CASES: u32 = 100;
const STEPS: usize = 300;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    #[test]
    fn one_slice_answers_as_the_model_does(plan in crowd(12, STEPS), max_keys in 0..=PLANNED) {
        Tiny::new(max_keys).replay(&plan);
    }

    /// Four quotas of so many keys would all fit into one slice: only the cap refuses.
    #[test]
    fn several_slices_answer_as_the_model_does(
        plan in crowd(FULL as u64 / 4, STEPS),
        max_keys in PLANNED + 1..=3 * PLANNED,
    ) {
        Tiny::new(max_keys).replay(&plan);
    }
}

/// A store for the testkit, to which the library under test is another one than its own.
struct Tiny {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl Tiny {
    fn new(max_keys: usize) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_keys(max_keys).build();
        Self { store, clock }
    }

    fn replay(&self, plan: &Plan) {
        let model = Model::new(self.store.max_keys());
        let set_back = |tiny: &Self, time| tiny.clock.set(inside_time(time));
        // Nothing here ever waits.
        let replay = pin!(replay(self, model, plan, set_back));
        assert_eq!(replay.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        let counters = plan
            .quotas
            .iter()
            .flat_map(|quota| (0..plan.keys).map(move |key| (quota, outside::Key::from(key))));
        for (quota, key) in counters {
            outside::SyncStore::reset(self, &outside::Counter::new(quota, &key)).unwrap();
        }
        assert_eq!(self.store.keys(), 0, "what was forgotten is not held");
    }
}

impl Subject for Tiny {
    type Store = Self;

    fn store(&self) -> &Self {
        self
    }

    async fn reach(&self, time: outside::Timestamp) {
        self.clock.set(inside_time(time));
    }

    fn short_window(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn now(&self) -> outside::Timestamp {
        outside_time(self.clock.now())
    }
}

impl outside::SyncStore for Tiny {
    fn charge(&self, charges: &[outside::Charge<'_>]) -> Result<outside::Counted, outside::StoreError> {
        let charges: Vec<_> = charges.iter().map(Inside::new).collect();
        let charges: Vec<_> = charges.iter().map(Inside::charge).collect();
        self.store.charge(&charges).map(outside_counted).map_err(outside_error)
    }

    fn charge_each(
        &self,
        requests: &[&[outside::Charge<'_>]],
    ) -> Vec<Result<outside::Counted, outside::StoreError>> {
        let requests: Vec<Vec<_>> =
            requests.iter().map(|charges| charges.iter().map(Inside::new).collect()).collect();
        let requests: Vec<Vec<_>> =
            requests.iter().map(|charges| charges.iter().map(Inside::charge).collect()).collect();
        let requests: Vec<_> = requests.iter().map(Vec::as_slice).collect();
        let answers = self.store.charge_each(&requests).into_iter();
        answers.map(|answer| answer.map(outside_counted).map_err(outside_error)).collect()
    }

    fn peek(&self, charges: &[outside::Charge<'_>]) -> Result<outside::Counted, outside::StoreError> {
        let charges: Vec<_> = charges.iter().map(Inside::new).collect();
        let charges: Vec<_> = charges.iter().map(Inside::charge).collect();
        self.store.peek(&charges).map(outside_counted).map_err(outside_error)
    }

    fn record(&self, charge: &outside::Charge<'_>) -> Result<outside::QuotaState, outside::StoreError> {
        let answer = self.store.record(&Inside::new(charge).charge());
        answer.map(|state| outside_state(&state)).map_err(outside_error)
    }

    fn refund(
        &self,
        charge: &outside::Charge<'_>,
        start: outside::Timestamp,
    ) -> Result<outside::Refunded, outside::StoreError> {
        let answer = self.store.refund(&Inside::new(charge).charge(), inside_time(start));
        answer.map_err(outside_error).map(|refunded| match refunded {
            Refunded::Open { given, used } => outside::Refunded::Open { given, used },
            Refunded::Closed => outside::Refunded::Closed,
        })
    }

    fn reset(&self, counter: &outside::Counter<'_>) -> Result<outside::QuotaState, outside::StoreError> {
        let charge = outside::Charge::new(counter.quota(), counter.key(), 0);
        let answer = self.store.reset(&Inside::new(&charge).charge().counter());
        answer.map(|state| outside_state(&state)).map_err(outside_error)
    }

    fn set(
        &self,
        counter: &outside::Counter<'_>,
        used: u64,
    ) -> Result<outside::QuotaState, outside::StoreError> {
        let charge = outside::Charge::new(counter.quota(), counter.key(), 0);
        let answer = self.store.set(&Inside::new(&charge).charge().counter(), used);
        answer.map(|state| outside_state(&state)).map_err(outside_error)
    }
}

/// A charge in the types of the library under test.
struct Inside {
    quota: PolicyQuota,
    key: Key<'static>,
    cost: u32,
}

impl Inside {
    fn new(charge: &outside::Charge<'_>) -> Self {
        let quota = charge.counter().quota();
        let count_denied = match quota.count_denied() {
            outside::CountDenied::Yes => CountDenied::Yes,
            outside::CountDenied::No => CountDenied::No,
        };
        let windows = quota.quota().to_string().parse().unwrap();
        // All keys of plans are numbers, which end their canonical bytes.
        let key = *charge.counter().key().canonical_bytes().last_chunk().unwrap();
        Self {
            quota: PolicyQuota::new(quota.policy(), windows).with_count_denied(count_denied),
            key: Key::from(u64::from_be_bytes(key)),
            cost: charge.cost(),
        }
    }

    fn charge(&self) -> Charge<'_> {
        Charge::new(&self.quota, &self.key, self.cost)
    }
}

fn inside_time(time: outside::Timestamp) -> Timestamp {
    Timestamp::from_unix_millis(time.as_unix_millis())
}

fn outside_time(time: Timestamp) -> outside::Timestamp {
    outside::Timestamp::from_unix_millis(time.as_unix_millis())
}

fn outside_counted(counted: Counted) -> outside::Counted {
    counted.iter().map(outside_state).collect()
}

fn outside_state(state: &QuotaState) -> outside::QuotaState {
    // Of the quota, an answer keeps the limit alone.
    let quota = outside::Quota::per_day(1).with_limit(state.limit()).unwrap();
    let window =
        outside::Window::new(outside_time(state.window().start()), outside_time(state.window().end()));
    let reason = state.reason().map(|reason| match reason {
        Reason::QuotaExceeded => outside::Reason::QuotaExceeded,
        Reason::CostExceedsLimit => outside::Reason::CostExceedsLimit,
    });
    outside::QuotaState::new(&quota, state.used(), window, outside_time(state.now()), reason)
}

fn outside_error(error: StoreError) -> outside::StoreError {
    assert_eq!(error, StoreError::Full, "a store in memory has no other trouble");
    outside::StoreError::Full
}
