//! Changes by administrators: reset, set and record. All quotas of a request are changed in one call of the store, each
//! by itself.

use std::sync::Arc;

use tollgate::{
    AnswerError, Clock, Counter, HoldAnswer, HoldStep, InFlightCharge, PolicyInFlight, PolicyQuota,
    QuotaState, QuotaStates, ReceiptError, Step, StepDeadline, Store, StoreError,
};

use super::{CheckError, PolicyLimiter, PolicySet};
use crate::limiter::decision::ChargedQuotas;
use crate::matched::NeededValues;
use crate::{Attributes, MatchedPolicies, Outcome, Policy, Refusal};

/// The result of a change, for the quotas that were changed.
#[derive(Debug, Clone)]
pub struct QuotaChanges<T> {
    pub(super) set: Arc<PolicySet>,
    pub(super) charged: ChargedQuotas,
    /// For each quota that applies; `None` where it was not to be changed.
    pub(super) values: Vec<Option<T>>,
    /// Units in flight that were forgotten.
    pub(super) forgotten: Vec<(u32, ForgottenRecord)>,
}

/// A limit that a change may be about.
#[derive(Debug, Clone, Copy)]
pub enum PolicyLimit<'a> {
    /// A quota.
    Quota(&'a PolicyQuota),
    /// A limit in flight.
    InFlight(&'a PolicyInFlight),
}

/// Units in flight that a reset has forgotten, whoever held them. Renewing their holds says that they are lost.
#[derive(Debug, Clone, Copy)]
pub struct ForgottenUnits<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The limit in flight.
    pub in_flight: &'a PolicyInFlight,
    /// How many were live.
    pub units: u32,
}

#[derive(Debug, Clone)]
pub(super) struct ForgottenRecord {
    in_flight: PolicyInFlight,
    units: u32,
}

impl CheckError {
    pub(super) fn after(
        changed: Box<[PolicyQuota]>,
        forgotten: Box<[PolicyInFlight]>,
        error: StoreError,
    ) -> Self {
        if changed.is_empty() && forgotten.is_empty() {
            Self::Store(error)
        } else {
            Self::Partly { changed, forgotten, error }
        }
    }
}

impl From<ReceiptError> for CheckError {
    fn from(error: ReceiptError) -> Self {
        Self::after(error.changed().into(), Box::default(), error.into())
    }
}

impl<T> QuotaChanges<T> {
    /// Returns each changed quota with its policy and the result.
    pub fn iter(&self) -> impl Iterator<Item = (&Policy, &PolicyQuota, &T)> {
        let changed = self.set.quotas(&self.charged).zip(&self.values);
        changed.filter_map(|((policy, _, quota), value)| Some((policy, quota, value.as_ref()?)))
    }

