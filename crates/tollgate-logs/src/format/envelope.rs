//! JSON around a line: of Docker, of journald, and of services that store logs.

use super::json::Text;
use super::parts::{LinePart, OutputStream};
use crate::attribute::TimeForm;
use crate::escape::Escape;
use crate::time::{self, Stamp};

/// Names of the time at which an envelope was written; of several, the first is taken.
const TIMES: [&str; 5] = ["time", "timestamp", "@timestamp", "__REALTIME_TIMESTAMP", "date"];

/// The line in Docker's `{"log":"...\n","stream":"stdout","time":"..."}`. Docker splits lines above 16 KiB: only the
/// last part ends with a line feed.
pub(super) fn docker<'l>(line: &'l [u8], buffer: &'l mut Vec<u8>) -> Option<LinePart<'l>> {
    let (mut log, mut stream) = (None, None);
    let mut text = Text::new(line);
    while log.is_none() || stream.is_none() {
        match text.member()? {
            (b"log", value) => log = Some(inside(value)?),
            (b"stream", b"\"stdout\"") => stream = Some(OutputStream::Out),
            (b"stream", b"\"stderr\"") => stream = Some(OutputStream::Err),
            _ => {}
        }
    }
    let log = log?;
    let is_last = log.ends_with(b"\\n");
    Some(LinePart { text: undone(log.strip_suffix(b"\\n").unwrap_or(log), buffer), stream: stream?, is_last })
}

/// The line in this member of an object: a string, or an object that is the line itself.
pub(super) fn member<'l>(line: &'l [u8], name: &str, buffer: &'l mut Vec<u8>) -> Option<&'l [u8]> {
    let mut text = Text::new(line);
    let value = loop {
        let (found, value) = text.member()?;
        if found == name.as_bytes() {
            break value;
        }
    };
    if value.starts_with(b"{") {
        return Some(value);
    }
    Some(undone(inside(value)?, buffer).trim_ascii_end())
}

/// Whether this is the beginning of an object.
pub(super) fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{")
}

/// The time of the envelope, for lines without one: services take the time out of the lines that they store.
pub(super) fn stamp(line: &[u8]) -> Option<Stamp> {
    let mut best: Option<(usize, &[u8])> = None;
    let mut text = Text::new(line);
    while let Some((name, value)) = text.member() {
        let place = TIMES.iter().position(|known| known.as_bytes() == name);
        if let Some(place) = place.filter(|place| best.is_none_or(|(best, _)| *place < best)) {
            best = Some((place, inside(value).unwrap_or(value)));
        }
    }
    time::parse(&TimeForm::Any, best?.1)
}

/// What is between the quotes of a string.
fn inside(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// The text without its escapes. Text without any is not copied.
fn undone<'l>(text: &'l [u8], buffer: &'l mut Vec<u8>) -> &'l [u8] {
    if memchr::memchr(b'\\', text).is_none() {
        return text;
    }
    buffer.clear();
    Escape::Json.undo(text, buffer);
    buffer
}
