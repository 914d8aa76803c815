//! Requests over HTTP/1.1: several that are valid HTTP with any content, and at the end perhaps one that is not.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::Outcome;
use super::content::{Asked, Expected, asked};
use super::random::Random;
use crate::support::Connection;

/// The expected result of the last request on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It must be refused, because two servers in a row could read it as different requests.
    Refused,
    /// It may be refused or answered.
    Either,
}

/// Sends the requests of one connection, and checks the answers.
pub(super) fn run(stream: TcpStream, random: &mut Random, is_admin: bool) -> Outcome {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for _ in 0..=random.below(24) {
        let asked = asked(random, is_admin);
        bytes.extend(framed(random, &asked));
        expected.push(asked.expected);
        // After an answer that does not wait for the body, the connection may be closed.
        if asked.body.is_some() && may_be_unread(&asked, is_admin) {
            break;
        }
    }
    let last = if random.once_in(2) { Some(broken(random, &mut bytes)) } else { None };
    let inputs = expected.len() as u64 + u64::from(last.is_some());
    let fault = exchange(stream, random, &bytes, &expected, last).err();
    Outcome { inputs, fault: fault.map(|fault| (fault, bytes)) }
}

fn may_be_unread(asked: &Asked, is_admin: bool) -> bool {
    let is_check = asked.target.starts_with(b"/v1/check") || asked.target.starts_with(b"/v1/peek");
    is_check == is_admin || asked.body.as_ref().is_some_and(|body| body.len() > 4096)
}

fn exchange(
    stream: TcpStream,
    random: &mut Random,
    bytes: &[u8],
    expected: &[Expected],
    last: Option<Last>,
) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let mut connection = Connection::of(stream.try_clone().map_err(said)?);
    let mut stream = stream;
    // In pieces now and then.
    let (first, rest) =
        if random.once_in(4) { bytes.split_at(random.below(bytes.len())) } else { (bytes, &[][..]) };
    // What is not HTTP may end the connection before all of it is sent.
    let sent = stream.write_all(first).and_then(|()| stream.write_all(rest));
    let ended = stream.shutdown(Shutdown::Write);
    if last.is_none() {
        sent.and(ended).map_err(said)?;
    }
    for (index, expected) in expected.iter().enumerate() {
        let Some(reply) = connection.reply() else { return Err(format!("request {index} is not answered")) };
        let is_right = match expected {
            Expected::Taken => reply.status < 300 || reply.status == 429,
            Expected::Refused => (400..500).contains(&reply.status),
            Expected::Either => reply.status < 500,
        };
        if !is_right {
            let body = String::from_utf8_lossy(&reply.body);
            return Err(format!(
                "request {index} is to be {expected:?}, and is answered {}: {body}",
                reply.status
            ));
        }
    }
    while let Some(reply) = connection.reply() {
        match last {
            None => return Err(format!("{} answers what was not asked", reply.status)),
            Some(_) if reply.status >= 500 => return Err(format!("{} to the last request", reply.status)),
            Some(Last::Refused) if reply.status < 400 => {
                return Err(format!("the last request is to be refused, and is answered {}", reply.status));
            }
            Some(_) => {}
        }
    }
    // A connection that hangs fails here.
    let mut rest = BufReader::new(connection.into_stream());
    match rest.read_to_end(&mut Vec::new()) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            Err("the connection hangs".to_owned())
        }
        _ => Ok(()),
    }
}

