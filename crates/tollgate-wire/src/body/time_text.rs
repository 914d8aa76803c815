//! Times for people, as RFC 3339 writes them.

use std::fmt;

use serde::{Serialize, Serializer};
use tollgate::Timestamp;

/// A time in UTC as RFC 3339 writes it: `2026-12-24T00:00:00Z`, with milliseconds only if there are some.
///
/// Years before 0 and after 9999, which that form does not have, are shown as the first and the last time that it has.
///
/// # Examples
///
/// ```
/// use tollgate::Timestamp;
/// use tollgate_wire::body::TimeText;
///
/// let time = |millis| TimeText(Timestamp::from_unix_millis(millis)).to_string();
/// assert_eq!(time(1_798_070_400_000), "2026-12-24T00:00:00Z");
/// assert_eq!(time(1_798_070_400_007), "2026-12-24T00:00:00.007Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeText(pub Timestamp);

/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z.
const RANGE: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);

const DAY: i64 = 86_400_000;

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_unix_millis().clamp(RANGE.0, RANGE.1);
        let (year, month, day) = date(millis.div_euclid(DAY));
        let within_day = millis.rem_euclid(DAY);
        let (seconds, fraction) = (within_day / 1_000, within_day % 1_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match fraction {
            0 => f.write_str("Z"),
            fraction => write!(f, ".{fraction:03}Z"),
        }
    }
}

/// Returns year, month and day of the day with this number, counted from 1970-01-01, in the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`. Years begin in March there,
/// so that a leap day is the last day of its year.
const fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day_of_month)
}

impl Serialize for TimeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for TimeText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the days of the calendar one by one, and does not divide.
    #[test]
    fn every_day_of_ten_thousand_years_has_its_date() {
        let (mut year, mut month, mut day) = (0, 1, 1);
        for number in RANGE.0 / DAY..=RANGE.1 / DAY {
            assert_eq!(date(number), (year, month, day));
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = match month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > days {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
    }

    #[test]
    fn a_time_is_shown_to_the_millisecond_within_the_range_of_the_form() {
        let time = |millis| TimeText(Timestamp::from_unix_millis(millis)).to_string();
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(time(951_868_799_050), "2000-02-29T23:59:59.050Z");
        assert_eq!(time(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(time(i64::MIN), "0000-01-01T00:00:00Z");
    }
}
