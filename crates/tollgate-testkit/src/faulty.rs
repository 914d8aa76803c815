//! A store that breaks its promises on command: it fails, hangs, loses its answers or lies.

use std::error::Error;
use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tollgate::kind::Standing;
use tollgate::{
    Answer, AnswerError, HoldAnswer, HoldStates, HoldStep, HoldTerms, InFlight, InFlightState, Quota,
    QuotaState, QuotaStates, Step, StepDeadline, Store, StoreError,
};

/// A store that works until a [`StoreFault`] begins. Clones share counters and faults.
#[derive(Debug, Clone)]
pub struct FaultyStore<S> {
    store: S,
    now: Arc<Mutex<Now>>,
}

#[derive(Debug, Default)]
struct Now {
    fault: Option<StoreFault>,
    /// Steps that still succeed before the fault begins.
    spared: usize,
    /// Wakers of steps whose answers are held.
    held: Vec<Waker>,
}

/// What goes wrong with every step.
#[derive(Debug, Clone)]
pub enum StoreFault {
    /// Nothing is counted, and the step returns this error.
    Fails(StoreError),
    /// The step is taken, and its answer lost.
    LosesAnswers,
    /// The step is taken, and its answer comes when the fault ends.
    HoldsAnswers,
    /// No answer ever comes.
    Hangs,
    /// Answers to charges, peeks and reservations lack one quota, and answers to batches lack one request.
    ForgetsQuotas,
    /// Answers to charges and peeks are for another limit.
    AnswersForAnotherLimit,
    /// Steps that come [before an end](Step::ChargeBefore) are taken at any time.
    ForgetsEnds,
    /// Charges and peeks are admitted with more usage than the limit allows.
    AdmitsPastTheLimit,
}

/// The cause of errors of a store without a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable;

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store cannot be reached")
    }
}

impl Error for Unreachable {}

impl StoreFault {
    /// Returns a fault that counts nothing: the store is [`Unreachable`].
    #[must_use]
    pub fn unreachable() -> Self {
        Self::Fails(StoreError::trouble(Unreachable))
    }
}

impl<S: Store> FaultyStore<S> {
    /// Wraps the store, without a fault.
    pub fn new(store: S) -> Self {
        Self { store, now: Arc::default() }
    }

    /// Begins this fault with the next step, in place of any other.
    pub fn begin(&self, fault: StoreFault) {
        self.begin_after(0, fault);
    }

    /// Begins this fault after this many more steps. Each step of a batch counts, so its first ones may still succeed.
    pub fn begin_after(&self, spared: usize, fault: StoreFault) {
        self.become_of(Some(fault), spared);
    }

    /// Ends the fault before the next step.
    pub fn end(&self) {
        self.become_of(None, 0);
    }

    /// Returns the number of held answers.
    pub fn held(&self) -> usize {
        self.now().held.len()
    }

    fn become_of(&self, fault: Option<StoreFault>, spared: usize) {
        let mut now = self.now();
        (now.fault, now.spared) = (fault, spared);
        now.held.drain(..).for_each(Waker::wake);
    }

    /// Returns how many of the steps that begin now still succeed, and the fault of the others.
    fn next_faults(&self, steps: usize) -> (usize, Option<StoreFault>) {
        let mut now = self.now();
        let spared = now.spared.min(steps);
        now.spared -= spared;
        (spared, now.fault.clone())
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another fault begins, or the fault ends.
    async fn hold(&self) {
        poll_fn(|context| {
            let mut now = self.now();
            if !matches!(now.fault, Some(StoreFault::HoldsAnswers)) {
                return Poll::Ready(());
            }
            now.held.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn take<A>(
        &self,
        fault: Option<&StoreFault>,
        step: impl Future<Output = Result<A, StoreError>>,
    ) -> Result<A, StoreError> {
        match fault {
            Some(StoreFault::Fails(error)) => Err(error.clone()),
            Some(StoreFault::Hangs) => pending().await,
            Some(StoreFault::HoldsAnswers) => {
                let answer = step.await;
                self.hold().await;
                answer
            }
            Some(StoreFault::LosesAnswers) => step.await.and(Err(AnswerError::Late.into())),
            Some(
                StoreFault::ForgetsQuotas
                | StoreFault::AnswersForAnotherLimit
                | StoreFault::ForgetsEnds
                | StoreFault::AdmitsPastTheLimit,
            )
            | None => step.await,
        }
    }

    fn twisted_step<'a>(fault: Option<&StoreFault>, step: Step<'a>) -> Step<'a> {
        match (fault, step) {
            (Some(StoreFault::ForgetsEnds), Step::ChargeBefore { charges, .. }) => Step::Charge(charges),
            _ => step,
        }
    }

    fn twisted_hold_step<'a>(fault: Option<&StoreFault>, step: HoldStep<'a>) -> HoldStep<'a> {
        match (fault, step) {
            (Some(StoreFault::ForgetsEnds), HoldStep::Reserve(terms)) => {
                let (in_flight, charges) = (terms.in_flight(), terms.charges());
                HoldStep::Reserve(HoldTerms::new(terms.id(), in_flight, charges, terms.length()))
            }
            _ => step,
        }
    }

