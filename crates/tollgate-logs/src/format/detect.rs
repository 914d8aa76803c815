//! Which format a log has.

use jiff::tz::TimeZone;

use super::audit::{Clients, Sample, Unclear};
use super::line_counts::LineCounts;
use super::rows::ROWS;
use super::sampled::is_sampled;
use super::table::{Style, may_be_header};
use super::wrapping::Wrapping;
use super::{Format, FormatShape};
use crate::attribute::{Attribute, AttributeSource};
use crate::field::Field;
use crate::plan::Plan;
use crate::summary::OtherAddresses;

/// The result of reading the first lines of a log.
#[derive(Debug, Clone)]
pub(crate) struct DetectedFormat {
    pub(crate) format: Format,
    pub(crate) wrapping: Wrapping,
    /// Whether the log may hold only a sample of all requests, as its first lines show.
    pub(crate) may_be_sampled: bool,
    /// What the lines have that were tried.
    pub(crate) counts: LineCounts,
    pub(crate) clients: Clients,
    /// A field of the first lines with addresses that are not those of the clients.
    pub(crate) others: Option<OtherAddresses>,
}

/// Why no format is found.
#[derive(Debug)]
pub(crate) enum Miss {
    /// No format reads any line.
    Nothing,
    /// The line with this place is JSON without a known field of a request.
    NoRequest(usize),
    /// The format that came nearest, and the place of a line that it does not read.
    Nearest(String, usize),
    /// This format would fit, but a field is missing.
    NoField { format: String, field: String },
    /// A format fits, but its client is not certain.
    Unclear(Unclear),
    /// No line has a client, which is needed, and no field is known that has it.
    NoClient,
    /// A format fits all lines, and another one with more fields fits most, but not that with this place.
    Richer { poorer: String, richer: String, line: usize },
}

impl DetectedFormat {
    /// Returns its name, with what stands around its lines.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.format.name, self.wrapping.suffix())
    }

    /// Whether the lines themselves must show their client. Not if flags do: `--format` for lines of text, `--attr
    /// ip=` for JSON and tables.
    pub(crate) fn has_to_show_clients(&self, is_given: bool, attributes: &[Attribute]) -> bool {
        let mut addresses = attributes.iter().filter(|other| other.name == Field::Ip.name());
        let is_said = match self.format.shape {
            FormatShape::Template(_) => {
                is_given || addresses.any(|other| !matches!(other.source, AttributeSource::Xff(_)))
            }
            FormatShape::Objects(_) | FormatShape::Table(_) => addresses.next().is_some(),
        };
        !is_said
    }

    /// Adds what the lines show of clients.
    fn with_clients(self, sample: &Sample<'_>, given: Option<&Format>) -> Result<Self, Miss> {
        if !self.has_to_show_clients(given.is_some(), &sample.plan.attributes) {
            return Ok(self);
        }
        let clients = sample.audit(&self.format).map_err(Miss::Unclear)?;
        let others = sample.compare(&self.format, clients).map_err(|unclear| match unclear.readings[..] {
            [] => Miss::NoClient,
            _ => Miss::Unclear(unclear),
        })?;
        Ok(Self { clients, others, ..self })
    }

    /// Whether the first lines have addresses of clients and no names, so that a name is a text in a wrong place.
    pub(crate) fn has_only_addresses(&self) -> bool {
        self.clients.single > 0 && self.clients.names == 0
    }
}

/// Lines that a format may fail to read before the first request. Most formats read nothing of a log.
const PATIENCE: usize = 100;

/// Finds the format that reads the lines, of all that are known or of a given one in all prefixes. Of those that are
/// known, it has to read nearly all lines. Of a given one, the prefix is taken with which it reads most.
///
/// # Errors
///
/// The nearest format.
pub(crate) fn detect(
    lines: &[&[u8]],
    given: Option<&Format>,
    plan: &Plan,
    zone: Option<&TimeZone>,
) -> Result<DetectedFormat, Miss> {
    let known = || ROWS.iter().filter(|row| row.is_detected).filter_map(|row| row.format().ok());
    let formats: Vec<Format> = given.map_or_else(|| known().collect(), |given| vec![given.clone()]);
    let mut search = Search { given, plan, misses: Misses::default() };
    for (wrapping, inside) in Wrapping::ways(lines) {
        let sample = Sample { lines, wrapping: &wrapping, plan, zone };
        if let Some(detected) = search.within(&sample, &inside, &formats) {
            return detected;
        }
        let misses = &mut search.misses;
        misses.unexpected = misses.unexpected.take().or_else(|| sample.unexpected(&inside));
    }
    // How many lines a given format may leave unread is judged when all are read.
    if let Some(nearest) = search.misses.nearest.take_if(|_| given.is_some()) {
        let wrapping = nearest.wrapping.clone();
        return nearest.with_clients(&Sample { lines, wrapping: &wrapping, plan, zone }, given);
    }
    search.misses.result(given.is_some())
}

/// A search for the format of a log.
struct Search<'s> {
    given: Option<&'s Format>,
    plan: &'s Plan,
    misses: Misses,
}

/// What formats came to that do not fit.
#[derive(Default)]
struct Misses {
    /// A format that reads only headers, comments and messages of the server.
    idle: Option<DetectedFormat>,
    /// The one that reads most requests.
    nearest: Option<DetectedFormat>,
    /// A line of JSON without a known field.
    unknown: Option<usize>,
    /// A format that lacks a field.
    missing: Option<Miss>,
    /// Lines with a client in a place where no format has one.
    unexpected: Option<Unclear>,
}

