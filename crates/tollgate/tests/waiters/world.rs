//! Tasks, a clock and a timer that only move on command.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::{
    Answer, Clock, Decision, HoldAnswer, HoldStep, ManualClock, MemoryStore, Quota, QuotaStates,
    SharedLimiter, Step, StepDeadline, Store, StoreError, Timestamp, WaitError,
};
use tollgate_testkit::FaultyStore;

/// A store that counts its charges and peeks.
#[derive(Clone)]
pub(crate) struct Tallied<S> {
    pub(crate) store: S,
    charges: Arc<AtomicUsize>,
    peeks: Arc<AtomicUsize>,
}

pub(crate) type Memory = MemoryStore<ManualClock>;

impl<S> Tallied<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store, charges: Arc::default(), peeks: Arc::default() }
    }

    /// Returns the charges and peeks since the last call.
    pub(crate) fn asked(&self) -> (usize, usize) {
        (self.charges.swap(0, Ordering::Relaxed), self.peeks.swap(0, Ordering::Relaxed))
    }
}

impl<S: Store> Store for Tallied<S> {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        match step {
            Step::Charge(_) => self.charges.fetch_add(1, Ordering::Relaxed),
            Step::Peek(_) => self.peeks.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
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
        self.store.hold_until(step, deadline)
    }
}

/// Creates a limiter over memory that counts its calls, and its clock.
pub(crate) fn limiter(quota: &str) -> (SharedLimiter<Tallied<Memory>>, ManualClock) {
    let clock = ManualClock::default();
    let store = Tallied::new(MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build());
    (SharedLimiter::new(quota.parse::<Quota>().unwrap(), store), clock)
}

/// The same over a store that answers later, and can hold its answers.
pub(crate) fn faulty_limiter(quota: &str) -> (SharedLimiter<Tallied<FaultyStore<Memory>>>, ManualClock) {
    let clock = ManualClock::default();
    let store = FaultyStore::new(MemoryStore::builder().clock(clock.clone()).max_counters(1_000).build());
    (SharedLimiter::new(quota.parse::<Quota>().unwrap(), Tallied::new(store)), clock)
}

/// A timer that follows a manual clock. Clones share it.
#[derive(Clone)]
pub(crate) struct Timer {
    clock: ManualClock,
    sleeps: Arc<Mutex<Sleeps>>,
}

#[derive(Default)]
struct Sleeps {
    lengths: Vec<Duration>,
    sleepers: Vec<(Timestamp, Waker)>,
}

impl Timer {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), sleeps: Arc::default() }
    }

    pub(crate) fn sleep(&self, length: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.sleeps.lock().unwrap().lengths.push(length);
        // The clock has whole milliseconds; the timer is never early.
        let end = self.clock.now() + length + Duration::from_nanos(999_999);
        let timer = self.clone();
        std::future::poll_fn(move |context| {
            if timer.clock.now() >= end {
                return Poll::Ready(());
            }
            timer.sleeps.lock().unwrap().sleepers.push((end, context.waker().clone()));
            Poll::Pending
        })
    }

    /// Returns the sleeps since the last call.
    pub(crate) fn slept(&self) -> Vec<Duration> {
        std::mem::take(&mut self.sleeps.lock().unwrap().lengths)
    }

    /// Returns when the next sleeper wakes.
    fn next(&self) -> Option<Timestamp> {
        self.sleeps.lock().unwrap().sleepers.iter().map(|(end, _)| *end).min()
    }

    fn wake(&self) {
        let now = self.clock.now();
        let is_due = |(end, _): &mut (Timestamp, Waker)| *end <= now;
        let due: Vec<_> = self.sleeps.lock().unwrap().sleepers.extract_if(.., is_due).collect();
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Allowed,
    Denied { retry_after: Option<u64> },
    StoreFailed,
    TooMany,
}

