//! Who the client of each sampled line is, by a format that reads the line.
//!
//! A format that fits may still read the wrong client: `PROXY CLIENT - - [time] ...` has the shape of Apache's
//! formats. So a detected format is accepted only if nearly all of the first lines have one address as the client,
//! and none where it reads something else. Each other line, there and later, is one that does not fit.

mod fields;
mod head;
mod others;
mod readings;
mod tail;
mod unknown;

use std::collections::HashSet;

use jiff::tz::TimeZone;

pub(super) use self::fields::ClientFields;
pub(crate) use self::readings::ClientReading;
use super::wrapping::Wrapping;
use super::{Format, FormatShape, Parser};
use crate::attribute::{Attribute, AttributeSource};
use crate::client::{ClientText, is_address};
use crate::field::Field;
use crate::plan::Plan;
use crate::reason::{Kind, Reason};

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
    /// Lines whose client is not certain.
    pub(crate) others: usize,
}

/// A line that does not say for certain who its client is, by its place, and what it may mean.
#[derive(Debug)]
pub(crate) struct Unclear {
    pub(crate) line: usize,
    pub(crate) readings: Vec<ClientReading>,
}

impl Sample<'_> {
    /// Looks at the clients of all lines that this format reads.
    ///
    /// # Errors
    ///
    /// The first line whose client is not certain.
    pub(super) fn audit(&self, format: &Format) -> Result<Clients, Unclear> {
        let fields = ClientFields::of(format);
        let (mut clients, mut first) = (Clients::default(), None);
        self.clients(format, |line, client| match client.map(|client| client.map(ClientText::of)) {
            Ok(Some(ClientText::Address)) => clients.single += 1,
            Ok(Some(ClientText::Name)) => {
                (clients.single, clients.names) = (clients.single + 1, clients.names + 1)
            }
            Ok(None) => {}
            Ok(Some(ClientText::List | ClientText::Other)) | Err(_) => {
                clients.others += 1;
                first = first.or(Some(line));
            }
        });
        // Single lines do not fit, and are counted as such when all are read.
        if clients.others * 19 <= clients.single && !self.has_clients_as_hosts(format, &fields) {
            return Ok(clients);
        }
        let line = first.unwrap_or(0);
        let readings = match &format.shape {
            FormatShape::Template(template) => {
                let readings = self.readings(line, Some((format, template)));
                // No format that is written out reads lines of two kinds.
                let is_mixed = readings.is_empty() && clients.single > 0;
                if is_mixed { self.named(line, format).into_iter().collect() } else { readings }
            }
            FormatShape::Objects(_) | FormatShape::Table(_) => self.readings_of_fields(line, format, &fields),
        };
        Err(Unclear { line, readings })
    }

    /// Calls back with the client of each request, as the reader takes it, by the place of its line. It is an error
    /// if it is not certain.
    fn clients(&self, format: &Format, mut call: impl FnMut(usize, Result<Option<&[u8]>, Reason>)) {
        let plan = Plan::new(Vec::new(), self.plan.time.clone(), &[Field::Ip]);
        let Ok(mut parser) = Parser::new(format, self.wrapping, &plan, self.zone) else { return };
        parser.expect_one_client(format);
        for (place, line) in self.lines.iter().enumerate() {
            match parser.read(&plan, line) {
                Ok(Kind::Request) => {
                    let record = parser.record();
                    let client = record.spans.get(Field::Ip as usize);
                    call(place, Ok(client.and_then(|client| client.of(&record.bytes))));
                }
                Err(reason @ (Reason::Client | Reason::Clients)) => call(place, Err(reason)),
                _ => {}
            }
        }
    }

    /// Whether the virtual hosts are addresses, and as many as there are clients: a server has few.
    fn has_clients_as_hosts(&self, format: &Format, fields: &ClientFields) -> bool {
        let Some(host) = &fields.host else { return false };
        let (mut hosts, mut clients) = (HashSet::new(), HashSet::new());
        let names: Vec<String> = [host].into_iter().chain(&fields.client).cloned().collect();
        self.each(format, &names, |_, texts| {
            if let [Some(host), Some(client), ..] = texts
                && is_address(host)
            {
                hosts.insert(host.to_vec());
                clients.insert(client.to_vec());
            }
        });
        hosts.len() > 1 && hosts.len() >= clients.len()
    }

    /// Calls back with the fields of these names of each request, by the place of its line.
    fn each(
        &self,
        format: &Format,
        names: &[String],
        mut call: impl FnMut(usize, &[Option<&[u8]>]),
    ) -> usize {
        let source = |name: &String| match name.starts_with('/') {
            true => AttributeSource::Json(name.clone()),
            false => AttributeSource::Field(name.clone()),
        };
        let attribute = |name: &String| Attribute { name: String::new(), source: source(name) };
        let plan = Plan::for_detection(names.iter().map(attribute).collect(), self.plan.time.clone());
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
