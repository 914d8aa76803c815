//! Overrides in answers.

use serde::Serialize;
use tollgate_policy::AppliedOverride;

use super::TimeText;

/// That an override applies to the request, and for how long.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "AppliedOverride"))]
pub struct AppliedOverrideBody {
    /// The first moment at which it does not apply any more, in RFC 3339; absent if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<TimeText>,
}

impl From<AppliedOverride> for AppliedOverrideBody {
    fn from(AppliedOverride { until, .. }: AppliedOverride) -> Self {
        Self { until: until.map(TimeText) }
    }
}
