//! Bodies of requests about overrides.

use schemars::JsonSchema;
use serde::Deserialize;

use super::fields::{EndTime, GivenLimits, Label, LifeLength, Note, OverrideId, PolicyName};
use super::target::TargetAttributes;
use crate::request::json;

/// An override to set. It replaces the one for the same requests, if there is one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetOverrideRequest<'a> {
    /// The policy whose limits it replaces.
    pub(in crate::http) policy: PolicyName,
    #[serde(borrow)]
    pub(in crate::http) attributes: TargetAttributes<'a>,
    /// The limits in place of those of the policy, such as `["500/1m", "20~in_flight"]`; or `unlimited`, which counts
    /// nothing; or `denied`, which denies every request with status 403.
    pub(in crate::http) quotas: GivenLimits,
    /// When it ends, by the store's clock. Without `until` and `for`, it has no end.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "EndTime")]
    pub(in crate::http) until: Option<EndTime>,
    /// How long it lives, from now on by the store's clock, such as `2h`. Either this or `until`.
    #[serde(default, rename = "for", deserialize_with = "json::some")]
    #[schemars(with = "LifeLength")]
    pub(in crate::http) length: Option<LifeLength>,
    /// A text for people, such as the reason. It is stored and listed as it is.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "Note")]
    pub(in crate::http) note: Option<Note>,
    /// A name to find it by in the list, such as a ticket or a job. It is stored and logged as it is.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "Label")]
    pub(in crate::http) label: Option<Label>,
}

/// An override by its policy and its attributes, or by its id.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct NamedOverrideRequest<'a> {
    /// The policy. With `attributes`, in place of `id`.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "PolicyName")]
    pub(in crate::http) policy: Option<PolicyName>,
    #[serde(default, borrow, deserialize_with = "json::some")]
    #[schemars(with = "TargetAttributes<'a>")]
    pub(in crate::http) attributes: Option<TargetAttributes<'a>>,
    /// The id, as the list of overrides has it. It also names an override whose policy is gone or has another key.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "OverrideId")]
    pub(in crate::http) id: Option<OverrideId>,
}
