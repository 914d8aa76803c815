//! The store that decides, and its state for `/readyz`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tollgate::{
    Answer, Charge, HoldAnswer, HoldStep, ManualClock, MemoryStore, PolicyQuota, Quota, QuotaStates, Step,
    StepDeadline, Store, StoreError,
};
use tollgate_redis::RedisStore;

use super::MeteredStore;
use crate::observe::stopwatch::Stopwatch;

/// The store that this service counts in. Clones share it.
///
/// One type for all of them, so that what decides is compiled once.
#[derive(Clone)]
pub(crate) enum ServedStore {
    Memory(MemoryStore),
    /// Memory whose clock tests move.
    Tests(MemoryStore<ManualClock>),
    Shared(Arc<MeteredStore<RedisStore>>),
}

/// An answer that comes later. Only a shared store gives one.
type LaterAnswer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Whether decisions come from the store.
#[derive(Debug, Clone)]
pub(crate) enum StoreState {
    /// Yes.
    Answers,
    /// Some come from the failure policies, if at all, because this many servers do not count.
    FailsInPart(StoreError, Servers),
    /// They come from the failure policies, if at all. The store returned this error.
    Fails(StoreError),
}

/// The number of servers concerned, and of all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Servers {
    pub(crate) failed: usize,
    pub(crate) all: usize,
}

impl ServedStore {
    /// Returns the deadline that all steps of a call share, which began then and whose caller waits until this time at
    /// most. Memory never waits, and has none.
    pub(crate) fn deadline(&self, begun: Stopwatch, caller_until: Option<Instant>) -> Option<StepDeadline> {
        match self {
            Self::Memory(_) | Self::Tests(_) => None,
            Self::Shared(store) => store.deadline(begun, caller_until),
        }
    }

    /// Returns how many holds have expired before they were settled, if the store knows it.
    pub(crate) fn expired_holds(&self) -> Option<usize> {
        match self {
            Self::Memory(store) => Some(store.expired_holds()),
            Self::Tests(store) => Some(store.expired_holds()),
            Self::Shared(_) => None,
        }
    }

    /// Returns the current state of the store. Each of its servers is asked to count a test counter.
    pub(crate) async fn state(&self) -> StoreState {
        let store = match self {
            Self::Memory(_) | Self::Tests(_) => return StoreState::Answers,
            Self::Shared(store) => store,
        };
        // A name that no user's policy can have, and a limit that is never reached.
        let probe = PolicyQuota::new("tollgate readiness", Quota::per_second(u32::MAX));
        let keys = store.inner().key_on_each_server(&probe);
        let charges: Vec<_> = keys.iter().map(|key| [Charge::new(&probe, key, 1)]).collect();
        let steps: Vec<Step<'_>> = charges.iter().map(|charge| Step::Charge(charge)).collect();
        // This writes, because a store that is full, cannot save, or lacks replicas still answers reads.
        let answers = store.step_each(&steps).await;
        let all = answers.len();
        let mut errors = answers.into_iter().filter_map(Result::err);
        let Some(error) = errors.next() else { return StoreState::Answers };
        let failed = 1 + errors.count();
        if failed < all {
            StoreState::FailsInPart(error, Servers { failed, all })
        } else {
            StoreState::Fails(error)
        }
    }
}

impl Store for ServedStore {
    #[inline]
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        match self {
            Self::Memory(store) => boxed(store.step(step)),
            Self::Tests(store) => boxed(store.step(step)),
            Self::Shared(store) => boxed(store.step_until(step, deadline)),
        }
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        match self {
            Self::Memory(store) => boxed(store.step_each(steps)),
            Self::Tests(store) => boxed(store.step_each(steps)),
            Self::Shared(store) => boxed(store.step_each_until(steps, deadline)),
        }
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        match self {
            Self::Memory(store) => boxed(store.hold_until(step, deadline)),
            Self::Tests(store) => boxed(store.hold_until(step, deadline)),
            Self::Shared(store) => boxed(store.hold_until(step, deadline)),
        }
    }

    fn address(&self) -> Option<usize> {
        match self {
            Self::Memory(store) => store.address(),
            Self::Tests(store) => store.address(),
            Self::Shared(_) => None,
        }
    }
}

/// Puts an answer that comes later into a box, because each layer above stores it twice, and would be twice as large as
/// the one below.
#[inline]
fn boxed<'a, F: Future<Output: 'a> + Send + 'a>(answer: Answer<F>) -> Answer<LaterAnswer<'a, F::Output>> {
    match answer {
        Answer::Now(answer) => Answer::Now(answer),
        Answer::Later(later) => Answer::Later(Box::pin(later)),
    }
}
