//! Formats that are one text with fields in it, such as `log_format` and `LogFormat`.

use memchr::{memchr, memchr_iter, memchr2, memrchr, memrchr_iter};

use crate::attribute::TimeForm;
use crate::draft::Draft;
use crate::escape::Escape;
use crate::meaning::{Meaning, NGINX};
use crate::plan::{Dialect, Plan, Use};
use crate::reason::{Kind, Reason};

/// A format as it is written: texts and fields by turns.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) parts: Vec<Part>,
    pub(crate) escape: Escape,
    pub(crate) dialect: Dialect,
    /// Meanings that no table has.
    pub(crate) meaning: fn(&str) -> Option<Meaning>,
    pub(crate) tail: Tail,
    /// A field, and the value that it has in lines about requests of the server itself.
    pub(crate) own: Option<(&'static str, &'static [u8])>,
}

/// A piece of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(Vec<u8>),
    Field(String),
}

/// The text that may follow the last field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Nothing,
    /// A blank and more fields. Formats grow, and people append fields to the known ones.
    More,
}

/// Fields of ports: `$server_port` and `%p`.
const PORTS: [&str; 2] = ["server_port", "p"];

/// The query together with `$is_args`, which is `?` if there is one.
pub(super) const ARGS: &str = "is_args$args";

/// Fields of a query that begin with `?`, or are empty: `$is_args$args` and `%q`.
const QUERIES: [&str; 2] = [ARGS, "q"];

/// A template with what is taken from its fields.
#[derive(Debug)]
pub(crate) struct Scanner {
    lead: Vec<u8>,
    fields: Vec<Piece>,
    escape: Escape,
    tail: Tail,
}

/// A field, and the text that ends it.
#[derive(Debug)]
struct Piece {
    used: Use,
    /// The value in lines about requests of the server itself.
    own: Option<&'static [u8]>,
    until: Vec<u8>,
    end: End,
}

/// How the end of a field is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By the first text that may end it.
    First,
    /// By the first text that may end it and is not between two values: of several upstreams that were tried, nginx writes
    /// `a, b`, and after an internal redirect `a : b`.
    List,
    /// By the first quote that is not escaped. If the text does not go on behind it as the format does, a client's quote
    /// was not escaped, and a later one ends the field.
    Quote,
    /// By the text after the version of HTTP: a request line without quotes has blanks in it.
    Request,
    /// By the first text that may end it and stands before a time. Names of users may contain blanks and brackets, but
    /// never a whole time: a name in Basic authentication has no colon.
    BeforeTime,
    /// By the text after it has occurred so often within the field, as blanks do in times of a pattern.
    After(usize),
    /// By this byte, with which the next field begins. It is looked for within the fields up to the place of the last one
    /// that has no text before it.
    Before(u8, usize),
    /// By what follows: `X-Forwarded-For` without quotes has blanks and commas in it, and clients write what they want there.
    /// The fields after it have none, up to the next time in brackets, quote, or end of the line.
    Forwarded(Rear),
    /// By the end of the line.
    Line,
}

/// What follows a list without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rear {
    /// The byte with which the text after the list begins.
    mark: u8,
    /// How many of them follow up to what is found first.
    count: usize,
    /// A bracket or a quote, and whether a time follows; `None` is the end of the line.
    opening: Option<(u8, bool)>,
}

impl Template {
    /// Adds text to the last part.
    pub(crate) fn push_text(parts: &mut Vec<Part>, text: &[u8]) {
        match parts.last_mut() {
            Some(Part::Text(last)) => last.extend_from_slice(text),
            _ if text.is_empty() => {}
            _ => parts.push(Part::Text(text.to_vec())),
        }
    }

    /// Writes out its end, from the time in brackets on. `None` if there is no such time, or the fields are not named as in
    /// nginx.
    pub(super) fn after_time(&self) -> Option<String> {
        let is_time = |pair: &[Part]| match pair {
            [Part::Text(text), Part::Field(name)] => {
                text.ends_with(b"[") && name.ends_with("_clf") || name == "time_local"
            }
            _ => false,
        };
        let place = self.parts.windows(2).position(is_time).filter(|_| self.dialect.names == NGINX)?;
        let parts = self.parts.get(place + 1..)?;
        let written = parts.iter().enumerate().map(|(at, part)| {
            let name = match part {
                Part::Field(name) if name == "some_clf" => "time_local",
                Part::Field(name) => name,
                Part::Text(text) => return String::from_utf8_lossy(text).into_owned(),
            };
            let after = parts.get(at + 1);
            let goes_on = matches!(after, Some(Part::Text(text)) if text.first().is_some_and(u8::is_ascii_alphanumeric));
            if goes_on { format!("${{{name}}}") } else { format!("${name}") }
        });
        Some(format!(" [{}", written.collect::<String>()))
    }

