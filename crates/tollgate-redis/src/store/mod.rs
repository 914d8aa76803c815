//! The store: takes charges and returns counts.

mod across;
mod ask;
mod local_denials;
mod warm_up;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smallvec::smallvec;
use tollgate::{
    AnswerError, Charge, Counter, Key, Mark, PolicyQuota, QuotaState, QuotaStates, Step, StepDeadline, Store,
    StoreError,
};

pub use self::across::AcrossSlots;
use self::across::{SlotStrategy, in_turns};
use self::ask::{PendingRequest, StepResult};
use crate::batch::{Committer, Company};
use crate::denials::{Denials, Id};
use crate::error::RedisError;
use crate::named_charges::{self, CounterOperation, NamedCharges};
use crate::names::CounterNames;
use crate::script::{CountChange, ScriptOutcome};
use crate::slot;
use crate::time::{CallTime, instant};
use crate::topology::{SlotShare, StoreStatus, Topology};

/// Keys that are looked at for one in each share: enough for a share of one slot to be found nearly always, which takes
/// milliseconds. Usual shares take a few.
const SEARCHED: u64 = 5 * slot::SLOTS as u64;

/// A store of counters in Redis or Valkey, shared by all processes that use it. Clones share connections.
#[derive(Clone)]
pub struct RedisStore(Arc<StoreInner>);

struct StoreInner {
    /// The addresses in errors.
    place: Arc<str>,
    committer: Committer,
    names: CounterNames,
    denials: Denials,
    slots: SlotStrategy,
}

/// A request to charge that was not sent.
enum PreparedCharge<'a> {
    Known(QuotaStates),
    Named(NamedCharges<'a>),
    /// Lies in several slots.
    Across,
}

/// A request to charge.
enum BegunCharge {
    Known(QuotaStates),
    Asked(PendingRequest),
}

impl RedisStore {
    pub(crate) fn new(
        topology: Topology,
        place: &str,
        timeout: Duration,
        names: CounterNames,
        denials: Denials,
        across_slots: AcrossSlots,
    ) -> Self {
        let slots = SlotStrategy::new(across_slots, topology.is_cluster());
        let committer = Committer::new(Arc::new(topology), timeout);
        Self(Arc::new(StoreInner { place: place.into(), committer, names, denials, slots }))
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.0.committer.topology()
    }

    /// Returns one probe key for each server that counts, so that a caller can test each of them. If some slots of a
    /// Cluster have no server, one key lies in such a slot. Before the servers are known, returns a single key.
    #[must_use]
    pub fn key_on_each_server(&self, quota: &PolicyQuota) -> Vec<Key<'static>> {
        let names = &self.0.names;
        let (mut shares, mut keys) = (self.topology().shares(), Vec::new());
        let mut numbers = 0..SEARCHED;
        while let (false, Some(number)) = (shares.is_empty(), numbers.next()) {
            let key = names.probe(number);
            let counter = Counter::new(quota, &key);
            let Ok((name, _)) =
                names.of(&counter, &names.counter_identity(&key), || self.topology().time_at(instant()))
            else {
                break;
            };
            let slot = slot::of(&name);
            let is_here = |share: &SlotShare| share.iter().any(|slots| slots.contains(&slot));
            if let Some(place) = shares.iter().position(is_here) {
                shares.swap_remove(place);
                keys.push(key);
            }
        }
        keys
    }

    pub(crate) fn names(&self) -> &CounterNames {
        &self.0.names
    }

    /// Returns which servers are connected.
    #[must_use]
    pub fn status(&self) -> StoreStatus {
        self.0.committer.topology().status()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("topology", self.0.committer.topology()).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn step<'a>(
        &'a self,
        step: Step<'a>,
    ) -> tollgate::Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        self.step_until(step, None)
    }

    fn step_each<'a>(
        &'a self,
        steps: &'a [Step<'a>],
    ) -> tollgate::Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        self.step_each_until(steps, None)
    }

    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> tollgate::Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        let prepared = match step {
            Step::Charge(charges) => match self.0.prepare(charges) {
                PreparedCharge::Known(counted) => return tollgate::Answer::Now(Ok(counted)),
                prepared => Some(prepared),
            },
            _ => None,
        };
        tollgate::Answer::Later(async move {
            let answer = match &prepared {
                Some(PreparedCharge::Named(named)) => self.0.charge(named, deadline).await,
                // In a box, or every charge's future would be as large as that of the rarest step.
                _ => Box::pin(self.0.step(step, CallTime::begins(deadline))).await,
            };
            answer.map_err(|error| self.0.error_of_step(error, &step))
        })
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> tollgate::Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        tollgate::Answer::Later(async move {
            let answers = self.0.step_each(steps, deadline).await.into_iter().zip(steps);
            answers.map(|(answer, step)| answer.map_err(|error| self.0.error_of_step(error, step))).collect()
        })
    }
}

