//! Logs that may hold only a sample of all requests, told by the names of their fields.
//!
//! A format does not tell it. With fields that somebody added, a log of Google Cloud is read as plain JSON, and
//! exported to a table it is one of many.

use memchr::memchr;

use super::table::Style;
use super::{Format, FormatShape};
use crate::escape::{Escape, closing_quote};

/// Names of fields that only the logs of one service have. A line is one of these if it has a name of each list.
const MARKS: [&[&[&str]]; 2] = [
    // Cloudflare's Logpush.
    &[&[
        "EdgeStartTimestamp",
        "EdgeEndTimestamp",
        "EdgeResponseStatus",
        "EdgeResponseBytes",
        "ClientRequestMethod",
        "ClientRequestURI",
        "ClientRequestPath",
        "ClientRequestHost",
    ]],
    // Google Cloud. The firewall of AWS has `httpRequest` as well, with other fields in it.
    &[&["httpRequest"], &["requestUrl", "requestMethod", "remoteIp"]],
];

/// Returns whether one of the first lines of a log, without what is around them, has fields of a service that may log
/// a sample.
pub(super) fn is_sampled(format: &Format, lines: &[Vec<u8>]) -> bool {
    let mut lines = lines.iter().map(Vec::as_slice);
    match format.shape {
        // Whoever writes such names into a format of nginx or Apache logs every request.
        FormatShape::Template(_) | FormatShape::Table(Style::W3c) => false,
        FormatShape::Objects(_) => lines.any(|line| has_mark(&names(line).collect::<Vec<_>>())),
        FormatShape::Table(Style::Separated(separator)) => {
            let header = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
            // `httpRequest.requestUrl`, `httpRequest_requestUrl`
            let is_between = |byte: &u8| *byte == separator || b"\"._/ \r".contains(byte);
            has_mark(&header.split(is_between).collect::<Vec<_>>())
        }
    }
}

/// Some exports write all names in small letters.
fn has_mark(names: &[&[u8]]) -> bool {
    let has = |mark: &&str| names.iter().any(|name| name.eq_ignore_ascii_case(mark.as_bytes()));
    MARKS.iter().any(|lists| lists.iter().all(|list| list.iter().any(has)))
}

/// The names of all fields of a line of JSON, at any depth.
fn names(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            let inside = rest.get(memchr(b'"', rest)? + 1..)?;
            let end = closing_quote(inside, Escape::Json)?;
            rest = inside.get(end + 1..)?;
            if rest.trim_ascii_start().starts_with(b":") {
                return inside.get(..end);
            }
        }
    })
}
