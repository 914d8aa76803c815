//! Two processes' stores on the same servers, and many who charge through them while a fault comes and goes.

use std::collections::BTreeSet;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate::{Anchor, Charge, Key, PolicyQuota, Quota, QuotaState, QuotaStates};
use tollgate_redis::RedisError;
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Data, Server};

use crate::diary::{Diary, Kind};
use crate::expiry;
use crate::fault::{DEADLINE, Found, Round};

/// Units of a narrow quota, and how often each key is asked for one: often enough to be denied.
const NARROW: u64 = 50;
const ASKS: u64 = 200;

/// Callers of each store.
const CALLERS: usize = 6;

/// Charges in a row that have to succeed before everything counts as served again, spread over so many keys that on
/// a cluster all servers have some.
const PROBES: u64 = 24;

/// For how long they have to be in a row. Who is hasty on a machine that is busy enough is never served so often at a
/// stretch; a proof sees by then that it took too long.
const AT_A_STRETCH: Duration = Duration::from_secs(3);

/// What callers share.
struct Shared {
    quotas: Quotas,
    data: Data,
    /// Of the hasty store.
    deadline: Duration,
    is_in_trouble: AtomicBool,
    is_over: AtomicBool,
    /// How often a narrow quota was asked.
    asked: AtomicU64,
    told: ReportedErrors,
}

/// Every error that somebody was told.
#[derive(Debug, Default, Clone)]
pub(crate) struct ReportedErrors(Arc<Mutex<BTreeSet<String>>>);

/// For how long a fault lasts that nobody notices.
const UNNOTICED: Duration = Duration::from_secs(60);

struct Quotas {
    lone: [PolicyQuota; 1],
    twins: [PolicyQuota; 3],
    narrow: [PolicyQuota; 3],
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// No test crosses the end of one of these.
const DECADE: Duration = Duration::from_secs(3653 * 24 * 3600);

/// Who charges through one store of each kind: a hasty one, and one that waits as long as it takes.
pub(crate) struct Crowd {
    hasty: RedisStore,
    patient: RedisStore,
    shared: Arc<Shared>,
    hurried: Vec<JoinHandle<Diary>>,
    waiting: Vec<JoinHandle<Diary>>,
    probed: Diary,
    faults: u64,
}

/// What callers have to notice of a fault.
pub(crate) enum Noticed<'a> {
    /// Who has time notices nothing.
    Never,
    Perhaps,
    /// At least once, or it did not happen.
    As(&'a RedisError),
}

impl ReportedErrors {
    fn note(&self, error: &RedisError) {
        let mut told = self.0.lock().unwrap();
        told.insert(format!("{error:?}"));
        // After late replies, a call that has none in time is called too slow.
        if *error == RedisError::TooSlow {
            told.insert(format!("{:?}", RedisError::TimedOut));
        }
    }

    pub(crate) fn has(&self, error: &RedisError) -> bool {
        self.0.lock().unwrap().contains(&format!("{error:?}"))
    }

    /// Comes back once somebody has been told, so that a fault is not lifted before anybody has come to notice it.
    pub(crate) fn wait_for(&self, error: &RedisError) {
        let start = Instant::now();
        while !self.has(error) && start.elapsed() < UNNOTICED {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

pub(crate) fn builder(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url.parse().unwrap())
}

/// How long a step of a patient store may take.
pub(crate) const PATIENT_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn patient(url: &str) -> RedisStoreBuilder {
    builder(url).deadline(PATIENT_DEADLINE).connect_timeout(PATIENT_DEADLINE)
}

pub(crate) fn build(builder: RedisStoreBuilder) -> RedisStore {
    block_on(async { builder.build() }).unwrap()
}

/// Runs the future on the runtime that the stores use.
pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    block_on(async { Handle::current() }).spawn(future)
}

impl Crowd {
    /// Starts to charge. `data` says what the fault leaves of the servers' data.
    pub(crate) fn start(url: &str, data: Data) -> Self {
        Self::start_as(url, data, |builder| builder)
    }

    /// As [`start`](Self::start), with a hasty store of this deadline.
    pub(crate) fn start_with(url: &str, data: Data, deadline: Duration) -> Self {
        Self::of(url, data, deadline, |builder| builder)
    }

    /// As [`start`](Self::start), with stores that have been told this besides.
    pub(crate) fn start_as(
        url: &str,
        data: Data,
        tell: impl Fn(RedisStoreBuilder) -> RedisStoreBuilder,
    ) -> Self {
        Self::of(url, data, DEADLINE, tell)
    }

