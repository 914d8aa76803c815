//! The store: takes charges and returns counts.
//!
//! A step is a [charge] or one of the [others](steps), alone or with [several](each) at once. It is a
//! [question](ask) to the script, unless a [remembered denial](local_denials) answers it, or it is taken
//! [slot by slot](across). [Holds](hold) have a script of their own.

mod across;
mod ask;
mod charge;
mod each;
mod hold;
mod local_denials;
mod steps;
mod warm_up;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Counter, HoldAnswer, HoldStep, Key, PolicyQuota, QuotaStates, Step, StepDeadline, Store, StoreError,
};

pub use self::across::AcrossSlots;
use self::across::SlotStrategy;
use self::charge::PreparedCharge;
use crate::batch::Committer;
use crate::denials::Denials;
use crate::names::CounterNames;
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

    /// The addresses in errors.
    pub(crate) fn place(&self) -> Arc<str> {
        Arc::clone(&self.0.place)
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

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> tollgate::Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        tollgate::Answer::Later(async move {
            let answer = self.0.hold(step, CallTime::begins(deadline)).await;
            answer.map_err(|error| {
                let error = error.at(Arc::clone(&self.0.place));
                let may_charge = matches!(step, HoldStep::Reserve(_) | HoldStep::Settle(..));
                if may_charge { error } else { error.with_nothing_charged() }
            })
        })
    }
}

impl StoreInner {
    /// The error of this step, as its caller gets it.
    fn error_of_step(&self, error: StoreError, step: &Step<'_>) -> StoreError {
        let error = error.at(Arc::clone(&self.place));
        if step.changes_nothing() { error.with_nothing_charged() } else { error }
    }
}
