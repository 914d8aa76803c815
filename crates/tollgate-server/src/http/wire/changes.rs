//! Answers to changes of counters.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate::{PolicyQuota, QuotaState, Source};
use tollgate_policy::{ForgottenUnits, Policy, QuotaChanges, QuotaRefund};
use tollgate_wire::body::{Algorithm, DecisionSource, QuotaText, WindowBody, mark};

use crate::answer::rejection::Rejection;
use crate::http::override_body::OverridesVersionText;
use crate::http::problem::ProblemBody;

/// The result of a refund.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct RefundReply<'a> {
    /// The version of the policies that chose the quotas.
    pub(in crate::http) version: u64,
    /// The version of the overrides that chose them as well; absent if none was ever set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) overrides_version: Option<OverridesVersionText>,
    pub(in crate::http) quotas: Vec<RefundedQuota<'a>>,
}

/// The refund of one quota.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct RefundedQuota<'a> {
    policy: &'a str,
    quota: QuotaText<'a>,
    window: WindowState,
    /// Units given back.
    given: u32,
    /// Units still used; absent if `window` is `closed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
}

/// Whether the charge may still count: `closed` if its window has ended or, for other kinds, all its units are free again.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WindowState {
    Open,
    Closed,
}

/// The states of the quotas after a change.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct CountsReply<'a> {
    /// The version of the policies that chose the quotas.
    version: u64,
    /// The version of the overrides that chose them as well; absent if none was ever set.
    #[serde(skip_serializing_if = "Option::is_none")]
    overrides_version: Option<OverridesVersionText>,
    quotas: Vec<QuotaCount<'a>>,
    /// The units in flight that a reset has forgotten, whoever held them; absent if no limit in flight was reset.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forgotten: Vec<ForgottenCount<'a>>,
}

/// The units in flight of one limit that were forgotten.
#[derive(Serialize, JsonSchema)]
struct ForgottenCount<'a> {
    policy: &'a str,
    /// The limit in flight.
    quota: String,
    /// How many units were live.
    units: u32,
}

/// The result of each record of a batch, in the order of its requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct RecordBatchReply<'a> {
    pub(in crate::http) records: Vec<RecordEntry<'a>>,
}

/// The states of the quotas, or the reason why nothing was counted.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::http) enum RecordEntry<'a> {
    Counts(CountsReply<'a>),
    Rejection(#[schemars(with = "ProblemBody<'a>")] Rejection),
}

/// The state of one quota after a change.
#[derive(Serialize, JsonSchema)]
struct QuotaCount<'a> {
    policy: &'a str,
    quota: QuotaText<'a>,
    /// How the quota counts; absent for fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<Algorithm>,
    limit: u64,
    used: u64,
    remaining: u64,
    /// The window that was counted; absent unless the quota counts in fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowBody>,
    /// The time by which a refund names a recorded charge; absent for fixed windows, whose start names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<i64>,
    /// The source of the count, if it is not the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<DecisionSource>,
}

impl<'a> RefundedQuota<'a> {
    pub(in crate::http) fn new(quota: &'a PolicyQuota, refund: &QuotaRefund) -> Self {
        let QuotaRefund { is_open, state } = refund;
        Self {
            policy: quota.policy(),
            quota: QuotaText(quota),
            window: if *is_open { WindowState::Open } else { WindowState::Closed },
            given: state.units(),
            used: is_open.then(|| state.used()),
        }
    }
}

impl<'a> CountsReply<'a> {
    pub(in crate::http) fn new(changed: &'a QuotaChanges<QuotaState>) -> Self {
        let quotas = changed.iter().map(|(policy, quota, state)| QuotaCount::new(policy, quota, state));
        let forgotten = changed.forgotten().map(|ForgottenUnits { policy, in_flight, units }| {
            ForgottenCount { policy: policy.name(), quota: in_flight.in_flight().to_string(), units }
        });
        let (version, quotas) = (changed.policies().version(), quotas.collect());
        let overrides_version = OverridesVersionText::of(changed.policies());
        Self { version, overrides_version, quotas, forgotten: forgotten.collect() }
    }
}

impl<'a> QuotaCount<'a> {
    fn new(policy: &'a Policy, quota: &'a PolicyQuota, state: &QuotaState) -> Self {
        Self {
            policy: policy.name(),
            quota: QuotaText(quota),
            algorithm: Algorithm::of(state),
            limit: state.limit(),
            used: state.used(),
            remaining: state.remaining(),
            window: state.window().map(Into::into),
            mark: mark(state),
            source: (state.source() != Source::Store).then(|| state.source().into()),
        }
    }
}
