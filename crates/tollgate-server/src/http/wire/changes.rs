//! What an administrator who changes counters is answered.

use serde::Serialize;
use tollgate::{PolicyQuota, QuotaState, Refunded};
use tollgate_policy::Policy;
use utoipa::ToSchema;

use super::{Window, Written};

/// What was given back.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct RefundReply<'a> {
    /// The version of the policies that said which quotas apply.
    pub(in crate::http) version: u64,
    pub(in crate::http) quotas: Vec<RefundedQuota<'a>>,
}

/// What was given back to one quota.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct RefundedQuota<'a> {
    policy: &'a str,
    #[schema(value_type = String)]
    quota: Written<'a>,
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
pub(in crate::http) struct CountsReply<'a> {
    /// The version of the policies that said which quotas apply.
    pub(in crate::http) version: u64,
    pub(in crate::http) quotas: Vec<QuotaCount<'a>>,
}

/// Where one quota stands after a change.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct QuotaCount<'a> {
    policy: &'a str,
    #[schema(value_type = String)]
    quota: Written<'a>,
    limit: u64,
    used: u64,
    remaining: u64,
    window: Window,
}

impl<'a> RefundedQuota<'a> {
    pub(in crate::http) fn new(policy: &'a Policy, quota: &'a PolicyQuota, refunded: Refunded) -> Self {
        let (window, used) = match refunded {
            Refunded::Open { used, .. } => (WindowState::Open, Some(used)),
            Refunded::Closed => (WindowState::Closed, None),
        };
        Self { policy: policy.name(), quota: Written(quota), window, given: refunded.given(), used }
    }
}

impl<'a> QuotaCount<'a> {
    pub(in crate::http) fn new(policy: &'a Policy, quota: &'a PolicyQuota, state: &QuotaState) -> Self {
        let (limit, used, remaining) = (state.limit(), state.used(), state.remaining());
        let (policy, quota) = (policy.name(), Written(quota));
        Self { policy, quota, limit, used, remaining, window: state.window().into() }
    }
}
