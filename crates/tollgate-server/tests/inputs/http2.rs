//! Requests over HTTP/2: several valid streams with any content, and at the end perhaps a frame that breaks the rules.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};

use super::Outcome;
use super::content::{Expected, asked};
use super::random::Random;
use crate::support::Connection;
use crate::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADER_TABLE_SIZE, HEADERS, INITIAL_WINDOW_SIZE,
    PREFACE, RST_STREAM, WINDOW_UPDATE, fields, frame, settings,
};

const WINDOW: u32 = 1 << 24;

/// The expected result of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Answered(Expected),
    /// Its head breaks the rules: it is refused or reset, or ends the connection.
    Ended,
}

pub(super) fn run(stream: TcpStream, random: &mut Random, is_admin: bool) -> Outcome {
    let mut bytes = PREFACE.to_vec();
    // Without a table of fields, a status is always written out.
    bytes.extend(settings(&[(HEADER_TABLE_SIZE, 0), (INITIAL_WINDOW_SIZE, WINDOW)]));
    bytes.extend(frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes()));
    let mut streams = BTreeMap::new();
    for index in 0..=random.below(12) {
        let id = 2 * index as u32 + 1;
        streams.insert(id, one(random, id, is_admin, &mut bytes));
    }
    let mut is_broken = random.once_in(2);
    if is_broken {
        broken(random, &mut bytes);
    }
    let inputs = streams.len() as u64 + u64::from(is_broken);
    is_broken |= streams.values().any(|stream| *stream == Stream::Ended);
    let fault = exchange(stream, random, &bytes, &mut streams, is_broken).err();
    Outcome { inputs, fault: fault.map(|fault| (fault, bytes)) }
}

/// Sends one stream with valid frames.
fn one(random: &mut Random, id: u32, is_admin: bool, bytes: &mut Vec<u8>) -> Stream {
    const WRONG: &[(&str, &str)] = &[
        ("X-Upper", "y"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("te", "nonsense"),
        (":status", "200"),
        (":unknown", "x"),
        ("x y", "z"),
        ("content-length", "-1"),
        ("content-length", "9999"),
    ];
    let asked = asked(random, is_admin);
    // In HTTP/2 a body is as likely to be long; the window has room for so much.
    let body = asked.body.filter(|body| body.len() <= 2_000);
    let target = String::from_utf8_lossy(&asked.target).into_owned();
    let mut head = vec![(":method", asked.method), (":scheme", "http"), (":path", target.as_str())];
    head.push((":authority", "localhost"));
    head.extend(asked.headers.iter().map(|(name, value)| (*name, value.as_str())));
    let mut expected = Stream::Answered(asked.expected);
    if asked.method == "POST" {
        head.push(("content-type", "application/json"));
        if body.is_none() {
            expected = Stream::Answered(Expected::Refused);
        }
    }
    match random.below(8) {
        0 => {
            head.push(*random.pick(&WRONG.iter().collect::<Vec<_>>()));
            expected = Stream::Ended;
        }
        1 => {
            head.remove(random.below(3));
            expected = Stream::Ended;
        }
        _ => {}
    }
    let block = fields(&head);
    let end = if body.is_none() { END_STREAM } else { 0 };
    if random.once_in(4) {
        let (first, rest) = block.split_at(random.below(block.len()));
        bytes.extend(frame(HEADERS, end, id, first));
        bytes.extend(frame(CONTINUATION, END_HEADERS, id, rest));
    } else {
        bytes.extend(frame(HEADERS, end | END_HEADERS, id, &block));
    }
    if let Some(body) = body {
        let (first, rest) = body.split_at(random.below(body.len() + 1));
        if random.once_in(2) {
            bytes.extend(frame(DATA, 0, id, first));
            bytes.extend(frame(DATA, END_STREAM, id, rest));
        } else {
            bytes.extend(frame(DATA, END_STREAM, id, &body));
        }
    }
    expected
}

/// Sends a frame that ends the connection, or random frames.
fn broken(random: &mut Random, bytes: &mut Vec<u8>) {
    let id = [0, 1, 2, 99, 0x7fff_ffff][random.below(5)];
    match random.below(5) {
        0 => {
            let noise = random.bytes(200);
            bytes.extend(noise);
        }
        1 => {
            let (kind, flags, payload) = (random.below(12) as u8, random.next() as u8, random.bytes(40));
            bytes.extend(frame(kind, flags, id, &payload));
        }
        2 => {
            let block = random.bytes(100);
            bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, id, &block));
        }
        3 => {
            // Longer than it may be, and not all of it.
            bytes.extend([0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]);
        }
        _ => {
            let at = bytes.len().saturating_sub(1 + random.below(60));
            let mut tail = bytes.split_off(at.max(PREFACE.len()));
            random.damage(&mut tail);
            bytes.extend(tail);
        }
    }
}

