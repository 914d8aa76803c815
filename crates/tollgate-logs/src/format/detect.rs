//! Which format a log has.

use jiff::tz::TimeZone;

use super::audit::{Clients, Sample, Unclear};
use super::rows::ROWS;
use super::sampled::is_sampled;
use super::table::{Style, may_be_header};
use super::wrapping::Wrapping;
use super::{Format, FormatShape, Parser};
use crate::attribute::{Attribute, AttributeSource};
use crate::field::{Field, Instant, Precision};
use crate::plan::Plan;
use crate::reason::{Kind, Reason};
use crate::summary::OtherAddresses;

/// The result of reading the first lines of a log.
#[derive(Debug, Clone)]
pub(crate) struct DetectedFormat {
    pub(crate) format: Format,
    pub(crate) wrapping: Wrapping,
    /// Whether the log may hold only a sample of all requests, as its first lines show.
    pub(crate) may_be_sampled: bool,
    /// What the lines have that were tried.
    pub(crate) seen: LineCounts,
    pub(crate) clients: Clients,
    /// A field of the first lines with addresses that are not those of the clients.
    pub(crate) others: Option<OtherAddresses>,
}

/// The kinds of lines, as a format reads them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineCounts {
    requests: usize,
    others: usize,
    unparsed: usize,
    /// The first unreadable line.
    first_unparsed: Option<usize>,
    /// The first line that is [`Kind::Unknown`].
    first_unknown: Option<usize>,
    pub(crate) has_no_zone: bool,
    /// Whether a line would be a request if it had a time.
    has_no_time: bool,
    /// Known fields of all requests together: the more, the better the format fits.
    known_fields: u64,
    /// The earliest time.
    pub(crate) first: Option<i64>,
    /// The latest time.
    pub(crate) last: Option<i64>,
    /// Whether a time existed twice, at the end of summer time.
    pub(crate) is_ambiguous: bool,
    /// The finest that was seen. Times that end with zeros may look coarser.
    pub(crate) precision: Option<Precision>,
    pub(crate) instant: Option<Instant>,
}

impl LineCounts {
    /// Returns whether more than 95 % of the lines are read.
    fn fits(&self) -> bool {
        self.requests * 5 > self.unparsed * 95
    }

    /// Returns whether there are only headers, comments and messages of the server.
    fn is_idle(&self) -> bool {
        self.requests + self.unparsed == 0 && self.others > 0 && self.first_unknown.is_none()
    }
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

