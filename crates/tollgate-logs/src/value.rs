//! Values of fields: addresses, numbers, durations.

use std::net::IpAddr;
use std::ops::Range;

use memchr::memchr;

use crate::meaning::DurationUnit;
use crate::reason::Reason;
use crate::time;

/// Returns whether formats write this for a missing value.
pub(crate) fn is_absent(text: &[u8]) -> bool {
    matches!(text, b"" | b"-")
}

pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The parts of a request's target, as ranges in it. A target is `/path?query`, a whole URL, `host:port` or `*`.
#[derive(Debug)]
pub(crate) struct TargetParts {
    pub(crate) host: Option<Range<usize>>,
    /// It is empty in a URL without a path.
    pub(crate) path: Option<Range<usize>>,
    pub(crate) query: Option<Range<usize>>,
}

impl TargetParts {
    /// Inlined, because each line has a target.
    #[inline(always)]
    pub(crate) fn split(target: &[u8]) -> Self {
        let (mut host, mut start) = (None, 0);
        if !target.starts_with(b"/") {
            // `*` of OPTIONS is a path. `host:port` of CONNECT is none.
            if let Some(from) = authority(target) {
                let rest = target.get(from..).unwrap_or_default();
                let length = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
                start = from + length;
                host = Some(from..start);
            } else if target.is_empty() {
                return Self { host, path: None, query: None };
            } else if memchr(b':', target).is_some() && memchr(b'/', target).is_none() {
                return Self { host: Some(0..target.len()), path: None, query: None };
            }
        }
        let rest = target.get(start..).unwrap_or_default();
        let mark = memchr(b'?', rest).map(|at| start + at);
        let path = start..mark.unwrap_or(target.len());
        Self { host, path: Some(path), query: mark.map(|mark| mark + 1..target.len()) }
    }
}

/// Where the authority of a URL begins.
fn authority(url: &[u8]) -> Option<usize> {
    let colon = memchr(b':', url)?;
    let (scheme, rest) = url.split_at(colon);
    let is_scheme = !scheme.is_empty() && scheme.iter().all(u8::is_ascii_alphanumeric);
    (is_scheme && rest.starts_with(b"://")).then_some(colon + 3)
}

/// `[2001:db8::1]:80` and `192.0.2.1:80` without the port. An address of IPv6 without brackets has none, and a list of
/// addresses stays whole.
pub(crate) fn without_port(text: &[u8]) -> &[u8] {
    let end = match text.first() {
        Some(b'[') => memchr(b']', text).map(|at| at + 1),
        _ => memchr(b':', text),
    };
    let Some((host, port)) = end.and_then(|end| text.split_at_checked(end)) else { return text };
    let is_port = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    let has_port = port.is_empty() || port.strip_prefix(b":").is_some_and(is_port);
    if has_port { without_brackets(host) } else { text }
}

pub(crate) fn without_brackets(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(text)
}

pub(crate) fn address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Three digits. `0` and `-1` mean no response.
pub(crate) fn status(text: &[u8]) -> Result<Option<u16>, Reason> {
    match text {
        b"0" | b"-1" | b"000" => Ok(None),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Ok(Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')))
        }
        _ => Err(Reason::Status),
    }
}

/// A number of bytes. HAProxy writes a `+` before one that has not been reached yet; a negative one is none.
pub(crate) fn sent(text: &[u8]) -> Result<Option<u64>, Reason> {
    if text.starts_with(b"-") {
        return Ok(None);
    }
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let add = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    digits.iter().try_fold(0, add).map(Some).ok_or(Reason::Number)
}

