//! What log drivers and services write around each line.

use memchr::{memchr, memmem};

use super::parts::{LinePart, OutputStream};
use super::{envelope, syslog};
use crate::attribute::TimeForm;
use crate::time;

/// One kind of text around the lines of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// `2026-11-23T16:00:00.123456789Z stdout F `: containers of Kubernetes.
    Cri,
    /// `{"log":"...\n","stream":"stdout","time":"..."}`: Docker's driver `json-file`.
    Docker,
    /// `<134>Nov 23 16:00:00 host haproxy[99]: `, of RFC 3164 and RFC 5424, with or without the number.
    Syslog,
    /// `web-1  | `: `docker compose logs`.
    Compose,
    /// `[pod/web-7d9f/nginx] `: `kubectl logs --prefix`.
    Pod,
    /// The member of an object with the line: of CloudWatch Logs, journald, Google Cloud, and shippers of logs.
    Member(&'static str),
}

impl Prefix {
    /// Those that are no part of a format's line, in the order in which they are tried: a line with a prefix may have
    /// the shape of another format.
    pub(super) const CERTAIN: [Self; 5] = [Self::Cri, Self::Docker, Self::Syslog, Self::Compose, Self::Pod];

    /// Those that are tried after the lines themselves: JSON with the fields of a request may have a message as well.
    pub(super) const POSSIBLE: [Self; 5] = [
        Self::Member("log"),
        Self::Member("message"),
        Self::Member("MESSAGE"),
        Self::Member("textPayload"),
        Self::Member("jsonPayload"),
    ];

    /// Returns the text about it that follows the name of a format.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cri => "CRI",
            Self::Docker => "Docker json-file",
            Self::Compose => "compose",
            Self::Pod => "kubectl",
            Self::Syslog => "syslog",
            Self::Member(name) => name,
        }
    }

    /// Returns the text inside; `None` if the prefix is missing. Escapes are undone in the buffer.
    pub(super) fn piece<'l>(self, line: &'l [u8], buffer: &'l mut Vec<u8>) -> Option<LinePart<'l>> {
        let text = match self {
            Self::Cri => return cri(line),
            Self::Docker => return envelope::docker(line, buffer),
            Self::Compose => compose(line),
            Self::Pod => pod(line),
            Self::Syslog => syslog::message(line),
            Self::Member(name) => envelope::member(line, name, buffer),
        };
        Some(LinePart { text: text?, stream: OutputStream::Out, is_last: true })
    }
}

fn cri(line: &[u8]) -> Option<LinePart<'_>> {
    let (time, rest) = line.split_at(memchr(b' ', line)?);
    time::parse(&TimeForm::Iso, time)?;
    let rest = rest.strip_prefix(b" std")?;
    let out = rest.strip_prefix(b"out").map(|rest| (OutputStream::Out, rest));
    let (stream, rest) = out.or_else(|| rest.strip_prefix(b"err").map(|rest| (OutputStream::Err, rest)))?;
    match rest.split_first_chunk::<3>()? {
        (b" F ", text) => Some(LinePart { text, stream, is_last: true }),
        (b" P ", text) => Some(LinePart { text, stream, is_last: false }),
        _ => None,
    }
}

fn pod(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"[pod/")?;
    rest.get(memchr(b']', rest)? + 1..)?.strip_prefix(b" ")
}

fn compose(line: &[u8]) -> Option<&[u8]> {
    let bar = memmem::find(line.get(..line.len().min(200))?, b"| ")?;
    let (name, rest) = line.split_at(bar);
    let trimmed = name.trim_ascii_end();
    // A name has a letter. `10.0.0.5 | 192.0.2.1 - -` are two addresses.
    let is_name = trimmed.iter().any(u8::is_ascii_alphabetic)
        && trimmed.len() < name.len()
        && trimmed.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte));
    if is_name { rest.get(2..) } else { None }
}
