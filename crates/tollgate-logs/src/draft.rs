//! One line while it is read: its fields are put here, and become a record.

use std::net::IpAddr;

use memchr::{memchr, memrchr};
use tollgate::Network;

use crate::attribute::Source;
use crate::escape::Escape;
use crate::meaning::{Meaning, Unit};
use crate::plan::{Plan, Use};
use crate::reason::Reason;
use crate::record::{Record, Span};
use crate::request::{Field, Instant, Precision};
use crate::time::{self, SECOND, Stamp, Zone};

/// One line while it is read.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) record: Record,
    stamp: Option<Stamp>,
    /// The begin of the time field that was read last, and what it stands for: most lines have the second of the line
    /// before.
    last: Option<(Vec<u8>, Stamp)>,
    day: Option<i64>,
    clock: Option<(i64, Precision)>,
    /// In microseconds.
    duration: Option<i64>,
    /// Which instant the line logs.
    pub(crate) instant: Option<Instant>,
}

impl Draft {
    pub(crate) fn clear(&mut self, plan: &Plan) {
        self.record.clear(plan.slots());
        (self.stamp, self.day, self.clock, self.duration, self.instant) = (None, None, None, None, None);
    }

    /// Takes the text of a field, for all that it is used for.
    pub(crate) fn put(&mut self, plan: &Plan, used: &Use, text: &[u8], escape: Escape) -> Result<(), Reason> {
        for &slot in &used.slots {
            self.text(slot, text, escape);
        }
        match &used.meaning {
            Some(meaning) => self.take(plan, meaning, text, escape),
            None => Ok(()),
        }
    }

    pub(crate) fn take(
        &mut self,
        plan: &Plan,
        meaning: &Meaning,
        text: &[u8],
        escape: Escape,
    ) -> Result<(), Reason> {
        if is_absent(text) {
            return Ok(());
        }
        let is_word = matches!(meaning, Meaning::Address | Meaning::Peer | Meaning::Host | Meaning::Method);
        if is_word && memchr(b' ', text).is_some() {
            return Err(Reason::Shape);
        }
        match meaning {
            Meaning::Address => self.field(plan, Field::Ip, without_port(text), Escape::None),
            Meaning::Peer => {
                let address = memrchr(b':', text).and_then(|at| text.get(..at)).unwrap_or(text);
                self.field(plan, Field::Ip, without_brackets(address), Escape::None);
            }
            Meaning::LastForwarded => {
                let last = memrchr(b',', text).and_then(|at| text.get(at + 1..)).unwrap_or(text);
                self.field(plan, Field::Ip, without_port(last.trim_ascii()), Escape::None);
                self.text(plan.forwarded(), text, escape);
            }
            Meaning::Forwarded => self.text(plan.forwarded(), text, escape),
            Meaning::RequestLine => self.request_line(plan, text, escape),
            Meaning::Target => {
                if plan.wants(Field::Path) || plan.wants(Field::Query) || plan.wants(Field::Host) {
                    let span = self.append(text, escape);
                    self.target(plan, span);
                }
            }
            Meaning::Method => self.field(plan, Field::Method, text, escape),
            Meaning::Path => self.field(plan, Field::Path, text, escape),
            Meaning::Query => {
                self.field(plan, Field::Query, text.strip_prefix(b"?").unwrap_or(text), escape);
            }
            Meaning::Host => self.field(plan, Field::Host, text, escape),
            Meaning::User => self.field(plan, Field::User, text, escape),
            Meaning::UserAgent => self.field(plan, Field::UserAgent, text, escape),
            Meaning::Referer => self.field(plan, Field::Referer, text, escape),
            Meaning::Status => self.record.head.status = status(text)?,
            Meaning::Sent => self.record.head.sent = sent(text)?,
            Meaning::Time(form, instant) => {
                self.instant = Some(*instant);
                self.stamp = Some(self.time(form, text).ok_or(Reason::Time)?);
            }
            Meaning::Date => self.day = Some(time::day_of(text).ok_or(Reason::Time)?),
            Meaning::Clock => {
                self.clock = Some(time::micros_of_day(text).ok_or(Reason::Time)?);
                self.instant = Some(Instant::End);
            }
            Meaning::Duration(unit) => self.duration = Some(duration(text, *unit)?),
        }
        Ok(())
    }