/// A duration in microseconds; a negative one is none. No request takes longer than a year.
pub(crate) fn duration(text: &[u8], unit: DurationUnit) -> Result<i64, Reason> {
    let text = std::str::from_utf8(text).map_err(|_| Reason::Number)?;
    let micros = if text.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
        let unit = match unit {
            DurationUnit::Seconds => 1e6,
            DurationUnit::Millis => 1e3,
            DurationUnit::Micros => 1.0,
            DurationUnit::Nanos => 1e-3,
            DurationUnit::OfW3c if text.contains('.') => 1e6,
            DurationUnit::OfW3c => 1e3,
        };
        text.parse::<f64>().ok().map(|number| number * unit)
    } else {
        with_units(text)
    };
    // The conversion saturates, and what is no number becomes 0.
    let micros = (micros.ok_or(Reason::Number)?.round() as i64).max(0);
    if micros > 366 * time::DAY { Err(Reason::Number) } else { Ok(micros) }
}

/// The microseconds of `1m2.5s` or `12.3ms`, as Go writes durations.
fn with_units(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut micros = 0.0;
    while !rest.is_empty() {
        let is_digit = |character: char| character.is_ascii_digit() || character == '.';
        let (number, after) = rest.split_at(rest.find(|character| !is_digit(character))?);
        let (unit, after) = after.split_at(after.find(is_digit).unwrap_or(after.len()));
        let unit = match unit {
            "h" => 3.6e9,
            "m" => 6e7,
            "s" => 1e6,
            "ms" => 1e3,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1.0,
            "ns" => 1e-3,
            _ => return None,
        };
        micros += number.parse::<f64>().ok()? * unit;
        rest = after;
    }
    Some(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_or_that_of_their_field() {
        let cases = [
            ("0.005", DurationUnit::Seconds, Ok(5_000)),
            ("12", DurationUnit::Millis, Ok(12_000)),
            ("1500", DurationUnit::Nanos, Ok(2)),
            ("0.5", DurationUnit::OfW3c, Ok(500_000)),
            ("500", DurationUnit::OfW3c, Ok(500_000)),
            ("-1", DurationUnit::Seconds, Ok(0)),
            ("1.2e-05", DurationUnit::Seconds, Ok(12)),
            ("12.5ms", DurationUnit::Seconds, Ok(12_500)),
            ("7\u{b5}s", DurationUnit::Seconds, Ok(7)),
            ("1h2m3.5s", DurationUnit::Seconds, Ok(3_723_500_000)),
            ("31622401", DurationUnit::Seconds, Err(Reason::Number)),
            ("inf", DurationUnit::Seconds, Err(Reason::Number)),
            ("1x", DurationUnit::Seconds, Err(Reason::Number)),
            ("s", DurationUnit::Seconds, Err(Reason::Number)),
        ];
        for (text, unit, expected) in cases {
            assert_eq!(duration(text.as_bytes(), unit), expected, "{text}");
        }
    }

    #[test]
    fn targets_are_split() {
        let cases = [
            ("/a?b?c", [None, Some("/a"), Some("b?c")]),
            ("/a?", [None, Some("/a"), Some("")]),
            ("?b", [None, Some(""), Some("b")]),
            ("", [None, None, None]),
            ("*", [None, Some("*"), None]),
            ("h:443?x", [Some("h:443?x"), None, None]),
            ("http://h", [Some("h"), Some(""), None]),
            ("http://h:8?x", [Some("h:8"), Some(""), Some("x")]),
            ("http://h#f", [Some("h"), Some("#f"), None]),
            ("a:b/c", [None, Some("a:b/c"), None]),
        ];
        for (text, expected) in cases {
            let TargetParts { host, path, query } = TargetParts::split(text.as_bytes());
            let parts = [host, path, query].map(|part| part.map(|part| &text[part]));
            assert_eq!(parts, expected, "{text}");
        }
    }

    #[test]
    fn addresses_lose_their_ports() {
        let cases = [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("client.example:80", "client.example"),
            ("192.0.2.1:80,10.0.0.1", "192.0.2.1:80,10.0.0.1"),
            ("[2001:db8::1]:80, ::1", "[2001:db8::1]:80, ::1"),
            ("::1", "::1"),
            ("unix:", "unix"),
            (":80", ""),
            ("[::1]80", "[::1]80"),
            ("[", "["),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(without_port(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
