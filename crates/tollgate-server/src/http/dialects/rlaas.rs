//! The [RLaaS Users Service](https://github.com/amitsaxena098/rlaas-users-service): one path, and a sentence each.
//!
//! The seconds in a denial last until the window's end; RLaaS takes them from the time to live of a key, which is up to
//! a window too long. Its attribute is named as its parameter is.

use schemars::json_schema;
use tollgate_policy::{Attributes, PolicyDecision};

use super::super::{Reply, reply};
use super::parameters::Parameters;
use super::{Content, Dialect, Parameter, seconds_left};
use crate::answer::rejection::Rejection;
use crate::args::AnswerSystem;

pub(crate) static DIALECT: Dialect = Dialect {
    system: AnswerSystem::Rlaas,
    path: "/check",
    example: "/check?userId=alice",
    tells: &[USER],
    is_spring: true,
    has_rules: false,
    headers: None,
    attributes,
    reply,
    operation: "checkAsRlaas",
    parameters: &[Parameter::required(USER, "Who asks")],
    allowed: Content {
        media_type: "text/plain",
        schema: |_| json_schema!({ "type": "string", "const": ALLOWED }),
    },
    denied: Content {
        media_type: "text/plain",
        schema: |_| json_schema!({ "type": "string", "pattern": r"^User is not allowed\.\.\.Try after [1-9][0-9]* seconds\.$" }),
    },
};

const USER: &str = "userId";
const ALLOWED: &str = "User is allowed";

fn attributes<'a>(query: &Parameters<'a>) -> Result<Attributes<'a>, Rejection> {
    Ok([(USER, query.required(USER)?)].into_iter().collect())
}

fn reply(decision: &PolicyDecision) -> Option<Reply> {
    if decision.is_allowed() {
        return Some(reply::text(reply::PLAIN, ALLOWED.into()));
    }
    let seconds = seconds_left(decision)?;
    let mut denied =
        reply::text(reply::PLAIN, format!("User is not allowed...Try after {seconds} seconds.").into());
    *denied.response.status_mut() = reply::deny_status(decision);
    Some(denied)
}
