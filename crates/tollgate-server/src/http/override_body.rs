//! An override in JSON, in answers and in problems.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use tollgate_policy::{
    OverrideLimits, OverrideName, OverrideRecord, OverrideState, OverrideTarget, OverridesVersion, PolicySet,
};
use tollgate_wire::body::TimeText;

/// An override.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Override")]
pub(super) struct OverrideBody {
    /// Its id: `POLICY:=DIGEST` for a key, `POLICY:ATTRIBUTE=TEXT` for a whole text, `POLICY:ATTRIBUTE^TEXT` for a prefix.
    id: String,
    policy: Box<str>,
    /// The key of the policy when the override was set.
    key: Box<str>,
    target: TargetBody,
    quotas: LimitsBody,
    /// When it ends, by the store's clock; absent if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<TimeText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<Box<str>>,
    /// The principal who set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Box<str>>,
    /// When it was set.
    changed: TimeText,
    /// Its version, for `If-Match`.
    version: OverridesVersionText,
    state: StateBody,
    /// Why it is inert; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The requests that an override is for: those of one key, by the key's digest, or those in which an attribute is a text or
/// begins with it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "OverrideTarget")]
enum TargetBody {
    Key { key: String },
    Whole { attribute: Box<str>, is: Box<str> },
    Prefix { attribute: Box<str>, prefix: Box<str> },
}

/// A list of limits, or `unlimited` or `denied`.
#[derive(Debug, Clone)]
struct LimitsBody(OverrideLimits);

/// Whether it applies: `active`; `ended`, because its end has come; or `inert`, for the reason in `reason`.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OverrideState")]
enum StateBody {
    Active,
    Ended,
    Inert,
}

/// A version of the overrides: `EPOCH.NUMBER`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverridesVersionText(OverridesVersion);

impl OverridesVersionText {
    /// Returns the version of the overrides of this pair, if any was ever set.
    pub(super) fn of(live: &PolicySet) -> Option<Self> {
        live.overrides().version().filter(|version| version.number > 0).map(Self)
    }
}

impl From<OverridesVersion> for OverridesVersionText {
    fn from(version: OverridesVersion) -> Self {
        Self(version)
    }
}

impl Serialize for OverridesVersionText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for OverridesVersionText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl OverrideBody {
    /// Describes an override of the history with this epoch.
    pub(super) fn new(record: &OverrideRecord, state: &OverrideState, epoch: u64) -> Self {
        let OverrideName { policy, target } = &record.name;
        let (state, reason) = match state {
            OverrideState::Active => (StateBody::Active, None),
            OverrideState::Ended => (StateBody::Ended, None),
            OverrideState::Inert(reason) => (StateBody::Inert, Some(reason.to_string())),
        };
        Self {
            id: record.name.to_string(),
            policy: policy.clone(),
            key: record.key.clone(),
            target: TargetBody::new(target),
            quotas: LimitsBody(record.limits.clone()),
            until: record.until.map(TimeText),
            label: record.label.as_deref().map(Into::into),
            note: record.note.clone(),
            by: record.by.as_deref().map(Into::into),
            changed: TimeText(record.at),
            version: OverridesVersion { epoch, number: record.version }.into(),
            state,
            reason,
        }
    }

    /// Returns its version.
    pub(super) fn version(&self) -> OverridesVersion {
        self.version.0
    }
}

impl TargetBody {
    fn new(target: &OverrideTarget) -> Self {
        match target {
            OverrideTarget::Key(key) => Self::Key { key: key.to_string() },
            OverrideTarget::Attribute { attribute, text, is_whole: true } => {
                Self::Whole { attribute: attribute.clone(), is: text.clone() }
            }
            OverrideTarget::Attribute { attribute, text, is_whole: false } => {
                Self::Prefix { attribute: attribute.clone(), prefix: text.clone() }
            }
        }
    }
}

impl Serialize for LimitsBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            OverrideLimits::Limits(limits) => serializer.collect_seq(limits),
            OverrideLimits::Unlimited => serializer.serialize_str("unlimited"),
            OverrideLimits::Denied => serializer.serialize_str("denied"),
            OverrideLimits::Unreadable(_) => serializer.serialize_str("unreadable"),
        }
    }
}

impl JsonSchema for LimitsBody {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OverrideLimits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The limits in place of those of the policy",
            "anyOf": [
                { "type": "array", "items": { "type": "string" } },
                { "type": "string", "enum": ["unlimited", "denied", "unreadable"] },
            ],
        })
    }
}
