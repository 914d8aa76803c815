//! Decisions in JSON.

use serde::{Serialize, Serializer};
use tollgate::{PolicyQuota, QuotaKind, QuotaState, QuotaStates, Reason};
#[cfg(feature = "policy")]
use tollgate_policy::{Ground, InFlightStanding, Policy, PolicyDecision, QuotaStanding};

#[cfg(feature = "policy")]
use super::AppliedOverrideBody;
use super::{DecisionSource, LimitText, QuotaText, WindowBody, millis};

/// A decision. The single figures are those of the quota or limit in flight that decided; they are absent if none did.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionBody<'a> {
    /// Whether the request is allowed.
    allowed: bool,
    /// The policy that decided; absent if none limits the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    /// Why no quota decided; absent if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    ground: Option<GroundBody>,
    /// The quota or limit in flight that decided, in its written form.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<LimitText<'a>>,
    /// How the quota counts; absent for fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<Algorithm>,
    /// Units that can be used at once: the limit, or the burst of a bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// Units that count now, this request's included if it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
    /// Units in flight, in place of `used`: this hold's included if it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<u32>,
    /// Units left.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    /// Milliseconds until nothing is used, if nothing is charged until then: for fixed windows, until the window ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_after_ms: Option<u64>,
    /// Milliseconds until one more unit is free, if nothing is charged until then; absent if nothing is used, and for
    /// fixed windows, which are free at their ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after_ms: Option<u64>,
    /// Milliseconds to wait before a retry; absent if allowed, or if the cost can never pass, or only after an outage, or
    /// if it is unknown when units in flight are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The window that was counted; absent unless the quota counts in fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowBody>,
    /// The time by which a refund names this charge; absent for fixed windows, whose start names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<i64>,
    /// Where the decision came from; absent if no quota decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<DecisionSource>,
    /// Why the request is denied; absent if it is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<DenialReason>,
    /// The override that gave the limit that decided, that lifted all limits, or that denied the request; absent if there
    /// is none.
    #[cfg(feature = "policy")]
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    by_override: Option<AppliedOverrideBody>,
    /// The states of all quotas and limits in flight that apply; absent unless there are several.
    #[serde(skip_serializing_if = "AppliedQuotas::are_few")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<QuotaBody<'_>>"))]
    quotas: AppliedQuotas<'a>,
}

/// Why no quota decided. `unlimited`: no policy limits the request, so it is allowed. `exempt`: a policy exempts it.
/// `denied`: a policy denies everything it matches. `denied_by_override`: an override denies the request. `missing_key`:
/// a policy denies requests without its key. `unmatched`: no policy matches, and such requests are denied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Ground"))]
#[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "without policies, quotas decide"))]
enum GroundBody {
    Unlimited,
    Exempt,
    Denied,
    DeniedByOverride,
    MissingKey,
    Unmatched,
}

/// The state of one of several quotas or limits in flight after a decision.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Quota"))]
pub struct QuotaBody<'a> {
    /// Its policy.
    policy: &'a str,
    /// The quota or limit in flight in its written form.
    quota: LimitText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<Algorithm>,
    limit: u64,
    /// Absent for a limit in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
    /// Units in flight; absent for quotas.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<u32>,
    remaining: u64,
    /// Absent for a limit in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<DenialReason>,
    /// The override that gave the limit; absent if it is from the policies.
    #[cfg(feature = "policy")]
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    by_override: Option<AppliedOverrideBody>,
}

/// How a quota counts that has no fixed windows: in a bucket, a sliding window or a log.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum Algorithm {
    #[expect(missing_docs, reason = "the schema would list them one by one")]
    Bucket,
    #[expect(missing_docs, reason = "as above")]
    Sliding,
    #[expect(missing_docs, reason = "as above")]
    Log,
}

/// Why a request is denied: the quota is used up, the cost is above the limit or, during an outage of the store, above
/// this process's share of it, too many units are in flight, a policy denies everything it matches, an override denies
/// the request, the request has no key, or no policy matches it.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum DenialReason {
    #[expect(missing_docs, reason = "the schema would list them one by one")]
    QuotaExceeded,
    #[expect(missing_docs, reason = "as above")]
    CostExceedsLimit,
    #[expect(missing_docs, reason = "as above")]
    CostExceedsShare,
    #[expect(missing_docs, reason = "as above")]
    InFlightExceeded,
    #[expect(missing_docs, reason = "as above")]
    Denied,
    #[expect(missing_docs, reason = "as above")]
    DeniedByOverride,
    #[expect(missing_docs, reason = "as above")]
    MissingKey,
    #[expect(missing_docs, reason = "as above")]
    Unmatched,
}

