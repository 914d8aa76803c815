//! The ["Rate Limiter" case study](https://leetdezine.com/rate-limiter) of LeetDezine: a gateway asks for a user, an
//! address, an endpoint and a tier.
//!
//! They are the attributes `user`, `ip`, `endpoint` and `tier`. The policies choose the key: the user, or else the
//! address. Its rules are overrides of the policies, for a tier.

mod dimension;
mod rule_policy;
mod rules;

use std::borrow::Cow;
use std::net::IpAddr;

use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use tollgate_policy::{Attributes, PolicyDecision};

pub(in crate::http) use self::rules::RuleRequest;
use super::super::{Reply, reply};
use super::parameters::Parameters;
use super::{Content, Dialect, Parameter, seconds_left};
use crate::answer::rejection::Rejection;
use crate::args::AnswerSystem;

/// The path of the study's rules.
pub(in crate::http) const RULES: &str = "/api/v1/rules";

pub(super) static DIALECT: Dialect = Dialect {
    system: AnswerSystem::Leetdezine,
    path: "/api/v1/rate_limit",
    example: "/api/v1/rate_limit?user_id=u_abc123&ip_address=203.0.113.5&endpoint=/search&tier=free",
    tells: &["user", "ip", "endpoint", "tier"],
    is_spring: false,
    has_rules: true,
    headers: None,
    attributes,
    reply,
    operation: "checkAsLeetdezine",
    parameters: &[
        Parameter::optional("user_id", "The user; must not be an address"),
        Parameter::optional("ip_address", "The address; also `ip`. Required without `user_id`"),
        Parameter::optional("ip", "The same as `ip_address`"),
        Parameter::required("endpoint", "What for"),
        Parameter::optional("tier", "The tier of rules; `free` by default"),
    ],
    allowed: Content {
        media_type: "application/json",
        schema: SchemaGenerator::subschema_for::<LeetdezineAdmission>,
    },
    denied: Content {
        media_type: "application/json",
        schema: SchemaGenerator::subschema_for::<LeetdezineDenial>,
    },
};

/// The tier of requests without one.
const TIER: &str = "free";
const ERROR: &str = "rate limit exceeded";

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LeetdezineAllowed")]
struct LeetdezineAdmission {
    #[schemars(extend("const" = true))]
    accepted: bool,
    #[schemars(extend("const" = 0))]
    retry_after: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LeetdezineDenied")]
struct LeetdezineDenial {
    #[schemars(extend("const" = false))]
    accepted: bool,
    /// Seconds until the window ends.
    #[schemars(range(min = 1))]
    retry_after: u64,
    #[schemars(extend("const" = ERROR))]
    error: &'static str,
}

fn attributes<'a>(query: &Parameters<'a>) -> Result<Attributes<'a>, Rejection> {
    let (user, endpoint) = (query.optional("user_id")?, query.required("endpoint")?);
    // Its pages write the name in both ways.
    let address = match query.optional("ip_address")? {
        None => query.optional("ip")?,
        address => address,
    };
    // In its keys nothing tells a user from an address, and so one could use up the other's.
    let is_address = |text: &Cow<'_, str>| text.parse::<IpAddr>().is_ok();
    if user.as_ref().is_some_and(is_address) {
        let detail =
            "this is an address, and would be counted as a client's address: send it as `ip_address`";
        return Err(Rejection::bad_field("query.user_id", detail));
    }
    if !address.as_ref().is_none_or(is_address) {
        let detail =
            "this is not an address, and would be counted as a user of this name: send it as `user_id`";
        return Err(Rejection::bad_field("query.ip_address", detail));
    }
    if user.is_none() && address.is_none() {
        return Err(Rejection::bad_field(
            "query.user_id",
            "`user_id` or `ip_address` is required, and both are missing",
        ));
    }
    let tier = query.optional("tier")?.unwrap_or(TIER.into());
    let known = [("user", user), ("ip", address), ("endpoint", Some(endpoint)), ("tier", Some(tier))];
    Ok(known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

fn reply(decision: &PolicyDecision) -> Option<Reply> {
    if decision.is_allowed() {
        return Some(reply::json(StatusCode::OK, &LeetdezineAdmission { accepted: true, retry_after: 0 }));
    }
    let denied = LeetdezineDenial { accepted: false, retry_after: seconds_left(decision)?, error: ERROR };
    Some(reply::json(reply::deny_status(decision), &denied))
}
