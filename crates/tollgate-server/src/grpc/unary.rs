//! One message for one message: the frames of gRPC around them, and compression.

use std::io::Read;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::read::GzDecoder;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use prost::Message;

use super::outgoing::Outgoing;
use crate::http::{Budget, MAX_BODY, Rejection, read_body};

/// Whether the message is compressed, and its length in four bytes.
const PREFIX: usize = 5;

/// How a message is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// The message of a call.
///
/// # Errors
///
/// If it is larger than [`MAX_BODY`], slow or cut off, is not exactly one message, or cannot be decoded.
pub(super) async fn read<M: Message + Default>(
    request: Request<Incoming>,
    budget: &Budget,
) -> Result<M, Rejection> {
    let encoding = encoding(request.headers())?;
    let body = read_body(request, budget).await?;
    decode(&body, encoding)
}

/// The answer with this message.
pub(super) fn reply(message: &impl Message) -> Response<Outgoing> {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    // No answer comes near 4 GiB.
    bytes.put_u32(length as u32);
    message.encode_raw(&mut bytes);
    let mut headers = HeaderMap::with_capacity(2);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let mut reply = Response::new(Outgoing::Message(bytes.freeze()));
    *reply.headers_mut() = headers;
    reply
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Rejection> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(Encoding::Identity),
        Some(b"gzip") => Ok(Encoding::Gzip),
        Some(_) => {
            let detail = "messages may be compressed with gzip only";
            Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

fn decode<M: Message + Default>(body: &[u8], encoding: Encoding) -> Result<M, Rejection> {
    let not_one = || Rejection::new(StatusCode::BAD_REQUEST, "the body is not exactly one message");
    let ([is_compressed, length @ ..], bytes) = body.split_first_chunk::<PREFIX>().ok_or_else(not_one)?;
    if u32::from_be_bytes(*length) as usize != bytes.len() {
        return Err(not_one());
    }
    let decoded = match (is_compressed, encoding) {
        (0, _) => M::decode(bytes),
        (1, Encoding::Gzip) => M::decode(decompressed(bytes)?),
        _ => {
            let detail = "a message says that it is compressed, and `grpc-encoding` does not say how";
            return Err(Rejection::new(StatusCode::BAD_REQUEST, detail));
        }
    };
    decoded.map_err(|error| Rejection::new(StatusCode::BAD_REQUEST, error.to_string()))
}

/// No more than [`MAX_BODY`] is decompressed, however small the message is.
fn decompressed(bytes: &[u8]) -> Result<Bytes, Rejection> {
    let mut whole = Vec::new();
    let read = GzDecoder::new(bytes).take(MAX_BODY as u64 + 1).read_to_end(&mut whole);
    match read {
        Ok(length) if length > MAX_BODY => {
            let detail = format!("the message has more than {MAX_BODY} bytes once it is decompressed");
            Err(Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, detail))
        }
        Ok(_) => Ok(whole.into()),
        Err(error) => {
            Err(Rejection::new(StatusCode::BAD_REQUEST, format!("the message is not gzip: {error}")))
        }
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

    fn domain(body: &[u8], encoding: Encoding) -> Result<String, StatusCode> {
        decode::<RateLimitRequest>(body, encoding)
            .map(|request| request.domain)
            .map_err(|error| error.status())
    }

    #[test]
    fn a_body_is_exactly_one_message() {
        let message = RateLimitRequest { domain: "shop".to_owned(), ..Default::default() }.encode_to_vec();
        let one = framed(0, &message);
        assert_eq!(domain(&one, Encoding::Identity), Ok("shop".to_owned()));
        assert_eq!(domain(&one, Encoding::Gzip), Ok("shop".to_owned()), "the flag says what it is");
        let longer = [&one[..], b"\0"].concat();
        for body in [&one[..one.len() - 1], &longer, &one[..4], b"", &[one.clone(), one.clone()].concat()] {
            assert_eq!(domain(body, Encoding::Identity), Err(StatusCode::BAD_REQUEST), "{body:?}");
        }
        assert_eq!(domain(&framed(1, &message), Encoding::Identity), Err(StatusCode::BAD_REQUEST));
        assert_eq!(domain(&framed(2, &message), Encoding::Gzip), Err(StatusCode::BAD_REQUEST));
        assert_eq!(domain(&framed(0, b"\x0a\xff"), Encoding::Identity), Err(StatusCode::BAD_REQUEST));
    }

    /// Field 15, which does not exist, stands before the domain.
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
        assert!(bomb.len() < MAX_BODY);
        assert_eq!(domain(&bomb, Encoding::Gzip), Err(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(domain(&framed(1, b"no gzip"), Encoding::Gzip), Err(StatusCode::BAD_REQUEST));
    }
}
