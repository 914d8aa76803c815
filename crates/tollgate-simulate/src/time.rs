//! Times, as reports have them.

use jiff::tz::TimeZone;
use tollgate::Timestamp;

/// Writes a time in a zone; one outside the calendar as a number.
pub(crate) fn written(time: Timestamp, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_millisecond(time.as_unix_millis()) {
        Ok(time) => time.display_with_offset(zone.to_offset(time)).to_string(),
        Err(_) => format!("{} ms", time.as_unix_millis()),
    }
}
