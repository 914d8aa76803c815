//! Answers to checks, peeks and batches.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tollgate::{QuotaState, Verdict};
use tollgate_policy::{PolicyDecision, TrialDecision, TrialKind};
use tollgate_wire::body::{DecisionBody, DenialBody};
use tollgate_wire::headers::LimitHeaders;

use crate::answer::rejection::Rejection;
use crate::http::override_body::OverridesVersionText;
use crate::http::problem::ProblemBody;

/// The answer to a request. The single figures are those of the quota that decided; they are absent if none did.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Decision")]
pub(in crate::http) struct CheckReply<'a> {
    #[serde(flatten)]
    decision: DecisionBody<'a>,
    #[serde(flatten)]
    service: OfService<'a>,
}

/// A denial: a problem (RFC 9457) with every field of the decision.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QuotaExceeded")]
pub(in crate::http) struct DeniedReply<'a> {
    #[serde(flatten)]
    denial: DenialBody<'a>,
    #[serde(flatten)]
    service: OfService<'a>,
}

/// A denial for a client, to whom a proxy may pass it on: a problem (RFC 9457) with every field of the decision that
/// concerns it.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ClientDenial<'a> {
    #[serde(flatten)]
    denial: DenialBody<'a>,
}

/// Fields of decisions that only the service has, for callers and not for their clients.
#[derive(Serialize, JsonSchema)]
struct OfService<'a> {
    /// The version of the policies under which it was decided.
    version: u64,
    /// The version of the overrides under which it was decided; absent if none was ever set.
    #[serde(skip_serializing_if = "Option::is_none")]
    overrides_version: Option<OverridesVersionText>,
    /// Results of shadow policies and candidates; absent if there are none.
    #[serde(skip_serializing_if = "Trials::is_empty")]
    #[schemars(with = "Vec<TrialBody<'_>>")]
    trials: Trials<'a>,
}

/// The result of a shadow policy or of candidates.
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
    /// Units used of it; absent if `limit` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
}

/// The subject of a trial: the policy, because it is in shadow mode, or its candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TrialKind")]
pub(super) enum TrialKindBody {
    Shadow,
    Candidate,
}

/// The answer it would have given; `failed` if the store did not answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TrialAnswer")]
enum TrialAnswerBody {
    Allowed,
    Denied,
    Failed,
}

/// The answers to a batch, in the order of its requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct BatchReply<'a> {
    pub(in crate::http) decisions: Vec<BatchEntry<'a>>,
}

/// A decision, or the reason why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::http) enum BatchEntry<'a> {
    Decision(CheckReply<'a>),
    Rejection(#[schemars(with = "ProblemBody<'a>")] Rejection),
}

impl<'a> CheckReply<'a> {
    pub(in crate::http) fn new(decision: &'a PolicyDecision) -> Self {
        Self { decision: DecisionBody::of_policies(decision), service: OfService::new(decision) }
    }
}

impl<'a> DeniedReply<'a> {
    pub(in crate::http) fn new(
        status: u16,
        decision: &'a PolicyDecision,
        limit_headers: &'a LimitHeaders,
    ) -> Self {
        Self {
            denial: DenialBody::of_policies(status, decision, limit_headers),
            service: OfService::new(decision),
        }
    }
}

impl<'a> ClientDenial<'a> {
    pub(in crate::http) fn new(
        status: u16,
        decision: &'a PolicyDecision,
        limit_headers: &'a LimitHeaders,
    ) -> Self {
        Self { denial: DenialBody::of_policies(status, decision, limit_headers) }
    }
}

impl<'a> OfService<'a> {
    fn new(decision: &'a PolicyDecision) -> Self {
        let overrides_version = OverridesVersionText::of(decision.policies());
        Self { version: decision.version(), overrides_version, trials: Trials(decision) }
    }
}

impl From<TrialKind> for TrialKindBody {
    fn from(kind: TrialKind) -> Self {
        match kind {
            TrialKind::Shadow => Self::Shadow,
            TrialKind::Candidate => Self::Candidate,
        }
    }
}

/// Written one after another, without creating a list.
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
            kind: kind.into(),
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
