//! Values of entries that are not UTF-8, which clients can put into headers.
//!
//! Envoy copies headers into entries as they are. A message with such a text cannot be decoded, and Envoy lets requests
//! through whose calls fail. So each byte that is not UTF-8 is escaped: [`ESCAPE`] and the character of the byte in ISO
//! 8859-1. The escape itself is written twice, so that different values have different texts.

use prost::{DecodeError, Message};

use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use super::messages::envoy::service::ratelimit::v3::RateLimitRequest;
use super::messages::kuadrant::service::ratelimit::v1::{CommitRequest, ReserveRequest};

/// Precedes the character of a byte. Unicode promises that it is never a character, so no condition needs it.
const ESCAPE: char = '\u{10FFFF}';

/// A message with descriptors.
pub(super) trait DescribedRequest: Message + Default {
    /// The same message on the wire, with values of any bytes.
    type AnyBytes: Message + Default + Into<Self>;

    fn descriptors(&self) -> &[RateLimitDescriptor];
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<AnyDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyReserveRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<AnyDescriptor>,
    #[prost(uint64, tag = "3")]
    amount: u64,
    #[prost(message, optional, tag = "4")]
    ttl: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyCommitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<AnyDescriptor>,
    #[prost(string, tag = "3")]
    reservation_id: String,
    #[prost(uint64, tag = "4")]
    actual_amount: u64,
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

/// Returns the request in these bytes, and its length with all values in UTF-8.
///
/// # Errors
///
/// If it cannot be decoded for any reason other than a value.
pub(super) fn decode<M: DescribedRequest>(bytes: &[u8]) -> Result<(M, usize), DecodeError> {
    let decoded = match M::decode(bytes) {
        Ok(request) if !has_escape(request.descriptors()) => return Ok((request, bytes.len())),
        decoded => decoded,
    };
    let request = M::AnyBytes::decode(bytes).map_err(|error| decoded.err().unwrap_or(error))?;
    let request = request.into();
    let length = request.encoded_len();
    Ok((request, length))
}

fn has_escape(descriptors: &[RateLimitDescriptor]) -> bool {
    let mut entries = descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    entries.any(|entry| entry.value.contains(ESCAPE))
}

impl DescribedRequest for RateLimitRequest {
    type AnyBytes = AnyRequest;

    fn descriptors(&self) -> &[RateLimitDescriptor] {
        &self.descriptors
    }
}

impl DescribedRequest for ReserveRequest {
    type AnyBytes = AnyReserveRequest;

    fn descriptors(&self) -> &[RateLimitDescriptor] {
        &self.descriptors
    }
}

impl DescribedRequest for CommitRequest {
    type AnyBytes = AnyCommitRequest;