    /// The names of two fields with nothing between them, if no reader can tell them apart.
    pub(crate) fn adjacent(&self) -> Option<(&str, &str)> {
        self.parts.windows(2).find_map(|pair| match pair {
            [Part::Field(first), Part::Field(second)] if self.split(first, second).is_none() => {
                Some((first.as_str(), second.as_str()))
            }
            _ => None,
        })
    }

    /// The byte with which the second of two adjacent fields begins, and which the first one cannot have: a path begins
    /// with `/` after a host or a port, and a query with `?` after a path.
    fn split(&self, first: &str, second: &str) -> Option<u8> {
        let meaning = |name: &str| {
            let known = self.dialect.names.iter().find(|(known, _)| *known == name);
            known.map(|(_, meaning)| meaning.clone())
        };
        match (meaning(first), meaning(second)?) {
            (Some(Meaning::Host), Meaning::Path | Meaning::Target) => Some(b'/'),
            (None, Meaning::Path | Meaning::Target) if PORTS.contains(&first) => Some(b'/'),
            (Some(Meaning::Path), Meaning::Query) if QUERIES.contains(&second) => Some(b'?'),
            _ => None,
        }
    }

    /// How many fields follow that at this place with nothing between them.
    fn adjacent_after(&self, place: usize) -> usize {
        let after = self.parts.get(place + 1..).unwrap_or_default();
        after.iter().take_while(|part| matches!(part, Part::Field(_))).count()
    }

    /// The form of a field that is a time.
    fn time(&self, name: &str, plan: &Plan) -> Option<TimeForm> {
        let own = plan.time.as_ref().filter(|time| time.field.eq_ignore_ascii_case(name));
        let known = self.dialect.names.iter().find(|(known, _)| *known == name);
        let known = known.map(|(_, meaning)| meaning.clone()).or_else(|| (self.meaning)(name));
        match (own, known) {
            (Some(own), _) => Some(own.form.clone()),
            (None, Some(Meaning::Time(form, _))) => Some(form),
            _ => None,
        }
    }

    /// What follows the field at this place, if it is `X-Forwarded-For` without quotes.
    fn rear(&self, place: usize, until: &[u8], plan: &Plan) -> Option<Rear> {
        let Some(Part::Field(name)) = self.parts.get(place) else { return None };
        let is_forwarded =
            |(known, meaning): &(&str, Meaning)| known == name && *meaning == Meaning::Forwarded;
        let mark = *until.first().filter(|mark| b" ,".contains(mark))?;
        self.dialect.names.iter().find(|known| is_forwarded(known))?;
        let mut count = 0;
        for (at, part) in self.parts.iter().enumerate().skip(place + 1) {
            let Part::Text(text) = part else { continue };
            let opening = text.iter().position(|byte| b"[\"".contains(byte));
            let before = text.get(..opening.unwrap_or(text.len()))?;
            count += before.iter().filter(|byte| **byte == mark).count();
            if let Some(opening) = opening {
                let has_time = opening + 1 == text.len() && self.time_at(at + 1, plan).is_some();
                return Some(Rear { mark, count, opening: Some((*text.get(opening)?, has_time)) });
            }
        }
        Some(Rear { mark, count, opening: None })
    }

    /// The form of the time at this place.
    fn time_at(&self, place: usize, plan: &Plan) -> Option<TimeForm> {
        match self.parts.get(place) {
            Some(Part::Field(name)) => self.time(name, plan),
            _ => None,
        }
    }

