//! Times without a zone, put into the user's.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::SECOND;

/// The latest time of the hour that exists twice, and whether the second one has begun.
pub(crate) type Fold = (i64, bool);

/// The zone of one log, and where in the log its clock was turned back.
///
/// At the end of summer time, the clock shows an hour twice, and on Lord Howe Island half an hour. A log tells which
/// one is meant by its order: when the clock jumps back by more than half of that time, the second one has begun.
/// Shorter jumps are requests that took long and are logged late.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    zone: TimeZone,
    /// Rules are the same within a minute: the minute that was asked last, and its offset.
    minute: Option<(i64, i64)>,
    fold: Option<Fold>,
    /// How many times existed twice.
    pub(crate) ambiguous: u64,
}

/// Further from an hour that exists twice, it is another one.
const FOLD: i64 = 12 * 3600 * SECOND;

impl Zone {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, minute: None, fold: None, ambiguous: 0 }
    }

    /// What the log said at its end of an hour that exists twice.
    pub(crate) fn fold(&self) -> Option<Fold> {
        self.fold
    }

    /// Goes on where another log of the same series ended.
    pub(crate) fn go_on(&mut self, fold: Fold) {
        self.fold = Some(fold);
    }

    /// Microseconds since the epoch in UTC, of what the clock on the wall showed. A time that the clock skips is that
    /// of a clock which has not been turned yet. `None` outside the years that can be told.
    pub(crate) fn utc(&mut self, local: i64) -> Option<i64> {
        let minute = local.div_euclid(60 * SECOND);
        match self.minute {
            Some((known, offset)) if known == minute => return Some(local - offset),
            _ => {}
        }
        let offset = match self.zone.to_ambiguous_timestamp(civil(local)?).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Gap { before: offset, .. } => {
                self.minute = Some((minute, micros(offset)));
                offset
            }
            AmbiguousOffset::Fold { before, after } => {
                self.ambiguous += 1;
                if self.is_second(local, micros(before) - micros(after)) { after } else { before }
            }
        };
        Some(local - micros(offset))
    }

    /// Returns whether a time that exists twice is the second one, where the clock is turned back by so much.
    fn is_second(&mut self, local: i64, turned_back: i64) -> bool {
        let (latest, is_second) = match self.fold {
            Some((latest, is_second)) if latest.abs_diff(local) < FOLD.unsigned_abs() => {
                (latest, is_second || local + turned_back / 2 < latest)
            }
            _ => (local, false),
        };
        self.fold = Some((latest.max(local), is_second));
        is_second
    }
}

fn civil(local: i64) -> Option<DateTime> {
    let timestamp = Timestamp::from_duration(SignedDuration::from_micros(local)).ok()?;
    Some(Offset::UTC.to_datetime(timestamp))
}

fn micros(offset: Offset) -> i64 {
    i64::from(offset.seconds()) * SECOND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::TimeForm;
    use crate::time::parse;

    /// The times in UTC that a log with these local times in Berlin is read as.
    fn read(times: &[&str]) -> (Vec<String>, u64) {
        read_in("Europe/Berlin", times)
    }

    fn read_in(zone: &str, times: &[&str]) -> (Vec<String>, u64) {
        let mut zone = Zone::new(TimeZone::get(zone).unwrap());
        let utc = times.iter().map(|time| {
            let local = parse(&TimeForm::Iso, time.as_bytes()).unwrap();
            let utc = zone.utc(local.micros).unwrap();
            Timestamp::from_microsecond(utc).unwrap().to_string()
        });
        (utc.collect(), zone.ambiguous)
    }

    #[test]
    fn the_zone_of_the_day_holds() {
        let (utc, ambiguous) = read(&["2026-07-01T12:00:00", "2026-12-01T12:00:00.250"]);
        assert_eq!(utc, ["2026-07-01T10:00:00Z", "2026-12-01T11:00:00.25Z"]);
        assert_eq!(ambiguous, 0);
    }

    #[test]
    fn the_repeated_hour_is_told_by_the_order() {
        let log = [
            "2026-10-25T01:59:59",
            "2026-10-25T02:00:00",
            "2026-10-25T02:59:58",
            // It took long, and is logged late.
            "2026-10-25T02:50:00",
            "2026-10-25T02:59:59",
            "2026-10-25T02:00:00",
            "2026-10-25T02:45:00",
            "2026-10-25T03:00:00",
            // A year later, it is another hour.
            "2027-10-31T02:10:00",
        ];
        let (utc, ambiguous) = read(&log);
        let expected = [
            "2026-10-24T23:59:59Z",
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:59:58Z",
            "2026-10-25T00:50:00Z",
            "2026-10-25T00:59:59Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:45:00Z",
            "2026-10-25T02:00:00Z",
            "2027-10-31T00:10:00Z",
        ];
        assert_eq!(utc, expected);
        assert_eq!(ambiguous, 7);
    }

    /// The clock was expected to jump back by more than half an hour.
    #[test]
    fn half_an_hour_that_is_repeated_is_told_by_the_order() {
        let log = [
            "2027-04-04T01:31:00",
            "2027-04-04T01:59:00",
            // It is logged late.
            "2027-04-04T01:50:00",
            "2027-04-04T01:31:00",
            "2027-04-04T01:59:00",
            "2027-04-04T02:00:00",
        ];
        let (utc, ambiguous) = read_in("Australia/Lord_Howe", &log);
        let expected = [
            "2027-04-03T14:31:00Z",
            "2027-04-03T14:59:00Z",
            "2027-04-03T14:50:00Z",
            "2027-04-03T15:01:00Z",
            "2027-04-03T15:29:00Z",
            "2027-04-03T15:30:00Z",
        ];
        assert_eq!(utc, expected);
        assert_eq!(ambiguous, 5);
    }

    #[test]
    fn an_hour_that_the_clock_skips_is_in_winter_time() {
        assert_eq!(read(&["2026-03-29T02:30:00"]).0, ["2026-03-29T01:30:00Z"]);
    }
}