    fn descriptors(&self) -> &[RateLimitDescriptor] {
        &self.descriptors
    }
}

impl From<AnyRequest> for RateLimitRequest {
    fn from(AnyRequest { domain, descriptors, hits_addend }: AnyRequest) -> Self {
        Self { domain, descriptors: in_text(descriptors), hits_addend }
    }
}

impl From<AnyReserveRequest> for ReserveRequest {
    fn from(AnyReserveRequest { domain, descriptors, amount, ttl }: AnyReserveRequest) -> Self {
        Self { domain, descriptors: in_text(descriptors), amount, ttl }
    }
}

impl From<AnyCommitRequest> for CommitRequest {
    fn from(request: AnyCommitRequest) -> Self {
        let AnyCommitRequest { domain, descriptors, reservation_id, actual_amount } = request;
        Self { domain, descriptors: in_text(descriptors), reservation_id, actual_amount }
    }
}

fn in_text(descriptors: Vec<AnyDescriptor>) -> Vec<RateLimitDescriptor> {
    descriptors.into_iter().map(Into::into).collect()
}

impl From<AnyDescriptor> for RateLimitDescriptor {
    fn from(descriptor: AnyDescriptor) -> Self {
        let AnyDescriptor { entries, limit, hits_addend, is_negative_hits } = descriptor;
        let entries = entries.into_iter().map(|AnyEntry { key, value }| Entry { key, value: text(&value) });
        Self { entries: entries.collect(), limit, hits_addend, is_negative_hits }
    }
}

fn text(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for chunk in value.utf8_chunks() {
        for at in chunk.valid().chars() {
            text.extend((at == ESCAPE).then_some(ESCAPE));
            text.push(at);
        }
        for byte in chunk.invalid() {
            text.extend([ESCAPE, char::from(*byte)]);
        }
    }
    text
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
        let (request, length) = decode::<RateLimitRequest>(&sent.encode_to_vec()).unwrap();
        let entry = |key: &str, value: &str| Entry { key: key.to_owned(), value: value.to_owned() };
        let entries = vec![entry("a", "caf\u{10FFFF}é"), entry("b", "café"), entry("c", "")];
        let descriptor = RateLimitDescriptor { entries, limit, hits_addend: Some(0), is_negative_hits: true };
        let expected =
            RateLimitRequest { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 7 };
        assert_eq!((length, request), (expected.encoded_len(), expected));
        assert!(decode::<RateLimitRequest>(b"\x0a\x01\xff").is_err(), "a domain is a text");
    }

    /// A byte of ISO 8859-1 was counted with the same character in UTF-8.
    #[test]
    fn different_values_have_different_texts() {
        let value = |bytes: &[u8]| {
            let entry = AnyEntry { key: "user".to_owned(), value: bytes.to_vec() };
            let descriptor = AnyDescriptor { entries: vec![entry], ..AnyDescriptor::default() };
            let sent = AnyRequest { descriptors: vec![descriptor], ..AnyRequest::default() };
            let (request, length) = decode::<RateLimitRequest>(&sent.encode_to_vec()).unwrap();
            assert_eq!(length, request.encoded_len());
            request.descriptors[0].entries[0].value.clone()
        };
        let all = [
            "é".as_bytes(),
            b"\xe9",
            "\u{10FFFF}é".as_bytes(),
            "\u{10FFFF}\u{10FFFF}é".as_bytes(),
            b"\xf4\x8f\xbf\xbf\xe9",
            b"\xc3\xa9\xe9",
            b"\xe9\xc3\xa9",
            b"\xe9\xe9",
        ];
        let texts: std::collections::HashSet<String> = all.iter().map(|bytes| value(bytes)).collect();
        assert_eq!(texts.len(), all.len(), "{texts:?}");
    }

    /// A field that is added to the definition, and not here, would be lost in requests with such a value.
    #[test]
    fn both_messages_have_the_same_fields() {
        let limit = Some(RateLimitOverride { requests_per_unit: 5, unit: 2 });
        let entries = vec![Entry { key: "a".to_owned(), value: "b".to_owned() }];
        let descriptor = RateLimitDescriptor { entries, limit, hits_addend: Some(3), is_negative_hits: true };
        let (domain, descriptors) = (|| "d".to_owned(), vec![descriptor]);
        same(&RateLimitRequest { domain: domain(), descriptors: descriptors.clone(), hits_addend: 7 });
        let ttl = Some(prost_types::Duration { seconds: 2, nanos: 3 });
        same(&ReserveRequest { domain: domain(), descriptors: descriptors.clone(), amount: 7, ttl });
        let reservation_id = "a".to_owned();
        same(&CommitRequest { domain: domain(), descriptors, reservation_id, actual_amount: 7 });
    }

    fn same<M: DescribedRequest + PartialEq + std::fmt::Debug>(sent: &M) {
        let read = M::AnyBytes::decode(&*sent.encode_to_vec()).unwrap();
        assert_eq!(read.encode_to_vec(), sent.encode_to_vec());
        assert_eq!(&read.into(), sent);
    }
}
