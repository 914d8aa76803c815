//! Rejections as statuses of gRPC.

use http::header::ALLOW;
use http::{HeaderValue, Response, StatusCode};
use tonic::{Code, Status};

use super::outgoing::OutgoingMessage;
use crate::http::Rejection;

impl From<&Rejection> for Status {
    fn from(rejection: &Rejection) -> Self {
        let message = match rejection.field() {
            Some(field) => format!("`{field}`: {}", rejection.detail()),
            None => rejection.detail().to_owned(),
        };
        Self::new(code(rejection.status()), message)
    }
}

/// The accepted compressions of messages.
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// The answer to a call that is rejected: a head without a body.
pub(super) fn reply(rejection: &Rejection) -> Response<OutgoingMessage> {
    let mut reply = Status::from(rejection).into_http();
    if rejection.status() == StatusCode::NOT_IMPLEMENTED {
        reply.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip"));
    }
    reply
}

/// Creates the answer to a request that is not a gRPC call.
pub(super) fn not_a_call(status: StatusCode) -> Response<OutgoingMessage> {
    let mut reply = Response::new(OutgoingMessage::Empty);
    *reply.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    reply
}

/// The status of HTTP under which an error of tonic's services is counted.
pub(super) fn of_code(code: Code) -> StatusCode {
    match code {
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::OutOfRange | Code::ResourceExhausted => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Returns the gRPC code of a rejection with this HTTP status.
pub(super) fn code(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST => Code::InvalidArgument,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::NOT_IMPLEMENTED => Code::Unimplemented,
        StatusCode::PAYLOAD_TOO_LARGE => Code::ResourceExhausted,
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        // A broken frame, or what the store can never count. Clients try again after UNAVAILABLE.
        _ => Code::Internal,
    }
}
