//! One line while it is read: its fields are put here, and become a record.

mod client;

use std::mem;

use memchr::{memchr, memrchr};

use crate::attribute::AttributeSource;
use crate::escape::Escape;
use crate::field::{Field, Instant, Precision};
use crate::meaning::Meaning;
use crate::plan::{FieldUse, Plan};
use crate::reason::Reason;
use crate::record::{Record, SentBytes, Span};
use crate::time::{self, SECOND, Stamp, Zone};
use crate::value::{
    TargetParts, duration, is_absent, is_token, sent, status, without_brackets, without_port,
};

/// One line while it is read.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) record: Record,
    stamp: Option<Stamp>,
    /// The beginning of the last time field, and its time: most lines have the same second as the previous one.
    last: Option<(Vec<u8>, Stamp)>,
    /// A client without escapes.
    undone: Vec<u8>,
    day: Option<i64>,
    clock: Option<(i64, Precision)>,
    /// In microseconds.
    duration: Option<i64>,
    /// Which instant the line logs.
    pub(crate) instant: Option<Instant>,
    /// Whether any line had the `X-Forwarded-For` that an attribute asks for.
    pub(crate) has_forwarded: bool,
    /// Why it is not certain who the client is.
    doubt: Option<Reason>,
    /// The address in another field for the client.
    other_client: Span,
    /// Whether a client with a name is an error.
    pub(crate) has_only_addresses: bool,
    /// How many lines have a hidden client, and how many an unnamed one.
    pub(crate) hidden: u64,
    pub(crate) unnamed: u64,
}

impl Draft {
    pub(crate) fn clear(&mut self, plan: &Plan) {
        self.record.clear(plan.slots());
        (self.stamp, self.day, self.clock, self.duration, self.instant) = (None, None, None, None, None);
        (self.doubt, self.other_client) = (None, Span::NONE);
    }

