//! Problems: the bodies of answers that are none.

use http::StatusCode;
use serde::Deserialize;

use super::error::{ClientError, NO_SERVICE};

/// The body of a problem.
#[derive(Deserialize)]
pub(in crate::cli) struct ErrorBody {
    pub(in crate::cli) detail: String,
    pub(in crate::cli) field: Option<String>,
}

/// The error in an answer that is none.
pub(in crate::cli) fn problem(server: &str, status: StatusCode, body: &[u8], has_token: bool) -> ClientError {
    let detail = match serde_json::from_slice(body) {
        Ok(ErrorBody { detail, field: Some(field) }) => format!("{field}: {detail}"),
        Ok(ErrorBody { detail, field: None }) => detail,
        Err(_) => NO_SERVICE.to_owned(),
    };
    let server = server.to_owned();
    match status {
        StatusCode::UNAUTHORIZED if !has_token => {
            ClientError::Rejected { detail: format!("{detail}. Pass a file with a token as --token-file") }
        }
        StatusCode::BAD_REQUEST
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE => ClientError::Rejected { detail },
        _ => ClientError::Unexpected { server, status, detail },
    }
}
