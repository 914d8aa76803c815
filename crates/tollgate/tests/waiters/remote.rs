//! A store with holds as if it were behind a network: it answers later, and can fail.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use tollgate::{
    Answer, AnswerError, HoldAnswer, HoldStep, ManualClock, MemoryStore, QuotaStates, Step, StepDeadline,
    Store, StoreError,
};

/// A store behind a network. Clones share it.
#[derive(Clone)]
pub(crate) struct RemoteStore {
    pub(crate) store: MemoryStore<ManualClock>,
    network: Arc<Mutex<Network>>,
}

#[derive(Default)]
struct Network {
    trouble: Trouble,
    /// The steps on holds since the last look.
    steps: Vec<&'static str>,
    /// How many calls wait for an answer, and the most that did so together.
    open: [usize; 2],
    delayed: Vec<Waker>,
}

/// What becomes of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trouble {
    #[default]
    None,
    /// It never arrives, and fails.
    Fails,
    /// It is executed, and its answer is lost.
    LosesAnswers,
    /// It is executed, and its answer never comes.
    Hangs,
    /// It is executed, and its answer comes when the trouble changes.
    Delays,
}

impl RemoteStore {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(10_000).build();
        Self { store, network: Arc::default() }
    }

    pub(crate) fn trouble(&self, trouble: Trouble) {
        let mut network = self.network.lock().unwrap();
        network.trouble = trouble;
        network.delayed.drain(..).for_each(Waker::wake);
    }

    /// Returns the steps on holds since the last call.
    pub(crate) fn steps(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.network.lock().unwrap().steps)
    }

    /// Returns the most calls that were open together since the last call.
    pub(crate) fn most_open(&self) -> usize {
        std::mem::take(&mut self.network.lock().unwrap().open[1])
    }

    async fn delay(&self) {
        poll_fn(|context| {
            let mut network = self.network.lock().unwrap();
            if network.trouble != Trouble::Delays {
                return Poll::Ready(());
            }
            network.delayed.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn sent(&self, step: HoldStep<'_>) -> Trouble {
        let mut network = self.network.lock().unwrap();
        network.steps.push(match step {
            HoldStep::Reserve(_) => "reserve",
            HoldStep::Look(_) => "look",
            HoldStep::Renew(_) => "renew",
            HoldStep::Settle(..) => "settle",
            _ => "reset",
        });
        network.open[0] += 1;
        network.open[1] = network.open[1].max(network.open[0]);
        network.trouble
    }
}

impl Store for RemoteStore {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        self.store.step_until(step, deadline)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        self.store.step_each_until(steps, deadline)
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        Answer::Later(async move {
            let trouble = self.sent(step);
            // A round trip: the next poll.
            let mut is_there = false;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut is_there, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            let answer = match trouble {
                Trouble::Fails => Err(StoreError::trouble(AnswerError::Late)),
                _ => self.store.hold_until(step, deadline).await,
            };
            match trouble {
                Trouble::Hangs => pending::<()>().await,
                Trouble::Delays => self.delay().await,
                _ => {}
            }
            self.network.lock().unwrap().open[0] -= 1;
            if trouble == Trouble::LosesAnswers { Err(AnswerError::Late.into()) } else { answer }
        })
    }
}
