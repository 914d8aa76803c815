//! Replies to gRPC: a status in the headers and nothing else, which gRPC calls trailers-only.
//!
//! The status is also sent as `google.rpc.Status`, with the time to wait as `google.rpc.RetryInfo`, which some clients
//! obey.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// Returns whether the client expects a gRPC reply. gRPC-Web has its status elsewhere.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content_type| {
        let rest = content_type.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
    })
}

/// Converts an HTTP status to a gRPC code.
pub(super) fn code(status: StatusCode) -> u8 {
    match status {
        StatusCode::TOO_MANY_REQUESTS => 8,    // RESOURCE_EXHAUSTED
        StatusCode::SERVICE_UNAVAILABLE => 14, // UNAVAILABLE
        StatusCode::FORBIDDEN => 7,            // PERMISSION_DENIED
        StatusCode::UNAUTHORIZED => 16,        // UNAUTHENTICATED
        StatusCode::BAD_REQUEST => 3,          // INVALID_ARGUMENT
        _ => 13,                               // INTERNAL
    }
}

pub(super) fn reply(code: u8, message: &str, retry_after: Option<Duration>) -> Response<Bytes> {
    let mut reply = Response::new(Bytes::new());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(STATUS, u16::from(code).into());
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(message)) {
        headers.insert(MESSAGE, message);
    }
    if let Some(retry_after) = retry_after
        && let Ok(details) = HeaderValue::from_str(&base64(&status(code, message, retry_after)))
    {
        headers.insert(DETAILS, details);
    }
    reply
}

/// `google.rpc.Status`, with the time to wait as its only detail.
fn status(code: u8, message: &str, retry_after: Duration) -> Vec<u8> {
    let mut delay = Vec::new();
    number(&mut delay, 1, retry_after.as_secs());
    number(&mut delay, 2, retry_after.subsec_nanos().into());
    let mut info = Vec::new();
    bytes(&mut info, 1, &delay);
    let mut any = Vec::new();
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &info);
    let mut status = Vec::new();
    number(&mut status, 1, code.into());
    bytes(&mut status, 2, message.as_bytes());
    bytes(&mut status, 3, &any);
    status
}

/// Writes a numeric field in the wire format of protocol buffers; 0 is left out, because it is the default.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        message.push(field << 3);
        varint(message, value);
    }
}

/// A field that is a text, bytes or a message.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Encodes bytes that are not printable ASCII, and the percent sign itself.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// RFC 4648, without padding, as the headers of gRPC have it.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            encoded.push(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize].into());
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grpc_itself_is_answered_as_grpc() {
        let is_asked_for = |content_type| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
            is_asked_for(&headers)
        };
        for grpc in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
            assert!(is_asked_for(grpc), "{grpc}");
        }
        for other in ["application/grpc-web", "application/grpc-web+proto", "application/json", ""] {
            assert!(!is_asked_for(other), "{other}");
        }
        assert!(!super::is_asked_for(&HeaderMap::new()));
    }
}
