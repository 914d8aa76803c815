//! The [Spring Boot Redis rate limiter
//! starter](https://github.com/V4run-Sharma/spring-boot-starter-redis-rate-limiter): its applications call a bean in
//! their process, `RateLimiter.evaluate(key, policy)`, which can call this service instead.
//!
//! The key is the attribute `key`, and `name` and `scope` of the annotation are attributes of the same names, so that
//! policies can match them. The answer has the fields of a `RateLimitDecision`, in milliseconds. A denial has them too,
//! in the problem body that the starter sends to its callers, so that it can be passed on unchanged.
//!
//! It leaves two of its fields out. `key` may be personal or secret, but the caller knows it. `instance` is a path that
//! is not known here.

use std::time::Duration;

use http::StatusCode;
use jiff::SignedDuration;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use tollgate::{QuotaKind, Source, Timestamp, whole_seconds};
use tollgate_policy::{Attributes, PolicyDecision};
use tollgate_wire::headers::{HeaderFormat, window_length};

use super::super::{Reply, reply};
use super::parameters::Parameters;
use super::{Content, Dialect, Parameter};
use crate::answer::rejection::Rejection;
use crate::args::AnswerSystem;

pub(super) static DIALECT: Dialect = Dialect {
    system: AnswerSystem::SpringStarter,
    path: "/evaluate",
    example: "/evaluate?key=user:alice&name=invoice-create&scope=USER",
    tells: &["key", "name", "scope"],
    is_spring: true,
    has_rules: false,
    headers: Some(HeaderFormat::Draft06),
    attributes,
    reply,
    operation: "checkAsSpringStarter",
    parameters: &[
        Parameter::required("key", "The key, as the application resolves it"),
        Parameter::optional("name", "The annotation's name"),
        Parameter::optional("scope", "The annotation's scope"),
    ],
    allowed: Content {
        media_type: "application/json",
        schema: SchemaGenerator::subschema_for::<SpringAdmission>,
    },
    denied: Content {
        media_type: "application/problem+json",
        schema: SchemaGenerator::subschema_for::<SpringDenial<'_>>,
    },
};

const TITLE: &str = "Rate limit exceeded";

/// A `RateLimitDecision`. If the store has not counted, it is -1 and this is null.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SpringStarterAllowed")]
struct SpringAdmission {
    #[schemars(extend("const" = true))]
    allowed: bool,
    remaining_time: Option<u64>,
    retry_after: Option<u64>,
    /// `None` without a limit, which the starter does not support.
    reset_after: Option<u64>,
}

/// A `ProblemDetail`, with the fields of the `RateLimitDecision`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SpringStarterDenied")]
struct SpringDenial<'a> {
    #[serde(rename = "type")]
    #[schemars(extend("const" = "about:blank"))]
    kind: &'static str,
    #[schemars(extend("const" = TITLE))]
    title: &'static str,
    status: u16,
    detail: String,
    #[schemars(extend("format" = "date-time"))]
    timestamp: String,
    limit: u64,
    #[schemars(with = "f64")]
    window_seconds: Value,
    name: &'a str,
    /// Rounded up; the starter rounds down, so that its clients return too early. `None` if the cost can never be
    /// admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
    #[schemars(extend("const" = false))]
    allowed: bool,
    /// Milliseconds to wait; `None` if the cost can never be admitted.
    remaining_time: Option<u64>,
    /// The same.
    retry_after: Option<u64>,
    /// Milliseconds until there are more units.
    reset_after: u64,
}

impl SpringAdmission {
    fn new(decision: &PolicyDecision) -> Self {
        let is_counted = decision.source() != Source::Fallback;
        let reset_after = decision.quota().map(|deciding| millis(deciding.state.more_after()).max(1));
        Self { allowed: true, remaining_time: is_counted.then_some(0), retry_after: None, reset_after }
    }
}

fn attributes<'a>(query: &Parameters<'a>) -> Result<Attributes<'a>, Rejection> {
    let (key, name, scope) = (query.required("key")?, query.optional("name")?, query.optional("scope")?);
    let known = [("key", Some(key)), ("name", name), ("scope", scope)];
    Ok(known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

fn reply(decision: &PolicyDecision) -> Option<Reply> {
    if decision.is_allowed() {
        return Some(reply::json(StatusCode::OK, &SpringAdmission::new(decision)));
    }
    let deciding = decision.quota()?;
    let name = deciding.policy.name();
    // In a window, a bucket admits its limit and not only its burst.
    let limit = match deciding.state.kind() {
        QuotaKind::Burst => deciding.quota.quota().limit(),
        _ => deciding.state.limit(),
    };
    let window = window_length(deciding.quota, deciding.state)?;
    let status = reply::deny_status(decision);
    let denied = SpringDenial {
        kind: "about:blank",
        title: TITLE,
        status: status.as_u16(),
        detail: format!("{TITLE}: {name} (limit={limit}, window={})", period(window)),
        timestamp: instant(deciding.state.now()),
        limit,
        window_seconds: seconds(window),
        name,
        retry_after_seconds: deciding.state.retry_after().map(whole_seconds),
        allowed: false,
        remaining_time: deciding.state.retry_after().map(millis),
        retry_after: deciding.state.retry_after().map(millis),
        reset_after: millis(deciding.state.more_after()).max(1),
    };
    Some(reply::problem(status, &denied))
}

/// Written as by `Duration.toString`: `PT1M` of a minute.
fn period(window: Duration) -> SignedDuration {
    SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX)
}

/// A whole number if possible, as in the starter, which turns half a second into 0.
fn seconds(window: Duration) -> Value {
    if window.subsec_nanos() == 0 { window.as_secs().into() } else { window.as_secs_f64().into() }
}

/// Rounds up, so that no client is told to return too early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Written as by `Instant.toString`.
fn instant(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.as_unix_millis()).unwrap_or_default().to_string()
}
