//! Who the client of each sampled line is, by a format that reads the line.
//!
//! A format that fits may still read the wrong client: `PROXY CLIENT - - [time] ...` has the shape of Apache's formats. So a
//! detected format is accepted only if there is one address in the place of the client, and none where it reads something
//! else. This takes no time later: only the first lines are looked at.

mod fields;
mod head;
mod others;
mod readings;
mod tail;
mod unknown;

use jiff::tz::TimeZone;

use self::fields::Fields;
pub(crate) use self::readings::Meant;
use super::wrapping::Wrapping;
use super::{Format, Parser, Shape};
use crate::attribute::{Attribute, Source};
use crate::client::ClientText;
use crate::options::Options;
use crate::plan::Plan;
use crate::reason::Kind;

/// The first lines of a log, and what the user says of them.
pub(super) struct Sample<'l> {
    pub(super) lines: &'l [&'l [u8]],
    pub(super) wrapping: &'l Wrapping,
    pub(super) plan: &'l Plan,
    pub(super) zone: Option<&'l TimeZone>,
}

/// The clients of the lines that a format reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Clients {
    /// Lines whose client is one address or a host name.
    pub(crate) single: usize,
    /// Those with a host name.
    pub(crate) names: usize,
    /// Lines with another text in its place.
    pub(crate) others: usize,
}

/// A line that does not say for certain who its client is, by its place, and what it may mean.
#[derive(Debug)]
pub(crate) struct Unclear {
    pub(crate) line: usize,
    pub(crate) readings: Vec<Meant>,
}

impl Sample<'_> {
    /// Looks at the clients of all lines that this format reads.
    ///
    /// # Errors
    ///
    /// The first line whose client is not certain.
    pub(super) fn audit(&self, format: &Format) -> Result<Clients, Unclear> {
        let fields = Fields::of(format);
        let mut clients = Clients::default();
        let mut unclear = None;
        self.each(format, &fields.names(), |line, texts| {
            let (kind, is_certain) = fields.judge(texts);
            if !is_certain {
                unclear = unclear.or(Some(line));
            }
            match kind {
                Some(ClientText::Address) => clients.single += 1,
                Some(ClientText::Name) => {
                    (clients.single, clients.names) = (clients.single + 1, clients.names + 1)
                }
                Some(ClientText::List | ClientText::Other) => clients.others += 1,
                None => {}
            }
        });
        // Single lines with another text do not fit, and are counted as such when all are read.
        if unclear.is_none() && clients.others * 19 <= clients.single {
            return Ok(clients);
        }
        let line = unclear.or_else(|| self.first_other(format, &fields)).unwrap_or(0);
        let readings = match &format.shape {
            Shape::Template(template) => self.readings(line, Some((format, template))),
            Shape::Objects(_) | Shape::Table(_) => self.readings_of_fields(line, format, &fields),
        };
        Err(Unclear { line, readings })
    }

    fn first_other(&self, format: &Format, fields: &Fields) -> Option<usize> {
        let mut first = None;
        self.each(format, &fields.names(), |line, texts| {
            let is_other = matches!(fields.judge(texts).0, Some(ClientText::List | ClientText::Other));
            first = first.or(Some(line).filter(|_| is_other));
        });
        first
    }

    /// Calls back with the fields of these names of each request, by the place of its line.
    fn each(
        &self,
        format: &Format,
        names: &[String],
        mut call: impl FnMut(usize, &[Option<&[u8]>]),
    ) -> usize {
        let source = |name: &String| match name.starts_with('/') {
            true => Source::Json(name.clone()),
            false => Source::Field(name.clone()),
        };
        let attribute = |name: &String| Attribute { name: String::new(), source: source(name) };
        let options = Options {
            attributes: names.iter().map(attribute).collect(),
            fields: Vec::new(),
            time: self.plan.time.clone(),
            ..Options::default()
        };
        let plan = Plan::for_detection(&options);
        let Ok(mut parser) = Parser::new(format, self.wrapping, &plan, self.zone) else { return 0 };
        let mut requests = 0;
        for (place, line) in self.lines.iter().enumerate() {
            if parser.read(&plan, line) != Ok(Kind::Request) {
                continue;
            }
            requests += 1;
            let record = parser.record();
            let text = |place: usize| record.spans.get(Plan::slot(place))?.of(&record.bytes);
            let texts: Vec<_> = (0..names.len()).map(text).collect();
            call(place, &texts);
        }
        requests
    }
}