fn exchange(
    stream: TcpStream,
    random: &mut Random,
    bytes: &[u8],
    streams: &mut BTreeMap<u32, Stream>,
    is_broken: bool,
) -> Result<(), String> {
    let ends = stream.try_clone().map_err(|error| error.to_string())?;
    let mut connection = Connection::of(stream);
    let (first, rest) =
        if random.once_in(4) { bytes.split_at(random.below(bytes.len())) } else { (bytes, &[][..]) };
    let is_sent = connection.try_send(first) && connection.try_send(rest);
    if is_broken {
        // Otherwise it may wait for more of the last frame.
        let _ = ends.shutdown(Shutdown::Write);
    } else if !is_sent {
        return Err("the connection ended before all was sent".to_owned());
    }
    while !streams.is_empty() || is_broken {
        let Some((kind, flags, id, payload)) = connection.frame() else {
            if is_broken && !connection.timed_out() {
                return Ok(());
            }
            return Err(format!("these streams are not answered: {streams:?}"));
        };
        match kind {
            HEADERS => judge(id, streams.get(&id), &payload, is_broken)?,
            RST_STREAM if is_broken => drop(streams.remove(&id)),
            // After an answer to a request that is not read to its end.
            RST_STREAM if payload == [0; 4] => drop(streams.remove(&id)),
            RST_STREAM => {
                return Err(format!(
                    "stream {id} is reset ({payload:?}), and is to be {:?}",
                    streams.get(&id)
                ));
            }
            GOAWAY if !is_broken => return Err(format!("the connection ends: {payload:?}")),
            _ => {}
        }
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            streams.remove(&id);
        }
    }
    Ok(())
}

/// Whether the head is as expected for its stream.
fn judge(id: u32, stream: Option<&Stream>, head: &[u8], is_broken: bool) -> Result<(), String> {
    let Some(class) = class(head) else { return Err(format!("stream {id} has no status: {head:?}")) };
    let is_right = match stream {
        _ if is_broken => class < 5,
        Some(Stream::Answered(Expected::Taken)) => class == 2 || class == 4,
        Some(Stream::Answered(Expected::Refused)) => class == 4,
        Some(Stream::Answered(Expected::Either) | Stream::Ended) | None => class < 5,
    };
    if is_right { Ok(()) } else { Err(format!("stream {id} is to be {stream:?}, and is answered {class}xx")) }
}

/// Returns the first digit of the status, which is the first field of a head (RFC 7541, appendices A and B).
fn class(head: &[u8]) -> Option<u8> {
    // A new size of the table may come first.
    let head = match head {
        [0x20..=0x3f, rest @ ..] => rest,
        head => head,
    };
    match head {
        [0x88..=0x8a, ..] => Some(2),
        [0x8b, ..] => Some(3),
        [0x8c | 0x8d, ..] => Some(4),
        [0x8e, ..] => Some(5),
        // Written out, in Huffman's code: `2` is 00010, `3` to `7` are 011001 to 011101.
        [0x08 | 0x18 | 0x48, 0x80..=0xff, digits, ..] => match digits >> 2 {
            0b000_100 | 0b000_101 => Some(2),
            0b01_1001 => Some(3),
            0b01_1010 => Some(4),
            0b01_1011 => Some(5),
            _ => None,
        },
        [0x08 | 0x18 | 0x48, 3, digit, ..] => Some(digit - b'0'),
        _ => None,
    }
}
