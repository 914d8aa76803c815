//! Times as flags have them.

use jiff::civil::DateTime;
use jiff::tz::{Disambiguation, TimeZone};
use tollgate::Timestamp;

use super::value::ExpectedForm;

/// A point in time: an absolute one, or one by the clock of a zone that another flag names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It has an offset.
    Absolute(jiff::Timestamp),
    /// It has none.
    Local(DateTime),
}

/// Parses a point in time, or the beginning of a day, also as logs have it.
pub(super) fn parse(text: &str) -> Result<Moment, ExpectedForm> {
    let text = text.trim();
    let absolute = text.parse().or_else(|_| jiff::Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", text));
    if let Ok(time) = absolute {
        return Ok(Moment::Absolute(time));
    }
    // An offset or a zone behind it would be ignored.
    let is_local = text.bytes().all(|byte| byte.is_ascii_digit() || b"-:. T".contains(&byte));
    let local = text.parse().ok().filter(|_| is_local).map(Moment::Local);
    local.ok_or("expected a time such as 2026-11-21T16:00Z, or with --tz '2026-11-21 16:00' or 2026-11-21")
}

impl Moment {
    /// Returns the time. If the clock of the zone shows it twice, `disambiguation` chooses.
    ///
    /// # Errors
    ///
    /// If the zone is needed and missing. The error is a time that has one.
    pub fn time(self, zone: Option<&TimeZone>, disambiguation: Disambiguation) -> Result<Timestamp, String> {
        let time = match (self, zone) {
            (Self::Absolute(time), _) => Ok(time),
            (Self::Local(local), Some(zone)) => {
                zone.to_ambiguous_timestamp(local).disambiguate(disambiguation)
            }
            (Self::Local(local), None) => return Err(format!("{local}Z")),
        };
        // Times at the end of the calendar are outside of every log.
        time.map(|time| Timestamp::from_unix_millis(time.as_millisecond())).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the report and the log print could not be pasted.
    #[test]
    fn a_moment_is_absolute_or_by_the_clock_of_a_zone() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let read = |text: &str, zone| {
            let time = parse(text).unwrap().time(zone, Disambiguation::Earlier);
            time.map(|time| jiff::Timestamp::from_millisecond(time.as_unix_millis()).unwrap().to_string())
        };
        for (text, time) in [
            ("2026-03-10T14:00Z", "2026-03-10T14:00:00Z"),
            ("2026-03-10 14:00:00+01:00", "2026-03-10T13:00:00Z"),
            ("2026-11-23T12:00:00.25+00:00", "2026-11-23T12:00:00.25Z"),
            ("10/Mar/2026:14:00:00 +0100", "2026-03-10T13:00:00Z"),
        ] {
            assert_eq!(read(text, None).as_deref(), Ok(time));
            assert_eq!(read(text, Some(&berlin)).as_deref(), Ok(time));
        }
        for (text, time) in [
            ("2026-03-10", "2026-03-09T23:00:00Z"),
            ("2026-03-10 14:00", "2026-03-10T13:00:00Z"),
            ("2026-03-10T14:00:00.5", "2026-03-10T13:00:00.5Z"),
            // Twice on the clock.
            ("2026-10-25 02:30", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(read(text, Some(&berlin)).as_deref(), Ok(time));
        }
        assert_eq!(read("2026-03-10 14:00", None), Err("2026-03-10T14:00:00Z".to_owned()));
        for text in ["", "14:00", "2026-13-01", "2026-03-10[Europe/Berlin]", "yesterday", "-1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
