//! What is answered where there is no decision.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tollgate::PolicyQuota;

use crate::http::rejection::Rejection;

/// What went wrong, as RFC 9457 has it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(in crate::http) struct ProblemBody<'a> {
    #[serde(rename = "type")]
    pub(in crate::http) kind: &'a str,
    pub(in crate::http) title: &'a str,
    pub(in crate::http) status: u16,
    pub(in crate::http) detail: &'a str,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) field: Option<&'a str>,
    /// What the service has run into, for programs; absent if the request is what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) reason: Option<ProblemReason>,
    /// The scope that the request needs, if its caller may not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) scope: Option<&'a str>,
    /// The quotas that were changed before the store failed. The one after them was perhaps changed as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) changed: Option<&'a [ChangedQuota]>,
    /// The policies by which the store can never count the request all at once.
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

/// What the service has run into: its store has no room for an unseen key, cannot be asked, was asked and did not
/// answer, so that the request may have been counted or not, or can never count the request.
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