impl Search<'_> {
    /// Tries all formats on lines in one wrapping. `None` if none fits.
    fn within(
        &mut self,
        sample: &Sample<'_>,
        inside: &[Vec<u8>],
        formats: &[Format],
    ) -> Option<Result<DetectedFormat, Miss>> {
        let mut best: Option<((u64, bool), DetectedFormat)> = None;
        let mut richer: Option<(&Format, usize)> = None;
        for format in formats {
            if best.is_some() && !matches!(format.shape, FormatShape::Objects(_)) {
                break;
            }
            let Some(detected) = self.read(sample, inside, format) else { continue };
            let counts = detected.counts;
            match &detected.format.shape {
                _ if !counts.fits() => {
                    if counts.requests > counts.unparsed && richer.is_none() && self.given.is_none() {
                        richer = Some((format, counts.first_unparsed.unwrap_or(0)));
                    }
                    self.misses.note(detected, self.plan);
                }
                // Servers share names of fields, so the format with most known fields wins. If several have as many and
                // `--time` is given, the one of no server wins.
                FormatShape::Objects(objects) => {
                    let rank = (counts.known_fields, objects.is_open && self.plan.time.is_some());
                    if best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
                        best = Some((rank, detected));
                    }
                }
                FormatShape::Template(_) => return Some(self.unless_richer(detected, richer, sample)),
                FormatShape::Table(_) => return Some(detected.with_clients(sample, self.given)),
            }
        }
        best.map(|(_, best)| best.with_clients(sample, self.given))
    }

    /// Reads the lines by one format. `None` if it is no candidate, or lacks a field.
    fn read(&mut self, sample: &Sample<'_>, inside: &[Vec<u8>], format: &Format) -> Option<DetectedFormat> {
        if self.given.is_none() && !is_candidate(format, inside) {
            return None;
        }
        let patience = if self.given.is_some() { usize::MAX } else { PATIENCE };
        let counts = match LineCounts::of(sample, format, patience) {
            Ok(counts) => counts,
            Err(field) => {
                let is_table = matches!(format.shape, FormatShape::Table(_));
                if self.given.is_some() || is_table && has_header(format, inside) {
                    self.misses.missing = Some(Miss::NoField { format: format.name.clone(), field });
                }
                return None;
            }
        };
        let is_result = counts.fits() || counts.is_idle() || self.given.is_some();
        Some(DetectedFormat {
            format: format.clone(),
            wrapping: sample.wrapping.clone(),
            may_be_sampled: is_result && is_sampled(format, inside),
            counts,
            clients: Clients::default(),
            others: None,
        })
    }

    /// A text that fits, unless a format with more fields reads most lines.
    fn unless_richer(
        &self,
        detected: DetectedFormat,
        richer: Option<(&Format, usize)>,
        sample: &Sample<'_>,
    ) -> Result<DetectedFormat, Miss> {
        let Some((richer, line)) = richer else { return detected.with_clients(sample, self.given) };
        let (poorer, richer) = (detected.format.name.clone(), richer.name.clone());
        // Without its clients, a format is no choice.
        match detected.with_clients(sample, self.given) {
            Ok(_) => Err(Miss::Richer { poorer, richer, line }),
            Err(_) => Err(Miss::Nearest(richer, line)),
        }
    }
}

impl Misses {
    /// Notes a format that does not fit.
    fn note(&mut self, detected: DetectedFormat, plan: &Plan) {
        let counts = detected.counts;
        if counts.has_no_time && !matches!(detected.format.shape, FormatShape::Template(_)) {
            let field = plan.time.as_ref().map_or("time", |time| &time.field).to_owned();
            self.missing = Some(Miss::NoField { format: detected.format.name.clone(), field });
        }
        self.unknown = self.unknown.or(counts.first_unknown);
        if counts.is_idle() && self.idle.is_none() {
            self.idle = Some(detected);
        } else if counts.requests > self.nearest.as_ref().map_or(0, |nearest| nearest.counts.requests) {
            self.nearest = Some(detected);
        }
    }

    /// A log without requests, or why there is no format.
    fn result(self, is_given: bool) -> Result<DetectedFormat, Miss> {
        if let Some(idle) = self.idle {
            return Ok(idle);
        }
        if let Some(unexpected) = self.unexpected.filter(|_| !is_given) {
            return Err(Miss::Unclear(unexpected));
        }
        let nearest = self.nearest.map(|nearest| {
            let line = nearest.counts.first_unparsed.unwrap_or(0);
            Miss::Nearest(nearest.format.name, line)
        });
        let unknown = self.unknown.map(Miss::NoRequest);
        Err(nearest.or(self.missing).or(unknown).unwrap_or(Miss::Nothing))
    }
}

/// Tables without a fixed header would accept any first line as their header.
fn is_candidate(format: &Format, lines: &[Vec<u8>]) -> bool {
    match format.shape {
        FormatShape::Table(Style::Separated(separator)) => {
            lines.first().is_some_and(|first| may_be_header(first, separator))
        }
        _ => true,
    }
}

/// Returns whether the first line is like the header of a table of this format: nothing but names. Without
/// this, every table without a header would be reported as lacking a time.
fn has_header(format: &Format, lines: &[Vec<u8>]) -> bool {
    let FormatShape::Table(Style::Separated(separator)) = format.shape else { return true };
    let first = lines.first().map_or(&b""[..], Vec::as_slice);
    let is_name = |cell: &[u8]| {
        let cell = cell.trim_ascii();
        let cell = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell);
        cell.first().is_some_and(|first| first.is_ascii_alphabetic() || b"@_".contains(first))
            && cell.iter().all(|byte| byte.is_ascii_alphanumeric() || b"@_-.() /".contains(byte))
    };
    first.split(|&byte| byte == separator).all(is_name)
}
