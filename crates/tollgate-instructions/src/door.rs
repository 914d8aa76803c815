//! Cases with a service in this process: one thread runs it, and the other is its only client. The client sends bytes
//! that were made before, so that hardly any instruction is its own. What the kernel does is not counted.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tollgate_server::args::{Args, Command};
use tollgate_server::{Settings, serve};

use crate::CaseRun;

/// Checks in one batch.
const BATCH: usize = 10;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `OverallCode: OK` at the beginning of a response.
const ADMITTED: [u8; 2] = [0x08, 0x01];

pub(crate) fn get(_: usize) -> Result<CaseRun> {
    http("GET /v1/check?user=alice HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned())
}

pub(crate) fn post(_: usize) -> Result<CaseRun> {
    http(json("/v1/check", r#"{"attributes": {"user": "alice"}}"#))
}

/// Ten checks in one request.
pub(crate) fn batch(_: usize) -> Result<CaseRun> {
    let check = r#"{"attributes": {"user": "alice"}}"#;
    http(json("/v1/check/batch", &format!(r#"{{"requests": [{}]}}"#, [check; BATCH].join(", "))))
}

/// Envoy's call, with one descriptor.
pub(crate) fn grpc(_: usize) -> Result<CaseRun> {
    let [_, grpc] = start()?;
    let mut stream = connect(grpc)?;
    let settings = frame(SETTINGS, 0, 0, &[]);
    // Enough for all answers.
    let window = frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    stream.write_all(&[PREFACE, &settings, &window].concat())?;
    let (head, message) = (head(), message());
    let mut id = 1;
    Ok(Box::new(move || {
        let head = frame(HEADERS, END_HEADERS, id, &head);
        stream.write_all(&[head, frame(DATA, END_STREAM, id, &message)].concat())?;
        expect_admitted(&mut stream, id)?;
        id += 2;
        Ok(())
    }))
}

fn http(request: String) -> Result<CaseRun> {
    let [checks, _] = start()?;
    let mut stream = connect(checks)?;
    let mut answer = Vec::new();
    Ok(Box::new(move || {
        stream.write_all(request.as_bytes())?;
        answer.clear();
        while !is_complete(&answer) {
            let mut part = [0; 4_096];
            let length = stream.read(&mut part)?;
            ensure!(length > 0, "the service closed the connection");
            answer.extend_from_slice(part.get(..length).unwrap_or_default());
        }
        ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
        Ok(())
    }))
}

/// Whether an answer has as many bytes after its head as the head says.
fn is_complete(answer: &[u8]) -> bool {
    let Some((head, body)) = str::from_utf8(answer).ok().and_then(|text| text.split_once("\r\n\r\n")) else {
        return false;
    };
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

fn json(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Starts the service, and returns the addresses of its listeners for checks and for gRPC.
fn start() -> Result<[SocketAddr; 2]> {
    let [checks, admin, grpc] = [free_address()?, free_address()?, free_address()?];
    let listen = [("--listen", checks), ("--admin-listen", admin), ("--grpc", grpc)];
    let listen = listen.into_iter().flat_map(|(flag, address)| [flag.to_owned(), address.to_string()]);
    let words = ["tollgate", "serve", "--limit", "4000000000/1d", "--key", "user"].map(str::to_owned);
    let Some(Command::Serve(args)) = Args::try_parse_from(words.into_iter().chain(listen))?.command else {
        bail!("these are arguments of `serve`")
    };
    let settings = Settings::new(*args)?;
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(serve(settings)).map(drop)
    });
    Ok([checks, grpc])
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}

/// Connects to a service that is about to listen.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    /// A tenth of a second each.
    const TRIES: usize = 600;
    for _ in 0..TRIES {
        if let Ok(stream) = TcpStream::connect(address) {
            stream.set_nodelay(true)?;
            return Ok(stream);
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("the service does not listen on {address}")
}

/// Reads the frames of an answer to its end.
fn expect_admitted(stream: &mut TcpStream, id: u32) -> Result<()> {
    let mut is_admitted = false;
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header)?;
        let [a, b, c, kind, flags, stream_id @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload)?;
        if u32::from_be_bytes(stream_id) != id {
            continue;
        }
        // After the five bytes before a message.
        is_admitted |= kind == DATA && payload.get(5..7) == Some(&ADMITTED);
        if flags & END_STREAM != 0 {
            ensure!(is_admitted, "no admission in {payload:?}");
            return Ok(());
        }
    }
}

/// A frame of HTTP/2 (RFC 9113).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of a call, in literal fields (RFC 7541, section 6.2.2).
fn head() -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let field = |(name, value): (&str, &str)| [vec![0], text(name), text(value)].concat();
    fields.into_iter().flat_map(field).collect()
}

/// A message with one descriptor, after its length.
fn message() -> Vec<u8> {
    let entry = [field(1, b"user"), field(2, b"alice")].concat();
    let request = [field(1, b"bench"), field(2, &field(1, &entry))].concat();
    [&[0, 0, 0, 0], &text_of(&request)[..]].concat()
}

/// A field of a message (Protocol Buffers) with a length below 128.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    [vec![number << 3 | 2], text_of(value)].concat()
}

fn text(text: &str) -> Vec<u8> {
    text_of(text.as_bytes())
}

/// Bytes after their number, which is below 127.
fn text_of(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}