    fn of(
        url: &str,
        data: Data,
        deadline: Duration,
        tell: impl Fn(RedisStoreBuilder) -> RedisStoreBuilder,
    ) -> Self {
        let quotas = Quotas::new();
        let shared = Arc::new(Shared {
            quotas,
            data,
            deadline,
            is_in_trouble: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            told: ReportedErrors::default(),
        });
        let hasty = build(tell(builder(url).deadline(deadline)));
        let patient = build(tell(patient(url)));
        let start = |store: &RedisStore, numbers: Range<usize>| {
            numbers.map(|number| spawn(call(shared.clone(), store.clone(), number))).collect()
        };
        let mut crowd = Self {
            hurried: start(&hasty, 0..CALLERS),
            waiting: start(&patient, CALLERS..2 * CALLERS),
            hasty,
            patient,
            shared,
            probed: Diary::default(),
            faults: 0,
        };
        crowd.recover(&mut Found::default());
        crowd
    }

    /// What its callers have been told.
    pub(crate) fn told(&self) -> ReportedErrors {
        self.shared.told.clone()
    }

    /// Brings the fault about and lifts it, and waits until everything is served again.
    pub(crate) fn in_trouble(&mut self, round: &mut Round, fault: impl FnOnce(&mut Round)) {
        self.shared.is_in_trouble.store(true, Relaxed);
        fault(round);
        self.shared.is_in_trouble.store(false, Relaxed);
        round.found.faults += 1;
        self.faults += 1;
        self.recover(&mut round.found);
        // Some peace between two faults.
        thread::sleep(round.millis(0..50));
    }

    fn recover(&mut self, found: &mut Found) {
        let start = Instant::now();
        for store in [&self.hasty, &self.patient] {
            let mut served_since = None;
            let mut served = 0;
            while served < PROBES {
                let key = format!("probe-{served}");
                let asked = start.elapsed();
                let answer = block_on(self.shared.quotas.charge(store, Kind::Lone, &key));
                if self.probed.note(Kind::Lone, &key, answer).is_some() {
                    served_since.get_or_insert(asked);
                    served += 1;
                } else {
                    served_since = None;
                    if start.elapsed() < AT_A_STRETCH {
                        served = 0;
                    }
                    let errors = &self.probed.errors;
                    assert!(
                        start.elapsed() < Duration::from_secs(120),
                        "not served for 2 minutes: {errors:?}"
                    );
                    thread::sleep(Duration::from_millis(1));
                }
            }
            found.recoveries.extend(served_since);
        }
    }

    /// Ends it, and holds what was counted against what callers were told. The servers are those that count now.
    pub(crate) fn end(mut self, round: &mut Round, noticed: &Noticed<'_>, servers: &[&Server]) {
        self.shared.is_over.store(true, Relaxed);
        let told = self.told();
        let mut hurried = joined(mem::take(&mut self.hurried));
        let waiting = joined(mem::take(&mut self.waiting));
        let found = &mut round.found;
        found.took.append(&mut hurried.took);
        match noticed {
            Noticed::Never => {
                found.expect(waiting.errors.is_empty(), || format!("seen: {:?}", waiting.errors))
            }
            Noticed::Perhaps => {}
            Noticed::As(error) => {
                found.expect(told.has(error), || format!("nobody was told {error:?}: {told:?}"))
            }
        }
        let mut all = mem::take(&mut self.probed);
        all.add(hurried);
        all.add(waiting);
        found.violations.append(&mut all.violations);
        for error in all.errors.keys().filter(|error| !is_expected(error, noticed)) {
            found.violations.push(format!("an error that is not what happened: {error} (G6)"));
        }
        // Before anybody looks at a counter, which would repair it.
        let windows = [("lone", DAY), ("twins", DECADE), ("narrow", DECADE)];
        for server in servers {
            expiry::check(server, &windows, found);
        }
        let losses = if self.shared.data == Data::Lost { self.faults } else { 0 };
        for ((kind, key), tally) in all.tallies {
            let quotas = &self.shared.quotas;
            let used = quotas.used(&self.patient, kind, &key);
            let is_equal = used.iter().all(|each| *each == used[0]);
            found.expect(is_equal, || format!("{kind:?} {key}: not charged alike: {used:?}"));
            let limit = quotas.of(kind).iter().map(|quota| quota.quota().capacity()).min().unwrap();
            tally.check(&format!("{kind:?} {key}"), used[0], limit, losses, found);
        }
    }
}

/// A round that panics leaves nobody behind who goes on.
impl Drop for Crowd {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
    }
}

impl Quotas {
    fn new() -> Self {
        let quota = |policy, limit, window, anchor| {
            let quota = Quota::new(limit, window).unwrap().with_anchor(anchor).unwrap();
            PolicyQuota::new(policy, quota)
        };
        let unending = |policy| quota(policy, Quota::MAX_LIMIT, DAY, Anchor::FirstHit);
        let written = |policy, text: &str| PolicyQuota::new(policy, text.parse().unwrap());
        Self {
            lone: [unending("lone")],
            // No unit of the bucket is back before half an hour has passed, and none of the log for years.
            twins: [
                unending("twins"),
                quota("twins", Quota::MAX_LIMIT, DECADE, Anchor::Epoch),
                written("twins", "1/30m~burst:175000"),
            ],
            narrow: [
                unending("narrow"),
                quota("narrow", NARROW, DECADE, Anchor::Epoch),
                written("narrow", &format!("{NARROW}/3652d~log")),
            ],
        }
    }

