//! Rejections as statuses of gRPC.

use http::{Response, StatusCode};
use tonic::{Code, Status};

use super::outgoing::Outgoing;
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

/// The answer to a call that is rejected: a head without a body.
pub(super) fn reply(rejection: &Rejection) -> Response<Outgoing> {
    Status::from(rejection).into_http()
}

/// What a rejection with this status of HTTP is.
fn code(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST => Code::InvalidArgument,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND | StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::Unimplemented,
        StatusCode::PAYLOAD_TOO_LARGE => Code::ResourceExhausted,
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        // What the store can never count. Clients try again after UNAVAILABLE.
        _ => Code::Internal,
    }
}
