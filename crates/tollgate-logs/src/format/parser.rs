//! Lines of one file, read by its format.

use jiff::tz::TimeZone;

use super::json::Fields;
use super::parts::Parts;
use super::prefix::Prefix;
use super::table::Table;
use super::template::Scanner;
use super::{Format, Shape};
use crate::draft::Draft;
use crate::plan::Plan;
use crate::reason::{Kind, Reason};
use crate::record::Record;
use crate::request::Instant;
use crate::time::{Fold, Zone};

/// Reads the lines of one file, from the first on.
#[derive(Debug)]
pub(crate) struct Parser {
    prefix: Prefix,
    parts: Parts,
    form: Form,
    zone: Option<Zone>,
    draft: Draft,
}

#[derive(Debug)]
enum Form {
    Template(Scanner),
    Objects(Fields),
    Table(Table),
}

impl Parser {
    /// # Errors
    ///
    /// The name of a field that is needed, and that the format does not have.
    pub(crate) fn new(
        format: &Format,
        prefix: Prefix,
        plan: &Plan,
        zone: Option<&TimeZone>,
    ) -> Result<Self, String> {
        let form = match &format.shape {
            Shape::Template(template) => Form::Template(template.scanner(plan)?),
            Shape::Objects(objects) => Form::Objects(Fields::new(objects, plan)?),
            Shape::Table(style) => Form::Table(Table::new(*style)),
        };
        let (parts, draft) = (Parts::default(), Draft::default());
        Ok(Self { prefix, parts, form, zone: zone.cloned().map(Zone::new), draft })
    }

    /// Reads a line. If it is a [`Kind::Request`], that is [`Parser::record`] now.
    pub(crate) fn read(&mut self, plan: &Plan, line: &[u8]) -> Result<Kind, Reason> {
        if line.trim_ascii().is_empty() {
            return Ok(Kind::Other);
        }
        match self.prefix.strip(line) {
            Some(text) if self.parts.is_empty() => self.whole(plan, text),
            text => self.part(plan, line, text),
        }
    }

    /// Reads a line of a log driver that may be a part of one: its text is that of the last part, or `None`.
    fn part(&mut self, plan: &Plan, line: &[u8], text: Option<&[u8]>) -> Result<Kind, Reason> {
        match (self.prefix.part(line), text) {
            (Some((stream, _)), Some(last)) => {
                let whole = self.parts.end(stream, last)?;
                self.whole(plan, &whole)
            }
            (Some((stream, Some(part))), None) => {
                self.parts.push(stream, part);
                Ok(Kind::Other)
            }
            _ => Err(Reason::Prefix),
        }
    }

    fn whole(&mut self, plan: &Plan, line: &[u8]) -> Result<Kind, Reason> {
        self.draft.clear(plan);
        let kind = match &mut self.form {
            Form::Template(scanner) => scanner.read(plan, line, &mut self.draft),
            Form::Objects(fields) => fields.read(plan, line, &mut self.draft),
            Form::Table(table) => table.read(plan, line, &mut self.draft),
        }?;
        if kind == Kind::Request {
            self.draft.finish(plan, self.zone.as_mut())?;
        }
        Ok(kind)
    }

    pub(crate) fn record(&mut self) -> &mut Record {
        &mut self.draft.record
    }

    /// Which instant the line logged that was read last.
    pub(crate) fn instant(&self) -> Option<Instant> {
        self.draft.instant
    }

    /// Returns how many fields the line of JSON that was read last has of those that its format knows.
    pub(crate) const fn known_fields(&self) -> u32 {
        match &self.form {
            Form::Objects(fields) => fields.known(),
            _ => 0,
        }
    }

    /// The column that [`Reason::NoField`] is about.
    pub(crate) fn missing(&self) -> &str {
        match &self.form {
            Form::Table(table) => table.missing.as_deref().unwrap_or_default(),
            _ => "",
        }
    }

    /// What the log has said so far of an hour that exists twice.
    pub(crate) fn fold(&self) -> Option<Fold> {
        self.zone.as_ref().and_then(Zone::fold)
    }

    /// Goes on where the file before it in its series ended.
    pub(crate) fn go_on(&mut self, fold: Fold) {
        self.zone.iter_mut().for_each(|zone| zone.go_on(fold));
    }

    /// Whether any line had the `X-Forwarded-For` that an attribute asks for.
    pub(crate) fn has_forwarded(&self) -> bool {
        self.draft.has_forwarded
    }

    /// Returns how many times existed twice, at the end of summer time.
    pub(crate) fn ambiguous(&self) -> u64 {
        self.zone.as_ref().map_or(0, |zone| zone.ambiguous)
    }
}
