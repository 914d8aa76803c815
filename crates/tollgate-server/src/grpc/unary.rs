//! One message for one message: the frames of gRPC around them, and compression.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::Read;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::bufread::GzDecoder;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming;
use prost::{DecodeError, Message};

use super::outgoing::OutgoingMessage;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::net::body;
use crate::net::budget::Budget;

/// Whether the message is compressed, and its length in four bytes.
const PREFIX: usize = 5;

/// Envoy accepts heads of 60 KiB by default, and several descriptors may contain one header. A longer message is an
/// error, and Envoy admits requests whose calls fail.
const MAX_MESSAGE: usize = 256 * 1024;

/// Decodes a message, and returns its decoded length.
type Decoder<M> = fn(&[u8]) -> Result<(M, usize), DecodeError>;

/// The compression of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// The message of a call as `of` decodes it, and its length once it is decompressed.
///
/// # Errors
///
/// If it is larger than [`MAX_MESSAGE`], slow or cut off, is not exactly one message, or cannot be decoded.
pub(super) async fn read<M>(
    request: Request<Incoming>,
    budget: &Budget,
    of: Decoder<M>,
) -> Result<(M, usize), Rejection> {
    let encoding = encoding(request.headers())?;
    let body = body::read_up_to(PREFIX + MAX_MESSAGE, request, budget).await?;
    decode(&body, encoding, of)
}

/// The answer with this message.
pub(super) fn reply(message: &impl Message) -> Response<OutgoingMessage> {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    // No answer comes near 4 GiB.
    bytes.put_u32(length as u32);
    message.encode_raw(&mut bytes);
    let mut headers = HeaderMap::with_capacity(2);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let mut reply = Response::new(OutgoingMessage::Message(bytes.freeze()));
    *reply.headers_mut() = headers;
    reply
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Rejection> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(Encoding::Identity),
        Some(b"gzip") => Ok(Encoding::Gzip),
        Some(_) => {
            let detail = "messages may be compressed with gzip only";
            Err(Rejection::new(RejectionKind::Unimplemented, detail))
        }
    }
}

fn decode<M>(body: &[u8], encoding: Encoding, of: Decoder<M>) -> Result<(M, usize), Rejection> {
    let not_one = || Rejection::new(RejectionKind::Unimplemented, "the body is not exactly one message");
    let cut_off = || broken("the message is cut off");
    if body.is_empty() {
        return Err(not_one());
    }
    let ([is_compressed, length @ ..], bytes) = body.split_first_chunk::<PREFIX>().ok_or_else(cut_off)?;
    match (u32::from_be_bytes(*length) as usize).cmp(&bytes.len()) {
        Ordering::Greater => return Err(cut_off()),
        Ordering::Less => return Err(not_one()),
        Ordering::Equal => {}
    }
    let decoded = match (is_compressed, encoding) {
        (0, _) => of(bytes),
        (1, Encoding::Gzip) => of(&decompressed(bytes)?),
        (1, Encoding::Identity) => {
            return Err(broken(
                "a message is marked as compressed, but `grpc-encoding` does not name the compression",
            ));
        }
        _ => return Err(broken("the first byte of a message must be 0 or 1")),
    };
    decoded.map_err(|error| Rejection::new(RejectionKind::Invalid, error.to_string()))
}

/// The client breaks the protocol, which gRPC calls an internal error.
fn broken(detail: impl Into<Cow<'static, str>>) -> Rejection {
    Rejection::new(RejectionKind::BrokenMessage, detail)
}

/// No more than [`MAX_MESSAGE`] is decompressed, however small the message is.
fn decompressed(bytes: &[u8]) -> Result<Bytes, Rejection> {
    let mut whole = Vec::new();
    let mut rest = bytes;
    let read = GzDecoder::new(&mut rest).take(MAX_MESSAGE as u64 + 1).read_to_end(&mut whole);
    match read {
        Ok(length) if length > MAX_MESSAGE => {
            let detail = format!("the message has more than {MAX_MESSAGE} bytes once it is decompressed");
            Err(Rejection::new(RejectionKind::TooLarge, detail))
        }
        Ok(_) if !rest.is_empty() => Err(broken("bytes follow the gzip of a message")),
        Ok(_) => Ok(whole.into()),
        Err(error) => Err(broken(format!("the message is not gzip: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::grpc::messages::envoy::service::ratelimit::v3::RateLimitRequest;

    fn framed(is_compressed: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[is_compressed][..], &length, message].concat()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn domain(body: &[u8], encoding: Encoding) -> Result<String, RejectionKind> {
        let of = |bytes: &[u8]| RateLimitRequest::decode(bytes).map(|request| (request, bytes.len()));
        decode(body, encoding, of).map(|(request, _)| request.domain).map_err(|error| error.kind())
    }

    #[test]
    fn a_body_is_exactly_one_message() {
        let message = RateLimitRequest { domain: "shop".to_owned(), ..Default::default() }.encode_to_vec();
        let one = framed(0, &message);
        assert_eq!(domain(&one, Encoding::Identity), Ok("shop".to_owned()));
        assert_eq!(domain(&one, Encoding::Gzip), Ok("shop".to_owned()), "the flag says what it is");
        let longer = [&one[..], b"\0"].concat();
        for body in [&longer, &b""[..], &[one.clone(), one.clone()].concat()] {
            assert_eq!(domain(body, Encoding::Identity), Err(RejectionKind::Unimplemented), "{body:?}");
        }
        let broken = Err(RejectionKind::BrokenMessage);
        for body in [&one[..one.len() - 1], &one[..4]] {
            assert_eq!(domain(body, Encoding::Identity), broken, "{body:?}");
        }
        assert_eq!(domain(&framed(1, &message), Encoding::Identity), broken);
        assert_eq!(domain(&framed(2, &message), Encoding::Gzip), broken);
        let followed = framed(1, &[&gzip(&message)[..], b"more"].concat());
        assert_eq!(domain(&followed, Encoding::Gzip), broken);
        assert_eq!(domain(&framed(0, b"\x0a\xff"), Encoding::Identity), Err(RejectionKind::Invalid));
    }

    /// Field 15, which does not exist, precedes the domain.
    #[test]
    fn unknown_fields_are_skipped() {
        let message = [b"\x7a\x03abc".as_slice(), b"\x0a\x04shop"].concat();
        assert_eq!(domain(&framed(0, &message), Encoding::Identity), Ok("shop".to_owned()));
    }

    #[test]
    fn a_small_message_is_not_decompressed_without_bound() {
        let message = RateLimitRequest { domain: "a".repeat(1_000), ..Default::default() }.encode_to_vec();
        let body = framed(1, &gzip(&message));
        assert_eq!(domain(&body, Encoding::Gzip).map(|domain| domain.len()), Ok(1_000));
        let bomb = framed(1, &gzip(&vec![0; 10 * 1024 * 1024]));
        assert!(bomb.len() < MAX_MESSAGE);
        assert_eq!(domain(&bomb, Encoding::Gzip), Err(RejectionKind::TooLarge));
        let broken = Err(RejectionKind::BrokenMessage);
        assert_eq!(domain(&framed(1, b"no gzip"), Encoding::Gzip), broken);
    }
}
