//! Problems, for answers without a decision.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tollgate::PolicyQuota;

use crate::http::rejection::Rejection;

/// A problem (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(in crate::http) struct ProblemBody<'a> {
    #[serde(rename = "type")]
    pub(in crate::http) kind: &'a str,
    pub(in crate::http) title: &'a str,
    pub(in crate::http) status: u16,
    pub(in crate::http) detail: &'a str,
    /// The invalid field of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) field: Option<&'a str>,
    /// The reason for programs; absent if the request is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) reason: Option<ProblemReason>,
    /// The scope that the caller lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) scope: Option<&'a str>,
    /// The quotas that were changed before the store failed. The next one may have been changed as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) changed: Option<&'a [ChangedQuota]>,
    /// The policies that the store can never count together for this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) policies: Option<&'a [Box<str>]>,
}

/// A quota that was changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(in crate::http) struct ChangedQuota {
    policy: Box<str>,
    quota: Box<str>,
}

impl From<&PolicyQuota> for ChangedQuota {
    fn from(quota: &PolicyQuota) -> Self {
        Self { policy: quota.policy().into(), quota: quota.quota().to_string().into() }
    }
}

/// The reason: the store has no room for a new key, cannot be reached, did not answer (so the request may have been
/// counted or not), or can never count the request.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum ProblemReason {
    StoreFull,
    StoreUnavailable,
    OutcomeUnknown,
    Uncountable,
}

impl Serialize for Rejection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body().serialize(serializer)
    }
}
