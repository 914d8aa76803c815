//! Replies instead of the service's: denials and problems.
//!
//! A reply is a problem (RFC 9457) or, for gRPC clients, a status.

mod body;
mod grpc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;
use tollgate::{InFlightState, QuotaState, Reason, StoreError};
#[cfg(feature = "policy")]
use tollgate_policy::Ground;
use tollgate_wire::body::DenialProblem;

pub use self::body::ReplyBody;
use crate::key::InvalidIdentity;
use crate::outcome::DenialCause;
use crate::rule::{OnInvalid, OnMissing};
use crate::warning::SetupWarning;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A problem (RFC 9457).
#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// A denial by a limit in flight, as a problem.
#[derive(Serialize)]
struct InFlightDenial<'a> {
    #[serde(flatten)]
    problem: DenialProblem<'a>,
    status: u16,
    reason: &'a str,
    policy: &'a str,
    limit: u32,
    held: u32,
}

/// Returns whether a request expects a gRPC reply.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    grpc::is_asked_for(headers)
}

/// The status without the headers of the limits. To gRPC it is RESOURCE_EXHAUSTED, unless no policy matches, or a list or
/// an override denies.
pub(crate) fn denied(request: &HeaderMap, status: StatusCode, by: &DenialCause) -> Response<Bytes> {
    if !is_grpc(request) {
        return problem(status, &by.body(status.as_u16()));
    }
    let status = match by {
        #[cfg(feature = "policy")]
        DenialCause::Policies(decision, _)
            if matches!(
                decision.ground(),
                Ground::Denied(_) | Ground::DeniedByOverride { .. } | Ground::Unmatched
            ) =>
        {
            status
        }
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    let decided = by.quotas().and_then(|(counted, _)| counted.decided());
    grpc::reply(grpc::code(status), &by.problem().detail, decided.and_then(QuotaState::retry_after))
}

/// Replies that too many units are in flight: 429. A second keeps clients from retrying in a loop.
pub(crate) fn in_flight(request: &HeaderMap, policy: &str, state: InFlightState) -> Response<Bytes> {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let problem = DenialProblem::of_in_flight(policy, state);
    let may_pass = state.reason() == Some(Reason::InFlightExceeded);
    if is_grpc(request) {
        return grpc::reply(grpc::code(status), &problem.detail, None);
    }
    let reason = if may_pass { "in_flight_exceeded" } else { "cost_exceeds_limit" };
    let (limit, held) = (state.limit(), state.live());
    let body = InFlightDenial { problem, status: status.as_u16(), reason, policy, limit, held };
    let mut reply = self::problem(status, &body);
    if may_pass {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Replies that the key is missing: 400 or 401.
pub(crate) fn missing(request: &HeaderMap, what: &str, on_missing: &OnMissing) -> Response<Bytes> {
    let (status, challenge) = match on_missing {
        OnMissing::Unauthorized(challenge) => (StatusCode::UNAUTHORIZED, Some(challenge)),
        OnMissing::BadRequest | OnMissing::Skip => (StatusCode::BAD_REQUEST, None),
    };
    refused(request, status, &format!("{what} is missing"), challenge)
}

/// Replies that no request can be decided: 500. The log has the warning once, with the code.
pub(crate) fn setup(request: &HeaderMap, warning: SetupWarning) -> Response<Bytes> {
    let what = match warning {
        SetupWarning::NoKeeper => "the request cannot be kept in flight",
        _ => "the key of the request cannot be found",
    };
    let code = warning.code();
    let detail = format!("{what}, because of how the service is set up; the log has the code {code}");
    refused(request, StatusCode::INTERNAL_SERVER_ERROR, &detail, None)
}

/// Replies that a value is invalid: 400 or 401.
pub(crate) fn invalid(
    request: &HeaderMap,
    invalid: &InvalidIdentity,
    on_invalid: &OnInvalid,
) -> Response<Bytes> {
    let challenge = match on_invalid {
        OnInvalid::AsFound => invalid.challenge(),
        OnInvalid::BadRequest => None,
        OnInvalid::Unauthorized(challenge) => Some(challenge),
    };
    let status = if challenge.is_some() { StatusCode::UNAUTHORIZED } else { StatusCode::BAD_REQUEST };
    refused(request, status, invalid.detail(), challenge)
}

/// The store did not count: 503, or 500 if it never can. Callers do not learn the reason.
pub(crate) fn store_error(request: &HeaderMap, error: &StoreError) -> Response<Bytes> {
    const UNAVAILABLE: (&str, &str) = ("urn:problem-type:tollgate:store-unavailable", "Store unavailable");
    const UNCOUNTABLE: (&str, &str) = ("urn:problem-type:tollgate:uncountable", "Request cannot be counted");
    let again = StatusCode::SERVICE_UNAVAILABLE;
    let (status, (kind, title), reason, detail) = match error {
        StoreError::Uncountable(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            UNCOUNTABLE,
            "uncountable",
            "the store can never count this request, because of how the service is set up",
        ),
        // As in the service: a full store is not in trouble.
        StoreError::Full => (
            again,
            ("about:blank", "Service Unavailable"),
            "store_full",
            "the store is full: no room for another counter",
        ),
        StoreError::Trouble { may_have_charged: true, .. } => (
            again,
            UNAVAILABLE,
            "outcome_unknown",
            "the store did not answer; whether it counted the request is unknown",
        ),
        StoreError::Trouble { .. } => {
            (again, UNAVAILABLE, "store_unavailable", "the store cannot answer, and nothing was counted")
        }
        StoreError::Ended { .. } => (
            again,
            UNAVAILABLE,
            "store_unavailable",
            "the limits of this request ended before it was counted, and nothing was counted",
        ),
    };
    if is_grpc(request) {
        return grpc::reply(grpc::code(status), detail, None);
    }
    let body = Problem { kind, title, status: status.as_u16(), detail, reason: Some(reason) };
    let mut reply = problem(status, &body);
    if status == again {
        // The end of the outage is unknown; a second keeps clients from retrying in a loop.
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Replies with a problem without its own type.
pub(crate) fn refused(
    request: &HeaderMap,
    status: StatusCode,
    detail: &str,
    challenge: Option<&HeaderValue>,
) -> Response<Bytes> {
    if is_grpc(request) {
        return grpc::reply(grpc::code(status), detail, None);
    }
    let title = status.canonical_reason().unwrap_or("Error");
    let body = Problem { kind: "about:blank", title, status: status.as_u16(), detail, reason: None };
    let mut reply = problem(status, &body);
    if let Some(challenge) = challenge {
        reply.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
    }
    reply
}

/// An answer that caches must not store: it is true only now and for this caller.
fn problem(status: StatusCode, problem: &impl Serialize) -> Response<Bytes> {
    let mut body = Vec::with_capacity(512);
    // It fails for maps with keys that are no texts alone.
    let _ = serde_json::to_writer(&mut body, problem);
    // For people with a terminal.
    body.push(b'\n');
    // Room for the headers of the limits as well.
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, PROBLEM);
    headers.insert(CACHE_CONTROL, NO_STORE);
    let mut reply = Response::new(Bytes::from(body));
    *reply.status_mut() = status;
    *reply.headers_mut() = headers;
    reply
}