impl From<Result<Decision<'_>, WaitError>> for End {
    fn from(waited: Result<Decision<'_>, WaitError>) -> Self {
        match waited {
            Ok(decision) if decision.is_allowed() => Self::Allowed,
            Ok(decision) => {
                let retry_after = decision.retry_after().map(|wait| wait.as_millis() as u64);
                let receipt = decision.into_receipt();
                let taken: u32 = receipt.items().iter().map(tollgate::ReceiptItem::units).sum();
                assert_eq!(taken, 0, "a denial has something to be given back");
                Self::Denied { retry_after }
            }
            Err(WaitError::TooManyWaiters) => Self::TooMany,
            Err(_) => Self::StoreFailed,
        }
    }
}

/// Tasks that only run on command, in the order in which they were started.
pub(crate) struct World<'w> {
    clock: ManualClock,
    timer: Timer,
    start: Timestamp,
    tasks: Vec<Option<Task<'w>>>,
    /// The tasks that ended: how, and how many milliseconds after the start.
    pub(crate) ended: Vec<(usize, End, u64)>,
}

struct Task<'w> {
    future: Pin<Box<dyn Future<Output = End> + Send + 'w>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'w> World<'w> {
    pub(crate) fn new(clock: &ManualClock, timer: &Timer) -> Self {
        let start = clock.now();
        Self { clock: clock.clone(), timer: timer.clone(), start, tasks: Vec::new(), ended: Vec::new() }
    }

    /// Adds a task. The next [`run`](Self::run) polls it for the first time.
    pub(crate) fn add<'d>(
        &mut self,
        wait: impl Future<Output = Result<Decision<'d>, WaitError>> + Send + 'w,
    ) -> usize {
        self.add_task(async { wait.await.into() })
    }

    /// Adds a task that is no wait for a decision.
    pub(crate) fn add_task(&mut self, task: impl Future<Output = End> + Send + 'w) -> usize {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.tasks.push(Some(Task { future: Box::pin(task), woken }));
        self.tasks.len() - 1
    }

    /// Adds such a task and runs.
    pub(crate) fn start_task(&mut self, task: impl Future<Output = End> + Send + 'w) -> usize {
        let task = self.add_task(task);
        self.run();
        task
    }

    /// Adds a task and runs.
    pub(crate) fn start<'d>(
        &mut self,
        wait: impl Future<Output = Result<Decision<'d>, WaitError>> + Send + 'w,
    ) -> usize {
        let task = self.add(wait);
        self.run();
        task
    }

    /// Polls woken tasks until there are none.
    pub(crate) fn run(&mut self) {
        loop {
            let mut polled = false;
            for number in 0..self.tasks.len() {
                polled |= self.poll(number);
            }
            if !polled {
                return;
            }
        }
    }

    /// Polls only this task, if it was woken.
    pub(crate) fn poll(&mut self, number: usize) -> bool {
        let Some(task) = &mut self.tasks[number] else { return false };
        if !task.woken.0.swap(false, Ordering::Relaxed) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&task.woken));
        if let Poll::Ready(end) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.ended.push((number, end, self.clock.now().since(self.start).as_millis() as u64));
            self.tasks[number] = None;
        }
        true
    }

    /// Moves the clock and wakes sleepers, but polls no task.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
        self.timer.wake();
    }

    /// Moves the clock from one sleeper's end to the next, and runs the woken tasks.
    pub(crate) fn advance(&mut self, millis: u64) {
        let end = self.clock.now() + Duration::from_millis(millis);
        while let Some(next) = self.timer.next().filter(|next| *next < end) {
            self.pass(next.since(self.clock.now()).as_millis() as u64);
            self.run();
        }
        self.pass(end.since(self.clock.now()).as_millis() as u64);
        self.run();
    }

    /// Drops a task in its current state.
    pub(crate) fn cancel(&mut self, task: usize) {
        assert!(self.tasks[task].take().is_some(), "task {task} has ended already");
    }

    pub(crate) fn is_woken(&self, task: usize) -> bool {
        self.tasks[task].as_ref().is_some_and(|task| task.woken.0.load(Ordering::Relaxed))
    }

    /// Returns the tasks that ended since the last call: which, how and when.
    pub(crate) fn ends(&mut self) -> Vec<(usize, End, u64)> {
        std::mem::take(&mut self.ended)
    }
}
