//! Replies as bytes, and the memory that they hold.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;
use tollgate_policy::PolicyDecision;

use crate::net::budget::HeldBytes;

pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// It is unknown when there will be room again; a second keeps clients from asking in a loop.
pub(super) const RETRY_SOON: HeaderValue = HeaderValue::from_static("1");

/// An answer, complete in memory.
pub(super) struct Reply {
    pub(super) response: Response<Bytes>,
    /// The memory of the answer until it is sent, if the connection's own share is too small for it.
    pub(super) held: Option<HeldBytes>,
    /// Whether the request's body was not read to its end. The connection ends with such an answer.
    pub(super) is_unread: bool,
}

impl Reply {
    /// Returns the number of bytes in its body.
    pub(super) fn length(&self) -> usize {
        self.response.body().len()
    }

    pub(super) fn headers_mut(&mut self) -> &mut HeaderMap {
        self.response.headers_mut()
    }

    /// Returns the same head, with the length of the omitted body.
    pub(super) fn without_body(mut self) -> Self {
        let length = self.length();
        // Such an answer has no body for GET either, and a length would be that of the body that the client has.
        if self.response.status() != StatusCode::NOT_MODIFIED {
            self.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        Self { response: self.response.map(|_| Bytes::new()), ..self }
    }
}

impl From<Response<Bytes>> for Reply {
    fn from(response: Response<Bytes>) -> Self {
        Self { response, held: None, is_unread: false }
    }
}

/// Returns an answer in JSON that no cache keeps, because it holds only now and for this caller.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    json_bytes(status, bytes(body))
}

pub(super) fn json_bytes(status: StatusCode, body: Bytes) -> Reply {
    whole(status, JSON, body)
}

/// Returns the answer to a batch. It keeps the memory that was held for it, as far as it needs it.
pub(super) fn batch(body: &impl Serialize, held: Option<HeldBytes>) -> Reply {
    let mut reply = json(StatusCode::OK, body);
    let length = reply.length();
    reply.held = held.map(|held| held.shrunk(length));
    reply
}

/// Returns a problem in the format of RFC 9457.
pub(super) fn problem(status: StatusCode, body: &impl Serialize) -> Reply {
    whole(status, PROBLEM, bytes(body))
}

pub(super) fn text(content_type: &'static str, body: Bytes) -> Reply {
    whole(StatusCode::OK, HeaderValue::from_static(content_type), body)
}

/// Without a body, because the client might not read it.
pub(super) fn no_room() -> Reply {
    let mut reply = Response::new(Bytes::new());
    *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    reply.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    reply.headers_mut().insert(RETRY_AFTER, RETRY_SOON);
    reply.into()
}

/// Returns the status of a denial.
pub(super) fn deny_status(decision: &PolicyDecision) -> StatusCode {
    StatusCode::from_u16(decision.deny_status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS)
}

fn whole(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Reply {
    // Includes room for the headers of a decision.
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, NO_STORE);
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    *reply.headers_mut() = headers;
    reply.into()
}

/// Returns a body in JSON.
pub(super) fn bytes(body: &impl Serialize) -> Bytes {
    bytes_like(0, body)
}

/// Returns a body in JSON that is probably about this long.
pub(super) fn bytes_like(length: usize, body: &impl Serialize) -> Bytes {
    let mut bytes = Vec::with_capacity(length + length / 16 + 512);
    // This cannot fail: a vector takes every byte, and all keys are texts.
    let _ = serde_json::to_writer(&mut bytes, body);
    // For people at a terminal.
    bytes.push(b'\n');
    bytes.into()
}
