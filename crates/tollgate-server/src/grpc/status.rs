//! Rejections as statuses of gRPC.

use http::header::ALLOW;
use http::{HeaderValue, Response};
use tonic::{Code, Status};

use super::outgoing::OutgoingMessage;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;

impl From<&Rejection> for Status {
    fn from(rejection: &Rejection) -> Self {
        let message = match rejection.field() {
            Some(field) => format!("`{field}`: {}", rejection.detail()),
            None => rejection.detail().to_owned(),
        };
        Self::new(code(rejection.kind()), message)
    }
}

/// The accepted compressions of messages.
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// The answer to a call that is rejected: a head without a body.
pub(super) fn reply(rejection: &Rejection) -> Response<OutgoingMessage> {
    let mut reply = Status::from(rejection).into_http();
    if rejection.kind() == RejectionKind::Unimplemented {
        reply.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip"));
    }
    reply
}

/// Creates the answer to a request that is not a gRPC call.
pub(super) fn not_a_call(kind: RejectionKind) -> Response<OutgoingMessage> {
    let mut reply = Response::new(OutgoingMessage::Empty);
    *reply.status_mut() = kind.status();
    if kind == RejectionKind::MethodNotAllowed {
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    reply
}

/// Returns the kind under which an error of tonic's services is counted.
pub(super) fn kind(code: Code) -> RejectionKind {
    match code {
        Code::Unimplemented => RejectionKind::Unimplemented,
        Code::NotFound => RejectionKind::NotFound,
        Code::OutOfRange | Code::ResourceExhausted => RejectionKind::TooLarge,
        _ => RejectionKind::Invalid,
    }
}

/// Returns the gRPC code of a rejection of this kind.
pub(super) fn code(kind: RejectionKind) -> Code {
    match kind {
        RejectionKind::Invalid => Code::InvalidArgument,
        RejectionKind::Unauthenticated => Code::Unauthenticated,
        RejectionKind::Forbidden => Code::PermissionDenied,
        RejectionKind::NotFound => Code::NotFound,
        RejectionKind::Unimplemented => Code::Unimplemented,
        RejectionKind::IdConflict => Code::AlreadyExists,
        RejectionKind::HoldEnded | RejectionKind::NeedsHold => Code::FailedPrecondition,
        RejectionKind::TooLarge | RejectionKind::TooManyNames | RejectionKind::TooManyViewers => {
            Code::ResourceExhausted
        }
        RejectionKind::SlowRequest | RejectionKind::DeadlinePassed => Code::DeadlineExceeded,
        RejectionKind::Unavailable
        | RejectionKind::StoreFull
        | RejectionKind::StoreUnavailable
        | RejectionKind::OutcomeUnknown => Code::Unavailable,
        // What the store can never count is not UNAVAILABLE, after which clients try again. The others have no code of
        // their own, and most of them only HTTP has.
        RejectionKind::Uncountable
        | RejectionKind::BrokenMessage
        | RejectionKind::MethodNotAllowed
        | RejectionKind::Conflict
        | RejectionKind::WrongMediaType
        | RejectionKind::InvalidFile
        | RejectionKind::Override(_) => Code::Internal,
    }
}
