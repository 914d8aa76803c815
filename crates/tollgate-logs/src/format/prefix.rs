//! The prefixes that log drivers write before each line.

use memchr::{memchr, memmem};

use super::parts::Stream;
use crate::attribute::TimeForm;
use crate::time;

/// The prefix of each line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    None,
    /// `2026-11-23T16:00:00.123456789Z stdout F `: containers of Kubernetes.
    Cri,
    /// `web-1  | `: `docker compose logs`.
    Compose,
    /// `<134>Nov 23 16:00:00 host haproxy[99]: `, of RFC 3164 and RFC 5424, with or without the number.
    Syslog,
}

impl Prefix {
    /// All, in the order in which they are tried: a prefix is not mistaken for a part of a line, but a line with a prefix
    /// may have the shape of another format.
    pub(crate) const ALL: [Self; 4] = [Self::Cri, Self::Syslog, Self::Compose, Self::None];

    /// Returns the text about it that follows the name of a format.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Cri => " in CRI",
            Self::Compose => " in compose",
            Self::Syslog => " in syslog",
        }
    }

    /// Returns the text after the prefix; `None` if the prefix is missing.
    pub(crate) fn strip(self, line: &[u8]) -> Option<&[u8]> {
        match self {
            Self::None => Some(line),
            Self::Cri => cri(line),
            Self::Compose => compose(line),
            Self::Syslog => syslog(line),
        }
    }

    /// The stream of a line, and its text if more parts of it follow.
    pub(crate) fn part(self, line: &[u8]) -> Option<(Stream, Option<&[u8]>)> {
        let (stream, rest) = cri_stream(line).filter(|_| self == Self::Cri)?;
        Some((stream, rest.strip_prefix(b" P ")))
    }
}

fn cri(line: &[u8]) -> Option<&[u8]> {
    let (_, rest) = cri_stream(line)?;
    rest.strip_prefix(b" F ")
}

fn cri_stream(line: &[u8]) -> Option<(Stream, &[u8])> {
    let (time, rest) = line.split_at(memchr(b' ', line)?);
    time::parse(&TimeForm::Iso, time)?;
    let rest = rest.strip_prefix(b" std")?;
    let out = rest.strip_prefix(b"out").map(|rest| (Stream::Out, rest));
    out.or_else(|| rest.strip_prefix(b"err").map(|rest| (Stream::Err, rest)))
}

fn compose(line: &[u8]) -> Option<&[u8]> {
    let bar = memmem::find(line.get(..line.len().min(200))?, b"| ")?;
    let (name, rest) = line.split_at(bar);
    let trimmed = name.trim_ascii_end();
    let is_name = !trimmed.is_empty()
        && trimmed.len() < name.len()
        && trimmed.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte));
    if is_name { rest.get(2..) } else { None }
}

fn syslog(line: &[u8]) -> Option<&[u8]> {
    let (has_number, rest) = match line.strip_prefix(b"<") {
        Some(rest) => (true, rest.get(memchr(b'>', rest.get(..5.min(rest.len()))?)? + 1..)?),
        None => (false, line),
    };
    if let Some(rest) = rest.strip_prefix(b"1 ").filter(|_| has_number) {
        // RFC 5424: time, host, application, process, message, then data or `-`.
        let mut rest = rest;
        for _ in 0..5 {
            rest = rest.get(memchr(b' ', rest)? + 1..)?;
        }
        let message = rest.strip_prefix(b"- ")?;
        return Some(message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message));
    }
    let rest = match rest.first_chunk::<16>() {
        // `Nov 23 16:00:00 `
        Some(&[_, _, _, b' ', _, _, b' ', _, _, b':', _, _, b':', _, _, b' ']) => rest.get(16..)?,
        // Some daemons write a time of ISO 8601.
        _ => {
            let (time, rest) = rest.split_at(memchr(b' ', rest)?);
            time::parse(&TimeForm::Iso, time)?;
            rest.get(1..)?
        }
    };
    // The host, which may be missing, and the program.
    let colon = memmem::find(rest.get(..rest.len().min(300))?, b": ")?;
    let tag = rest.get(..colon)?;
    let words = tag.split(|&byte| byte == b' ').count();
    if words <= 2 { rest.get(colon + 2..) } else { None }
}