    /// Makes the record whole: its time in UTC, and the attributes that are parts of other fields.
    pub(crate) fn finish(&mut self, plan: &Plan, zone: Option<&mut Zone>) -> Result<(), Reason> {
        let of_day = || {
            let (micros, precision) = self.clock?;
            Some(Stamp { micros: self.day? * time::DAY + micros, is_utc: true, precision })
        };
        let stamp = self.stamp.or_else(of_day).ok_or(Reason::NoTime)?;
        let mut micros = match zone {
            _ if stamp.is_utc => stamp.micros,
            Some(zone) => zone.utc(stamp.micros).ok_or(Reason::Time)?,
            None => return Err(Reason::NoZone),
        };
        if let Some(duration) = self.duration.filter(|_| self.instant == Some(Instant::End)) {
            self.instant = Some(Instant::EndWithDuration);
            // Within its second, the end is not known: the middle is the best guess.
            let middle = if stamp.precision == Precision::Seconds { SECOND / 2 } else { 0 };
            micros = micros.saturating_add(middle).saturating_sub(duration);
        }
        self.record.head.time = micros;
        self.record.head.precision = stamp.precision;
        for (place, attribute) in plan.attributes.iter().enumerate() {
            match &attribute.source {
                Source::Query(name) => self.parameter(Plan::slot(place), name.as_bytes()),
                Source::Xff(networks) => self.client(plan, Plan::slot(place), networks),
                _ => {}
            }
        }
        for (field, slot) in plan.replaced() {
            self.set(field as usize, self.span(slot));
        }
        self.set(plan.forwarded(), Span::NONE);
        Ok(())
    }

    /// A time as it is written, with what was read last at hand.
    fn time(&mut self, form: &crate::attribute::TimeForm, text: &[u8]) -> Option<Stamp> {
        match &self.last {
            Some((last, stamp)) if last == text => Some(*stamp),
            _ => {
                let stamp = time::parse(form, text)?;
                let mut kept = self.last.take().map_or_else(Vec::new, |(text, _)| text);
                kept.clear();
                kept.extend_from_slice(text);
                self.last = Some((kept, stamp));
                Some(stamp)
            }
        }
    }

    /// Splits `GET /path?query HTTP/1.1`. What is no request line has no method and no path.
    fn request_line(&mut self, plan: &Plan, text: &[u8], escape: Escape) {
        // HAProxy's line ends with the quote, and may be cut off before it. A quote of the client is `#22`.
        let text = text.strip_suffix(b"\"").filter(|_| escape == Escape::Hash).unwrap_or(text);
        let span = self.append(text, escape);
        let line = span.of(&self.record.bytes).unwrap_or_default();
        let Some(blank) = memchr(b' ', line) else { return };
        let (method, rest) = line.split_at(blank);
        if method.is_empty() || !method.iter().all(|&byte| is_token(byte)) {
            return;
        }
        let target = rest.get(1..).unwrap_or_default();
        let end = match memrchr(b' ', target) {
            Some(at) if target.get(at + 1..).is_some_and(|last| last.starts_with(b"HTTP/")) => at,
            _ => target.len(),
        };
        let start = span.start();
        if plan.wants(Field::Method) {
            self.set(Field::Method as usize, Span::new(start, start + blank));
        }
        self.target(plan, Span::new(start + blank + 1, start + blank + 1 + end));
    }

    /// Splits `/path?query`, or a whole URL, which is in the record already.
    fn target(&mut self, plan: &Plan, span: Span) {
        let target = span.of(&self.record.bytes).unwrap_or_default();
        let (mut start, end) = (span.start(), span.start() + target.len());
        let mut host = Span::NONE;
        let mut has_path = !target.is_empty();
        if !target.starts_with(b"/") {
            // `*` of OPTIONS is a path. `host:port` of CONNECT is none.
            if let Some(from) = authority(target) {
                let rest = target.get(from..).unwrap_or_default();
                let length = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
                host = Span::new(start + from, start + from + length);
                start += from + length;
                has_path = true;
            } else if memchr(b':', target).is_some() && memchr(b'/', target).is_none() {
                host = span;
                has_path = false;
            }
        }
        let rest = self.record.bytes.get(start..end).unwrap_or_default();
        let mark = memchr(b'?', rest).map(|at| start + at);
        let path_end = mark.unwrap_or(end);
        if plan.wants(Field::Path) && has_path {
            // A URL without a path asks for `/`.
            let path =
                if start == path_end { self.append(b"/", Escape::None) } else { Span::new(start, path_end) };
            self.set(Field::Path as usize, path);
        }
        if let Some(mark) = mark.filter(|_| plan.wants(Field::Query) && has_path) {
            self.set(Field::Query as usize, Span::new(mark + 1, end));
        }
        if plan.wants(Field::Host) && self.span(Field::Host as usize) == Span::NONE {
            self.set(Field::Host as usize, host);
        }
    }

    fn field(&mut self, plan: &Plan, field: Field, text: &[u8], escape: Escape) {
        if plan.wants(field) {
            self.text(field as usize, text, escape);
        }
    }

    fn text(&mut self, slot: usize, text: &[u8], escape: Escape) {
        if !is_absent(text) {
            let span = self.append(text, escape);
            self.set(slot, span);
        }
    }

    fn append(&mut self, text: &[u8], escape: Escape) -> Span {
        let start = self.record.bytes.len();
        escape.undo(text, &mut self.record.bytes);
        Span::new(start, self.record.bytes.len())
    }

    fn set(&mut self, slot: usize, span: Span) {
        if let Some(place) = self.record.spans.get_mut(slot) {
            *place = span;
        }
    }

