//! What goes over the wire: JSON requests and replies, and their conversion.
//!
//! The comments on these types are the descriptions in `/openapi.json`.

use std::time::Duration;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};
use tollgate::{Decision, QuotaState, Reason, Refunded, Source};
use tollgate_tower::headers::LimitHeaders;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::json::{Cost, Object, StartMillis, Used};
use super::problem::Problem;
use crate::attributes::Attributes;
use crate::policy::Policy;

/// What a request takes, and for whom.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckRequest<'a> {
    #[serde(borrow)]
    pub(super) attributes: Attributes<'a>,
    #[serde(default)]
    pub(super) cost: Cost,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchRequest<'a> {
    #[serde(borrow)]
    pub(super) requests: Vec<Object<CheckRequest<'a>>>,
}

impl BatchRequest<'_> {
    pub(super) const MAX: usize = 100;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefundRequest<'a> {
    #[serde(borrow)]
    pub(super) attributes: Attributes<'a>,
    #[serde(default)]
    pub(super) cost: Cost,
    /// The start of the window that was charged, for each quota.
    pub(super) windows: Vec<StartMillis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResetRequest<'a> {
    #[serde(borrow)]
    pub(super) attributes: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetRequest<'a> {
    #[serde(borrow)]
    pub(super) attributes: Attributes<'a>,
    pub(super) used: Used,
}

/// The answer to a request. The single figures are those of the quota that decided.
#[derive(Serialize, ToSchema)]
#[schema(as = Decision)]
pub(super) struct DecisionBody<'a> {
    /// Whether the request may go on.
    allowed: bool,
    /// The name of the policy.
    policy: &'a str,
    /// The quota that decided, as it is written.
    quota: &'a str,
    /// Units allowed in a window.
    limit: u64,
    /// Units used in the window, this request's included if it was allowed.
    used: u64,
    /// Units left in the window.
    remaining: u64,
    /// Milliseconds until the window ends.
    reset_after_ms: u64,
    /// Milliseconds to wait before another try; absent if allowed, or if the cost can never pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retry_after_ms: Option<u64>,
    window: Window,
    source: DecisionSource,
    /// Why the request is denied; absent if it is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<DenialReason>,
    /// Where every quota stands.
    #[schema(value_type = Vec<QuotaBody<'_>>, min_items = 1)]
    quotas: Quotas<'a>,
}

/// Where one quota stands after a decision.
#[derive(Serialize, ToSchema)]
#[schema(as = Quota)]
struct QuotaBody<'a> {
    /// The quota as it is written.
    quota: &'a str,
    limit: u64,
    used: u64,
    remaining: u64,
    reset_after_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retry_after_ms: Option<u64>,
    window: Window,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<DenialReason>,
}

/// A window in Unix milliseconds: the first that belongs to it, and the first that no longer does.
#[derive(Serialize, ToSchema)]
struct Window {
    start: i64,
    end: i64,
}

/// Where a decision came from: the store, what the process remembers of it, or the rule for a store in trouble.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DecisionSource {
    Store,
    Local,
    Fallback,
}

/// Why a request is denied: a later window has room for it, or none ever has.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DenialReason {
    QuotaExceeded,
    CostExceedsLimit,
}

/// A denial: a problem as RFC 9457 has it, with every field of the decision.
#[derive(Serialize, ToSchema)]
#[schema(as = QuotaExceeded)]
pub(super) struct DeniedBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    title: &'a str,
    status: u16,
    detail: String,
    /// The quotas that had no room, as the headers name them.
    #[serde(rename = "violated-policies")]
    violated_policies: Vec<&'a str>,
    #[serde(flatten)]
    decision: DecisionBody<'a>,
}

/// The answers to a batch, in the order of its requests.
#[derive(Serialize, ToSchema)]
pub(super) struct BatchReply<'a> {
    pub(super) decisions: Vec<BatchEntry<'a>>,
}

/// A decision, or why there is none.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum BatchEntry<'a> {
    Decision(DecisionBody<'a>),
    Problem(Problem),
}

/// What went wrong, as RFC 9457 has it.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemBody<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) title: &'a str,
    pub(super) status: u16,
    pub(super) detail: &'a str,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) field: Option<&'a str>,
    /// What the service has run into, for programs; absent if the request is what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) reason: Option<ProblemReason>,
}

/// What the service has run into: its store has no room for an unseen key, did not take the request, or was asked
/// and did not answer, so that it may have taken it or not.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProblemReason {
    StoreFull,
    StoreUnavailable,
    OutcomeUnknown,
}

