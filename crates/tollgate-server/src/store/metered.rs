//! A shared store with a deadline and metrics: it measures how long steps take and counts their errors. It logs when
//! the store fails and when it recovers.

use std::pin::Pin;
use std::pin::pin;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::coop::unconstrained;
use tokio::time;
use tollgate::{
    Answer, AnswerError, Charge, Counter, HoldAnswer, HoldStep, Key, PolicyInFlight, QuotaState, QuotaStates,
    Source, Step, StepDeadline, Store, StoreError,
};
use tollgate_redis::{Advice, KeyIdentity, RedisError, RedisStore, ServerStatus};
use tracing::{info, warn};

use super::OutageLog;
use super::advice::with_flags;
use super::store_time::{GRACE, StepTime, StoreTime};
use crate::metrics::StoreMetrics;
use crate::observe::log_gap::LogGap;
use crate::observe::public_url::PublicUrl;
use crate::observe::stopwatch::Stopwatch;
use crate::observe::with_sources::WithSources;

/// The pause in the log after a line about a key, or about a request that does not fit.
const LOG_GAP: Duration = Duration::from_secs(10);

/// The maximum delay of the start by a failing store, whatever the timeouts of its connections.
const LONGEST_WARM_UP: Duration = Duration::from_secs(2);

/// The interval at which the service retries a store that failed at the start.
const LOOKS_AGAIN: Duration = Duration::from_secs(1);

/// See the [module](self).
pub(crate) struct MeteredStore<S> {
    store: S,
    time: StoreTime,
    metrics: Arc<StoreMetrics>,
    outages: Arc<OutageLog>,
    /// The form of keys in log lines.
    identity: KeyIdentity,
    key_logged: LogGap,
    request_logged: LogGap,
    late_logged: LogGap,
    little_time_logged: LogGap,
    /// Whether the log says of the outage that there is now that the store answers too late.
    is_told_late: AtomicBool,
}

impl<S: Store> MeteredStore<S> {
    /// Expects the store to keep this deadline itself. Decisions end even if it does not.
    pub(crate) fn new(
        store: S,
        timeout: Duration,
        identity: KeyIdentity,
        metrics: Arc<StoreMetrics>,
    ) -> Self {
        Self {
            store,
            time: StoreTime::new(timeout),
            metrics,
            outages: Arc::default(),
            identity,
            key_logged: LogGap::default(),
            request_logged: LogGap::default(),
            late_logged: LogGap::default(),
            little_time_logged: LogGap::default(),
            is_told_late: AtomicBool::new(false),
        }
    }

    /// Lets log lines about outages lead to the live page.
    pub(crate) fn linked_to(self, page: Option<PublicUrl>) -> Self {
        Self { outages: Arc::new(OutageLog::linked_to(page.as_ref())), ..self }
    }

    pub(super) const fn inner(&self) -> &S {
        &self.store
    }

    /// Returns the deadline that all steps of a call share, which began then and whose caller waits until this time at
    /// most.
    pub(super) fn deadline(&self, begun: Stopwatch, caller_until: Option<Instant>) -> Option<StepDeadline> {
        self.time.deadline(begun, caller_until)
    }

    /// Returns the outages, for the log.
    pub(crate) fn outages(&self) -> Arc<OutageLog> {
        Arc::clone(&self.outages)
    }

    /// Runs the step within this time. It is here and not in a layer above, which would drop the step before it is
    /// measured.
    ///
    /// The whole deadline is applied twice, because a process that stood still may have received its answer without
    /// taking it. The store then extends its own deadline once, by up to the same time from when the process runs
    /// again; the second limit matches that. A caller that waits for less than the deadline has left by that time.
    async fn in_time<A>(
        &self,
        mut step: Pin<&mut impl Future<Output = A>>,
        step_time: StepTime,
    ) -> Result<A, StoreError> {
        match step_time {
            StepTime::Whole => {
                for _ in 0..2 {
                    if let Ok(answer) = time::timeout(self.time.limit, step.as_mut()).await {
                        return Ok(answer);
                    }
                }
                Err(AnswerError::Late.into())
            }
            StepTime::AtMost(left) | StepTime::Rest(left) => {
                // A Redis store keeps the deadline of the step itself, and returns the answers that it has. The timeout
                // is for other stores. An unconstrained step takes all answers that are there before the timeout is
                // checked.
                time::timeout(left + GRACE, unconstrained(step)).await.map_err(|_| AnswerError::Late.into())
            }
            // It has not begun, so nothing was charged.
            StepTime::TooLittle => Err(StoreError::trouble(AnswerError::Late)),
        }
    }

