//! Formats that are one text with fields in it, such as `log_format` and `LogFormat`.

use super::scanner::{ClientWatch, End, Piece, Rear, Scanner, Tail};
use crate::attribute::TimeForm;
use crate::escape::Escape;
use crate::meaning::{Meaning, NGINX};
use crate::plan::{Dialect, Plan};

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

/// Fields of ports: `$server_port` and `%p`.
const PORTS: [&str; 2] = ["server_port", "p"];

/// The query together with `$is_args`, which is `?` if there is one.
pub(super) const ARGS: &str = "is_args$args";

/// Fields of a query that begin with `?`, or are empty: `$is_args$args` and `%q`.
const QUERIES: [&str; 2] = [ARGS, "q"];

impl Template {
    /// Adds text to the last part.
    pub(crate) fn push_text(parts: &mut Vec<Part>, text: &[u8]) {
        match parts.last_mut() {
            Some(Part::Text(last)) => last.extend_from_slice(text),
            _ if text.is_empty() => {}
            _ => parts.push(Part::Text(text.to_vec())),
        }
    }

    /// Writes out its end, from the time in brackets on. `None` if there is no such time, or the fields are not named
    /// as in nginx.
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
                    scanner.fields.push(Piece {
                        used,
                        own,
                        until: until.to_vec(),
                        end,
                        watch: ClientWatch::Nothing,
                    });
                }
            }
        }
        Ok(scanner)
    }
}

/// How often the text that ends a time occurs in it.
fn inside(time: Option<TimeForm>, until: &[u8]) -> usize {
    match (time, std::str::from_utf8(until)) {
        (Some(TimeForm::Pattern(pattern)), Ok(until)) => pattern.matches(until).count(),
        _ => 0,
    }
}
