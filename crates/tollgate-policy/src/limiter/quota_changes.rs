//! Changes by administrators: reset, set and record. All quotas of a request are changed in one call of the store, each
//! by itself.

use std::sync::Arc;

use tollgate::{
    AnswerError, Clock, Counter, HoldAnswer, HoldStep, InFlightCharge, PolicyInFlight, PolicyQuota,
    QuotaState, QuotaStates, ReceiptError, Step, StepDeadline, Store, StoreError,
};

use super::{CheckError, PolicyLimiter, PolicySet};
use crate::limiter::charged_quotas::{ChargedQuota, ChargedQuotas};
use crate::matched::NeededValues;
use crate::{Attributes, MatchedPolicies, Outcome, Policy, Refusal};

/// The result of a change, for the quotas that were changed.
#[derive(Debug, Clone)]
pub struct QuotaChanges<T> {
    pub(super) set: Arc<PolicySet>,
    pub(super) charged: ChargedQuotas,
    /// For each quota that applies; `None` where it was not to be changed.
    pub(super) values: Vec<Option<T>>,
    /// For quotas that do not apply: those that an override replaces, and those that have applied before.
    pub(super) others: Vec<OtherQuota<T>>,
    /// Units in flight that were forgotten.
    pub(super) forgotten: Vec<(u32, ForgottenRecord)>,
}