    /// Records the answers of one step, or of several in one call.
    fn note(
        &self,
        steps: &[Step<'_>],
        answers: &[Result<QuotaStates, StoreError>],
        stopwatch: Stopwatch,
        step_time: StepTime,
    ) {
        // Denials from this process's memory did not ask the store, and tell nothing about it.
        let mut from_store = answers.iter().zip(steps).filter(|(answer, _)| !is_local(answer)).peekable();
        if from_store.peek().is_none() {
            return;
        }
        self.note_time(stopwatch, step_time);
        for (answer, step) in from_store {
            self.note_result(answer.as_ref().err(), step_time, || self.counters(step));
        }
    }

    /// Records the answer of a step on a hold.
    fn note_hold(
        &self,
        step: &HoldStep<'_>,
        answer: &Result<HoldAnswer, StoreError>,
        stopwatch: Stopwatch,
        step_time: StepTime,
    ) {
        self.note_time(stopwatch, step_time);
        self.note_result(answer.as_ref().err(), step_time, || self.counters_of_hold(step));
    }

    fn note_time(&self, stopwatch: Stopwatch, step_time: StepTime) {
        if step_time != StepTime::TooLittle {
            self.metrics.took(stopwatch.elapsed());
        }
    }

    /// Records whether a step was executed; `counters` names its counters for the log.
    fn note_result(
        &self,
        error: Option<&StoreError>,
        step_time: StepTime,
        counters: impl FnOnce() -> String,
    ) {
        let had_little_time = matches!(step_time, StepTime::Rest(_) | StepTime::TooLittle);
        match error {
            // The store has answered that the step came too late.
            None | Some(StoreError::Ended { .. }) => self.note_answer(),
            Some(error) if had_little_time && is_late(error) => self.note_little_time(error),
            Some(error) => self.note_error(error, counters),
        }
    }

    /// Records that a step had too little time, because earlier steps of the same call took some of it.
    fn note_little_time(&self, error: &StoreError) {
        self.metrics.failed(error);
        if self.little_time_logged.passes(LOG_GAP) {
            warn!(
                "earlier steps of a call left too little of `--store-timeout` for trials or a refund: if this goes on, check \
                 how long the store takes to answer"
            );
        }
    }

    /// Names the counters of a step by policy, windows, and digest of the key, like the ends of names in our own
    /// layout.
    fn counters(&self, step: &Step<'_>) -> String {
        let name = |counter: Counter<'_>| self.counter_name(counter);
        let charge_names = |charges: &[Charge<'_>]| charges.iter().map(|it| name(it.counter())).collect();
        let names: Vec<String> = match step {
            Step::Charge(charges) | Step::ChargeBefore { charges, .. } | Step::Peek(charges) => {
                charge_names(charges)
            }
            Step::Record(charge) | Step::Refund { charge, .. } => charge_names(slice::from_ref(charge)),
            Step::Block(charge) => vec![name(charge.charge().counter()), name(charge.block())],
            Step::Reset(counter) | Step::Set { counter, .. } => vec![name(*counter)],
            _ => Vec::new(),
        };
        names.join(", ")
    }

    /// Names the counters of a step on a hold in the same way.
    fn counters_of_hold(&self, step: &HoldStep<'_>) -> String {
        let (in_flight, charges) = match step {
            HoldStep::Reset(charge) => (slice::from_ref(charge), [].as_slice()),
            _ => step.terms().map_or((&[][..], &[][..]), |terms| (terms.in_flight(), terms.charges())),
        };
        let in_flight = in_flight.iter().map(|charge| {
            self.series_name(charge.in_flight().policy(), PolicyInFlight::SERIES, charge.key())
        });
        let charges = charges.iter().map(|charge| self.counter_name(charge.counter()));
        in_flight.chain(charges).collect::<Vec<_>>().join(", ")
    }

    fn counter_name(&self, counter: Counter<'_>) -> String {
        self.series_name(counter.quota().policy(), counter.quota().windows(), counter.key())
    }

    fn series_name(&self, policy: &str, series: &str, key: &Key<'_>) -> String {
        format!("{policy}:{series}:{{{}}}", self.identity.digest_of(key))
    }

    fn note_answer(&self) {
        self.metrics.answers(true);
        // Relaxed, here and below: the flag guards no other memory. It rarely changes, and is only read as long as the
        // store works.
        if self.is_told_late.load(Relaxed) {
            self.is_told_late.store(false, Relaxed);
        }
        self.outages.answered();
    }

    fn note_error(&self, error: &StoreError, counters: impl FnOnce() -> String) {
        self.metrics.failed(error);
        let (concern, trouble) = (Concern::of(error), RedisError::of(error));
        let error = WithSources(error);
        match concern {
            Concern::Request => {
                if self.request_logged.passes(LOG_GAP) {
                    warn!(%error, counters = counters(), "a request does not fit the store");
                }
            }
            Concern::Key => {
                if self.key_logged.passes(LOG_GAP) {
                    let counters = counters();
                    if trouble == Some(&RedisError::WrongType) {
                        warn!(
                            %error, counters,
                            "a counter was overwritten; until it is repaired, its requests are decided without the \
                             store. To repair it, send `POST /v1/reset` with their attributes, or delete the key. \
                             The counter is identified by policy, windows and a digest of the key"
                        );
                    } else {
                        warn!(%error, counters, "the store cannot count a key");
                    }
                }
            }
            Concern::Store => self.note_outage(&error, trouble.and_then(|trouble| trouble.advice())),
        }
    }

    /// If the store answers but cannot help, the log line has advice with the error. The first call of an outage cannot
    /// tell whether the store is slow or silent. So there is such a line also later, once in an outage.
    fn note_outage(&self, error: &WithSources<'_>, advice: Option<Advice>) {
        self.metrics.answers(false);
        let Some(advice) = advice.as_ref().map(with_flags) else {
            self.outages.failed(|| {
                let unconnected = self.metrics.unconnected();
                let (server, trouble, advice) = log_fields(unconnected.as_ref());
                let view = self.outages.view();
                warn!(
                    %error, server, trouble, advice, view,
                    "the store does not answer: `on_store_failure` of each policy decides; `tollgate doctor` says more"
                );
            });
            return;
        };
        let tell = || {
            let view = self.outages.view();
            warn!(%error, advice, view, "the store does not answer in time: `on_store_failure` of each policy decides");
        };
        let begins = self.outages.failed(tell);
        // Marked as told only once the gap has passed.
        let is_news = !self.is_told_late.load(Relaxed)
            && self.late_logged.passes(LOG_GAP)
            && !self.is_told_late.swap(true, Relaxed);
        if is_news && !begins {
            tell();
        }
    }
}

impl<S: Store> Store for MeteredStore<S> {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        let stopwatch = Stopwatch::start();
        let step_time = self.time.of_step(deadline, stopwatch);
        match self.store.step_until(step, step_time.deadline(stopwatch)) {
            Answer::Now(answer) => {
                self.note(&[step], slice::from_ref(&answer), stopwatch, StepTime::Whole);
                Answer::Now(answer)
            }
            Answer::Later(later) => Answer::Later(async move {
                let mut later = pin!(later);
                let stopwatch = Stopwatch::start();
                let answer = self.in_time(later.as_mut(), step_time).await.unwrap_or_else(Err);
                self.note(&[step], slice::from_ref(&answer), stopwatch, step_time);
                answer
            }),
        }
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        let stopwatch = Stopwatch::start();
        let step_time = self.time.of_step(deadline, stopwatch);
        match self.store.step_each_until(steps, step_time.deadline(stopwatch)) {
            Answer::Now(answers) => {
                self.note(steps, &answers, stopwatch, StepTime::Whole);
                Answer::Now(answers)
            }
            Answer::Later(later) => Answer::Later(async move {
                let mut later = pin!(later);
                let stopwatch = Stopwatch::start();
                let answers = self.in_time(later.as_mut(), step_time).await;
                let answers = answers.unwrap_or_else(|late| vec![Err(late); steps.len()]);
                self.note(steps, &answers, stopwatch, step_time);
                answers
            }),
        }
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        let stopwatch = Stopwatch::start();
        let step_time = self.time.of_step(deadline, stopwatch);
        match self.store.hold_until(step, step_time.deadline(stopwatch)) {
            Answer::Now(answer) => {
                self.note_hold(&step, &answer, stopwatch, StepTime::Whole);
                Answer::Now(answer)
            }
            Answer::Later(later) => Answer::Later(async move {
                let mut later = pin!(later);
                let stopwatch = Stopwatch::start();
                let answer = self.in_time(later.as_mut(), step_time).await.unwrap_or_else(Err);
                self.note_hold(&step, &answer, stopwatch, step_time);
                answer
            }),
        }
    }
}

/// Waits until the store answers on every connection, for as long as connecting may take, so that no check has to wait.
/// If the store does not answer, this is logged, and so is the connection later. Without this, a wrong setting of the
/// store would only show with the first check.
pub(crate) async fn warm_up(store: &RedisStore, connect_timeout: Duration, metrics: Arc<StoreMetrics>) {
    // Two round trips: a Sentinel, or a member of a Cluster, is asked first.
    let Err(error) = store.warm_up((2 * connect_timeout).min(LONGEST_WARM_UP)).await else { return };
    let Some(unconnected) = metrics.unconnected() else {
        let error = WithSources(&error);
        warn!(%error, "the store does not answer yet: until it does, `on_store_failure` of each policy decides");
        return;
    };
    let (server, trouble, advice) = log_fields(Some(&unconnected));
    warn!(
        server,
        trouble,
        advice,
        "no connection to the store yet: until there is one, `on_store_failure` of each policy decides"
    );
    tokio::spawn(async move {
        while metrics.unconnected().is_some() {
            time::sleep(LOOKS_AGAIN).await;
        }
        info!("connected to the store");
    });
}

/// Returns the fields of a log line about a server without a connection: its name, the reason, and the remedy.
fn log_fields(server: Option<&ServerStatus>) -> (Option<&str>, Option<&str>, Option<String>) {
    (
        server.map(ServerStatus::name),
        server.and_then(ServerStatus::trouble),
        server.and_then(ServerStatus::advice).map(with_flags),
    )
}

fn is_local(answer: &Result<QuotaStates, StoreError>) -> bool {
    let states = answer.iter().flat_map(|counted| counted.iter());
    states.map(QuotaState::source).any(|source| source == Source::Local)
}

/// Whether the store took too long.
fn is_late(error: &StoreError) -> bool {
    let redis_error = RedisError::of(error);
    error.trouble_of() == Some(&AnswerError::Late)
        || redis_error.is_some_and(|error| matches!(error, RedisError::TimedOut | RedisError::TooSlow))
}

/// The scope of an error.
enum Concern {
    /// Only the request, whatever the state of the store.
    Request,
    /// The requested key; the store counts others.
    Key,
    /// The store.
    Store,
}

impl Concern {
    fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Uncountable(_) => Self::Request,
            error if error.is_outage() => Self::Store,
            _ => Self::Key,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use tollgate::{Key, MemoryStore, PolicyQuota};
    use tollgate_redis::RedisStore;
    use tollgate_testkit::{FaultyStore, StoreFault, StoreSteps, block_on};

