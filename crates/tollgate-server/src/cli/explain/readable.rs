//! The report for people.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tollgate::{CalendarUnit, WindowLength};
use tollgate_policy::Printable;

use crate::explain::{
    ChargeReport, ExplainReport, InFlightReport, OverrideReport, OverridesReport, PathReport, PolicyReport,
    QuotasFrom, WindowReport,
};

/// Prints the outcome first, then the policies that count the request, then the others.
impl fmt::Display for ExplainReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (at {})", Printable(&self.message), time(self.at, None))?;
        if let Some(PathReport { sent, normalized }) = &self.path {
            let (sent, normalized) = (Printable(sent), Printable(normalized));
            writeln!(f, "the path is read twice: as it was sent, `{sent}`, and normalized, `{normalized}`")?;
        }
        let (count, others): (Vec<_>, Vec<_>) =
            self.policies.iter().partition(|policy| policy.because.is_empty());
        count.into_iter().chain(others).try_for_each(|policy| write!(f, "{policy}"))?;
        match &self.overrides {
            None => writeln!(f, "overrides of a running service are not known: see --store and --state-dir"),
            Some(OverridesReport { count: 0, .. }) => writeln!(f, "there are no overrides"),
            Some(OverridesReport { version, .. }) => {
                writeln!(f, "the overrides are those of version {}", version.as_deref().unwrap_or_default())
            }
        }
    }
}

impl fmt::Display for PolicyReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.file) {
            (Some(line), Some(file)) => write!(f, "{} ({}, line {line})", self.policy, Printable(file))?,
            (Some(line), None) => write!(f, "{} (line {line})", self.policy)?,
            (None, _) => write!(f, "{}", self.policy)?,
        }
        if !self.because.is_empty() {
            match self.only_as {
                _ if !self.matches => f.write_str(" does not match")?,
                Some(reading) => write!(f, " matches only the {reading} path and counts nothing")?,
                None => f.write_str(" matches and counts nothing")?,
            }
            return writeln!(f, ": {}", Printable(self.because.join("; ")));
        }
        match &self.counts {
            Some(who) => writeln!(f, " counts {}", Printable(who))?,
            None if self.denies || self.by_override.is_some() => writeln!(f, " denies the request")?,
            None => writeln!(f, " exempts the request")?,
        }
        if let Some(reading) = self.only_as {
            writeln!(f, "  matches only the {reading} path")?;
        }
        if let Some(OverrideReport { id, until }) = &self.by_override {
            let until = until.map(|until| format!(", until {}", time(until, None)));
            writeln!(f, "  by override {}{}", Printable(id), until.unwrap_or_default())?;
        }
        for QuotasFrom { line, when } in &self.quotas_from {
            writeln!(f, "  uses the quotas in line {line}, for {}", Printable(when.join(", ")))?;
        }
        if self.has_two_lists {
            f.write_str("  has other quotas for each reading of the path: both apply, and the lower limit of a window\n")?;
        }
        let is_empty = self.charges.is_empty() && self.trials.is_empty() && self.in_flight.is_none();
        if is_empty && self.counts.is_some() {
            writeln!(f, "  unlimited")?;
        }
        for charge in &self.charges {
            writeln!(f, "  takes {charge}")?;
        }
        if let Some(in_flight) = &self.in_flight {
            writeln!(f, "  holds {in_flight}")?;
        }
        for trial in &self.trials {
            for charge in &trial.charges {
                writeln!(f, "  tries {charge} ({})", trial.kind)?;
            }
            if let Some(in_flight) = &trial.in_flight {
                writeln!(f, "  compares with {in_flight} ({})", trial.kind)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for InFlightReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 of {}; at most {} at once", self.written, self.limit)
    }
}

impl fmt::Display for ChargeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, limit, cost, most_in_any_window, overdraft, .. } = self;
        write!(f, "{cost} of {quota}{}", if *overdraft { ", even if it is denied" } else { "" })?;
        if let Some(WindowReport { start, end, first_hit }) = self.window {
            let (start, end) = (time(start, self.zone.as_deref()), time(end, self.zone.as_deref()));
            match first_hit {
                true => write!(f, ", from the first request on; if it is this one until {end}")?,
                false => write!(f, ", from {start} to {end}")?,
            }
        }
        if let Some(most) = most_in_any_window {
            write!(f, "; at most {most} in any {}", length(self.length))?;
            if self.is_spread {
                write!(f, ", {limit} at once")?;
            }
        }
        Ok(())
    }
}

/// Formats the length of a window in words: `minute`, `3 hours`.
fn length(length: WindowLength) -> String {
    let millis = match length {
        WindowLength::Fixed(length) => length.as_millis(),
        WindowLength::Calendar(CalendarUnit::Week) => return "week".to_owned(),
        WindowLength::Calendar(CalendarUnit::Month) => return "month".to_owned(),
        WindowLength::Calendar(CalendarUnit::Year) => return "year".to_owned(),
        _ => return "day".to_owned(),
    };
    let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")];
    let whole = units.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1, "millisecond"));
    match millis / unit {
        1 => name.to_owned(),
        count => format!("{count} {name}s"),
    }
}

/// Formats a time in this zone, or in UTC. A time outside the calendar becomes a number.
fn time(millis: i64, zone: Option<&str>) -> String {
    let Ok(time) = Timestamp::from_millisecond(millis) else { return format!("{millis} ms") };
    match zone.and_then(|zone| TimeZone::get(zone).ok()) {
        Some(zone) => time.display_with_offset(zone.to_offset(time)).to_string(),
        None => time.to_string(),
    }
}
