//! From attributes and cost to a decision: the one place that asks the store.
//!
//! It counts what it decides for the metrics and logs what is unusual. It knows no wire format.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;
use tollgate::{
    Charge, Clock, Counted, Counter, Decision, Key, PerQuota, QuotaState, Reason, Refunded, Source, Store,
    StoreError, SystemClock, Timestamp, Verdict,
};
use tracing::{info, warn};

use crate::args::WhenFull;
use crate::attributes::Attributes;
use crate::log_gap::LogGap;
use crate::metrics::Metrics;
use crate::policy::{MissingIdentity, Policy};
use crate::stopwatch::Stopwatch;
use crate::store::{ServedStore, StoreState};

/// Decides by one policy over one store.
pub(crate) struct Engine<S> {
    store: S,
    policy: Policy,
    when_full: WhenFull,
    metrics: Arc<Metrics>,
    /// One for each quota: a denial by one is no reason to be silent about another.
    denials_logged: Box<[LogGap]>,
    full_logged: LogGap,
}

/// Why there is no decision. It is never a denial.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    MissingIdentity(#[from] MissingIdentity),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// None of the windows of the quota with this index can have begun then: a refund names another.
    #[error("no window of {quota} begins then")]
    NoWindowStart { index: usize, quota: Box<str> },
    #[error("this lies in the future")]
    FutureStart { index: usize },
    /// A store that broke its contract.
    #[error("the store did not answer")]
    Unanswered,
}

type Charges<'a> = SmallVec<[Charge<'a>; 2]>;

impl<S: ServedStore> Engine<S> {
    /// How the store is now.
    pub(crate) async fn store_state(&self) -> StoreState {
        self.store.state().await
    }
}