impl StoreInner {
    /// The error of this step, as its caller gets it.
    fn error_of_step(&self, error: StoreError, step: &Step<'_>) -> StoreError {
        let error = error.at(Arc::clone(&self.place));
        if step.changes_nothing() { error.with_nothing_charged() } else { error }
    }

    async fn step_each<'a>(
        self: &'a Arc<Self>,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Vec<Result<QuotaStates, StoreError>> {
        let call = CallTime::begins(deadline);
        let prepared: Vec<Option<PreparedCharge<'_>>> = steps
            .iter()
            .map(|step| match step {
                Step::Charge(charges) => Some(self.prepare(charges)),
                _ => None,
            })
            .collect();
        // All charges are sent before the first answer is awaited.
        let begun: Vec<Option<BegunCharge>> = prepared
            .iter()
            .map(|prepared| match prepared {
                Some(PreparedCharge::Named(named)) => Some(self.begin(named, deadline, Company::Others)),
                _ => None,
            })
            .collect();
        let mut answers: Vec<Option<Result<QuotaStates, StoreError>>> = Vec::with_capacity(steps.len());
        // Steps that have no answer yet, with their places.
        let (mut charges, mut across, mut others) = (Vec::new(), Vec::<(usize, Vec<Id>)>::new(), Vec::new());
        for (place, ((prepared, begun), step)) in prepared.into_iter().zip(begun).zip(steps).enumerate() {
            answers.push(match (prepared, begun, step) {
                (Some(PreparedCharge::Known(counted)), ..) | (_, Some(BegunCharge::Known(counted)), _) => {
                    Some(Ok(counted))
                }
                (Some(PreparedCharge::Named(named)), Some(BegunCharge::Asked(pending)), _) => {
                    charges.push((place, named, pending));
                    None
                }
                (.., Step::Charge(charges)) => {
                    across.push((place, NamedCharges::new(charges, &self.names).ids().collect()));
                    None
                }
                _ => {
                    others.push(vec![place]);
                    None
                }
            });
        }
        let charges = async {
            let mut counted = Vec::with_capacity(charges.len());
            for (place, named, mut pending) in charges {
                counted.push((place, self.counted(&named, &mut pending).await));
            }
            counted
        };
        let in_turn = async |places: &Vec<usize>| {
            let mut taken = Vec::with_capacity(places.len());
            for place in places {
                taken.push((*place, self.step(steps[*place], call).await));
            }
            taken
        };
        // Side by side, so that a server that hangs holds up no step on another.
        let (charges, others) = tokio::join!(charges, all(others.iter().map(in_turn)));
        // Only once nothing else is in flight: no charge across slots is denied because of what another gives back.
        let across = in_turns(across);
        let across = all(across.iter().map(in_turn)).await;
        for (place, answer) in charges.into_iter().chain(others.into_iter().chain(across).flatten()) {
            answers[place] = Some(answer);
        }
        // Every place has its answer by now: it was known, or its step was taken. If one were missing, the answers after
        // it must not move to other steps.
        let missing = || Err(AnswerError::Nonsense.into());
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    async fn charge(
        &self,
        named: &NamedCharges<'_>,
        deadline: Option<StepDeadline>,
    ) -> Result<QuotaStates, StoreError> {
        let mut pending = match self.begin(named, deadline, Company::Alone) {
            BegunCharge::Known(counted) => return Ok(counted),
            BegunCharge::Asked(pending) => pending,
        };
        self.counted(named, &mut pending).await
    }

    /// Takes a step that was not sent yet, within the deadline of this call. Charges are those
    /// across slots.
    async fn step(self: &Arc<Self>, step: Step<'_>, call: CallTime) -> Result<QuotaStates, StoreError> {
        match step {
            Step::Charge(charges) => self.reserve(charges, call).await,
            Step::Peek(charges) => self.peek(charges, call).await,
            Step::Record(charge) => self.record(&charge, call).await.map(QuotaStates::one),
            Step::Refund { charge, mark } => self.refund(&charge, mark, call).await.map(QuotaStates::one),
            Step::Reset(counter) => {
                self.change(&counter, CounterOperation::Reset, call).await.map(QuotaStates::one)
            }
            Step::Set { counter, used } => {
                self.change(&counter, CounterOperation::Set(used), call).await.map(QuotaStates::one)
            }
            _ => Err(StoreError::Uncountable("this version of the store does not support the step")),
        }
    }

