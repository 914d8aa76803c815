//! The service's health in the format of Spring's actuator.

use schemars::JsonSchema;
use serde::Serialize;

/// The health in Spring's format. A service that is not up answers with a problem.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ActuatorHealth")]
pub(in crate::http) struct HealthReply {
    #[schemars(extend("const" = "UP"))]
    status: &'static str,
}

impl HealthReply {
    pub(in crate::http) const UP: Self = Self { status: "UP" };
}
