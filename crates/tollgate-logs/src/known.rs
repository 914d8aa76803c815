//! Logs whose formats are known.

use std::sync::Arc;

use crate::doubt::{Doubt, Reading};
use crate::error::{Error, Nearest};
use crate::format::{ClientReading, DetectedFormat, Miss, Unclear, detect, propose};
use crate::input::Log;
use crate::lines::{Line, Lines};
use crate::look::Look;
use crate::options::Options;
use crate::progress::Counts;
use crate::summary::{Example, LogFile};

/// A log, its format, and when it begins.
pub(crate) struct KnownLog {
    pub(crate) log: Log,
    /// `None` if it has no lines.
    pub(crate) detected: Option<DetectedFormat>,
    /// Its place in the summary. It is set once all logs are known.
    pub(crate) file: usize,
}

impl KnownLog {
    /// Looks at so many of the first lines of a log.
    pub(crate) fn new(
        mut log: Log,
        most: usize,
        options: &Options,
        counts: &Arc<Counts>,
    ) -> Result<Self, Error> {
        let detected = look(&mut log, most, options, counts)?;
        Ok(Self { log, detected, file: 0 })
    }

    /// The earliest time in the first lines.
    pub(crate) fn first(&self) -> i64 {
        self.detected.as_ref().and_then(|detected| detected.counts.first).unwrap_or(i64::MIN)
    }

    /// The latest time in the first lines. Rotated files are ordered by it, because the first line may be the end of a
    /// long request.
    pub(crate) fn last(&self) -> i64 {
        self.detected.as_ref().and_then(|detected| detected.counts.last).unwrap_or(i64::MAX)
    }

    /// The files that a server writes one after the other have the same series: it is the name without the number or
    /// the day that tells them apart. Only files that begin in an hour that exists twice have one that matters.
    pub(crate) fn series(&self) -> String {
        series(&self.log.name)
    }

    /// Whether it begins in an hour that exists twice.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.detected.as_ref().is_some_and(|detected| detected.counts.is_ambiguous)
    }

    /// Returns its entry in the summary before it is read.
    pub(crate) fn summary(&self) -> LogFile {
        let detected = self.detected.as_ref();
        LogFile {
            name: self.log.name.clone(),
            format: detected.map(DetectedFormat::name),
            instant: detected.and_then(|detected| detected.counts.instant),
            precision: detected.and_then(|detected| detected.counts.precision),
            may_be_sampled: detected.is_some_and(|detected| detected.may_be_sampled),
            has_names: detected.is_some_and(|detected| detected.clients.names > 0),
            others: detected.and_then(|detected| detected.others.clone()),
            lines: 0,
            requests: 0,
            span: (self.first(), i64::MIN),
        }
    }
}