    fn twisted(fault: Option<&StoreFault>, counted: QuotaStates) -> QuotaStates {
        let all = counted.len();
        let as_if = |state: &QuotaState, limit: u64, used: u64| {
            let quota = Quota::per_day(0).with_limit(limit).expect("a limit that is near another");
            let window = state.window().expect("a quota of fixed windows");
            QuotaState::of(&quota, &Standing::in_window(used, window), state.now(), None, 0)
        };
        match fault {
            Some(StoreFault::ForgetsQuotas) => counted.iter().take(all - 1).copied().collect(),
            Some(StoreFault::AnswersForAnotherLimit) => {
                counted.iter().map(|state| as_if(state, state.limit() + 1, 0)).collect()
            }
            Some(StoreFault::AdmitsPastTheLimit) => {
                counted.iter().map(|state| as_if(state, state.limit(), state.limit() + 1)).collect()
            }
            _ => counted,
        }
    }

    fn twisted_hold(fault: Option<&StoreFault>, states: HoldStates) -> HoldStates {
        let in_flight = states.in_flight();
        let as_if = |limit: u32, live: u32| {
            let limit = InFlight::new(limit).expect("a limit that is near another");
            InFlightState::decide(limit, 0, 0).taken(live)
        };
        let twisted = match fault {
            Some(StoreFault::ForgetsQuotas) => {
                let left = in_flight.len().saturating_sub(1);
                in_flight.iter().take(left).copied().collect()
            }
            Some(StoreFault::AnswersForAnotherLimit) => {
                in_flight.iter().map(|state| as_if(state.limit() + 1, state.units())).collect()
            }
            Some(StoreFault::AdmitsPastTheLimit) => {
                in_flight.iter().map(|state| as_if(state.limit(), state.limit() + 1)).collect()
            }
            _ => return states,
        };
        let charged = states.charged().clone();
        let charged = if charged.is_empty() { charged } else { Self::twisted(fault, charged) };
        HoldStates::new(twisted, charged)
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        Answer::Later(async move {
            // Checked only once the step will be taken: a store in memory takes it at once.
            let fault = match self.next_faults(1) {
                (0, fault) => fault,
                _ => None,
            };
            let step = Self::twisted_step(fault.as_ref(), step);
            let counted =
                self.take(fault.as_ref(), async { self.store.step_until(step, deadline).await }).await?;
            Ok(match step {
                Step::Charge(_) | Step::ChargeBefore { .. } | Step::Peek(_) => {
                    Self::twisted(fault.as_ref(), counted)
                }
                _ => counted,
            })
        })
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        Answer::Later(async move {
            let (spared, fault) = self.next_faults(steps.len());
            let (spared, steps) = steps.split_at(spared);
            let mut all = if spared.is_empty() {
                Vec::new()
            } else {
                self.store.step_each_until(spared, deadline).await
            };
            if steps.is_empty() {
                return all;
            }
            let steps: Vec<Step<'_>> =
                steps.iter().map(|step| Self::twisted_step(fault.as_ref(), *step)).collect();
            let answers = self
                .take(fault.as_ref(), async { Ok(self.store.step_each_until(&steps, deadline).await) })
                .await;
            let mut answers = answers.unwrap_or_else(|error| vec![Err(error); steps.len()]);
            if let Some(StoreFault::ForgetsQuotas) = fault {
                answers.pop();
            }
            let twisted = |answer: Result<QuotaStates, StoreError>| {
                answer.map(|counted| Self::twisted(fault.as_ref(), counted))
            };
            all.extend(answers.into_iter().map(twisted));
            all
        })
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        Answer::Later(async move {
            let fault = match self.next_faults(1) {
                (0, fault) => fault,
                _ => None,
            };
            let step = Self::twisted_hold_step(fault.as_ref(), step);
            let answer =
                self.take(fault.as_ref(), async { self.store.hold_until(step, deadline).await }).await?;
            Ok(match answer {
                HoldAnswer::Decided(states) => {
                    HoldAnswer::Decided(Self::twisted_hold(fault.as_ref(), states))
                }
                other => other,
            })
        })
    }
}