/// What was given back.
#[derive(Serialize, ToSchema)]
pub(super) struct RefundReply<'a> {
    pub(super) quotas: Vec<RefundedQuota<'a>>,
}

/// What was given back to one quota.
#[derive(Serialize, ToSchema)]
pub(super) struct RefundedQuota<'a> {
    quota: &'a str,
    window: WindowState,
    /// Units given back.
    given: u32,
    /// Units still used; absent if the window has closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    used: Option<u64>,
}

/// Whether the window that was named still counts.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WindowState {
    Open,
    Closed,
}

/// Where the quotas stand after a change.
#[derive(Serialize, ToSchema)]
pub(super) struct CountsReply<'a> {
    pub(super) quotas: Vec<QuotaCount<'a>>,
}

/// Where one quota stands after a change.
#[derive(Serialize, ToSchema)]
pub(super) struct QuotaCount<'a> {
    quota: &'a str,
    limit: u64,
    used: u64,
    remaining: u64,
    window: Window,
}

impl<'a> DecisionBody<'a> {
    pub(super) fn new(decision: &'a Decision, policy: &'a Policy) -> Self {
        let state = decision.quota();
        let window = state.map_or(Window { start: 0, end: 0 }, |state| state.window().into());
        Self {
            allowed: decision.is_allowed(),
            policy: Policy::NAME,
            quota: policy.texts().get(decision.deciding()).map_or("", AsRef::as_ref),
            limit: state.map_or(0, QuotaState::limit),
            used: decision.used(),
            remaining: decision.remaining(),
            reset_after_ms: millis(decision.reset_after()),
            retry_after_ms: decision.retry_after().map(millis),
            window,
            source: decision.source().into(),
            reason: decision.reason().map(Into::into),
            quotas: Quotas { states: decision.quotas(), texts: policy.texts() },
        }
    }
}

impl<'a> DeniedBody<'a> {
    /// Source: draft-ietf-httpapi-ratelimit-headers-11, section "Problem types".
    const KIND: &'static str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

    pub(super) fn new(decision: &'a Decision, policy: &'a Policy, headers: &'a LimitHeaders) -> Self {
        let violated = decision.quotas().iter().enumerate().filter(|(_, state)| state.reason().is_some());
        let body = DecisionBody::new(decision, policy);
        let detail = match decision.retry_after() {
            Some(wait) => format!(
                "{} has {} of {} left, less than the request takes; the next window starts in {} s",
                body.quota,
                body.remaining,
                body.limit,
                tollgate::whole_seconds(wait),
            ),
            None if body.limit == 0 => "the limit is 0: everything is denied".to_owned(),
            None => format!("the cost is above the limit of {} and can never pass", body.quota),
        };
        Self {
            kind: Self::KIND,
            title: "Quota exceeded",
            status: 429,
            detail,
            violated_policies: violated.filter_map(|(index, _)| headers.name(index)).collect(),
            decision: body,
        }
    }
}

impl<'a> RefundedQuota<'a> {
    pub(super) fn new(quota: &'a str, refunded: Refunded) -> Self {
        let (window, used) = match refunded {
            Refunded::Open { used, .. } => (WindowState::Open, Some(used)),
            Refunded::Closed => (WindowState::Closed, None),
        };
        Self { quota, window, given: refunded.given(), used }
    }
}

impl<'a> QuotaCount<'a> {
    pub(super) fn new(quota: &'a str, state: &QuotaState) -> Self {
        let (limit, used, remaining) = (state.limit(), state.used(), state.remaining());
        Self { quota, limit, used, remaining, window: state.window().into() }
    }
}

/// Written one after another, so that no list of them is made.
struct Quotas<'a> {
    states: &'a [QuotaState],
    texts: &'a [Box<str>],
}

impl Serialize for Quotas<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.states.len()))?;
        for (state, text) in self.states.iter().zip(self.texts) {
            list.serialize_element(&QuotaBody {
                quota: text,
                limit: state.limit(),
                used: state.used(),
                remaining: state.remaining(),
                reset_after_ms: millis(state.reset_after()),
                retry_after_ms: state.retry_after().map(millis),
                window: state.window().into(),
                reason: state.reason().map(Into::into),
            })?;
        }
        list.end()
    }
}

impl From<tollgate::Window> for Window {
    fn from(window: tollgate::Window) -> Self {
        Self { start: window.start().as_unix_millis(), end: window.end().as_unix_millis() }
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

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        ProblemBody::schema()
    }
}

impl ToSchema for Problem {}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body().serialize(serializer)
    }
}

/// Rounded up, so that nobody is told to come back too early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
