//! What a rule of the study counts by.

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::request::json::Text;

/// What a rule counts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LeetdezineDimension")]
pub(in crate::http) enum Dimension {
    /// Each user.
    PerUser,
    /// Each user. A rule names one endpoint, so it is the same as `per_user`.
    PerUserEndpoint,
    /// Each address.
    PerIp,
    /// All requests of the endpoint together.
    PerEndpoint,
    /// All requests together.
    Global,
}

impl<'de> Deserialize<'de> for Dimension {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        match &*text {
            "per_user" => Ok(Self::PerUser),
            "per_user_endpoint" => Ok(Self::PerUserEndpoint),
            "per_ip" => Ok(Self::PerIp),
            "per_endpoint" => Ok(Self::PerEndpoint),
            "global" => Ok(Self::Global),
            _ => {
                Err(D::Error::custom("expected per_user, per_user_endpoint, per_ip, per_endpoint or global"))
            }
        }
    }
}