    /// Whether the lines themselves must show their client. Not if flags do: `--format` for lines of text, `--attr ip=` for
    /// JSON and tables.
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
    let patience = if given.is_some() { usize::MAX } else { PATIENCE };
    let mut idle = None;
    let mut nearest: Option<DetectedFormat> = None;
    let mut unknown = None;
    let mut missing = None;
    let mut unexpected = None;
    for (wrapping, inside) in Wrapping::ways(lines) {
        let sample = Sample { lines, wrapping: &wrapping, plan, zone };
        let mut best: Option<((u64, bool), DetectedFormat)> = None;
        let mut richer: Option<(&Format, usize)> = None;
        for format in &formats {
            if best.is_some() && !matches!(format.shape, FormatShape::Objects(_)) {
                break;
            }
            if given.is_none() && !is_candidate(format, &inside) {
                continue;
            }
            let seen = match try_format(lines, format, &wrapping, plan, zone, patience) {
                Ok(seen) => seen,
                Err(field) => {
                    let is_table = matches!(format.shape, FormatShape::Table(_));
                    if given.is_some() || is_table && has_header(format, &inside) {
                        missing = Some(Miss::NoField { format: format.name.clone(), field });
                    }
                    continue;
                }
            };
            let is_result = seen.fits() || seen.is_idle() || given.is_some();
            let may_be_sampled = is_result && is_sampled(format, &inside);
            let detected = DetectedFormat {
                format: format.clone(),
                wrapping: wrapping.clone(),
                may_be_sampled,
                seen,
                clients: Clients::default(),
                others: None,
            };
            if seen.fits() {
                let FormatShape::Objects(objects) = &detected.format.shape else {
                    return match richer.filter(|_| matches!(format.shape, FormatShape::Template(_))) {
                        Some((richer, line)) => {
                            let [poorer, richer] = [format, richer].map(|format| format.name.clone());
                            // Without its clients, a format is no choice.
                            match detected.with_clients(&sample, given) {
                                Ok(_) => Err(Miss::Richer { poorer, richer, line }),
                                Err(_) => Err(Miss::Nearest(richer, line)),
                            }
                        }
                        None => detected.with_clients(&sample, given),
                    };
                };
                // Servers share names of fields, so the format with most known fields wins. If several have as many and
                // `--time` is given, the one of no server wins.
                let rank = (seen.known_fields, objects.is_open && plan.time.is_some());
                if best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
                    best = Some((rank, detected));
                }
                continue;
            }
            if seen.requests > seen.unparsed && richer.is_none() && given.is_none() {
                richer = Some((format, seen.first_unparsed.unwrap_or(0)));
            }
            if seen.has_no_time && !matches!(format.shape, FormatShape::Template(_)) {
                let field = plan.time.as_ref().map_or("time", |time| &time.field).to_owned();
                missing = Some(Miss::NoField { format: format.name.clone(), field });
            }
            unknown = unknown.or(seen.first_unknown);
            if seen.is_idle() && idle.is_none() {
                idle = Some(detected);
            } else if seen.requests > nearest.as_ref().map_or(0, |nearest| nearest.seen.requests) {
                nearest = Some(detected);
            }
        }
        if let Some((_, best)) = best {
            return best.with_clients(&sample, given);
        }
        unexpected = unexpected.or_else(|| sample.unexpected(&inside));
    }
    // How many lines a given format may leave unread is judged when all are read.
    if let Some(found) = nearest.take_if(|_| given.is_some()) {
        let wrapping = found.wrapping.clone();
        return found.with_clients(&Sample { lines, wrapping: &wrapping, plan, zone }, given);
    }
    if let Some(idle) = idle {
        return Ok(idle);
    }
    if let Some(unexpected) = unexpected.filter(|_| given.is_none()) {
        return Err(Miss::Unclear(unexpected));
    }
    let nearest = nearest.map(|nearest| {
        let line = nearest.seen.first_unparsed.unwrap_or(0);
        Miss::Nearest(nearest.format.name, line)
    });
    Err(nearest.or(missing).or(unknown.map(Miss::NoRequest)).unwrap_or(Miss::Nothing))
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

/// Reads the lines by one format.
///
/// # Errors
///
/// The name of a field that it lacks.
fn try_format(
    lines: &[&[u8]],
    format: &Format,
    wrapping: &Wrapping,
    plan: &Plan,
    zone: Option<&TimeZone>,
    patience: usize,
) -> Result<LineCounts, String> {
    let mut parser = Parser::new(format, wrapping, plan, zone)?;
    let mut seen = LineCounts::default();
    for (place, line) in lines.iter().enumerate() {
        match parser.read(plan, line) {
            Ok(Kind::Other) => seen.others += usize::from(!line.trim_ascii().is_empty()),
            Ok(Kind::Unknown) => seen.first_unknown = seen.first_unknown.or(Some(place)),
            Ok(Kind::Request) => {
                seen.requests += 1;
                seen.known_fields += u64::from(parser.known_fields());
                let head = parser.record().head;
                seen.first = Some(seen.first.map_or(head.time, |first| first.min(head.time)));
                seen.last = seen.last.max(Some(head.time));
                seen.precision =
                    seen.precision.map_or(Some(head.precision), |finest| Some(finest.min(head.precision)));
                seen.instant = parser.instant().or(seen.instant);
            }
            Err(Reason::NoZone) => {
                seen.requests += 1;
                seen.has_no_zone = true;
            }
            Err(Reason::NoField) => return Err(parser.missing().to_owned()),
            Err(reason) => {
                seen.unparsed += 1;
                seen.has_no_time |= reason == Reason::NoTime;
                seen.first_unparsed = seen.first_unparsed.or(Some(place));
                if seen.requests == 0 && seen.unparsed > patience {
                    break;
                }
            }
        }
    }
    seen.is_ambiguous = parser.ambiguous() > 0;
    Ok(seen)
}
