//! Which format a log has.

use jiff::tz::TimeZone;

use super::prefix::Prefix;
use super::rows::ROWS;
use super::table::{Style, may_be_header};
use super::{Format, Parser, Shape};
use crate::plan::Plan;
use crate::reason::{Kind, Reason};
use crate::request::{Instant, Precision};

/// What the first lines of a log say.
#[derive(Debug, Clone)]
pub(crate) struct Detected {
    pub(crate) format: Format,
    pub(crate) prefix: Prefix,
    /// What the lines have that were tried.
    pub(crate) seen: Seen,
}

/// What lines are, as a format reads them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    requests: usize,
    others: usize,
    unparsed: usize,
    /// The first unreadable line.
    first_unparsed: Option<usize>,
    /// The first line that is [`Kind::Unknown`].
    first_unknown: Option<usize>,
    pub(crate) has_no_zone: bool,
    /// The earliest time.
    pub(crate) first: Option<i64>,
    /// The finest that was seen. Times that end with zeros may look coarser.
    pub(crate) precision: Option<Precision>,
    pub(crate) instant: Option<Instant>,
}

impl Seen {
    /// Whether more than 95 % of the lines are read.
    fn fits(&self) -> bool {
        self.requests * 5 > self.unparsed * 95
    }

    /// Whether there are none but headers, comments and messages of the server.
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
}

impl Detected {
    /// Its name, with what stands around its lines.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.format.name, self.prefix.suffix())
    }
}

/// Lines that a format may fail to read before the first request. Most formats read nothing of a log.
const PATIENCE: usize = 100;

/// Finds the format that reads the lines, of all that are known or of a given one in all prefixes. Of those that are
/// known, it has to read nearly all lines. Of a given one, the prefix is taken with which it reads most.
///
/// # Errors
///
/// What came nearest.
pub(crate) fn detect(
    lines: &[&[u8]],
    given: Option<&Format>,
    plan: &Plan,
    zone: Option<&TimeZone>,
) -> Result<Detected, Miss> {
    let known = || ROWS.iter().filter(|row| row.is_detected).filter_map(|row| row.format().ok());
    let formats: Vec<Format> = given.map_or_else(|| known().collect(), |given| vec![given.clone()]);
    let patience = if given.is_some() { usize::MAX } else { PATIENCE };
    let mut idle = None;
    let mut nearest: Option<Detected> = None;
    let mut unknown = None;
    for prefix in Prefix::ALL {
        let with_prefix = lines.iter().filter(|line| prefix.strip(line).is_some()).count();
        if with_prefix * 2 < lines.len() {
            continue;
        }
        for format in &formats {
            if given.is_none() && !is_candidate(format, prefix, lines) {
                continue;
            }
            let Some(seen) = try_format(lines, format, prefix, plan, zone, patience) else { continue };
            let detected = Detected { format: format.clone(), prefix, seen };
            if seen.fits() {
                return Ok(detected);
            }
            unknown = unknown.or(seen.first_unknown);
            if seen.is_idle() && idle.is_none() {
                idle = Some(detected);
            } else if seen.requests > nearest.as_ref().map_or(0, |nearest| nearest.seen.requests) {
                nearest = Some(detected);
            }
        }
    }
    // How many lines a given format may leave unread is judged when all are read.
    if let Some(found) = nearest.take_if(|_| given.is_some()).or(idle) {
        return Ok(found);
    }
    Err(match (nearest, unknown) {
        (Some(nearest), _) => Miss::Nearest(nearest.name(), nearest.seen.first_unparsed.unwrap_or(0)),
        (None, Some(place)) => Miss::NoRequest(place),
        (None, None) => Miss::Nothing,
    })
}

/// Tables without a fixed header would take any first line for theirs.
fn is_candidate(format: &Format, prefix: Prefix, lines: &[&[u8]]) -> bool {
    match format.shape {
        Shape::Table(Style::Separated(separator)) => {
            let first = lines.iter().find_map(|line| prefix.strip(line));
            first.is_some_and(|first| may_be_header(first, separator))
        }
        _ => true,
    }
}

/// Reads the lines by one format. `None` if it lacks a field.
fn try_format(
    lines: &[&[u8]],
    format: &Format,
    prefix: Prefix,
    plan: &Plan,
    zone: Option<&TimeZone>,
    patience: usize,
) -> Option<Seen> {
    let mut parser = Parser::new(format, prefix, plan, zone).ok()?;
    let mut seen = Seen::default();
    for (place, line) in lines.iter().enumerate() {
        match parser.read(plan, line) {
            Ok(Kind::Other) => seen.others += usize::from(!line.trim_ascii().is_empty()),
            Ok(Kind::Unknown) => seen.first_unknown = seen.first_unknown.or(Some(place)),
            Ok(Kind::Request) => {
                seen.requests += 1;
                let head = parser.record().head;
                seen.first = Some(seen.first.map_or(head.time, |first| first.min(head.time)));
                seen.precision =
                    seen.precision.map_or(Some(head.precision), |finest| Some(finest.min(head.precision)));
                seen.instant = parser.instant().or(seen.instant);
            }
            Err(Reason::NoZone) => {
                seen.requests += 1;
                seen.has_no_zone = true;
            }
            Err(Reason::NoField) => return None,
            Err(_) => {
                seen.unparsed += 1;
                seen.first_unparsed = seen.first_unparsed.or(Some(place));
                if seen.requests == 0 && seen.unparsed > patience {
                    break;
                }
            }
        }
    }
    Some(seen)
}
