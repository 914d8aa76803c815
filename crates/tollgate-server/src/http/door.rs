//! The one door to every operation: what a request must be before it is answered.

use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};

use super::operation::Operation;
use super::problem::Problem;

/// That the request may be answered by this operation.
///
/// # Errors
///
/// If its body is not JSON, or its query says what a body should.
pub(super) fn admit<B>(operation: &Operation, request: &Request<B>) -> Result<(), Problem> {
    if operation.method != Method::POST {
        return Ok(());
    }
    if request.uri().query().is_some() {
        return Err(Problem::bad_field("query", "a POST says everything in its body"));
    }
    match request.headers().get(CONTENT_TYPE) {
        None => Ok(()),
        Some(kind) if is_json(kind.as_bytes()) => Ok(()),
        _ => {
            let detail = "the body must be JSON: `Content-Type: application/json`";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_may_have_parameters() {
        assert!(is_json(b"application/json") && is_json(b"Application/JSON ; charset=utf-8"));
        assert!(!is_json(b"text/plain") && !is_json(b"application/jsonp") && !is_json(b""));
    }
}
