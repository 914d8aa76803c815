//! Answers about overrides.

use schemars::JsonSchema;
use serde::Serialize;

use crate::http::override_body::{OverrideBody, OverridesVersionText};

/// An override that was set.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct SetOverrideReply {
    #[serde(flatten)]
    pub(in crate::http) set: OverrideBody,
    /// Whether it has replaced another one.
    pub(in crate::http) replaced: bool,
    /// The version of all overrides after the change.
    pub(in crate::http) overrides_version: OverridesVersionText,
}

/// An override, as this process knows it.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct GotOverrideReply {
    #[serde(flatten)]
    pub(in crate::http) got: OverrideBody,
    /// The version of all overrides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) overrides_version: Option<OverridesVersionText>,
    /// Whether this process has not read the overrides for a second, because the store does not answer.
    pub(in crate::http) stale: bool,
}

/// An override that was deleted.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct DeletedOverrideReply {
    pub(in crate::http) id: String,
    /// The version of all overrides after the change.
    pub(in crate::http) overrides_version: OverridesVersionText,
    /// What was deleted, as this process knew it; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) deleted: Option<OverrideBody>,
}

/// A page of the list of overrides.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct OverrideListReply {
    /// The version of all overrides; absent if there has never been one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) overrides_version: Option<OverridesVersionText>,
    /// Whether this process has not read the overrides for a second, because the store does not answer.
    pub(in crate::http) stale: bool,
    /// In the order of their policies, and of their targets. There may be fewer than `limit`, and yet more to come.
    pub(in crate::http) overrides: Vec<OverrideBody>,
    /// Where the next page begins, for `after`; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) next: Option<String>,
}