impl<S: Store> Engine<S> {
    pub(crate) fn new(store: S, policy: Policy, when_full: WhenFull, metrics: Arc<Metrics>) -> Self {
        let denials_logged = policy.quotas().iter().map(|_| LogGap::default()).collect();
        Self { store, policy, when_full, metrics, denials_logged, full_logged: LogGap::default() }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Takes the cost, if every quota has room.
    pub(crate) async fn check(&self, attributes: &Attributes<'_>, cost: u32) -> Result<Decision, Refusal> {
        let stopwatch = Stopwatch::start();
        let key = self.policy.key(attributes)?;
        let charges = self.charges(&key, cost);
        let decision = self.decide(&charges, self.store.charge(&charges).await)?;
        self.note(&decision);
        self.metrics.took(stopwatch.elapsed());
        Ok(decision)
    }

    /// Answers as a check would, and takes nothing.
    pub(crate) async fn peek(&self, attributes: &Attributes<'_>, cost: u32) -> Result<Decision, Refusal> {
        let key = self.policy.key(attributes)?;
        let charges = self.charges(&key, cost);
        self.decide(&charges, self.store.peek(&charges).await)
    }

    /// Checks each request for itself. The answers are in the order of the requests; a shared store may take them in
    /// another.
    pub(crate) async fn check_each<'a, 'b: 'a>(
        &self,
        requests: impl IntoIterator<Item = (&'a Attributes<'b>, u32)>,
    ) -> Vec<Result<Decision, Refusal>> {
        let stopwatch = Stopwatch::start();
        let keys: Vec<(Result<Key<'_>, MissingIdentity>, u32)> =
            requests.into_iter().map(|(attributes, cost)| (self.policy.key(attributes), cost)).collect();
        let charges: Vec<Option<Charges<'_>>> =
            keys.iter().map(|(key, cost)| Some(self.charges(key.as_ref().ok()?, *cost))).collect();
        let asked: Vec<&[Charge<'_>]> = charges.iter().flatten().map(SmallVec::as_slice).collect();

        let mut counted = self.store.charge_each(&asked).await.into_iter();
        let decisions: Vec<Result<Decision, Refusal>> = keys
            .iter()
            .zip(&charges)
            .map(|((key, _), charges)| match (key, charges) {
                (Err(missing), _) => Err(missing.clone().into()),
                (Ok(_), Some(charges)) => {
                    let decision = self.decide(charges, counted.next().ok_or(Refusal::Unanswered)?)?;
                    self.note(&decision);
                    Ok(decision)
                }
                (Ok(_), None) => Err(Refusal::Unanswered),
            })
            .collect();
        if decisions.iter().any(Result::is_ok) {
            self.metrics.took(stopwatch.elapsed());
        }
        decisions
    }

    /// Gives back the cost in the windows that began then, one for each quota. A start that cannot be one is
    /// refused before anything is given back.
    pub(crate) async fn refund(
        &self,
        attributes: &Attributes<'_>,
        cost: u32,
        starts: &[Timestamp],
    ) -> Result<PerQuota<Refunded>, Refusal> {
        let key = self.policy.key(attributes)?;
        let charges = self.charges(&key, cost);
        self.expect_starts(&charges, starts).await?;
        let mut refunded = Vec::new();
        for (charge, start) in charges.iter().zip(starts) {
            match self.store.refund(charge, *start).await {
                Ok(given) => refunded.push(given),
                // Something was given back: who is told that nothing was would ask for it once more.
                Err(_) if !refunded.is_empty() => return Err(StoreError::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(refunded.into_iter().collect())
    }

    /// Forgets what is used, one quota after another.
    pub(crate) async fn reset(&self, attributes: &Attributes<'_>) -> Result<PerQuota<QuotaState>, Refusal> {
        let key = self.policy.key(attributes)?;
        let mut counts = Vec::new();
        for quota in self.policy.quotas() {
            counts.push(self.store.reset(&Counter::new(quota, &key)).await?);
        }
        Ok(counts.into_iter().collect())
    }

    /// Sets what is used in the current window, one quota after another.
    pub(crate) async fn set(
        &self,
        attributes: &Attributes<'_>,
        used: u64,
    ) -> Result<PerQuota<QuotaState>, Refusal> {
        let key = self.policy.key(attributes)?;
        let mut counts = Vec::new();
        for quota in self.policy.quotas() {
            counts.push(self.store.set(&Counter::new(quota, &key), used).await?);
        }
        Ok(counts.into_iter().collect())
    }

    async fn expect_starts(&self, charges: &[Charge<'_>], starts: &[Timestamp]) -> Result<(), Refusal> {
        for (index, (charge, start)) in charges.iter().zip(starts).enumerate() {
            let counter = charge.counter();
            let quota = counter.quota().quota();
            // For a first hit, whose windows only the store knows, the one that opens then: any start will do.
            if quota.window_at(counter.key(), *start).start() != *start {
                return Err(Refusal::NoWindowStart { index, quota: quota.to_string().into() });
            }
        }
        // The store's time: a shared one may be ahead of this process, and so may the windows that it began.
        let now = self.store.peek(charges).await?.first().map(QuotaState::now);
        match starts.iter().position(|start| now.is_some_and(|now| *start > now)) {
            Some(index) => Err(Refusal::FutureStart { index }),
            None => Ok(()),
        }
    }

    fn charges<'a>(&'a self, key: &'a Key<'a>, cost: u32) -> Charges<'a> {
        self.policy.quotas().iter().map(|quota| Charge::new(quota, key, cost)).collect()
    }

    fn decide(
        &self,
        charges: &[Charge<'_>],
        counted: Result<Counted, StoreError>,
    ) -> Result<Decision, Refusal> {
        match counted {
            Ok(counted) => Ok(Decision::new(counted)),
            Err(StoreError::Full) => {
                self.metrics.store_was_full();
                if self.full_logged.passes(SystemClock.now(), Duration::from_secs(60)) {
                    let when_full = self.when_full.name();
                    warn!(when_full, "the store is full and has no room for unseen keys: raise --max-keys");
                }
                match self.when_full {
                    WhenFull::Allow => Ok(uncounted(charges)),
                    WhenFull::Deny => Err(StoreError::Full.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn note(&self, decision: &Decision) {
        self.metrics.decided(decision);
        if decision.verdict() == Verdict::Denied {
            self.note_denial(decision);
        }
    }

    fn note_denial(&self, decision: &Decision) {
        let logged = self.denials_logged.get(decision.deciding());
        let (Some(quota), Some(logged)) = (decision.quota(), logged) else { return };
        // Windows shorter than a second would fill the log.
        let gap = quota.window().length().max(Duration::from_secs(1));
        if logged.passes(quota.window().start(), gap) {
            let text = self.policy.texts().get(decision.deciding()).map(AsRef::<str>::as_ref);
            info!(policy = Policy::NAME, quota = text, "first denial in this window");
        }
    }
}

/// The decision for a key that the store has no room for, when such keys are admitted: nothing is used of a
/// window that this process's clock gives. What no empty window would admit is denied all the same.
fn uncounted(charges: &[Charge<'_>]) -> Decision {
    let now = SystemClock.now();
    let state = |charge: &Charge<'_>| {
        let quota = charge.counter().quota().quota();
        let window = quota.window_at(charge.counter().key(), now);
        let reason = Reason::of(0, charge.cost().max(1).into(), charge.limit());
        QuotaState::new(quota, 0, window, now, reason).with_source(Source::Fallback)
    };
    Decision::new(charges.iter().map(state).collect())
}