    use super::*;

    const ROUNDS: usize = 20_000;

    fn metered<S: Store>(store: S) -> MeteredStore<S> {
        let nobody =
            block_on(async { RedisStore::builder("unix:/nowhere".parse().unwrap()).build() }).unwrap();
        let metrics = Arc::new(StoreMetrics::new(move || nobody.status()));
        MeteredStore::new(store, Duration::from_millis(20), KeyIdentity::default(), metrics)
    }

    /// The process stood still for 300 ms while 200 requests were in flight. All replies had arrived, but none was
    /// used, because this limit counted the standstill.
    #[test]
    fn a_step_is_not_late_because_the_process_stood_still() {
        let metered = metered(MemoryStore::new());
        let step = async {
            // Real time: the thread stands still, and the time is over before the answer is taken.
            thread::sleep(3 * metered.time.limit);
            // Real time: the answer comes late.
            time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(block_on(async { metered.in_time(pin!(step), StepTime::Whole).await.ok() }), Some(()));
    }

    /// A success between the two halves of a recorded failure left the store down in the metrics until its next
    /// failure.
    #[test]
    fn a_store_that_answered_last_is_up() {
        let (metered, round) = (metered(MemoryStore::new()), AtomicUsize::new(0));
        // Spinning lets both begin a round as nearly together as possible.
        let begin = |next| while round.load(Ordering::SeqCst) < next {};
        let mut left_down = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                for next in (1..ROUNDS).step_by(2) {
                    begin(next);
                    metered.note_error(&AnswerError::Late.into(), String::new);
                    round.fetch_add(1, Ordering::SeqCst);
                }
            });
            for _ in (1..ROUNDS).step_by(2) {
                let this = round.fetch_add(1, Ordering::SeqCst) + 1;
                while round.load(Ordering::SeqCst) == this {
                    metered.note_answer();
                }
                metered.note_answer();
                left_down += usize::from(!metered.metrics.is_up());
            }
        });
        assert_eq!(left_down, 0);
    }

    /// Each step of a call had a deadline of its own, so a check with trials could take two of them.
    #[test]
    fn the_steps_of_a_call_share_one_deadline() {
        let store = FaultyStore::new(MemoryStore::new());
        // So long that a machine which stands still for a moment changes nothing.
        let metered = MeteredStore { time: StoreTime::new(Duration::from_millis(400)), ..metered(&store) };
        let (quota, key) = (PolicyQuota::new("test", "5/1h".parse().unwrap()), Key::from("alice"));
        let charges = [Charge::new(&quota, &key, 1)];
        // What the second step of a call comes to after the first took so much of the deadline, and whether the store
        // is up then.
        let second_after = |part: u32, fault: Option<StoreFault>| {
            block_on(async {
                store.end();
                let deadline = metered.deadline(Stopwatch::start(), None);
                let first = metered.step_until(Step::Charge(&charges), deadline).await;
                assert!(first.is_ok(), "the first step has a whole deadline");
                // Real time: the first step takes a part of the deadline.
                thread::sleep(metered.time.limit * part / 100);
                fault.into_iter().for_each(|fault| store.begin(fault));
                let deadline = deadline.map(StepDeadline::after_a_step);
                let second = metered.step_until(Step::Charge(&charges), deadline).await;
                (second.map(|_| ()), metered.metrics.is_up())
            })
        };
        assert_eq!(second_after(10, None).0.ok(), Some(()));
        let (short, is_up) = second_after(60, Some(StoreFault::Hangs));
        assert!(short.unwrap_err().may_have_charged() && is_up, "the store need not be the reason");
        let (unbegun, is_up) = second_after(100, None);
        let unbegun = unbegun.unwrap_err();
        assert_eq!(unbegun.trouble_of(), Some(&AnswerError::Late));
        assert!(!unbegun.may_have_charged() && is_up);
        let counted = block_on(metered.peek(&charges)).unwrap();
        assert_eq!(counted[0].used(), 4, "three first steps, and a second one");
    }

    /// The deadline was above the measurement, so a step that exceeded it was dropped and never measured.
    #[test]
    fn a_store_that_does_not_keep_its_deadline_is_noted() {
        let store = FaultyStore::new(MemoryStore::new());
        store.begin(StoreFault::Hangs);
        let metered = metered(store);
        let (quota, key) = (PolicyQuota::new("test", "5/1h".parse().unwrap()), Key::from("alice"));
        let counted = block_on(metered.charge(&[Charge::new(&quota, &key, 1)]));
        assert_eq!(counted.unwrap_err().trouble_of(), Some(&AnswerError::Late));
        assert!(!metered.metrics.is_up());
    }
}