    fn span(&self, slot: usize) -> Span {
        self.record.spans.get(slot).copied().unwrap_or(Span::NONE)
    }

    /// The first parameter of the query with this name.
    fn parameter(&mut self, slot: usize, name: &[u8]) {
        let Some(query) = self.span(Field::Query as usize).of(&self.record.bytes) else { return };
        let mut decoded = Vec::new();
        let found = query.split(|&byte| byte == b'&').find_map(|pair| {
            let (key, value) = pair.split_at(memchr(b'=', pair).unwrap_or(pair.len()));
            decoded.clear();
            Escape::Form.undo(key, &mut decoded);
            (decoded == name).then(|| value.get(1..).unwrap_or_default())
        });
        if let Some(value) = found {
            decoded.clear();
            Escape::Form.undo(value, &mut decoded);
            let span = self.append(&decoded, Escape::None);
            self.set(slot, span);
        }
    }

    /// The first address, on the way to the client, that is not a trusted proxy's.
    fn client(&mut self, plan: &Plan, slot: usize, trusted: &[Network]) {
        let bytes = &self.record.bytes;
        let Some(mut reached) = self.span(Field::Ip as usize).of(bytes) else { return };
        let forwarded = self.span(plan.forwarded()).of(bytes).unwrap_or_default();
        for hop in forwarded.rsplit(|&byte| byte == b',') {
            let is_trusted = address(reached).is_some_and(|address| {
                let host = Network::host(address);
                trusted.iter().any(|network| network.covers(&host))
            });
            let hop = without_port(hop.trim_ascii());
            if !is_trusted || address(hop).is_none() {
                break;
            }
            reached = hop;
        }
        let reached = reached.to_vec();
        let span = self.append(&reached, Escape::None);
        self.set(slot, span);
    }
}

/// What formats write for a value that is not there.
fn is_absent(text: &[u8]) -> bool {
    matches!(text, b"" | b"-")
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Where the authority of a URL begins.
fn authority(url: &[u8]) -> Option<usize> {
    let colon = memchr(b':', url)?;
    let (scheme, rest) = url.split_at(colon);
    let is_scheme = !scheme.is_empty() && scheme.iter().all(u8::is_ascii_alphanumeric);
    (is_scheme && rest.starts_with(b"://")).then_some(colon + 3)
}

/// `[2001:db8::1]:80` and `192.0.2.1:80` without the port. An address of IPv6 without brackets has none.
fn without_port(text: &[u8]) -> &[u8] {
    if text.starts_with(b"[") {
        return without_brackets(memchr(b']', text).and_then(|at| text.get(..=at)).unwrap_or(text));
    }
    match memchr(b':', text) {
        Some(at) if memrchr(b':', text) == Some(at) => text.get(..at).unwrap_or(text),
        _ => text,
    }
}

fn without_brackets(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(text)
}

fn address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Three digits. `0` and `-1` stand for no response.
fn status(text: &[u8]) -> Result<Option<u16>, Reason> {
    match text {
        b"0" | b"-1" | b"000" => Ok(None),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Ok(Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')))
        }
        _ => Err(Reason::Status),
    }
}

/// A number of bytes. HAProxy writes a `+` before one that has not been reached yet; a negative one is none.
fn sent(text: &[u8]) -> Result<Option<u64>, Reason> {
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
fn duration(text: &[u8], unit: Unit) -> Result<i64, Reason> {
    let text = std::str::from_utf8(text).map_err(|_| Reason::Number)?;
    let micros = if text.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
        let unit = match unit {
            Unit::Seconds => 1e6,
            Unit::Millis => 1e3,
            Unit::Micros => 1.0,
            Unit::Nanos => 1e-3,
            Unit::OfW3c if text.contains('.') => 1e6,
            Unit::OfW3c => 1e3,
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
            ("0.005", Unit::Seconds, Ok(5_000)),
            ("12", Unit::Millis, Ok(12_000)),
            ("1500", Unit::Nanos, Ok(2)),
            ("0.5", Unit::OfW3c, Ok(500_000)),
            ("500", Unit::OfW3c, Ok(500_000)),
            ("-1", Unit::Seconds, Ok(0)),
            ("1.2e-05", Unit::Seconds, Ok(12)),
            ("12.5ms", Unit::Seconds, Ok(12_500)),
            ("7\u{b5}s", Unit::Seconds, Ok(7)),
            ("1h2m3.5s", Unit::Seconds, Ok(3_723_500_000)),
            ("31622401", Unit::Seconds, Err(Reason::Number)),
            ("inf", Unit::Seconds, Err(Reason::Number)),
            ("1x", Unit::Seconds, Err(Reason::Number)),
            ("s", Unit::Seconds, Err(Reason::Number)),
        ];
        for (text, unit, expected) in cases {
            assert_eq!(duration(text.as_bytes(), unit), expected, "{text}");
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
            ("[", "["),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(without_port(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