/// A limit that a change may be about.
#[derive(Debug, Clone, Copy)]
pub enum PolicyLimit<'a> {
    /// A quota that applies to the request.
    Quota(&'a PolicyQuota),
    /// A limit in flight that applies to the request.
    InFlight(&'a PolicyInFlight),
    /// A quota of the policy that an [override](PolicyLimiter::replace_overrides) replaces by others: nothing is charged to
    /// it now, and its counter stays as it is.
    ReplacedQuota(&'a PolicyQuota),
    /// A limit in flight of the policy, while an override replaces its limits by others without one.
    ReplacedInFlight(&'a PolicyInFlight),
}

impl PolicyLimit<'_> {
    /// Returns whether it applies to the request; an override replaces the others.
    #[must_use]
    pub const fn applies(self) -> bool {
        matches!(self, Self::Quota(_) | Self::InFlight(_))
    }
}

/// A quota that was changed although it does not apply.
#[derive(Debug, Clone)]
pub(super) struct OtherQuota<T> {
    pub(super) policy: u32,
    pub(super) quota: PolicyQuota,
    pub(super) value: T,
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
    /// Returns each changed quota with its policy and the result: first those that apply.
    pub fn iter(&self) -> impl Iterator<Item = (&Policy, &PolicyQuota, &T)> {
        let changed = self.set.quotas(&self.charged).zip(&self.values);
        let changed = changed
            .filter_map(|(ChargedQuota { policy, quota, .. }, value)| Some((policy, quota, value.as_ref()?)));
        let others = self.others.iter().filter_map(|OtherQuota { policy, quota, value }| {
            Some((self.set.policies().policy(*policy)?, quota, value))
        });
        changed.chain(others)
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

/// The states of quotas to which something was assigned.
struct AssignedStates {
    /// For each quota that applies.
    values: Vec<Option<QuotaState>>,
    others: Vec<OtherQuota<QuotaState>>,
}

impl AssignedStates {
    /// Returns the quotas.
    fn quotas(&self, matched: &MatchedPolicies<'_>) -> Box<[PolicyQuota]> {
        let applied = matched.enforced().zip(&self.values).filter(|(_, value)| value.is_some());
        let applied = applied.map(|(charge, _)| charge.counter().quota());
        applied.chain(self.others.iter().map(|other| &other.quota)).cloned().collect()
    }

    fn of(
        self,
        set: &Arc<PolicySet>,
        matched: &MatchedPolicies<'_>,
        forgotten: Vec<(u32, ForgottenRecord)>,
    ) -> QuotaChanges<QuotaState> {
        let Self { values, others } = self;
        let (set, charged) = (Arc::clone(set), ChargedQuotas::of(matched));
        QuotaChanges { set, charged, values, others, forgotten }
    }
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Resets the usage of every limit that is selected, for this policy or all: those that apply to the request, and
    /// those that an override [replaces](PolicyLimit::ReplacedQuota). Of a limit in flight, all live units are forgotten,
    /// whoever holds them. Attributes with limits or costs are optional, and those that only other policies need.
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
        let changed = self.assign(&matched, &is_meant, |counter| Step::Reset(counter)).await?;
        let mut forgotten = Vec::<(u32, ForgottenRecord)>::new();
        for entry in matched.deciding() {
            let applied = entry.in_flight().filter(|it| is_meant(PolicyLimit::InFlight(it)));
            let replaced =
                || entry.replaced_in_flight().filter(|it| is_meant(PolicyLimit::ReplacedInFlight(it)));
            let Some(in_flight) = applied.or_else(replaced) else { continue };
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
                    let forgotten = forgotten.into_iter().map(|(_, record)| record.in_flight).collect();
                    return Err(CheckError::after(changed.quotas(&matched), forgotten, error));
                }
            }
        }
        Ok(changed.of(&set, &matched, forgotten))
    }

    /// Sets the usage of every quota that is selected, of this policy or of all: those that apply to the request, and
    /// those that an override [replaces](PolicyLimit::ReplacedQuota). Attributes with limits or costs are optional, and
    /// those that only other policies need.
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
        let mut replaced = matched.deciding().filter_map(|entry| entry.replaced_in_flight());
        if let Some(in_flight) = replaced.find(|it| is_meant(PolicyLimit::ReplacedInFlight(it))) {
            return Err(CheckError::OnlyHolds { policy: in_flight.policy().into() });
        }
        let changed = self.assign(&matched, &is_meant, |counter| Step::Set { counter, used }).await?;
        Ok(changed.of(&set, &matched, Vec::new()))
    }

    /// Takes a step on the counter of each quota that is meant.
    async fn assign(
        &self,
        matched: &MatchedPolicies<'_>,
        is_meant: impl Fn(PolicyLimit<'_>) -> bool,
        step: impl Fn(Counter<'_>) -> Step<'_>,
    ) -> Result<AssignedStates, CheckError> {
        let applied = matched.enforced().map(|charge| charge.counter());
        let applied =
            applied.map(|counter| is_meant(PolicyLimit::Quota(counter.quota())).then(|| step(counter)));
        let replaced = matched.replaced().map(|(_, charge)| charge.counter());
        let replaced = replaced
            .map(|counter| is_meant(PolicyLimit::ReplacedQuota(counter.quota())).then(|| step(counter)));
        let mut values = self.change(None, applied.chain(replaced)).await?;
        let replaced = values.split_off(matched.enforced().count());
        let others = matched.replaced().zip(replaced).filter_map(|((policy, charge), value)| {
            Some(OtherQuota { policy, quota: charge.counter().quota().clone(), value: value? })
        });
        Ok(AssignedStates { others: others.collect(), values })
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
            // What denies without a count leaves nothing to count.
            if matched.deciding().any(|entry| entry.by_override.is_some_and(|by| by.is_denial())) {
                return Ok(MatchedPolicies::default());
            }
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
                let (charged, forgotten, others) = (ChargedQuotas::of(matched), Vec::new(), Vec::new());
                Ok(QuotaChanges { charged, values, others, forgotten, set: Arc::clone(&set) })
            })
            .collect()
    }

    /// Returns the quotas that apply to a request, if it has the required attributes. No step compares the ends of
    /// overrides, so the estimate of the store's clock decides.
    pub(super) fn matched<'a>(
        &self,
        set: &'a PolicySet,
        attributes: &'a Attributes<'_>,
        cost: u32,
        needed: NeededValues<'_>,
    ) -> Result<MatchedPolicies<'a>, CheckError> {
        match self.outcome(set, attributes, cost, needed, Some(set.overrides().now()))? {
            Outcome::Charge(matched) => Ok(matched),
            Outcome::Exempt(_) | Outcome::Deny(_) | Outcome::DenyOverride { .. } | Outcome::DenyUnmatched => {
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