/// Writes a request in HTTP/1.1, in one of several ways.
fn framed(random: &mut Random, asked: &Asked) -> Vec<u8> {
    const FIELDS: &[&[u8]] = &[
        b"X: y",
        b"X:",
        b"X: \xe9\xff",
        b"Cookie: a=b; c",
        b"Accept: */*;q=nonsense",
        b"Content-Encoding: identity",
        b"Range: bytes=9-1",
        b"If-Match: \"",
        b"Authorization: Bearer \xff",
        b"X-Forwarded-For: 1.2.3.4, ::1, nonsense",
        b"Upgrade: h2c",
        b"TE: trailers",
        b"sec-fetch-mode: nonsense",
        b"Accept-Encoding: gzip, br;q=9",
    ];
    let mut request =
        [asked.method.as_bytes(), b" ", &asked.target, b" HTTP/1.1\r\nHost: localhost\r\n"].concat();
    for _ in 0..random.below(4) {
        request.extend_from_slice(random.pick(FIELDS));
        request.extend_from_slice(b"\r\n");
    }
    for (name, value) in &asked.headers {
        request.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let Some(body) = &asked.body else { return [&request, &b"\r\n"[..]].concat() };
    request.extend_from_slice(b"Content-Type: application/json\r\n");
    if random.once_in(3) {
        request.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(1 + random.below(64)) {
            request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            request.extend_from_slice(piece);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
    } else {
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(body);
    }
    request
}

/// Adds bytes that are not HTTP, or are incomplete.
fn broken(random: &mut Random, bytes: &mut Vec<u8>) -> Last {
    const LINES: &[&[u8]] = &[
        b"GET /healthz HTTP/9.9",
        b"GET /healthz HTTP/1.2",
        b"GET /healthz",
        b"GET  HTTP/1.1",
        b"GET /health z HTTP/1.1",
        b"G\xc3\xa9T /healthz HTTP/1.1",
        b" /healthz HTTP/1.1",
        b"GET /\x01 HTTP/1.1",
        b"GET /\x7f HTTP/1.1",
        b"GET http:// HTTP/1.1",
        b"HTTP/1.1 200 OK",
    ];
    const FIELDS: &[&[u8]] = &[
        b"X y: z",
        b"X : z",
        b": z",
        b"X\x00: z",
        b"X: \x00",
        b"X: a\rb",
        b"X",
        b"\xe9: z",
        b"Content-Length: -1",
        b"Content-Length: +1",
        b"Content-Length: 0x10",
        b"Content-Length: 1, 2",
        b"Content-Length: 99999999999999999999999999",
        b"Content-Length: 1\r\nContent-Length: 2",
        b"Transfer-Encoding: nonsense",
        b"Transfer-Encoding: chunked, identity",
    ];
    const CHUNKS: &[&[u8]] = &[
        b"g\r\n",
        b"-1\r\n",
        b"1\r\nxx",
        b"\r\n",
        b"ffffffffffffffffff\r\n",
        b"1 x\r\nx\r\n",
        b"3\r\nabc0\r\n\r\n",
    ];
    let post = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    match random.below(9) {
        0 => {
            bytes.extend_from_slice(random.pick(LINES));
            bytes.extend_from_slice(b"\r\nHost: localhost\r\n\r\n");
            Last::Refused
        }
        1 | 2 => {
            bytes.extend_from_slice(post);
            bytes.extend_from_slice(random.pick(FIELDS));
            bytes.extend_from_slice(b"\r\n\r\n{}");
            Last::Refused
        }
        3 => {
            bytes.extend_from_slice(post);
            bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            bytes.extend_from_slice(random.pick(CHUNKS));
            Last::Refused
        }
        4 => {
            // More of a head than is kept, or more of its fields.
            bytes.extend_from_slice(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
            let (field, times) =
                if random.once_in(2) { ("x".repeat(100_000), 1) } else { ("x".to_owned(), 200) };
            (0..times).for_each(|_| bytes.extend_from_slice(format!("X: {field}\r\n").as_bytes()));
            bytes.extend_from_slice(b"\r\n");
            Last::Refused
        }
        5 => {
            // The end is missing.
            let asked = Asked {
                method: "POST",
                target: b"/v1/check".to_vec(),
                headers: Vec::new(),
                body: Some(br#"{"attributes": {"user": "a"}}"#.to_vec()),
                expected: Expected::Refused,
            };
            let whole = framed(random, &asked);
            bytes.extend_from_slice(&whole[..1 + random.below(whole.len() - 1)]);
            Last::Refused
        }
        6 => {
            // The host is missing, or there are two.
            bytes.extend_from_slice(b"GET /healthz HTTP/1.1\r\n");
            bytes.extend_from_slice(random.pick(&[
                &b""[..],
                b"Host: a\r\nHost: b\r\n",
                b"Host: a\r\nhost: a\r\n",
            ]));
            bytes.extend_from_slice(b"\r\n");
            Last::Refused
        }
        7 => {
            let asked = asked(random, false);
            let mut request = framed(random, &asked);
            (0..=random.below(8)).for_each(|_| random.damage(&mut request));
            bytes.extend(request);
            Last::Either
        }
        _ => {
            const BEGINS: &[&[u8]] =
                &[b"", b"\x16\x03\x01\x02\x00", b"GET ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n\r\n"];
            bytes.extend_from_slice(random.pick(BEGINS));
            let noise = random.bytes(300);
            bytes.extend(noise);
            Last::Either
        }
    }
}