/// `access.log`, `access.log.1` and `access.log-2026102502.gz` are `access.log`; `web1-3.log` is `web1.log`.
fn series(name: &str) -> String {
    let name = [".gz", ".zst", ".bz2"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let file = name.rfind(['/', '\\']).map_or(0, |at| at + 1);
    let is_digit = |character: char| character.is_ascii_digit();
    let Some(last) = name.rfind(is_digit).filter(|last| *last >= file) else { return name.to_owned() };
    let (before, after) = name.split_at(last + 1);
    let mut kept = before
        .trim_end_matches(|character| is_digit(character) || matches!(character, '-' | '_' | '.'))
        .len()
        .max(file);
    // The number in `web1-3` tells the server, and that in `h1` is the only one.
    let number = before.get(kept..).unwrap_or_default();
    let digits = number.len() - number.trim_start_matches(is_digit).len();
    if digits < number.len() && kept > file {
        kept += digits;
    }
    format!("{}{after}", before.get(..kept).unwrap_or_default())
}

/// Finds the format of a log by its first lines.
fn look(
    log: &mut Log,
    most: usize,
    options: &Options,
    counts: &Arc<Counts>,
) -> Result<Option<DetectedFormat>, Error> {
    let bytes = log.first_lines(most, counts)?;
    let mut lines = Lines::new(bytes.as_slice());
    let mut copies: Vec<Vec<u8>> = Vec::new();
    let mut long: Option<(u64, Vec<u8>)> = None;
    let mut number = 0;
    while copies.len() < most
        && let Ok(Some(line)) = lines.next()
    {
        number += 1;
        match line {
            Line::Whole(line) => copies.push(line.to_vec()),
            Line::TooLong(begin) => long = long.or_else(|| Some((number, begin.to_vec()))),
        }
    }
    // The last one may be cut off where looking ended.
    if copies.len() > 1 && memchr::memchr_iter(b'\n', &bytes).count() < number as usize {
        copies.pop();
    }
    let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
    if copies.iter().all(|line| line.trim_ascii().is_empty()) {
        // A document on one line is longer than any line of a log.
        let looks = long.and_then(|(number, begin)| Some((number, Look::of_long(&begin)?, begin)));
        return match looks {
            Some((number, look, begin)) => Err(Error::UnknownFormat {
                name: log.name.clone(),
                line: Example::new(0, number, &begin),
                look: Some(look),
                format: None,
                nearest: None,
            }),
            None => Ok(None),
        };
    }
    let plan = options.detection_plan();
    let (given, zone) = (options.format.as_ref(), options.zone.as_ref());
    let example = |line: usize| {
        let text = copies.get(line).copied().unwrap_or_default();
        Example::new(0, line as u64 + 1, text)
    };
    let first = copies.iter().position(|line| !line.trim_ascii().is_empty()).unwrap_or(0);
    let name = log.name.clone();
    let unknown = |name, nearest: Option<Nearest>| {
        let (look, nearest) = (Look::of(&bytes, &copies), nearest.map(Box::new));
        let format = if nearest.is_none() { propose(&copies, &plan, zone) } else { None };
        Error::UnknownFormat { name, line: example(first), look, format, nearest }
    };
    let detected = detect(&copies, given, &plan, zone).map_err(|miss| match miss {
        Miss::Nothing if given.is_some() => Error::OtherFormat { name, line: example(first) },
        Miss::Nothing => unknown(name, None),
        Miss::NoRequest(line) => unknown(name, Some(Nearest { format: None, line: example(line) })),
        Miss::Nearest(format, line) => {
            unknown(name, Some(Nearest { format: Some(format), line: example(line) }))
        }
        Miss::NoField { format, field } => Error::NoField { name, format, field },
        Miss::NoClient => Error::NoClient { name },
        Miss::Unclear(Unclear { line, readings }) => {
            let reading = |meant: ClientReading| Reading {
                place: meant.place,
                client: Example::new(0, line as u64 + 1, &meant.client),
                different: meant.different,
                lines: meant.lines,
                flags: meant.flags,
            };
            let readings = readings.into_iter().map(reading).collect();
            Error::UnclearClient { name, doubt: Doubt { line: example(line), readings } }
        }
        Miss::Richer { poorer, richer, line } => {
            Error::UnclearFormat { name, poorer, richer, line: example(line) }
        }
    })?;
    if detected.counts.has_no_zone {
        return Err(Error::NoZone { name: log.name.clone() });
    }
    Ok(Some(detected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_are_one_series() {
        let names = ["a/access.log", "a/access.log.1", "a/access.log.2.gz", "a/access.log-2026102502.zst"];
        assert!(names.iter().all(|name| series(name) == "a/access.log"));
        assert_eq!(series("web1-2026-10-25_02.log"), "web1.log");
        assert_eq!(series("web2-2026-10-25_02.log"), "web2.log");
        assert_eq!(series("web1/access.log"), "web1/access.log");
        assert_eq!(series("web1/2026-10-25-02.log"), "web1/.log");
        assert_eq!((series("h1.log"), series("h2.log")), ("h.log".into(), "h.log".into()));
    }
}
