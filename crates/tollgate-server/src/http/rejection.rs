//! Rejections as replies of HTTP: problems (RFC 9457).

use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::{Serialize, Serializer};

use super::override_body::OverrideBody;
use super::problem::{ChangedQuota, ProblemBody, ProblemReason};
use super::query::QueryError;
use super::reply::{self, Reply};
use crate::access::scope::Scope;
use crate::answer::override_refusal::{CurrentOverride, OverrideRefusal};
use crate::answer::rejection::{Rejection, RejectionNames, Repeat};
use crate::answer::rejection_kind::RejectionKind;

/// The problem of a failing store: its type and its title. There is no document behind the type.
const STORE_UNAVAILABLE: (&str, &str) = ("urn:problem-type:tollgate:store-unavailable", "Store unavailable");

/// The problem of a request that the store can never count.
const UNCOUNTABLE: (&str, &str) = ("urn:problem-type:tollgate:uncountable", "Request cannot be counted");

impl<'a> From<&'a Rejection> for ProblemBody<'a> {
    fn from(rejection: &'a Rejection) -> Self {
        let status = rejection.kind().status();
        let reason = reason(rejection);
        let (kind, title) = match reason {
            Some(ProblemReason::StoreUnavailable | ProblemReason::OutcomeUnknown) => STORE_UNAVAILABLE,
            Some(ProblemReason::Uncountable) => UNCOUNTABLE,
            Some(
                ProblemReason::StoreFull
                | ProblemReason::TooManyNames
                | ProblemReason::IdConflict
                | ProblemReason::HoldEnded
                | ProblemReason::NeedsHold
                | ProblemReason::PreconditionFailed
                | ProblemReason::NoOverride
                | ProblemReason::NoPolicy
                | ProblemReason::CountsNothing
                | ProblemReason::NoStateDir
                | ProblemReason::OverridesOff
                | ProblemReason::TooManyOverrides,
            )
            | None => ("about:blank", status.canonical_reason().unwrap_or("Error")),
        };
        let (mut changed, mut policies, mut generation) = (None, None, None);
        let (mut current, mut overrides_version) = (None, None);
        match rejection.names() {
            RejectionNames::None => {}
            RejectionNames::Changed(quotas, in_flight) => {
                let quotas = quotas.iter().map(ChangedQuota::from);
                changed = Some(quotas.chain(in_flight.iter().map(ChangedQuota::from)).collect());
            }
            RejectionNames::Uncountable(names) => policies = Some(&**names),
            RejectionNames::Live(live) => generation = Some(live.to_string()),
            RejectionNames::Override(there) => {
                let CurrentOverride { current: there, version } = &**there;
                current =
                    there.as_ref().map(|(record, state)| OverrideBody::new(record, state, version.epoch));
                // Without any change, there is no version.
                overrides_version = (version.number > 0).then(|| (*version).into());
            }
        }
        Self {
            kind,
            title,
            status: status.as_u16(),
            detail: rejection.detail(),
            field: rejection.field(),
            reason,
            scope: rejection.scope().map(Scope::name),
            changed,
            policies,
            current,
            overrides_version,
            generation,
        }
    }
}

impl From<Rejection> for Reply {
    fn from(rejection: Rejection) -> Self {
        let status = rejection.kind().status();
        let mut reply = reply::problem(status, &rejection);
        if let Some(methods) = rejection.methods().and_then(|methods| HeaderValue::from_str(methods).ok()) {
            reply.headers_mut().insert(ALLOW, methods);
        }
        if status == StatusCode::UNAUTHORIZED {
            reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        let retry_after = match rejection.repeat() {
            Repeat::Soon if status == StatusCode::SERVICE_UNAVAILABLE => Some(reply::RETRY_SOON),
            Repeat::After(seconds) => Some(seconds.into()),
            Repeat::Soon | Repeat::Never => None,
        };
        reply.headers_mut().extend(retry_after.map(|seconds| (RETRY_AFTER, seconds)));
        reply.is_unread = rejection.is_unread();
        reply
    }
}

impl Serialize for Rejection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ProblemBody::from(self).serialize(serializer)
    }
}

impl From<QueryError> for Rejection {
    fn from(error: QueryError) -> Self {
        Self::bad_field(error.field(), error.to_string())
    }
}

/// Returns the reason for programs, which problems of holds, of names and of the store have.
const fn reason(rejection: &Rejection) -> Option<ProblemReason> {
    match rejection.kind() {
        _ if rejection.is_outcome_unknown() => Some(ProblemReason::OutcomeUnknown),
        RejectionKind::IdConflict => Some(ProblemReason::IdConflict),
        RejectionKind::HoldEnded => Some(ProblemReason::HoldEnded),
        RejectionKind::NeedsHold => Some(ProblemReason::NeedsHold),
        RejectionKind::TooManyNames => Some(ProblemReason::TooManyNames),
        RejectionKind::StoreFull => Some(ProblemReason::StoreFull),
        RejectionKind::StoreUnavailable => Some(ProblemReason::StoreUnavailable),
        RejectionKind::Uncountable => Some(ProblemReason::Uncountable),
        RejectionKind::Override(refusal) => Some(match refusal {
            OverrideRefusal::PreconditionFailed => ProblemReason::PreconditionFailed,
            OverrideRefusal::NoOverride => ProblemReason::NoOverride,
            OverrideRefusal::NoPolicy => ProblemReason::NoPolicy,
            OverrideRefusal::CountsNothing => ProblemReason::CountsNothing,
            OverrideRefusal::NoStateDir => ProblemReason::NoStateDir,
            OverrideRefusal::OverridesOff => ProblemReason::OverridesOff,
            OverrideRefusal::TooManyOverrides => ProblemReason::TooManyOverrides,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{AnswerError, StoreError};
    use tollgate_policy::{CheckError, RefundError};

    use super::*;

    /// Clients and proxies that obey `Retry-After` settled a second time what may have been settled already.
    #[test]
    fn a_change_with_an_unknown_outcome_invites_no_repeat() {
        let unknown = || StoreError::from(AnswerError::Nonsense);
        assert!(unknown().may_have_charged());
        let partly = CheckError::Partly {
            changed: Box::default(),
            forgotten: Box::default(),
            error: StoreError::Full,
        };
        for (error, is_invited) in [
            (CheckError::Store(unknown()), false),
            (partly, false),
            (CheckError::Store(StoreError::Full), true),
        ] {
            let reply = Reply::from(Rejection::change(&error, "attributes"));
            assert_eq!(reply.response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(reply.response.headers().contains_key(RETRY_AFTER), is_invited, "{error}");
            let check = Reply::from(Rejection::check(&error, "attributes"));
            assert!(check.response.headers().contains_key(RETRY_AFTER), "{error}");
        }
        let refunded = Rejection::refund(&RefundError::Check(CheckError::Store(unknown())), &[]);
        assert!(!Reply::from(refunded).response.headers().contains_key(RETRY_AFTER));
    }
}
