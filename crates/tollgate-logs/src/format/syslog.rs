//! The prefixes of syslog: RFC 3164, and RFC 5424 with its structured data.

use memchr::{memchr, memmem};

use crate::attribute::TimeForm;
use crate::escape::{Escape, closing_quote};
use crate::time;

/// The message of a line, after its prefix with or without the number of RFC 3164 and RFC 5424. `None` without a
/// prefix.
pub(super) fn message(line: &[u8]) -> Option<&[u8]> {
    let (has_number, rest) = match line.strip_prefix(b"<") {
        Some(rest) => (true, rest.get(memchr(b'>', rest.get(..5.min(rest.len()))?)? + 1..)?),
        None => (false, line),
    };
    if let Some(rest) = rest.strip_prefix(b"1 ").filter(|_| has_number) {
        return message_5424(rest);
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

/// After the version: time, host, application, process and the kind of message, then structured data or `-`.
fn message_5424(mut rest: &[u8]) -> Option<&[u8]> {
    for _ in 0..5 {
        rest = rest.get(memchr(b' ', rest)? + 1..)?;
    }
    let message = match rest.strip_prefix(b"-") {
        Some(rest) => rest,
        None => {
            while rest.first() == Some(&b'[') {
                rest = after_element(rest)?;
            }
            rest
        }
    };
    let message = message.strip_prefix(b" ")?;
    Some(message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message))
}

/// The rest after an element such as `[id k="v"]`. In a value, `"`, `\` and `]` are escaped with a backslash.
fn after_element(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let at = rest.iter().position(|byte| b"\"]".contains(byte))?;
        let (mark, after) = rest.get(at..)?.split_first()?;
        if *mark == b']' {
            return Some(after);
        }
        rest = after.get(closing_quote(after, Escape::Backslash)? + 1..)?;
    }
}