    /// Stores the text of a field for all its uses.
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        plan: &Plan,
        used: &FieldUse,
        text: &[u8],
        escape: Escape,
    ) -> Result<(), Reason> {
        // Many fields of a line have no value.
        if is_absent(text) {
            return Ok(());
        }
        for &slot in &used.slots {
            self.text(slot, text, escape);
        }
        match &used.meaning {
            Some(meaning) => self.take(plan, meaning, text, escape),
            None => Ok(()),
        }
    }

    fn take(&mut self, plan: &Plan, meaning: &Meaning, text: &[u8], escape: Escape) -> Result<(), Reason> {
        let is_word = matches!(meaning, Meaning::Address | Meaning::Peer | Meaning::Host | Meaning::Method);
        // A list of addresses has blanks, and a string of JSON ends where it ends: these are clients in doubt.
        let may_have_blanks =
            || *meaning == Meaning::Address && (escape == Escape::Json || memchr(b',', text).is_some());
        if is_word && memchr(b' ', text).is_some() && !may_have_blanks() {
            return Err(Reason::Shape);
        }
        match meaning {
            Meaning::Address if escape == Escape::Json && memchr(b'\\', text).is_some() => {
                let mut undone = mem::take(&mut self.undone);
                undone.clear();
                escape.undo(text, &mut undone);
                self.client_field(plan, without_port(&undone));
                self.undone = undone;
            }
            Meaning::Address => self.client_field(plan, without_port(text)),
            Meaning::Peer => {
                // An address of IPv6 without a port would lose its last part.
                let (address, port) = text.split_at(memrchr(b':', text).unwrap_or(text.len()));
                let is_cut = address.ends_with(b":") && !address.ends_with(b"::");
                let has_port = port.len() > 1 && port.iter().skip(1).all(u8::is_ascii_digit);
                if (is_cut || !has_port) && port != b":-" {
                    self.doubt = Some(Reason::Client);
                }
                self.client_field(plan, without_brackets(address));
            }
            Meaning::Forwarded if escape == Escape::Json && is_array(text) => {
                self.lines(plan.forwarded(), text)
            }
            Meaning::Forwarded => self.text(plan.forwarded(), text, escape),
            Meaning::RequestLine => self.request_line(plan, text, escape),
            Meaning::Target => {
                if plan.wants(Field::Path) || plan.wants(Field::Query) || plan.wants(Field::Host) {
                    let span = self.append(text, escape);
                    self.take_target(plan, span);
                }
            }
            Meaning::Method => self.field(plan, Field::Method, text, escape),
            Meaning::Path => self.field(plan, Field::Path, text, escape),
            Meaning::Route => self.field(plan, Field::Path, route(text), escape),
            Meaning::Query => {
                self.field(plan, Field::Query, text.strip_prefix(b"?").unwrap_or(text), escape);
            }
            Meaning::Host => self.field(plan, Field::Host, text, escape),
            Meaning::User => self.field(plan, Field::User, text, escape),
            Meaning::UserAgent => self.field(plan, Field::UserAgent, text, escape),
            Meaning::Referer => self.field(plan, Field::Referer, text, escape),
            Meaning::Status => self.record.head.status = status(text)?,
            Meaning::Sent => self.record.head.sent = SentBytes::of(sent(text)?),
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

    /// Completes the record: its time in UTC, and the attributes that are parts of other fields. `outer` is the time of
    /// what is around the line.
    pub(crate) fn finish(
        &mut self,
        plan: &Plan,
        zone: Option<&mut Zone>,
        outer: impl FnOnce() -> Option<Stamp>,
    ) -> Result<(), Reason> {
        let by_day_and_clock = || {
            let (micros, precision) = self.clock?;
            Some(Stamp { micros: self.day? * time::DAY + micros, is_utc: true, precision })
        };
        let stamp = self.stamp.or_else(by_day_and_clock).or_else(|| {
            self.instant = Some(Instant::Unknown);
            outer()
        });
        let stamp = stamp.ok_or(Reason::NoTime)?;
        if self.other_client != Span::NONE {
            self.compare_clients();
        }
        if let Some(doubt) = self.doubt {
            return Err(doubt);
        }
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
        self.peer(plan);
        // First those of the line: others are derived from them.
        for is_derived in [false, true] {
            for (place, attribute) in plan.attributes.iter().enumerate() {
                let slot = Plan::slot(place);
                match &attribute.source {
                    source if source.is_derived() != is_derived => continue,
                    AttributeSource::Query(name) => self.parameter(slot, name.as_bytes()),
                    AttributeSource::Xff(proxies) => self.client(plan, slot, proxies),
                    _ => {}
                }
                if let Some(field) = Field::named(&attribute.name) {
                    self.replace(plan, field, slot);
                }
            }
        }
        self.set(plan.forwarded(), Span::NONE);
        Ok(())
    }

    /// Parses a time, with the help of the last one.
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

    /// Splits `GET /path?query HTTP/1.1`. A text that is not a request line has no method and no path.
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
        let target = target.get(..end).unwrap_or_default();
        let skipped = if target.starts_with(b"/") { 0 } else { end - route(target).len() };
        let start = span.start();
        if plan.wants(Field::Method) {
            self.set(Field::Method as usize, Span::new(start, start + blank));
        }
        self.take_target(plan, Span::new(start + blank + 1 + skipped, start + blank + 1 + end));
    }

    /// Splits `/path?query`, or a whole URL, which is in the record already. Returns the path. The query and the host
    /// are stored, unless other fields of the line had them.
    fn target(&mut self, plan: &Plan, target: Span) -> Option<Span> {
        let TargetParts { host, path, query } =
            TargetParts::split(target.of(&self.record.bytes).unwrap_or_default());
        for (field, part) in [(Field::Query, query), (Field::Host, host)] {
            if let Some(part) = part.filter(|_| plan.wants(field) && self.span(field as usize) == Span::NONE)
            {
                self.set(field as usize, target.part(part));
            }
        }
        // A URL without a path asks for `/`.
        let path = target.part(path?);
        Some(if path.is_empty() { self.append(b"/", Escape::None) } else { path })
    }

    /// Stores the parts of a target that are wanted.
    fn take_target(&mut self, plan: &Plan, target: Span) {
        if let Some(path) = self.target(plan, target).filter(|_| plan.wants(Field::Path)) {
            self.set(Field::Path as usize, path);
        }
    }

    /// Replaces a field by the attribute with its name, which is parsed like the field.
    fn replace(&mut self, plan: &Plan, field: Field, slot: usize) {
        let value = self.span(slot);
        let text = value.of(&self.record.bytes).unwrap_or_default();
        let read = match field {
            Field::Ip => match without_port(text) {
                b"" => Span::NONE,
                ip => {
                    // Brackets are cut off together with the port.
                    let start = usize::from(ip.len() < text.len() && text.starts_with(b"["));
                    value.part(start..start + ip.len())
                }
            },
            Field::Path => self.target(plan, value).unwrap_or(Span::NONE),
            Field::Query if text.starts_with(b"?") => value.part(1..text.len()),
            _ => value,
        };
        self.set(slot, read);
        self.set(field as usize, read);
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
}

/// Whether this is an array of strings. In a string, quotes are escaped.
fn is_array(text: &[u8]) -> bool {
    text.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
}

/// The path of a route's key, as of Amazon's API Gateway: `GET /pets/{id}` or `/pets`. `$default` has none.
fn route(key: &[u8]) -> &[u8] {
    let path = match memchr(b' ', key) {
        Some(blank) if key.iter().take(blank).all(u8::is_ascii_uppercase) => key.get(blank + 1..),
        _ => Some(key),
    };
    path.filter(|path| *path != b"$default").unwrap_or_default()
}
