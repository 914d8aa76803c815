//! A store that breaks its promises when told to: it fails, hangs, loses its answers or lies.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tollgate::{Charge, Counter, PerQuota, Quota, QuotaState, Refunded, Store, StoreError, Timestamp};

/// A store that works until a [`Fault`] begins. Clones share counters and faults.
#[derive(Debug, Clone)]
pub struct FaultyStore<S> {
    store: S,
    now: Arc<Mutex<Now>>,
}

#[derive(Debug, Default)]
struct Now {
    fault: Option<Fault>,
    /// Those whose answers are held.
    held: Vec<Waker>,
}

/// What goes wrong with every step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is counted, and this error given.
    Fails(StoreError),
    /// The step is taken, and its answer lost.
    LosesAnswers,
    /// The step is taken, and its answer comes once the fault has ended.
    HoldsAnswers,
    /// No answer comes, ever.
    Hangs,
    /// Charges and peeks are answered with one quota less than was asked for, and batches with one request less.
    ForgetsQuotas,
    /// Charges and peeks are answered for another limit than was asked for.
    AnswersForAnotherLimit,
    /// Charges and peeks are admitted with more used than the limit allows.
    AdmitsPastTheLimit,
}

impl<S: Store> FaultyStore<S> {
    /// The store, and no fault.
    pub fn new(store: S) -> Self {
        Self { store, now: Arc::default() }
    }

    /// From the next step on, this goes wrong and nothing else.
    pub fn begin(&self, fault: Fault) {
        self.become_of(Some(fault));
    }

    /// From the next step on, all is well.
    pub fn end(&self) {
        self.become_of(None);
    }

    /// How many answers are held.
    pub fn held(&self) -> usize {
        self.now().held.len()
    }

    fn become_of(&self, fault: Option<Fault>) {
        let mut now = self.now();
        now.fault = fault;
        now.held.drain(..).for_each(Waker::wake);
    }

    fn fault(&self) -> Option<Fault> {
        self.now().fault.clone()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until another fault begins, or all is well.
    async fn hold(&self) {
        poll_fn(|context| {
            let mut now = self.now();
            if now.fault != Some(Fault::HoldsAnswers) {
                return Poll::Ready(());
            }
            now.held.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn step<A>(&self, step: impl Future<Output = Result<A, StoreError>>) -> Result<A, StoreError> {
        match self.fault() {
            Some(Fault::Fails(error)) => Err(error),
            Some(Fault::Hangs) => pending().await,
            Some(Fault::HoldsAnswers) => {
                let answer = step.await;
                self.hold().await;
                answer
            }
            Some(Fault::LosesAnswers) => step.await.and(Err(StoreError::TimedOut)),
            Some(Fault::ForgetsQuotas | Fault::AnswersForAnotherLimit | Fault::AdmitsPastTheLimit) | None => {
                step.await
            }
        }
    }

    fn twisted(&self, counted: PerQuota<QuotaState>) -> PerQuota<QuotaState> {
        let all = counted.len();
        let as_if = |state: &QuotaState, limit: u64, used: u64| {
            let quota = Quota::per_day(0).with_limit(limit).expect("a limit that is near another");
            QuotaState::new(&quota, used, state.window(), state.now(), None)
        };
        match self.fault() {
            Some(Fault::ForgetsQuotas) => counted.iter().take(all - 1).copied().collect(),
            Some(Fault::AnswersForAnotherLimit) => {
                counted.iter().map(|state| as_if(state, state.limit() + 1, 0)).collect()
            }
            Some(Fault::AdmitsPastTheLimit) => {
                counted.iter().map(|state| as_if(state, state.limit(), state.limit() + 1)).collect()
            }
            _ => counted,
        }
    }
}

impl<S: Store> Store for FaultyStore<S> {
    async fn charge(&self, charges: &[Charge<'_>]) -> Result<PerQuota<QuotaState>, StoreError> {
        self.step(self.store.charge(charges)).await.map(|counted| self.twisted(counted))
    }

    async fn charge_each(&self, requests: &[&[Charge<'_>]]) -> Vec<Result<PerQuota<QuotaState>, StoreError>> {
        let answers = self.step(async { Ok(self.store.charge_each(requests).await) }).await;
        let mut answers = match answers {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); requests.len()],
        };
        if self.fault() == Some(Fault::ForgetsQuotas) {
            answers.pop();
        }
        answers.into_iter().map(|answer| answer.map(|counted| self.twisted(counted))).collect()
    }

    async fn peek(&self, charges: &[Charge<'_>]) -> Result<PerQuota<QuotaState>, StoreError> {
        self.step(self.store.peek(charges)).await.map(|counted| self.twisted(counted))
    }

    async fn record(&self, charge: &Charge<'_>) -> Result<QuotaState, StoreError> {
        self.step(self.store.record(charge)).await
    }

    async fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError> {
        self.step(self.store.refund(charge, start)).await
    }

    async fn reset(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError> {
        self.step(self.store.reset(counter)).await
    }

    async fn set(&self, counter: &Counter<'_>, used: u64) -> Result<QuotaState, StoreError> {
        self.step(self.store.set(counter, used)).await
    }
}