    /// Gets ready to read lines.
    ///
    /// # Errors
    ///
    /// The name of a field that is needed and not there.
    pub(crate) fn scanner(&self, plan: &Plan) -> Result<Scanner, String> {
        let names = self.parts.iter().filter_map(|part| match part {
            Part::Field(name) => Some(name.clone()),
            Part::Text(_) => None,
        });
        let names: Vec<String> = names.collect();
        let uses = plan.resolve(&names, &self.dialect, self.meaning)?;
        // How far a time reaches does not depend on whether it is the one that is used.
        let time = |place: usize| self.time_at(place, plan);
        let mut scanner =
            Scanner { lead: Vec::new(), fields: Vec::new(), escape: self.escape, tail: self.tail };
        let mut before: &[u8] = b"";
        let mut left = uses.iter();
        for (place, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(text) if scanner.fields.is_empty() => {
                    scanner.lead.clone_from(text);
                    before = text;
                }
                Part::Text(text) => before = text,
                Part::Field(name) => {
                    let used = left.next().cloned().unwrap_or_default();
                    let own = self.own.filter(|(field, _)| field == name).map(|(_, value)| value);
                    let until = match self.parts.get(place + 1) {
                        Some(Part::Text(text)) => text.as_slice(),
                        _ => b"",
                    };
                    let next = match self.parts.get(place + 1) {
                        Some(Part::Field(next)) => self.split(name, next),
                        _ => None,
                    };
                    let is_list = name.starts_with("upstream_") && until.starts_with(b" ");
                    let is_quoted = before.ends_with(b"\"") && until.starts_with(b"\"");
                    let is_request = used.meaning == Some(Meaning::RequestLine) && until.starts_with(b" ");
                    let rear = self.rear(place, until, plan);
                    let end = match (next, rear) {
                        (_, Some(rear)) => End::Forwarded(rear),
                        (Some(byte), _) => {
                            End::Before(byte, scanner.fields.len() + self.adjacent_after(place))
                        }
                        _ if until.is_empty() => End::Line,
                        _ if is_list => End::List,
                        _ if is_quoted && self.escape != Escape::None => End::Quote,
                        _ if is_quoted => End::First,
                        _ if is_request => End::Request,
                        _ if inside(time(place), until) > 0 => End::After(inside(time(place), until)),
                        _ if time(place + 2).is_some() => End::BeforeTime,
                        _ => End::First,
                    };
                    scanner.fields.push(Piece { used, own, until: until.to_vec(), end });
                }
            }
        }
        Ok(scanner)
    }
}

impl Scanner {
    pub(crate) fn read(&self, plan: &Plan, line: &[u8], draft: &mut Draft) -> Result<Kind, Reason> {
        if !starts_with(line, &self.lead) {
            return Err(Reason::Shape);
        }
        let mut rest = line.get(self.lead.len()..).unwrap_or_default();
        let last = self.fields.len().saturating_sub(1);
        let mut kind = Kind::Request;
        for (place, piece) in self.fields.iter().enumerate() {
            let end = match piece.end {
                // As most fields end: without a call.
                End::First => ends(rest, &piece.until).next(),
                _ => self.end(piece, rest, place == last),
            };
            let (text, from) = end.and_then(|end| rest.split_at_checked(end)).ok_or(Reason::Shape)?;
            rest = from.get(piece.until.len()..).unwrap_or_default();
            if piece.own == Some(text) {
                kind = Kind::Other;
            }
            draft.put(plan, &piece.used, text, self.escape)?;
        }
        if self.may_end(rest) { Ok(kind) } else { Err(Reason::Shape) }
    }

    /// Whether this can follow the last field.
    fn may_end(&self, rest: &[u8]) -> bool {
        rest.is_empty() || (self.tail == Tail::More && rest.starts_with(b" "))
    }

    fn end(&self, piece: &Piece, rest: &[u8], is_last: bool) -> Option<usize> {
        let until = piece.until.as_slice();
        let may_grow = is_last && self.tail == Tail::More;
        match piece.end {
            End::Line if may_grow => Some(memchr(b' ', rest).unwrap_or(rest.len())),
            End::Line => Some(rest.len()),
            End::Quote => {
                let end = closing_quote(rest, self.escape)?;
                let after = rest.get(end..)?.strip_prefix(until);
                let is_end = after.is_some_and(|after| !is_last || self.may_end(after));
                if is_end { Some(end) } else { self.late_quote(until, rest, end, is_last) }
            }
            End::Request => ends(rest, until)
                .find(|&end| rest.get(..end).is_some_and(ends_with_version))
                // What is no request of HTTP has no version.
                .or_else(|| ends(rest, until).next()),
            End::First => ends(rest, until).next(),
            End::List => ends(rest, until).find(|&end| !is_between(rest, end)),
            End::Before(byte, last) => {
                let whole = self.end(self.fields.get(last)?, rest, is_last)?;
                let group = rest.get(..whole)?;
                // Without it, the second one is absent, or `*` of OPTIONS.
                memchr(byte, group).or_else(|| {
                    let is_other =
                        byte == b'/' && group.len() > 1 && matches!(group.last(), Some(b'-' | b'*'));
                    Some(group.len() - usize::from(is_other))
                })
            }
            End::After(count) => ends(rest, until).nth(count),
            End::Forwarded(rear) => rear.list(rest).filter(|&end| ends_at(rest, until, end)),
            End::BeforeTime => ends(rest, until)
                .find(|end| rest.get(end + until.len()..).is_some_and(begins_with_time))
                // The time may be absent or of another form; then the line is told to have no valid one.
                .or_else(|| ends(rest, until).next()),
        }
    }

