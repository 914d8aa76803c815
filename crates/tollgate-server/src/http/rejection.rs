//! Rejections: problems (RFC 9457) for requests without an answer. A denial is not one of them; it is a decision.

use std::borrow::Cow;

use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::{Serialize, Serializer};
use tollgate::{AnswerError, StoreError};
use tollgate_envoy::DecideError;
use tollgate_policy::{CheckError, RefundError, Refusal};

use super::problem::{ChangedQuota, ProblemBody, ProblemReason};
use super::query::QueryError;
use super::reply::{self, Reply};
use crate::access::authorization::MissingRight;
use crate::access::caller::OtherPolicy;
use crate::access::principals::AccessRefusal;
use crate::access::scope::Scope;
use crate::decide::envoy::NoDecision;
use crate::net::body::{BodyError, BodyFault};
use crate::net::budget::NoRoom;
use crate::request::json::BadField;

/// A reply without an answer.
#[derive(Debug, Clone)]
pub(crate) struct Rejection {
    status: StatusCode,
    detail: Cow<'static, str>,
    /// The field of the request that is wrong.
    field: Option<String>,
    reason: Option<ProblemReason>,
    allow: Option<HeaderValue>,
    /// The scope that the caller needs.
    scope: Option<Scope>,
    names: Names,
    /// Whether the request's body was not read to its end.
    is_unread: bool,
    repeat: Repeat,
}

/// Whether a client may send the request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Soon,
    /// It may have changed counters, and would change them twice.
    Never,
}

/// The objects of a store error, by name.
#[derive(Debug, Clone)]
enum Names {
    None,
    /// Quotas that were changed before the store failed.
    Changed(Box<[ChangedQuota]>),
    /// Policies that the store can never count together.
    Uncountable(Box<[Box<str>]>),
}

/// The problem of a failing store: its type and its title. There is no document behind the type.
const STORE_UNAVAILABLE: (&str, &str) = ("urn:problem-type:tollgate:store-unavailable", "Store unavailable");

/// The problem of a request that the store can never count.
const UNCOUNTABLE: (&str, &str) = ("urn:problem-type:tollgate:uncountable", "Request cannot be counted");