/// The quotas that apply, written one after another without a list.
#[derive(Debug)]
enum AppliedQuotas<'a> {
    Charged(&'a [PolicyQuota], &'a QuotaStates),
    #[cfg(feature = "policy")]
    ByPolicies(&'a PolicyDecision),
}

impl<'a> DecisionBody<'a> {
    /// Creates the answer of quotas that were charged together, with these states.
    #[must_use]
    pub fn of_quotas(quotas: &'a [PolicyQuota], counted: &'a QuotaStates) -> Self {
        let deciding = quotas.get(counted.deciding());
        let standing = deciding.zip(counted.decided());
        Self::new(
            counted.is_admitted(),
            deciding.map(PolicyQuota::policy),
            standing,
            AppliedQuotas::Charged(quotas, counted),
        )
    }

    /// The answers of policies.
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn of_policies(decision: &'a PolicyDecision) -> Self {
        let standing = decision.quota().map(|deciding| (deciding.quota, deciding.state));
        let ground = match decision.ground() {
            Ground::Unlimited => Some(GroundBody::Unlimited),
            Ground::Exempt(_) => Some(GroundBody::Exempt),
            Ground::Denied(_) => Some(GroundBody::Denied),
            Ground::DeniedByOverride { .. } => Some(GroundBody::DeniedByOverride),
            Ground::MissingKey { .. } => Some(GroundBody::MissingKey),
            Ground::Unmatched => Some(GroundBody::Unmatched),
            _ => None,
        };
        let policy = decision.policy().map(Policy::name);
        let body = Self::new(decision.is_allowed(), policy, standing, AppliedQuotas::ByPolicies(decision));
        let by_override = match decision.ground() {
            Ground::Quotas(_) => decision.quota().and_then(|deciding| deciding.by_override),
            Ground::InFlight(InFlightStanding { by_override, .. }) => by_override,
            Ground::Unlimited | Ground::DeniedByOverride { .. } => {
                decision.applied_overrides().next().map(|overridden| overridden.by_override)
            }
            _ => None,
        };
        let body = Self { by_override: by_override.map(AppliedOverrideBody::from), ..body };
        let body = match decision.limit_in_flight() {
            Some(InFlightStanding { in_flight, state, .. }) => Self {
                quota: Some(LimitText::InFlight(in_flight)),
                limit: Some(state.limit().into()),
                held: Some(state.live()),
                remaining: Some(state.remaining().into()),
                source: Some(decision.source().into()),
                ..body
            },
            None => body,
        };
        Self { ground, reason: DenialReason::of_policies(decision), ..body }
    }

    fn new(
        allowed: bool,
        policy: Option<&'a str>,
        standing: Option<(&'a PolicyQuota, &'a QuotaState)>,
        quotas: AppliedQuotas<'a>,
    ) -> Self {
        let state = standing.map(|(_, state)| state);
        Self {
            allowed,
            policy,
            ground: None,
            quota: standing.map(|(quota, _)| LimitText::Quota(QuotaText(quota))),
            algorithm: state.and_then(Algorithm::of),
            limit: state.map(QuotaState::limit),
            used: state.map(QuotaState::used),
            held: None,
            remaining: state.map(QuotaState::remaining),
            reset_after_ms: state.map(|state| millis(state.reset_after())),
            next_after_ms: state.and_then(next_after),
            retry_after_ms: state.and_then(QuotaState::retry_after).map(millis),
            window: state.and_then(QuotaState::window).map(Into::into),
            mark: state.and_then(mark),
            source: state.map(|state| state.source().into()),
            reason: state.and_then(QuotaState::reason).map(Into::into),
            #[cfg(feature = "policy")]
            by_override: None,
            quotas,
        }
    }
}

