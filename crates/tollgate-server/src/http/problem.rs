//! Problems, for answers without a decision.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate::{PolicyInFlight, PolicyQuota};

use super::override_body::{OverrideBody, OverridesVersionText};

/// A problem (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemBody<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) title: &'a str,
    pub(super) status: u16,
    pub(super) detail: &'a str,
    /// The invalid field of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<&'a str>,
    /// The reason for programs; absent if the request is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<ProblemReason>,
    /// The scope that the caller lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<&'a str>,
    /// The quotas that were changed before the store failed, and limits in flight of which the units were forgotten. The next
    /// one may have been changed as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<Box<[ChangedQuota]>>,
    /// The policies that the store can never count together for this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policies: Option<&'a [Box<str>]>,
    /// The override that is there in place of the one that the condition names; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<OverrideBody>,
    /// The version of all overrides, if the condition of a change does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) overrides_version: Option<OverridesVersionText>,
    /// A hash of the live limits, only at `/readyz`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<String>,
}

/// A quota that was changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct ChangedQuota {
    policy: Box<str>,
    quota: Box<str>,
}

impl From<&PolicyQuota> for ChangedQuota {
    fn from(quota: &PolicyQuota) -> Self {
        Self { policy: quota.policy().into(), quota: quota.quota().to_string().into() }
    }
}

impl From<&PolicyInFlight> for ChangedQuota {
    fn from(limit: &PolicyInFlight) -> Self {
        Self { policy: limit.policy().into(), quota: limit.in_flight().to_string().into() }
    }
}

/// The reason: the id belongs to another hold, or to one that was settled; a policy limits units in flight, so the request
/// needs a hold (`/v1/reserve`); the caller counts under too many names; or the store has no room for a new key, cannot be reached, did not answer (so the request
/// may have been counted or not), or can never count the request. Of overrides: the condition of a change does not hold;
/// there is no such override; there is no such policy, or it counts nothing; the service has no place for overrides
/// (`--state-dir`), has them turned off, or has as many as it may have.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProblemReason {
    IdConflict,
    HoldEnded,
    NeedsHold,
    TooManyNames,
    StoreFull,
    StoreUnavailable,
    OutcomeUnknown,
    Uncountable,
    PreconditionFailed,
    NoOverride,
    NoPolicy,
    CountsNothing,
    NoStateDir,
    OverridesOff,
    TooManyOverrides,
}
