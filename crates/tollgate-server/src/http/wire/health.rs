//! What is told of the service's health as Spring's actuator tells it.

use schemars::JsonSchema;
use serde::Serialize;

/// The health of an application of Spring's. One that is not up is answered with a problem.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ActuatorHealth")]
pub(in crate::http) struct HealthReply {
    #[schemars(extend("const" = "UP"))]
    status: &'static str,
}

impl HealthReply {
    pub(in crate::http) const UP: Self = Self { status: "UP" };
}
