//! Values of entries that are no UTF-8, as clients can put them into headers.
//!
//! Envoy copies headers into entries as they are. A message with such a text cannot be decoded, and Envoy lets the
//! requests of calls through that are errors. So these values are read as ISO 8859-1, in which every byte is a character.

use prost::{DecodeError, Message};

use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use super::messages::envoy::service::ratelimit::v3::RateLimitRequest;

/// A request with values of any bytes; on the wire, it is the same message.
#[derive(Clone, PartialEq, Message)]
struct AnyRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<AnyDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct AnyDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<AnyEntry>,
    #[prost(message, optional, tag = "2")]
    limit: Option<RateLimitOverride>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
struct AnyEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The request in these bytes, and its length with all values in UTF-8.
///
/// # Errors
///
/// If it cannot be decoded for another reason than a value.
pub(super) fn decode(bytes: &[u8]) -> Result<(RateLimitRequest, usize), DecodeError> {
    match RateLimitRequest::decode(bytes) {
        Ok(request) => Ok((request, bytes.len())),
        Err(error) => {
            let request = AnyRequest::decode(bytes).map(RateLimitRequest::from).map_err(|_| error)?;
            let length = request.encoded_len();
            Ok((request, length))
        }
    }
}

impl From<AnyRequest> for RateLimitRequest {
    fn from(AnyRequest { domain, descriptors, hits_addend }: AnyRequest) -> Self {
        Self { domain, descriptors: descriptors.into_iter().map(Into::into).collect(), hits_addend }
    }
}

impl From<AnyDescriptor> for RateLimitDescriptor {
    fn from(descriptor: AnyDescriptor) -> Self {
        let AnyDescriptor { entries, limit, hits_addend, is_negative_hits } = descriptor;
        let entries = entries.into_iter().map(|AnyEntry { key, value }| Entry { key, value: text(value) });
        Self { entries: entries.collect(), limit, hits_addend, is_negative_hits }
    }
}

fn text(value: Vec<u8>) -> String {
    String::from_utf8(value).unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_have_any_bytes_and_everything_else_is_kept() {
        let limit = Some(RateLimitOverride { requests_per_unit: 5, unit: 2 });
        let entry = |key: &str, value: &[u8]| AnyEntry { key: key.to_owned(), value: value.to_vec() };
        let entries = vec![entry("a", b"caf\xe9"), entry("b", "café".as_bytes()), entry("c", b"")];
        let descriptor = AnyDescriptor { entries, limit, hits_addend: Some(0), is_negative_hits: true };
        let sent = AnyRequest { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 7 };
        let (request, length) = decode(&sent.encode_to_vec()).unwrap();
        let entry = |key: &str, value: &str| Entry { key: key.to_owned(), value: value.to_owned() };
        let entries = vec![entry("a", "café"), entry("b", "café"), entry("c", "")];
        let descriptor = RateLimitDescriptor { entries, limit, hits_addend: Some(0), is_negative_hits: true };
        let expected =
            RateLimitRequest { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 7 };
        assert_eq!((length, request), (expected.encoded_len(), expected));
        assert!(decode(b"\x0a\x01\xff").is_err(), "a domain is a text");
    }
}