    async fn peek(&self, charges: &[Charge<'_>], call: CallTime) -> Result<QuotaStates, StoreError> {
        if charges.is_empty() {
            return Ok(QuotaStates::from_iter([]));
        }
        if self.slots.splits(charges, &self.names) {
            return self.peek_across(charges, call).await;
        }
        let named = NamedCharges::new(charges, &self.names);
        let mut pending = self.send(&named, CounterOperation::Look, call.continued(), Company::Alone);
        self.counted(&named, &mut pending).await
    }

    async fn record(&self, charge: &Charge<'_>, call: CallTime) -> Result<QuotaState, StoreError> {
        let charges = [*charge];
        let named = NamedCharges::new(&charges, &self.names);
        let mut pending = self.send(&named, CounterOperation::Record, call.continued(), Company::Alone);
        let taken = self.note(&named, &mut pending).await?;
        let CountChange { before, after, .. } = taken.only()?;
        let units = named_charges::units(charge, after.saturating_sub(before));
        Ok(taken.state(&charge.counter())?.with_units(units))
    }

    async fn refund(
        &self,
        charge: &Charge<'_>,
        mark: Mark,
        call: CallTime,
    ) -> Result<QuotaState, StoreError> {
        let charges = [*charge];
        let named = NamedCharges::new(&charges, &self.names);
        let (quota, key) = (charge.counter().quota().quota(), charge.counter().key());
        let window = quota.window_at(key, mark.time());
        let look = async || {
            let looked = self.take(&named, CounterOperation::Look, call.continued()).await?;
            looked.state(&charge.counter())
        };
        if !self.names.can_give_back(&window, mark) {
            return look().await;
        }
        let answer = {
            let _changing = self.changing(&named);
            self.ask(&named, CounterOperation::Refund(mark), call.continued()).await?
        };
        let taken = match answer.outcome {
            ScriptOutcome::Closed(Some(found)) => {
                return StepResult { now: answer.now, found: smallvec![found] }.state(&charge.counter());
            }
            // The window that is open now is under another key.
            ScriptOutcome::Closed(None) => return look().await,
            _ => StepResult::try_from(answer)?,
        };
        let CountChange { before, after, .. } = taken.only()?;
        if self.names.is_early_refund(&window, before, taken.now) {
            return look().await;
        }
        let given = u32::try_from(before - after).map_err(|_| RedisError::BadReply)?;
        // The window that was named, which after a step back of the clock may not have begun.
        Ok(QuotaState::in_window(quota, after, window, taken.now, None).with_units(given))
    }

    /// Changes a counter of which nothing is taken.
    async fn change(
        &self,
        counter: &Counter<'_>,
        asked: CounterOperation,
        call: CallTime,
    ) -> Result<QuotaState, StoreError> {
        let charges = [Charge::new(counter.quota(), counter.key(), 0)];
        let named = NamedCharges::new(&charges, &self.names);
        let _changing = self.changing(&named);
        self.take(&named, asked, call.continued()).await?.state(counter)
    }

    /// The answer, if it is known here; else what is to be asked.
    fn prepare<'a>(&self, charges: &'a [Charge<'a>]) -> PreparedCharge<'a> {
        if charges.is_empty() {
            return PreparedCharge::Known(QuotaStates::from_iter([]));
        }
        if self.slots.splits(charges, &self.names) {
            return PreparedCharge::Across;
        }
        let named = NamedCharges::new(charges, &self.names);
        if self.may_deny(&named) {
            let known = self.recall(&named, instant());
            if let Some((denied, _)) = known.filter(|(known, is_due)| !known.is_admitted() && !is_due) {
                return PreparedCharge::Known(denied);
            }
        }
        PreparedCharge::Named(named)
    }

    /// The answer, if it is known here; else the charges are in flight.
    fn begin(
        &self,
        named: &NamedCharges<'_>,
        deadline: Option<StepDeadline>,
        company: Company,
    ) -> BegunCharge {
        let time = CallTime::begins(deadline);
        let known = if self.may_deny(named) { self.recall(named, time.begun) } else { None };
        let asked = match known.filter(|(known, _)| !known.is_admitted()) {
            Some((denied, _)) if !self.is_to_renew(named, time.begun) => return BegunCharge::Known(denied),
            Some(_) => CounterOperation::Renewal,
            None => CounterOperation::Charge,
        };
        BegunCharge::Asked(self.send(named, asked, time, company))
    }
}

/// Awaits the futures side by side, and returns their outputs in order.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(context)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
