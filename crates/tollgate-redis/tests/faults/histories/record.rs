//! Clients that charge one counter and write down what they were told.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use tollgate::{Charge, Counter, Key, Mark, PolicyQuota, QuotaState, StoreError, Timestamp};
use tollgate_redis::RedisStore;
use tollgate_testkit::StoreSteps;

use super::history::{History, Operation};
use super::model::{Answer, Terms, What};
use crate::crowd::{USUAL, build, builder, trouble};
use crate::fault::DEADLINE;

/// Clients of a history, each with as many operations.
const CLIENTS: usize = 8;
const OPERATIONS: usize = 4;

/// How long before a window's end a history starts, in milliseconds.
const LEAD: Range<i64> = 1..40;

/// For how long a client asks again that was refused: longer than any failover takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all histories of a round share.
pub(crate) struct Recorder {
    /// Clients take turns at them, as processes that share counters.
    stores: Vec<RedisStore>,
    terms: Terms,
    quota: PolicyQuota,
    /// How long clients wait between operations, in microseconds.
    pauses: Range<u64>,
    /// Whether a history starts shortly before a window ends.
    before_ends: bool,
    /// Counts moments. It orders calls and returns of all clients, so it is sequentially consistent.
    moments: AtomicU64,
    histories: AtomicU64,
}

/// What a client remembers of its own charges.
struct Client {
    number: usize,
    recorder: Arc<Recorder>,
    key: Key<'static>,
    rng: Rng,
    charged: Vec<(u64, i64)>,
    operations: Vec<Operation>,
}

impl Recorder {
    pub(crate) fn new(stores: Vec<RedisStore>, terms: Terms, pauses: Range<u64>, before_ends: bool) -> Self {
        let quota = PolicyQuota::new("history", terms.charged_quota());
        let [moments, histories] = [0, 0].map(AtomicU64::new);
        Self { stores, terms, quota, pauses, before_ends, moments, histories }
    }

    /// The next moment.
    pub(crate) fn moment(&self) -> u64 {
        self.moments.fetch_add(1, SeqCst)
    }

    /// Lets clients charge a counter of their own, and looks at it at last.
    pub(crate) async fn record(self: Arc<Self>, mut rng: Rng) -> History {
        if self.before_ends {
            sleep(self.until_an_end(rng.i64(LEAD))).await;
        }
        let key = Key::from(self.histories.fetch_add(1, SeqCst));
        let client = |number| Client {
            number,
            recorder: Arc::clone(&self),
            key: key.clone(),
            rng: rng.fork(),
            charged: Vec::new(),
            operations: Vec::new(),
        };
        let mut clients: Vec<Client> = (0..=CLIENTS).map(client).collect();
        let mut last = clients.pop().unwrap();
        let clients: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.run())).collect();
        let mut operations = Vec::new();
        for client in clients {
            operations.extend(client.await.unwrap());
        }
        last.ask(What::Peek).await;
        operations.extend(last.operations);
        History { terms: self.terms, operations }
    }

    /// How long until a window is about to end, this much before its end in milliseconds. Its servers have the clock of
    /// this machine.
    fn until_an_end(&self, lead: i64) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        Duration::from_millis((-now - lead).rem_euclid(self.terms.window).unsigned_abs())
    }
}

impl Client {
    async fn run(mut self) -> Vec<Operation> {
        for _ in 0..OPERATIONS {
            sleep(Duration::from_micros(self.rng.u64(self.recorder.pauses.clone()))).await;
            let what = self.next();
            self.ask(what).await;
        }
        self.operations
    }

    /// Mostly charges, and of these mostly equal ones, which stores merge.
    fn next(&mut self) -> What {
        match self.rng.u8(0..20) {
            0 => What::Reset,
            1..=3 => What::Peek,
            4..=7 if self.recorder.terms.kind.is_none() => match self.charged.pop() {
                Some((units, start)) => What::Refund { units, start },
                None => What::Charge { units: 1 },
            },
            8..=10 => What::Charge { units: 2 },
            _ => What::Charge { units: 1 },
        }
    }

    /// Asks until there is an answer, or none can come any more. What a store says was not done is no operation.
    async fn ask(&mut self, what: What) {
        let begun = Instant::now();
        loop {
            let invoked = self.recorder.moment();
            let answer = self.step(what).await;
            let returned = self.recorder.moment();
            let note = |returned| Operation { client: self.number, what, invoked, returned };
            match answer {
                Ok(state) => {
                    let answer = told(&state, self.recorder.terms);
                    if matches!(what, What::Charge { .. }) && answer.units > 0 {
                        self.charged.push((answer.units, answer.start));
                    }
                    return self.operations.push(note(Some((returned, answer))));
                }
                Err(error) => {
                    let may_have_changed = error.may_have_charged() && what != What::Peek;
                    let error = trouble(error);
                    assert!(USUAL.contains(&error), "an error that is not what happened: {error} (G6)");
                    if may_have_changed {
                        return self.operations.push(note(None));
                    }
                    assert!(begun.elapsed() < PATIENCE, "not served for {PATIENCE:?}: {error}");
                    sleep(Duration::from_millis(self.rng.u64(1..10))).await;
                }
            }
        }
    }

    async fn step(&self, what: What) -> Result<QuotaState, StoreError> {
        let Recorder { stores, quota, .. } = &*self.recorder;
        let store = &stores[self.number % stores.len()];
        let charge = |units: u64| Charge::new(quota, &self.key, u32::try_from(units).unwrap());
        match what {
            What::Charge { units } => store.charge(&[charge(units)]).await.map(|counted| counted[0]),
            What::Peek => store.peek(&[charge(1)]).await.map(|counted| counted[0]),
            What::Refund { units, start } => {
                store.refund(&charge(units), Mark::at(Timestamp::from_unix_millis(start))).await
            }
            What::Reset => store.reset(&Counter::new(quota, &self.key)).await,
            What::Failover => unreachable!("no client asks for it"),
        }
    }
}

fn told(state: &QuotaState, terms: Terms) -> Answer {
    let now = state.now().as_unix_millis();
    let from_epoch = now - now.rem_euclid(terms.window);
    Answer {
        now,
        start: state.window().map_or(from_epoch, |window| window.start().as_unix_millis()),
        used: state.used(),
        units: u64::from(state.units()),
        has_room: state.has_room(),
    }
}

/// Two processes' stores, of which one is in a hurry. They remember no denials: what a process remembers may be a
/// second old (G9), while every answer of these comes from a server.
pub(crate) fn stores(url: &str) -> Vec<RedisStore> {
    let store = |deadline| build(builder(url).deadline(deadline).local_denials(0));
    [DEADLINE, 10 * DEADLINE].map(store).into()
}