    fn of(&self, kind: Kind) -> &[PolicyQuota] {
        match kind {
            Kind::Lone => &self.lone,
            Kind::Twins => &self.twins,
            Kind::Narrow => &self.narrow,
        }
    }

    async fn charge(&self, store: &RedisStore, kind: Kind, key: &str) -> Result<QuotaStates, RedisError> {
        let key = Key::from(key);
        let charges: Vec<_> = self.of(kind).iter().map(|quota| Charge::new(quota, &key, 1)).collect();
        store.charge(&charges).await.map_err(trouble)
    }

    /// Units used under each. A look that failed charged nothing, so it may be repeated.
    fn used(&self, store: &RedisStore, kind: Kind, key: &str) -> Vec<u64> {
        let (key, start) = (Key::from(key), Instant::now());
        let charges: Vec<_> = self.of(kind).iter().map(|quota| Charge::new(quota, &key, 0)).collect();
        loop {
            match block_on(store.peek(&charges)) {
                Ok(counted) => return counted.iter().map(QuotaState::used).collect(),
                Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "no look: {error}"),
            }
        }
    }
}

/// What a server is in trouble with.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(crate) fn trouble(error: tollgate::StoreError) -> RedisError {
    *RedisError::of(&error).unwrap_or_else(|| panic!("no trouble of a server: {error}"))
}

/// One caller: a key of its own, by turns with keys that all ask for.
async fn call(shared: Arc<Shared>, store: RedisStore, number: usize) -> Diary {
    let mut diary = Diary::default();
    let (own, kind) = (number.to_string(), [Kind::Lone, Kind::Twins][number % 2]);
    let mut last = 0;
    while !shared.is_over.load(Relaxed) {
        let answer = timed(&shared, &mut diary, shared.quotas.charge(&store, kind, &own)).await;
        if let Some(used) = diary.note(kind, &own, answer) {
            // Nobody else charges this key, one after another: the reply to another question would show.
            let tally = diary.tallies[&(kind, own.clone())];
            let least = if shared.data == Data::Kept { last + 1 } else { 1 };
            if !(least..=tally.most()).contains(&used) || tally.denied > 0 {
                let what = format!("{used} after {last}, {tally:?}: counted twice, or another's reply (G7)");
                diary.violations.push(what);
            }
            last = used;
        }
        let key = (shared.asked.fetch_add(1, Relaxed) / ASKS).to_string();
        let answer = timed(&shared, &mut diary, shared.quotas.charge(&store, Kind::Narrow, &key)).await;
        diary.note(Kind::Narrow, &key, answer);
        // A store that is down answers at once, and would be asked a million times.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    diary
}

/// Awaits the answer, and notes how long that took if there was trouble meanwhile.
async fn timed(
    shared: &Shared,
    diary: &mut Diary,
    asked: impl Future<Output = Result<QuotaStates, RedisError>>,
) -> Result<QuotaStates, RedisError> {
    let was_in_trouble = shared.is_in_trouble.load(Relaxed);
    let start = Instant::now();
    let answer = asked.await;
    let took = start.elapsed();
    if let Err(error) = &answer {
        shared.told.note(error);
    }
    let is_refusal = answer.as_ref().is_err_and(|error| !error.may_have_charged());
    let asked_nobody = is_refusal && took < Duration::from_millis(1);
    if (was_in_trouble || shared.is_in_trouble.load(Relaxed)) && !asked_nobody {
        // As if it had the deadline of the other faults, by which all are judged.
        diary.took.push(took.saturating_sub(shared.deadline - DEADLINE));
    }
    answer
}

fn joined(callers: Vec<JoinHandle<Diary>>) -> Diary {
    let mut all = Diary::default();
    for caller in callers {
        match block_on(caller) {
            Ok(diary) => all.add(diary),
            Err(panic) => all.violations.push(format!("a caller panicked: {panic} (G6)")),
        }
    }
    all
}

/// What callers may be told in any trouble.
pub(crate) const USUAL: [RedisError; 5] = [
    RedisError::Unreachable,
    RedisError::NotReady,
    RedisError::Overloaded,
    RedisError::TimedOut,
    RedisError::TooSlow,
];

/// Whether callers may be told this in any trouble, or it is what this trouble is.
fn is_expected(error: &str, noticed: &Noticed<'_>) -> bool {
    USUAL.iter().any(|known| error == format!("{known:?}"))
        || matches!(noticed, Noticed::As(known) if error == format!("{known:?}"))
}