impl Rejection {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            detail: detail.into(),
            field: None,
            reason: None,
            allow: None,
            scope: None,
            names: Names::None,
            is_unread: false,
            repeat: Repeat::Soon,
        }
    }

    /// `allow` is the value of the `Allow` header.
    pub(super) fn method_not_allowed(allow: &str) -> Self {
        let rejection =
            Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("the methods allowed here are {allow}"));
        Self { allow: HeaderValue::from_str(allow).ok(), ..rejection }
    }

    /// The caller is unknown, or lacks this scope.
    fn unauthorized(reason: AccessRefusal, scope: Scope) -> Self {
        let (status, detail) = match reason {
            AccessRefusal::Nobody => (
                StatusCode::UNAUTHORIZED,
                format!(
                    "this needs the scope `{scope}`: send `Authorization: Bearer` with a token that has it"
                ),
            ),
            AccessRefusal::NoBearer => (
                StatusCode::UNAUTHORIZED,
                format!(
                    "this needs the scope `{scope}`, but `Authorization` is not `Bearer` followed by one token"
                ),
            ),
            AccessRefusal::Unknown => (
                StatusCode::UNAUTHORIZED,
                format!("this needs the scope `{scope}`, but the token in `Authorization` is unknown"),
            ),
            AccessRefusal::Expired => (
                StatusCode::UNAUTHORIZED,
                format!("this needs the scope `{scope}`, but the caller's access has expired"),
            ),
            AccessRefusal::Scope => (
                StatusCode::FORBIDDEN,
                format!("this needs the scope `{scope}`, which the caller does not have"),
            ),
        };
        Self { scope: Some(scope), ..Self::new(status, detail) }
    }

    /// Like `unauthorized`, if no principal has a token. The challenge that 401 requires (RFC 9110, section 15.5.2)
    /// could only ask for a token.
    fn unauthorized_certificate(reason: AccessRefusal, scope: Scope) -> Self {
        let detail = match reason {
            AccessRefusal::Nobody => {
                format!("this needs the scope `{scope}`: connect with a client certificate that has it")
            }
            AccessRefusal::NoBearer | AccessRefusal::Unknown => format!(
                "this needs the scope `{scope}`, but this service has no tokens: leave `Authorization` out, and \
                 connect with a client certificate"
            ),
            AccessRefusal::Expired | AccessRefusal::Scope => {
                return Self { status: StatusCode::FORBIDDEN, ..Self::unauthorized(reason, scope) };
            }
        };
        Self { scope: Some(scope), ..Self::new(StatusCode::FORBIDDEN, detail) }
    }

    /// There is no memory for an answer that its client would have to read.
    pub(super) fn no_room_for_answer(NoRoom: NoRoom) -> Self {
        let detail = "no memory is left for this answer: clients have not read too many others";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// There is no memory for the request, which was not read.
    pub(crate) fn no_room() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no memory is left for another request")
    }

    /// There is no room for another long-lived stream.
    pub(crate) fn no_stream() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "there is no room for another stream")
    }

    pub(super) fn draining() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the service is about to stop")
    }

    pub(crate) fn bad_field(field: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        let mut field = field.into();
        // An empty name is shown by the object that contains it.
        if field.ends_with('.') {
            field.pop();
        }
        Self { field: Some(field), ..Self::new(StatusCode::BAD_REQUEST, detail) }
    }

    /// The field is a limit, and callers may give none.
    pub(crate) fn no_limits(field: impl Into<String>) -> Self {
        let detail = "this service accepts no limits in a request: it runs without `serve --caller-quotas`";
        Self::bad_field(field, detail)
    }

    /// Returns the same rejection for a part of the request, with this prefix for its fields.
    pub(super) fn within(self, place: &str) -> Self {
        let field = self.field.map_or_else(|| place.to_owned(), |field| format!("{place}.{field}"));
        Self { field: Some(field), ..self }
    }

    /// The field names something that no longer exists.
    pub(super) fn conflict(field: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::CONFLICT, ..Self::bad_field(field, detail) }
    }

    /// Explains why there is no decision. `attributes` is the field that the attributes come from.
    pub(crate) fn check(error: &CheckError, attributes: &str) -> Self {
        match error {
            // Only callers who may use the policy may learn which one it is.
            CheckError::Refused(Refusal::OtherPolicy { .. }) => OtherPolicy.into(),
            CheckError::Refused(refusal) => {
                let field = match refusal {
                    // Any of several attributes would do, so none of them is the wrong one.
                    Refusal::MissingKey { is_choice: true, .. } => attributes.to_owned(),
                    Refusal::MissingKey { attribute, .. } => format!("{attributes}.{attribute}"),
                    Refusal::LongValue { attribute, .. } => format!("{attributes}.{attribute}"),
                    Refusal::Cost { error, .. } => format!("{attributes}.{}", error.attribute()),
                    Refusal::Limit { error, .. } => format!("{attributes}.{}", error.attribute()),
                    _ => attributes.to_owned(),
                };
                Self::bad_field(field, refusal.to_string())
            }
            CheckError::Store(error) => Self::store(error),
            CheckError::Uncountable { policies, error } => {
                Self { names: Names::Uncountable(policies.clone()), ..Self::store(error) }
            }
            CheckError::Partly { changed, error } => Self {
                detail:
                    "the store failed; the quotas in `changed` were changed, and whether the others were is \
                         unknown"
                        .into(),
                names: Names::Changed(changed.iter().map(Into::into).collect()),
                reason: Some(ProblemReason::OutcomeUnknown),
                ..Self::store(error)
            },
            _ => Self::store(&AnswerError::Nonsense.into()),
        }
    }

    /// Explains why counters were not changed. If some may have been, the answer has no `Retry-After`.
    pub(super) fn change(error: &CheckError, attributes: &str) -> Self {
        let rejection = Self::check(error, attributes);
        let repeat = match rejection.reason {
            Some(ProblemReason::OutcomeUnknown) => Repeat::Never,
            _ => Repeat::Soon,
        };
        Self { repeat, ..rejection }
    }

    /// Explains why nothing was given back.
    pub(super) fn refund(error: &RefundError) -> Self {
        match error {
            RefundError::Check(error) => Self::change(error, "attributes"),
            RefundError::NoSuchQuota { index, .. } | RefundError::CountsOthers { index, .. } => {
                // Either the policy or the quota has changed; it is unknown which.
                Self::conflict(format!("windows[{index}]"), error.to_string())
            }
            RefundError::UnknownVersion { .. } => Self::conflict("version", error.to_string()),
            RefundError::NamedTwice { index } => {
                Self::bad_field(format!("windows[{index}]"), error.to_string())
            }
            RefundError::NoWindowStart { index, .. } | RefundError::FutureStart { index } => {
                Self::bad_field(format!("windows[{index}].start"), error.to_string())
            }
            _ => Self::bad_field("windows", error.to_string()),
        }
    }

    /// Explains why Envoy's service makes no decision.
    pub(crate) fn undecided(error: NoDecision) -> Self {
        match error {
            NoDecision::OtherPolicy(error) => error.into(),
            NoDecision::NoLimits(index) => Self::no_limits(format!("descriptors[{index}].limit")),
            NoDecision::Envoy(DecideError::Store(error)) => Self::store(&error),
            NoDecision::Envoy(DecideError::Invalid(error)) => {
                Self::bad_field(error.field(), error.to_string())
            }
            NoDecision::Envoy(invalid) => Self::new(StatusCode::BAD_REQUEST, invalid.to_string()),
        }
    }

    /// The store did not count. The log has the reason.
    pub(super) fn store(error: &StoreError) -> Self {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let (status, reason, detail) = match error {
            StoreError::Full => {
                (unavailable, ProblemReason::StoreFull, "the store is full: no room for another counter")
            }
            // Not 503, which invites clients and proxies to retry.
            StoreError::Uncountable(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                ProblemReason::Uncountable,
                "the store can never count this request, because of how the service is set up",
            ),
            StoreError::Trouble { .. } if error.may_have_charged() => (
                unavailable,
                ProblemReason::OutcomeUnknown,
                "the store did not answer; whether it counted the request is unknown",
            ),
            StoreError::Trouble { .. } => (
                unavailable,
                ProblemReason::StoreUnavailable,
                "the store cannot answer, and nothing was counted",
            ),
        };
        Self { reason: Some(reason), ..Self::new(status, detail) }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the invalid field of the request.
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn body(&self) -> ProblemBody<'_> {
        let (kind, title) = match self.reason {
            Some(ProblemReason::StoreUnavailable | ProblemReason::OutcomeUnknown) => STORE_UNAVAILABLE,
            Some(ProblemReason::Uncountable) => UNCOUNTABLE,
            Some(ProblemReason::StoreFull) | None => {
                ("about:blank", self.status.canonical_reason().unwrap_or("Error"))
            }
        };
        let (changed, policies) = match &self.names {
            Names::None => (None, None),
            Names::Changed(quotas) => (Some(&**quotas), None),
            Names::Uncountable(policies) => (None, Some(&**policies)),
        };
        ProblemBody {
            kind,
            title,
            status: self.status.as_u16(),
            detail: &self.detail,
            field: self.field.as_deref(),
            reason: self.reason,
            scope: self.scope.map(Scope::name),
            changed,
            policies,
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        let mut reply = reply::problem(self.status, &self.body());
        if let Some(allow) = self.allow {
            reply.headers_mut().insert(ALLOW, allow);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE && self.repeat == Repeat::Soon {
            reply.headers_mut().insert(RETRY_AFTER, reply::RETRY_SOON);
        }
        reply.is_unread = self.is_unread;
        reply
    }
}

impl Serialize for Rejection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body().serialize(serializer)
    }
}

