//! A store of any type.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::{Answer, QuotaStates, Step, StepDeadline, Store, StoreError};
use crate::hold::{HoldAnswer, HoldPlace, HoldStep};

/// A store of any type, for fields and functions whose types should not depend on the store. Clones share it.
///
/// Only answers that come [`Later`](Answer::Later) are boxed.
///
/// ```
/// use tollgate::{AnyStore, MemoryStore, Quota, SharedLimiter};
///
/// let is_shared = false;
/// let store = if is_shared { todo!("connect") } else { AnyStore::new(MemoryStore::new()) };
/// let limiter: SharedLimiter<AnyStore> = SharedLimiter::new(Quota::per_day(5), store);
/// ```
#[derive(Clone)]
pub struct AnyStore(Arc<dyn BoxingStore>);

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Store`] with boxed futures.
trait BoxingStore: Send + Sync {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Result<QuotaStates, StoreError>>>;

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Vec<Result<QuotaStates, StoreError>>>>;

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Result<HoldAnswer, StoreError>>>;

    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Result<HoldAnswer, StoreError>>>;

    fn address(&self) -> Option<usize>;
}

impl AnyStore {
    /// Puts the store behind a pointer.
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Arc::new(store))
    }
}

impl<S: Store> BoxingStore for S {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Result<QuotaStates, StoreError>>> {
        match Store::step_until(self, step, deadline) {
            Answer::Now(answer) => Answer::Now(answer),
            Answer::Later(later) => Answer::Later(Box::pin(later)),
        }
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Vec<Result<QuotaStates, StoreError>>>> {
        match Store::step_each_until(self, steps, deadline) {
            Answer::Now(answers) => Answer::Now(answers),
            Answer::Later(later) => Answer::Later(Box::pin(later)),
        }
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Result<HoldAnswer, StoreError>>> {
        match Store::hold_until(self, step, deadline) {
            Answer::Now(answer) => Answer::Now(answer),
            Answer::Later(later) => Answer::Later(Box::pin(later)),
        }
    }

    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<BoxFuture<'a, Result<HoldAnswer, StoreError>>> {
        match Store::hold_in(self, place, step, deadline) {
            Answer::Now(answer) => Answer::Now(answer),
            Answer::Later(later) => Answer::Later(Box::pin(later)),
        }
    }

    fn address(&self) -> Option<usize> {
        Store::address(self)
    }
}

impl Store for AnyStore {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        BoxingStore::step_until(&*self.0, step, deadline)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        BoxingStore::step_each_until(&*self.0, steps, deadline)
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        BoxingStore::hold_until(&*self.0, step, deadline)
    }

    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        BoxingStore::hold_in(&*self.0, place, step, deadline)
    }

    fn address(&self) -> Option<usize> {
        BoxingStore::address(&*self.0)
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyStore").finish_non_exhaustive()
    }
}