    /// The first quote behind this one with which the field can end. Where quotes of clients are not escaped, that of the
    /// last field is told from them by those that follow: there are no fields with only one.
    #[cold]
    fn late_quote(&self, until: &[u8], rest: &[u8], first: usize, is_last: bool) -> Option<usize> {
        let next = |at: usize| Some(at + 1 + closing_quote(rest.get(at + 1..)?, self.escape)?);
        let quotes = || std::iter::successors(next(first), |&at| next(at));
        let count = quotes().count();
        let mut last = quotes().enumerate().filter(|(place, _)| !is_last || (count - place) % 2 == 1);
        last.find_map(|(_, at)| {
            let after = rest.get(at..)?.strip_prefix(until)?;
            (!is_last || self.may_end(after)).then_some(at)
        })
    }
}

impl Rear {
    /// How long the list is. An entry with a blank in it may be a part of another field, so its line is not read.
    fn list(self, rest: &[u8]) -> Option<usize> {
        let end = match self.opening {
            None => rest.len(),
            Some((opening, false)) => memchr(opening, rest)?,
            Some((opening, true)) => {
                memchr_iter(opening, rest).find(|at| rest.get(at + 1..).is_some_and(begins_with_time))?
            }
        };
        let group = rest.get(..end)?;
        let end = memrchr_iter(self.mark, group).nth(self.count.checked_sub(1)?)?;
        let last = group.get(..end)?.rsplit(|&byte| byte == b',').next()?.trim_ascii();
        (!last.contains(&b' ')).then_some(end)
    }
}

/// Whether the text is at this place.
fn ends_at(rest: &[u8], until: &[u8], end: usize) -> bool {
    rest.get(end..).is_some_and(|rest| rest.starts_with(until))
}

/// Whether the text ends with ` HTTP/1.1`.
fn ends_with_version(text: &[u8]) -> bool {
    let Some(blank) = memrchr(b' ', text) else { return false };
    let version = text.get(blank + 1..).and_then(|last| last.strip_prefix(b"HTTP/"));
    version.is_some_and(|version| version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
}

/// Whether the blank at this place stands between two values of a list.
fn is_between(rest: &[u8], blank: usize) -> bool {
    let (before, after) = rest.split_at(blank.min(rest.len()));
    before.ends_with(b",") || before.ends_with(b" :") || after.starts_with(b" : ")
}

/// How often the text that ends a time occurs in it.
fn inside(time: Option<TimeForm>, until: &[u8]) -> usize {
    match (time, std::str::from_utf8(until)) {
        (Some(TimeForm::Pattern(pattern)), Ok(until)) => pattern.matches(until).count(),
        _ => 0,
    }
}

/// Where the text occurs.
fn ends<'r>(rest: &'r [u8], until: &'r [u8]) -> impl Iterator<Item = usize> + 'r {
    let mut from = 0;
    std::iter::from_fn(move || {
        let first = *until.first()?;
        loop {
            let tail = rest.get(from..)?;
            let at = from + memchr(first, tail)?;
            from = at + 1;
            if starts_with(rest.get(at..)?, until) {
                return Some(at);
            }
        }
    })
}

/// As the method of slices. Texts between fields have up to three bytes, for which no call to compare memory is made. For
/// none, such a call is slow: the C library reads under a mask where an empty vector points, which takes the processor as
/// long as a fifth of a line.
fn starts_with(rest: &[u8], text: &[u8]) -> bool {
    match (text, rest) {
        ([], _) => true,
        ([a], [x, ..]) => a == x,
        ([a, b], [x, y, ..]) => a == x && b == y,
        ([a, b, c], [x, y, z, ..]) => a == x && b == y && c == z,
        _ => rest.starts_with(text),
    }
}

/// The first quote that is not escaped.
pub(crate) fn closing_quote(rest: &[u8], escape: Escape) -> Option<usize> {
    if !matches!(escape, Escape::Backslash | Escape::Json) {
        return memchr(b'"', rest);
    }
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', rest.get(from..)?)?;
        if rest.get(at) == Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Returns whether this begins as a time does: with `10/Oct/2000:`, `2000-10-` or ten digits.
pub(super) fn begins_with_time(rest: &[u8]) -> bool {
    match rest.first_chunk::<12>() {
        Some(&[_, _, b'/', _, _, _, b'/', _, _, _, _, b':']) => true,
        Some(&[_, _, _, _, b'-', _, _, b'-', ..]) => true,
        Some(digits) => digits.iter().take(10).all(u8::is_ascii_digit),
        None => false,
    }
}
