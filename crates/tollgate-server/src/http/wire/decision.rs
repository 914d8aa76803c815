//! What a check, a peek and a batch are answered.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tollgate::{QuotaState, Reason, Source, Verdict};
use tollgate_policy::{Ground, Policy, PolicyDecision, QuotaStanding, TrialDecision, TrialKind};
use tollgate_tower::DenialProblem;
use tollgate_tower::headers::LimitHeaders;

use super::problem::ProblemBody;
use super::{Window, Written, millis};
use crate::http::rejection::Rejection;

/// The answer to a request. The single figures are those of the quota that decided; they are absent if none did.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Decision")]
pub(in crate::http) struct DecisionBody<'a> {
    /// Whether the request may go on.
    allowed: bool,
    /// The policy that decided; absent if none limits the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    /// The version of the policies under which it was decided.
    version: u64,
    /// Why no quota decided; absent if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    ground: Option<GroundBody>,
    /// The quota that decided, as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Written<'a>>,
    /// Units allowed in a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// Units used in the window, this request's included if it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
    /// Units left in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    /// Milliseconds until the window ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_after_ms: Option<u64>,
    /// Milliseconds to wait before another try; absent if allowed, or if the cost can never pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Window>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<DecisionSource>,
    /// Why the request is denied; absent if it is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<DenialReason>,
    /// Where every quota stands that applies.
    #[schemars(with = "Vec<QuotaBody<'_>>")]
    quotas: Quotas<'a>,
    /// What shadow policies and candidates would have done; absent if there are none.
    #[serde(skip_serializing_if = "Trials::is_empty")]
    #[schemars(with = "Vec<TrialBody<'_>>")]
    trials: Trials<'a>,
    /// By which `/v1/refund` gives back what was taken; absent unless it was asked for, the request is allowed, and
    /// something was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
}

/// Why a request is answered as it is where no quota decides: no policy limits it, a policy exempts it, a policy denies
/// whatever it matches, a policy denies who does not say whom it is to count, or no policy matches and such requests are denied.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ground")]
enum GroundBody {
    Unlimited,
    Exempt,
    Denied,
    MissingKey,
    Unmatched,
}

/// Where one quota stands after a decision.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Quota")]
struct QuotaBody<'a> {
    /// The policy that it belongs to.
    policy: &'a str,
    /// The quota as it is written.
    quota: Written<'a>,
    limit: u64,
    used: u64,
    remaining: u64,
    reset_after_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Window>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<DenialReason>,
}

/// What a policy or its candidates would have done that are only tried out.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trial")]
struct TrialBody<'a> {
    /// The policy.
    policy: &'a str,
    kind: TrialKindBody,
    answer: TrialAnswerBody,
    /// The limit of the quota that would have decided; absent if none would, or if the store did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// What is used of it; absent if `limit` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
}

/// What is only tried out: the policy, because it is in shadow mode, or its candidates.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TrialKind")]
enum TrialKindBody {
    Shadow,
    Candidate,
}

/// What it would have answered; `failed` if the store did not say.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TrialAnswer")]
enum TrialAnswerBody {
    Allowed,
    Denied,
    Failed,
}

/// Where a decision came from: the store, what the process remembers of it, or the rule for a store in trouble.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DecisionSource {
    Store,
    Local,
    Fallback,
}

/// Why a request is denied: a later window has room for it, none ever has, a policy denies whatever it matches, it does
/// not say whom to count, or no policy matches it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DenialReason {
    QuotaExceeded,
    CostExceedsLimit,
    Denied,
    MissingKey,
    Unmatched,
}

/// A denial: a problem as RFC 9457 has it, with every field of the decision.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QuotaExceeded")]
pub(in crate::http) struct DeniedBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    title: &'a str,
    status: u16,
    detail: Cow<'a, str>,
    /// The quotas that had no room, as the headers name them.
    #[serde(rename = "violated-policies")]
    violated_policies: Vec<&'a str>,
    #[serde(flatten)]
    decision: DecisionBody<'a>,
}

/// The answers to a batch, in the order of its requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct BatchReply<'a> {
    pub(in crate::http) decisions: Vec<BatchEntry<'a>>,
}

