//! The ["Rate Limiter" case study](https://leetdezine.com/rate-limiter) of LeetDezine: a gateway asks for a user, an
//! address, an endpoint and a tier.
//!
//! They are the attributes `user`, `ip`, `endpoint` and `tier`. Who is counted is for the policies to say: by user, or
//! else by address.

use std::borrow::Cow;
use std::net::IpAddr;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use tollgate_policy::{Attributes, PolicyDecision};

use super::super::problem::Problem;
use super::super::{Reply, reply};
use super::parameters::Parameters;
use super::{Description, System, seconds_left};

pub(super) const SYSTEM: System = System {
    path: "/api/v1/rate_limit",
    example: "/api/v1/rate_limit?user_id=u_abc123&ip_address=203.0.113.5&endpoint=/search&tier=free",
    tells: &["user", "ip", "endpoint", "tier"],
    headers: None,
    attributes,
    reply,
    description,
};

/// The tier of whoever has none.
const TIER: &str = "free";
const ERROR: &str = "rate limit exceeded";

#[derive(Serialize)]
struct Allowed {
    accepted: bool,
    retry_after: u64,
}

#[derive(Serialize)]
struct Denied {
    accepted: bool,
    /// Seconds until the window ends.
    retry_after: u64,
    error: &'static str,
}

fn attributes<'a>(query: &Parameters<'a>) -> Result<Attributes<'a>, Problem> {
    let (user, endpoint) = (query.optional("user_id")?, query.required("endpoint")?);
    // Its pages write the name in both ways.
    let address = match query.optional("ip_address")? {
        None => query.optional("ip")?,
        address => address,
    };
    // In its keys nothing tells a user from an address, and so one could use up the other's.
    let is_address = |text: &Cow<'_, str>| text.parse::<IpAddr>().is_ok();
    if user.as_ref().is_some_and(is_address) {
        let detail = "this is an address, which would be counted as that of a client: say it as `ip_address`";
        return Err(Problem::bad_field("query.user_id", detail));
    }
    if !address.as_ref().is_none_or(is_address) {
        let detail = "this is no address, and would be counted as a user of this name: say it as `user_id`";
        return Err(Problem::bad_field("query.ip_address", detail));
    }
    if user.is_none() && address.is_none() {
        return Err(Problem::bad_field("query.user_id", "who asks? `user_id` and `ip_address` are missing"));
    }
    let tier = query.optional("tier")?.unwrap_or(TIER.into());
    let known = [("user", user), ("ip", address), ("endpoint", Some(endpoint)), ("tier", Some(tier))];
    Ok(known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

fn reply(decision: &PolicyDecision) -> Option<Reply> {
    if decision.is_allowed() {
        return Some(reply::json(StatusCode::OK, &Allowed { accepted: true, retry_after: 0 }));
    }
    let denied = Denied { accepted: false, retry_after: seconds_left(decision)?, error: ERROR };
    Some(reply::json(reply::deny_status(decision), &denied))
}

fn description() -> Description {
    let parameter = |name, required, description, schema: Value| json!({ "name": name, "in": "query", "required": required, "description": description, "schema": schema });
    let text = || json!({ "type": "string" });
    let object = |properties: Value, required: &[&str]| {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        json!({ "application/json": { "schema": schema } })
    };
    Description {
        operation: "checkAsLeetdezine",
        parameters: json!([
            parameter("user_id", false, "Who asks; an address is none", text()),
            parameter(
                "ip_address",
                false,
                "From which address; also `ip`. Without `user_id` it has to be there",
                text()
            ),
            parameter("ip", false, "The same by its other name", text()),
            parameter("endpoint", true, "What for", json!({ "type": "string", "minLength": 1 })),
            parameter("tier", false, "By which rules", json!({ "type": "string", "default": TIER })),
        ]),
        allowed: object(
            json!({ "accepted": { "const": true }, "retry_after": { "const": 0 } }),
            &["accepted", "retry_after"],
        ),
        denied: object(
            json!({
                "accepted": { "const": false },
                "retry_after": { "type": "integer", "minimum": 1 },
                "error": { "const": ERROR },
            }),
            &["accepted", "retry_after", "error"],
        ),
    }
}
