//! Clients that hold units of one key and write down what they were told.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep, HoldTerms, InFlightCharge,
    Key, Mark, PolicyInFlight, PolicyQuota, Store, StoreError,
};
use tollgate_redis::RedisStore;

use super::model::{HoldReply, IDS, IdTerms, LIMIT, QUOTA, What};
use super::{HoldHistory, Operation};
use crate::crowd::{USUAL, trouble};

/// Clients of a history, each with as many operations.
const CLIENTS: usize = 8;
const OPERATIONS: usize = 5;

/// For how long a client asks again that was refused.
const PATIENCE: Duration = Duration::from_secs(60);

/// A settled id is remembered for ten seconds. A longer history proves nothing.
const REMEMBERED: Duration = Duration::from_secs(8);

/// What all histories of a round share.
pub(crate) struct HoldRecorder {
    /// Clients take turns at them, as processes that share counters.
    stores: Vec<RedisStore>,
    live: PolicyInFlight,
    words: PolicyQuota,
    /// How long clients wait between operations, in microseconds.
    pauses: Range<u64>,
    /// Counts moments. It orders calls and returns of all clients, so it is sequentially consistent.
    moments: AtomicU64,
    histories: AtomicU64,
}

struct Client {
    number: usize,
    recorder: Arc<HoldRecorder>,
    key: Key<'static>,
    ids: [HoldId; IDS],
    rng: Rng,
    /// Of the window that all charges are in.
    mark: Option<Mark>,
    operations: Vec<Operation>,
}

impl HoldRecorder {
    pub(crate) fn new(stores: Vec<RedisStore>, pauses: Range<u64>) -> Self {
        let [moments, histories] = [0, 0].map(AtomicU64::new);
        let live = PolicyInFlight::new("history", format!("{LIMIT}~in_flight").parse().unwrap());
        let words = PolicyQuota::new("history", format!("{QUOTA}/3653d").parse().unwrap());
        Self { stores, live, words, pauses, moments, histories }
    }

    /// The next moment.
    pub(crate) fn moment(&self) -> u64 {
        self.moments.fetch_add(1, SeqCst)
    }

    /// Lets clients hold units of a key of their own, and looks at it at last. Returns nothing if that took longer than
    /// ids are remembered.
    pub(crate) async fn record(self: Arc<Self>, mut rng: Rng) -> Option<HoldHistory> {
        let begun = Instant::now();
        let key = Key::from(self.histories.fetch_add(1, SeqCst));
        let ids = std::array::from_fn(|_| HoldId::random());
        let client = |number| Client {
            number,
            recorder: Arc::clone(&self),
            key: key.clone(),
            ids,
            rng: rng.fork(),
            mark: None,
            operations: Vec::new(),
        };
        let mut clients: Vec<Client> = (0..=CLIENTS).map(client).collect();
        let mut last = clients.pop().unwrap();
        let clients: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.run())).collect();
        let mut operations = Vec::new();
        for client in clients {
            operations.extend(client.await.unwrap());
        }
        last.ask(What::Look).await;
        operations.extend(last.operations);
        (begun.elapsed() < REMEMBERED).then_some(HoldHistory { operations })
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

    /// Mostly reservations and settlements. An id has the same terms, nearly always.
    fn next(&mut self) -> What {
        let id = self.rng.usize(0..IDS);
        let cost = 1 + id as u32 % 3 + u32::from(self.rng.u8(0..12) == 0);
        let terms = IdTerms { id, units: 1 + id as u32 % 2, cost };
        match self.rng.u8(0..20) {
            0 => What::Reset,
            1..=3 => What::Look,
            4..=6 => What::Renew(terms),
            7..=12 => {
                let least = if self.mark.is_some() { -(cost.cast_signed()) } else { 0 };
                What::Settle(terms, self.rng.i32(least..=2))
            }
            _ => What::Reserve(terms),
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
                Ok(answer) => {
                    let operation = note(Some((returned, reply(&answer))));
                    if let HoldAnswer::Decided(states) = &answer {
                        self.mark = Some(mark(states));
                    }
                    return self.operations.push(operation);
                }
                Err(error) => {
                    let error = trouble(error);
                    assert!(USUAL.contains(&error), "an error that is not what happened: {error} (G6)");
                    if error.may_have_charged() && !matches!(what, What::Look | What::Renew(_)) {
                        return self.operations.push(note(None));
                    }
                    assert!(begun.elapsed() < PATIENCE, "not served for {PATIENCE:?}: {error}");
                    sleep(Duration::from_millis(self.rng.u64(1..10))).await;
                }
            }
        }
    }

    async fn step(&self, what: What) -> Result<HoldAnswer, StoreError> {
        let HoldRecorder { stores, live, words, .. } = &*self.recorder;
        let store = &stores[self.number % stores.len()];
        let (id, units, cost) = match what {
            What::Reserve(terms) | What::Renew(terms) | What::Settle(terms, _) => {
                (self.ids[terms.id], terms.units, terms.cost)
            }
            What::Look | What::Reset => (HoldId::random(), 1, 1),
        };
        let units = [InFlightCharge::new(live, &self.key, units)];
        let charges = [Charge::new(words, &self.key, cost)];
        let terms = HoldTerms::new(id, &units, &charges, HoldLength::default());
        let adjustments = [match what {
            What::Settle(_, by) if by > 0 => HoldAdjustment::Charge(by.unsigned_abs()),
            What::Settle(_, by) if by < 0 => {
                HoldAdjustment::GiveBack { units: by.unsigned_abs(), mark: self.mark.unwrap() }
            }
            _ => HoldAdjustment::Keep,
        }];
        let step = match what {
            What::Reserve(_) => HoldStep::Reserve(terms),
            What::Renew(_) => HoldStep::Renew(terms),
            What::Settle(..) => HoldStep::Settle(terms, &adjustments),
            What::Look => HoldStep::Look(terms),
            What::Reset => HoldStep::Reset(units[0]),
        };
        store.hold_until(step, None).await
    }
}

/// The start of the window.
fn mark(states: &HoldStates) -> Mark {
    Mark::at(states.charged()[0].window().unwrap().start())
}

fn reply(answer: &HoldAnswer) -> HoldReply {
    match answer {
        HoldAnswer::Decided(states) => {
            let (live, used) = (states.in_flight()[0].live(), states.charged()[0].used());
            let units = states.in_flight()[0].units();
            let is_admitted = states.is_admitted() && units > 0;
            HoldReply::Decided { is_admitted, is_repeated: states.is_repeated(), live, used }
        }
        HoldAnswer::Settled(states) => {
            HoldReply::Settled(states.iter().next().map(|state| (state.units(), state.used())))
        }
        HoldAnswer::Renewed { .. } => HoldReply::Renewed,
        HoldAnswer::Forgotten { units } => HoldReply::Forgotten(*units),
        HoldAnswer::Lost => HoldReply::Lost,
        HoldAnswer::Expired => HoldReply::Expired,
        HoldAnswer::Ended => HoldReply::Ended,
        HoldAnswer::Conflict => HoldReply::Conflict,
        other => unreachable!("no store answers {other:?}"),
    }
}