impl<'a> QuotaBody<'a> {
    fn new(policy: &'a str, quota: &'a PolicyQuota, state: &QuotaState) -> Self {
        Self {
            policy,
            quota: LimitText::Quota(QuotaText(quota)),
            algorithm: Algorithm::of(state),
            limit: state.limit(),
            used: Some(state.used()),
            held: None,
            remaining: state.remaining(),
            reset_after_ms: Some(millis(state.reset_after())),
            next_after_ms: next_after(state),
            retry_after_ms: state.retry_after().map(millis),
            window: state.window().map(Into::into),
            mark: mark(state),
            reason: state.reason().map(Into::into),
            #[cfg(feature = "policy")]
            by_override: None,
        }
    }

    /// Where a quota stands.
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn of_policy(standing: QuotaStanding<'a>) -> Self {
        let QuotaStanding { policy, quota, by_override, state, .. } = standing;
        Self { by_override: by_override.map(Into::into), ..Self::new(policy.name(), quota, state) }
    }

    #[cfg(feature = "policy")]
    fn in_flight(standing: InFlightStanding<'a>) -> Self {
        let InFlightStanding { policy, in_flight, by_override, state } = standing;
        Self {
            policy: policy.name(),
            quota: LimitText::InFlight(in_flight),
            algorithm: None,
            limit: state.limit().into(),
            used: None,
            held: Some(state.live()),
            remaining: state.remaining().into(),
            reset_after_ms: None,
            next_after_ms: None,
            retry_after_ms: None,
            window: None,
            mark: None,
            reason: state.reason().map(Into::into),
            by_override: by_override.map(Into::into),
        }
    }
}

impl AppliedQuotas<'_> {
    /// Returns whether none applies, or one, which the single figures show.
    fn are_few(&self) -> bool {
        match self {
            Self::Charged(quotas, _) => quotas.len() < 2,
            #[cfg(feature = "policy")]
            Self::ByPolicies(decision) => {
                decision.quotas().take(2).count() + decision.in_flight().take(2).count() < 2
            }
        }
    }
}

impl Serialize for AppliedQuotas<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Charged(quotas, counted) => {
                let each = quotas.iter().zip(counted.iter());
                serializer
                    .collect_seq(each.map(|(quota, state)| QuotaBody::new(quota.policy(), quota, state)))
            }
            #[cfg(feature = "policy")]
            Self::ByPolicies(decision) => {
                let quotas = decision.quotas().map(QuotaBody::of_policy);
                serializer.collect_seq(quotas.chain(decision.in_flight().map(QuotaBody::in_flight)))
            }
        }
    }
}

#[cfg(feature = "policy")]
impl DenialReason {
    /// Returns why policies deny the request; `None` if they allow it.
    #[must_use]
    pub fn of_policies(decision: &PolicyDecision) -> Option<Self> {
        match decision.ground() {
            Ground::Unlimited | Ground::Exempt(_) => None,
            Ground::Denied(_) => Some(Self::Denied),
            Ground::DeniedByOverride { .. } => Some(Self::DeniedByOverride),
            Ground::MissingKey { .. } => Some(Self::MissingKey),
            Ground::Unmatched => Some(Self::Unmatched),
            _ => decision.reason().map(Into::into),
        }
    }
}

impl Algorithm {
    /// Returns the algorithm of the quota; `None` for fixed windows.
    #[must_use]
    pub fn of(state: &QuotaState) -> Option<Self> {
        match state.kind() {
            QuotaKind::Burst => Some(Self::Bucket),
            QuotaKind::Sliding => Some(Self::Sliding),
            QuotaKind::Log => Some(Self::Log),
            _ => None,
        }
    }
}

fn next_after(state: &QuotaState) -> Option<u64> {
    state.next_after().filter(|_| state.window().is_none()).map(millis)
}

/// Returns the time by which a refund names a charge in the state's counter, in Unix milliseconds; `None` for fixed
/// windows, whose start names it.
#[must_use]
pub fn mark(state: &QuotaState) -> Option<i64> {
    state.window().is_none().then(|| state.mark().time().as_unix_millis())
}

impl From<Reason> for DenialReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::CostExceedsLimit => Self::CostExceedsLimit,
            Reason::CostExceedsShare => Self::CostExceedsShare,
            Reason::InFlightExceeded => Self::InFlightExceeded,
            _ => Self::QuotaExceeded,
        }
    }
}