impl From<OtherPolicy> for Rejection {
    fn from(OtherPolicy: OtherPolicy) -> Self {
        Self::new(StatusCode::FORBIDDEN, "the request needs a policy that the caller may not use")
    }
}

impl From<MissingRight> for Rejection {
    fn from(MissingRight { reason, scope, has_tokens }: MissingRight) -> Self {
        match has_tokens {
            true => Self::unauthorized(reason, scope),
            false => Self::unauthorized_certificate(reason, scope),
        }
    }
}

impl From<BodyError> for Rejection {
    fn from(BodyError { fault, is_unread }: BodyError) -> Self {
        let rejection = match fault {
            BodyFault::TooLarge(max) => {
                let detail = format!("the body is larger than {max} bytes");
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
            }
            BodyFault::Slow(limit) => {
                let detail = format!("the body did not arrive within {limit:?}");
                Self::new(StatusCode::REQUEST_TIMEOUT, detail)
            }
            BodyFault::CutOff => Self::new(StatusCode::BAD_REQUEST, "the body was cut off"),
            BodyFault::NoRoom => {
                let detail = "no memory is left for this body: too many bodies are in flight";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            }
        };
        Self { is_unread, ..rejection }
    }
}

impl From<BadField> for Rejection {
    fn from(BadField { field, detail }: BadField) -> Self {
        Self::bad_field(field, detail)
    }
}

impl From<QueryError> for Rejection {
    fn from(error: QueryError) -> Self {
        Self::bad_field(error.field(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients and proxies that obey `Retry-After` settled a second time what may have been settled already.
    #[test]
    fn a_change_with_an_unknown_outcome_invites_no_repeat() {
        let unknown = || StoreError::from(AnswerError::Nonsense);
        assert!(unknown().may_have_charged());
        let partly = CheckError::Partly { changed: Box::default(), error: StoreError::Full };
        for (error, is_invited) in [
            (CheckError::Store(unknown()), false),
            (partly, false),
            (CheckError::Store(StoreError::Full), true),
        ] {
            let reply = Rejection::change(&error, "receipt").into_reply();
            assert_eq!(reply.response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(reply.response.headers().contains_key(RETRY_AFTER), is_invited, "{error}");
            let check = Rejection::check(&error, "attributes").into_reply();
            assert!(check.response.headers().contains_key(RETRY_AFTER), "{error}");
        }
        let refunded = Rejection::refund(&RefundError::Check(CheckError::Store(unknown())));
        assert!(!refunded.into_reply().response.headers().contains_key(RETRY_AFTER));
    }
}
