//! How the first lines of a log are read by a format.

use super::audit::Sample;
use super::{Format, Parser};
use crate::field::{Instant, Precision};
use crate::reason::{Kind, Reason};

/// The kinds of lines, as a format reads them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineCounts {
    pub(super) requests: usize,
    others: usize,
    pub(super) unparsed: usize,
    /// The first unreadable line.
    pub(super) first_unparsed: Option<usize>,
    /// The first line that is [`Kind::Unknown`].
    pub(super) first_unknown: Option<usize>,
    pub(crate) has_no_zone: bool,
    /// Whether a line would be a request if it had a time.
    pub(super) has_no_time: bool,
    /// Known fields of all requests together: the more, the better the format fits.
    pub(super) known_fields: u64,
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
    /// Reads the lines by one format, until the patience with one that reads no request ends.
    ///
    /// # Errors
    ///
    /// The name of a field that it lacks.
    pub(super) fn of(sample: &Sample<'_>, format: &Format, patience: usize) -> Result<Self, String> {
        let mut parser = Parser::new(format, sample.wrapping, sample.plan, sample.zone)?;
        let mut counts = Self::default();
        for (place, line) in sample.lines.iter().enumerate() {
            match parser.read(sample.plan, line) {
                Ok(Kind::Other) => counts.others += usize::from(!line.trim_ascii().is_empty()),
                Ok(Kind::Unknown) => counts.first_unknown = counts.first_unknown.or(Some(place)),
                Ok(Kind::Request) => {
                    counts.requests += 1;
                    counts.known_fields += u64::from(parser.known_fields());
                    let head = parser.record().head;
                    counts.first = Some(counts.first.map_or(head.time, |first| first.min(head.time)));
                    counts.last = counts.last.max(Some(head.time));
                    counts.precision = counts
                        .precision
                        .map_or(Some(head.precision), |finest| Some(finest.min(head.precision)));
                    counts.instant = parser.instant().or(counts.instant);
                }
                Err(Reason::NoZone) => {
                    counts.requests += 1;
                    counts.has_no_zone = true;
                }
                Err(Reason::NoField) => return Err(parser.missing().to_owned()),
                Err(reason) => {
                    counts.unparsed += 1;
                    counts.has_no_time |= reason == Reason::NoTime;
                    counts.first_unparsed = counts.first_unparsed.or(Some(place));
                    if counts.requests == 0 && counts.unparsed > patience {
                        break;
                    }
                }
            }
        }
        counts.is_ambiguous = parser.ambiguous() > 0;
        Ok(counts)
    }

    /// Returns whether more than 95 % of the lines are read.
    pub(super) fn fits(&self) -> bool {
        self.requests * 5 > self.unparsed * 95
    }

    /// Returns whether there are only headers, comments and messages of the server.
    pub(super) fn is_idle(&self) -> bool {
        self.requests + self.unparsed == 0 && self.others > 0 && self.first_unknown.is_none()
    }
}