    /// Returns the units in flight that a reset has forgotten, for each limit in flight.
    pub fn forgotten(&self) -> impl Iterator<Item = ForgottenUnits<'_>> {
        self.forgotten.iter().filter_map(|(policy, ForgottenRecord { in_flight, units })| {
            let policy = self.set.policies().policy(*policy)?;
            Some(ForgottenUnits { policy, in_flight, units: *units })
        })
    }

    /// Returns the policies under which it was made.
    #[must_use]
    pub const fn policies(&self) -> &Arc<PolicySet> {
        &self.set
    }
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Resets the usage of every limit that applies and is selected, for this policy or all. Of a limit in flight, all live
    /// units are forgotten, whoever holds them. Attributes with limits or costs are optional, and those that only other
    /// policies need.
    ///
    /// # Errors
    ///
    /// Otherwise as [`check`](Self::check). If the store failed for some limits and others were reset, the error
    /// [names those](CheckError::Partly).
    pub async fn reset(
        &self,
        attributes: &Attributes<'_>,
        policy: Option<&str>,
        is_meant: impl Fn(PolicyLimit<'_>) -> bool,
    ) -> Result<QuotaChanges<QuotaState>, CheckError> {
        let set = self.live();
        let matched = self.matched(&set, attributes, 0, NeededValues::Counters { of: policy })?;
        #[expect(clippy::redundant_closure, reason = "the variant takes one lifetime, and not any")]
        let values = self.assign(&matched, &is_meant, |counter| Step::Reset(counter)).await?;
        let mut forgotten = Vec::<(u32, ForgottenRecord)>::new();
        for entry in matched.deciding() {
            let in_flight = entry.in_flight().filter(|in_flight| is_meant(PolicyLimit::InFlight(in_flight)));
            let Some(in_flight) = in_flight else { continue };
            let step = HoldStep::Reset(InFlightCharge::new(in_flight, &entry.key, 0));
            let answer = self.store.hold_until(step, None).await;
            match answer.and_then(|answer| match answer {
                HoldAnswer::Forgotten { units } => Ok(units),
                _ => Err(AnswerError::Nonsense.into()),
            }) {
                Ok(units) => {
                    let in_flight = in_flight.clone();
                    forgotten.push((entry.applied.policy, ForgottenRecord { in_flight, units }));
                }
                Err(error) => {
                    let changed = matched.enforced().zip(&values).filter(|(_, value)| value.is_some());
                    let changed = changed.map(|(charge, _)| charge.counter().quota().clone()).collect();
                    let forgotten = forgotten.into_iter().map(|(_, record)| record.in_flight).collect();
                    return Err(CheckError::after(changed, forgotten, error));
                }
            }
        }
        Ok(QuotaChanges { charged: ChargedQuotas::of(&matched), values, forgotten, set: Arc::clone(&set) })
    }

    /// Sets the usage of every quota that applies and is selected, of this policy or of all.
    /// Attributes with limits or costs are optional, and those that only other policies need.
    ///
    /// # Errors
    ///
    /// If a limit in flight is selected, because its units [belong to holds](CheckError::OnlyHolds). Otherwise as
    /// [`check`](Self::check). If the store failed for some quotas and others were set, the error
    /// [names those](CheckError::Partly).
    pub async fn set(
        &self,
        attributes: &Attributes<'_>,
        used: u64,
        policy: Option<&str>,
        is_meant: impl Fn(PolicyLimit<'_>) -> bool,
    ) -> Result<QuotaChanges<QuotaState>, CheckError> {
        let set = self.live();
        let matched = self.matched(&set, attributes, 0, NeededValues::Counters { of: policy })?;
        expect_quotas(&matched, |in_flight| is_meant(PolicyLimit::InFlight(in_flight)))?;
        let values = self.assign(&matched, &is_meant, |counter| Step::Set { counter, used }).await?;
        let (charged, forgotten) = (ChargedQuotas::of(&matched), Vec::new());
        Ok(QuotaChanges { charged, values, forgotten, set: Arc::clone(&set) })
    }

    async fn assign(
        &self,
        matched: &MatchedPolicies<'_>,
        is_meant: impl Fn(PolicyLimit<'_>) -> bool,
        step: impl Fn(Counter<'_>) -> Step<'_>,
    ) -> Result<Vec<Option<QuotaState>>, CheckError> {
        let counters = matched.enforced().map(|charge| charge.counter());
        let steps =
            counters.map(|counter| is_meant(PolicyLimit::Quota(counter.quota())).then(|| step(counter)));
        self.change(None, steps).await
    }

    /// Charges every quota that applies without asking for room: `used` may pass the limit. Attributes with limits are
    /// optional.
    ///
    /// While the store cannot answer, the policies decide as for a check; the [source](QuotaState::source) of a state
    /// shows that the store has not counted.
    ///
    /// # Errors
    ///
    /// If a limit in flight applies, because its units [belong to holds](CheckError::OnlyHolds). Otherwise as
    /// [`check`](Self::check). If other quotas were charged, an error of the store
    /// [may have charged](StoreError::may_have_charged).
    pub async fn record(
        &self,
        attributes: &Attributes<'_>,
        cost: u32,
    ) -> Result<QuotaChanges<QuotaState>, CheckError> {
        let recorded = self.record_each([(attributes, cost)]).await.pop();
        recorded.unwrap_or_else(|| Err(StoreError::from(AnswerError::Nonsense).into()))
    }

    /// Records each request separately, all under the same version of the policies, in no particular order.
    pub async fn record_each<'a, 'b: 'a>(
        &self,
        requests: impl IntoIterator<Item = (&'a Attributes<'b>, u32)>,
    ) -> Vec<Result<QuotaChanges<QuotaState>, CheckError>> {
        let set = self.live();
        let matched = |(attributes, cost)| {
            let matched = self.matched(&set, attributes, cost, NeededValues::Cost)?;
            expect_quotas(&matched, |_| true)?;
            Ok(matched)
        };
        let all: Vec<Result<MatchedPolicies<'_>, CheckError>> = requests.into_iter().map(matched).collect();
        let charges = all.iter().flatten().flat_map(MatchedPolicies::enforced);
        let steps: Vec<Step<'_>> = charges.map(Step::Record).collect();
        let answers = if steps.is_empty() { Vec::new() } else { self.store.step_each(&steps).await };
        let mut answers = answers.into_iter();
        all.iter()
            .map(|matched| {
                let matched = matched.as_ref().map_err(CheckError::clone)?;
                // Each takes its answers, also after one that failed.
                let states = QuotaStates::of_each(matched.enforced().map(|_| next(&mut answers)).collect())?;
                let values = states.iter().copied().map(Some).collect();
                let (charged, forgotten) = (ChargedQuotas::of(matched), Vec::new());
                Ok(QuotaChanges { charged, values, forgotten, set: Arc::clone(&set) })
            })
            .collect()
    }

    /// Returns the quotas that apply to a request, if it has the required attributes.
    pub(super) fn matched<'a>(
        &self,
        set: &'a PolicySet,
        attributes: &'a Attributes<'_>,
        cost: u32,
        needed: NeededValues<'_>,
    ) -> Result<MatchedPolicies<'a>, CheckError> {
        match self.outcome(set, attributes, cost, needed)? {
            Outcome::Charge(matched) => Ok(matched),
            Outcome::Exempt(_) | Outcome::Deny(_) | Outcome::DenyUnmatched | Outcome::DenyOverride { .. } => {
                Ok(MatchedPolicies::default())
            }
            Outcome::DenyUnknown { policy, no_key } => Err(Refusal::missing_key(&policy, no_key).into()),
        }
    }

    /// Executes the steps, on one counter each, in one call.
    pub(super) async fn change(
        &self,
        deadline: Option<StepDeadline>,
        steps: impl Iterator<Item = Option<Step<'_>>>,
    ) -> Result<Vec<Option<QuotaState>>, CheckError> {
        let wanted: Vec<Option<Step<'_>>> = steps.collect();
        let steps: Vec<Step<'_>> = wanted.iter().flatten().copied().collect();
        let answers = match steps.as_slice() {
            [] => Vec::new(),
            steps => self.store.step_each_until(steps, deadline).await,
        };
        let mut answers = answers.into_iter();
        let answers: Vec<Result<QuotaStates, StoreError>> =
            steps.iter().map(|_| next(&mut answers)).collect();
        let changed = steps.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
        let changed = changed.filter_map(|(step, _)| quota_of(step)).collect();
        let states = QuotaStates::of_each(answers)
            .map_err(|error| CheckError::after(changed, Box::default(), error))?;
        let mut states = states.iter().copied();
        Ok(wanted.iter().map(|step| step.and_then(|_| states.next())).collect())
    }
}

/// Refuses a change of a limit in flight that is meant.
pub(super) fn expect_quotas(
    matched: &MatchedPolicies<'_>,
    is_meant: impl Fn(&PolicyInFlight) -> bool,
) -> Result<(), CheckError> {
    match matched.deciding().filter_map(|entry| entry.in_flight()).find(|in_flight| is_meant(in_flight)) {
        None => Ok(()),
        Some(in_flight) => Err(CheckError::OnlyHolds { policy: in_flight.policy().into() }),
    }
}

/// The quota that a step changes.
pub(super) fn quota_of(step: &Step<'_>) -> Option<PolicyQuota> {
    let counter = match step {
        Step::Reset(counter) | Step::Set { counter, .. } => *counter,
        Step::Record(charge) | Step::Refund { charge, .. } => charge.counter(),
        Step::Block(charge) => charge.charge().counter(),
        _ => return None,
    };
    Some(counter.quota().clone())
}

/// The next answer of a call. A store that gives too few answers nonsense.
pub(super) fn next(
    answers: &mut impl Iterator<Item = Result<QuotaStates, StoreError>>,
) -> Result<QuotaStates, StoreError> {
    answers.next().unwrap_or_else(|| Err(AnswerError::Nonsense.into()))
}