/// A decision, or why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::http) enum BatchEntry<'a> {
    Decision(DecisionBody<'a>),
    Rejection(#[schemars(with = "ProblemBody<'a>")] Rejection),
}

impl<'a> DecisionBody<'a> {
    pub(in crate::http) fn new(decision: &'a PolicyDecision) -> Self {
        let deciding = decision.quota();
        let state = deciding.map(|deciding| deciding.state);
        let (ground, reason) = match decision.ground() {
            Ground::Unlimited => (Some(GroundBody::Unlimited), None),
            Ground::Exempt(_) => (Some(GroundBody::Exempt), None),
            Ground::Denied(_) => (Some(GroundBody::Denied), Some(DenialReason::Denied)),
            Ground::MissingKey { .. } => (Some(GroundBody::MissingKey), Some(DenialReason::MissingKey)),
            Ground::Unmatched => (Some(GroundBody::Unmatched), Some(DenialReason::Unmatched)),
            _ => (None, state.and_then(QuotaState::reason).map(Into::into)),
        };
        Self {
            allowed: decision.is_allowed(),
            policy: decision.policy().map(Policy::name),
            version: decision.version(),
            ground,
            quota: deciding.map(|deciding| Written(deciding.quota)),
            limit: state.map(QuotaState::limit),
            used: state.map(QuotaState::used),
            remaining: state.map(QuotaState::remaining),
            reset_after_ms: state.map(|state| millis(state.reset_after())),
            retry_after_ms: state.and_then(QuotaState::retry_after).map(millis),
            window: state.and_then(QuotaState::window).map(Into::into),
            source: state.map(|state| state.source().into()),
            reason,
            quotas: Quotas(decision),
            trials: Trials(decision),
            receipt: None,
        }
    }

    /// The same with a receipt, if there is one.
    pub(in crate::http) fn with_receipt(self, receipt: Option<String>) -> Self {
        Self { receipt, ..self }
    }
}

impl<'a> DeniedBody<'a> {
    pub(in crate::http) fn new(
        decision: &'a PolicyDecision,
        limit_headers: &'a LimitHeaders,
        status: u16,
    ) -> Self {
        let problem = match (decision.ground(), decision.counted()) {
            (Ground::MissingKey { policy, no_key }, _) => {
                DenialProblem::of_missing_key(policy.name(), no_key.to_string())
            }
            (Ground::Denied(policy), _) => DenialProblem::of_list(policy.name()),
            (_, Some(counted)) => DenialProblem::of_quotas(counted, limit_headers),
            (_, None) => DenialProblem::of_unmatched(),
        };
        let DenialProblem { kind, title, detail, violated_policies, .. } = problem;
        Self { kind, title, status, detail, violated_policies, decision: DecisionBody::new(decision) }
    }
}

/// Written one after another, so that no list of them is made.
struct Quotas<'a>(&'a PolicyDecision);

impl Serialize for Quotas<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.quotas().map(|QuotaStanding { policy, quota, state }| QuotaBody {
            policy: policy.name(),
            quota: Written(quota),
            limit: state.limit(),
            used: state.used(),
            remaining: state.remaining(),
            reset_after_ms: millis(state.reset_after()),
            retry_after_ms: state.retry_after().map(millis),
            window: state.window().map(Into::into),
            reason: state.reason().map(Into::into),
        }))
    }
}

struct Trials<'a>(&'a PolicyDecision);

impl Trials<'_> {
    fn is_empty(&self) -> bool {
        self.0.trials().next().is_none()
    }
}

impl Serialize for Trials<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.trials().map(|TrialDecision { policy, kind, answer }| TrialBody {
            policy: policy.name(),
            kind: match kind {
                TrialKind::Shadow => TrialKindBody::Shadow,
                TrialKind::Candidate => TrialKindBody::Candidate,
            },
            answer: match answer.verdict() {
                Some(Verdict::Allowed) => TrialAnswerBody::Allowed,
                Some(Verdict::Denied) => TrialAnswerBody::Denied,
                None => TrialAnswerBody::Failed,
            },
            limit: answer.state().map(QuotaState::limit),
            used: answer.state().map(QuotaState::used),
        }))
    }
}

impl From<Source> for DecisionSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Local => Self::Local,
            Source::Fallback => Self::Fallback,
            _ => Self::Store,
        }
    }
}

impl From<Reason> for DenialReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::CostExceedsLimit => Self::CostExceedsLimit,
            _ => Self::QuotaExceeded,
        }
    }
}
