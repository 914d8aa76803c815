//! Calendar windows: days, weeks, months and years in a time zone.

use std::hash::{Hash, Hasher};

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, ToSpan};

use super::CalendarUnit;
use crate::timestamp::Timestamp;
use crate::window::Window;

/// Names that a time zone database may contain although they are not IANA names or do not name a place. Their meaning
/// depends on the machine, and counters must not.
const MACHINE_DEPENDENT: [&str; 3] = ["Factory", "localtime", "posixrules"];

/// A calendar unit in an IANA time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
}

/// Zones are equal if their names are.
impl Hash for Calendar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.unit, self.zone()).hash(state);
    }
}

impl Calendar {
    /// `None` if the time zone database does not know the name, or if its meaning depends on the machine.
    pub(crate) fn new(unit: CalendarUnit, zone: &str) -> Option<Self> {
        if MACHINE_DEPENDENT.iter().any(|name| name.eq_ignore_ascii_case(zone)) {
            return None;
        }
        let zone = TimeZone::get(zone).ok()?;
        // Only a zone with a name can be printed.
        zone.iana_name()?;
        Some(Self { unit, zone })
    }

    pub(crate) fn unit(&self) -> CalendarUnit {
        self.unit
    }

    pub(crate) fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The window from the first instant of the unit's first date to the first instant of the next unit's.
    ///
    /// The civil calendar spans the years -9999 to 9999. Times outside of its whole units are in one window that
    /// reaches to the end of time.
    pub(crate) fn window_at(&self, now: Timestamp) -> Window {
        self.civil_window_at(now).unwrap_or_else(|| {
            let (first, last) =
                (Timestamp::from_unix_millis(i64::MIN), Timestamp::from_unix_millis(i64::MAX));
            if now < Timestamp::EPOCH {
                let end = self.whole_units_from(Date::MIN).map_or(Timestamp::EPOCH, |window| window.start());
                Window::new(first, end)
            } else {
                let start = self.whole_units_until(Date::MAX).map_or(Timestamp::EPOCH, |window| window.end());
                Window::new(start, last)
            }
        })
    }

    fn civil_window_at(&self, now: Timestamp) -> Option<Window> {
        let instant = jiff::Timestamp::from_millisecond(now.as_unix_millis()).ok()?;
        let date = self.first_date(self.zone.to_datetime(instant).date())?;
        let window = self.window_from(date)?;
        // Where a clock is set back across midnight, an instant can read as the old date although the new
        // one has already begun once; it belongs to the new date's window.
        if now < window.end() { Some(window) } else { self.window_from(self.next_date(date)?) }
    }

    fn whole_units_from(&self, date: Date) -> Option<Window> {
        self.window_from(self.next_date(self.first_date(date).unwrap_or(date))?)
    }

    fn whole_units_until(&self, date: Date) -> Option<Window> {
        let first = self.first_date(date)?;
        self.window_from(self.first_date(first.checked_sub(1.day()).ok()?)?)
    }

    fn window_from(&self, date: Date) -> Option<Window> {
        Some(Window::new(self.first_instant(date)?, self.first_instant(self.next_date(date)?)?))
    }

    fn first_date(&self, date: Date) -> Option<Date> {
        match self.unit {
            CalendarUnit::Day => Some(date),
            CalendarUnit::Week => {
                let days = i64::from(date.weekday().since(Weekday::Monday));
                date.checked_sub(Span::new().try_days(days).ok()?).ok()
            }
            CalendarUnit::Month => Some(date.first_of_month()),
            CalendarUnit::Year => Some(date.first_of_year()),
        }
    }

    fn next_date(&self, date: Date) -> Option<Date> {
        let span = match self.unit {
            CalendarUnit::Day => 1.day(),
            CalendarUnit::Week => 1.week(),
            CalendarUnit::Month => 1.month(),
            CalendarUnit::Year => 1.year(),
        };
        date.checked_add(span).ok()
    }

    /// The first instant that reads as this date or a later one: midnight, the earlier of two midnights, or the end of
    /// the gap if the clocks skip midnight.
    fn first_instant(&self, date: Date) -> Option<Timestamp> {
        let midnight = self.zone.to_ambiguous_timestamp(date.to_datetime(jiff::civil::Time::midnight()));
        let instant = match midnight.offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(midnight.datetime()).ok()?
            }
            // Read with the offset that holds after the gap, a time inside it names an instant before it.
            AmbiguousOffset::Gap { after, .. } => {
                let before_gap = after.to_timestamp(midnight.datetime()).ok()?;
                self.zone.following(before_gap).next()?.timestamp()
            }
        };
        Some(Timestamp::from_unix_millis(instant.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(zone: &str, now: &str) -> (i64, i64) {
        let calendar = Calendar::new(CalendarUnit::Day, zone).unwrap();
        let now: jiff::Timestamp = now.parse().unwrap();
        let window = calendar.window_at(Timestamp::from_unix_millis(now.as_millisecond()));
        (window.start().as_unix_millis() / 1000, window.end().as_unix_millis() / 1000)
    }

    #[test]
    fn a_gap_across_midnight_ends_the_day_where_the_clock_jumps() {
        // Toronto, 1919-03-30: at 23:30 the clock was put to 00:30 of the 31st.
        let jump = "1919-03-31T04:30:00Z".parse::<jiff::Timestamp>().unwrap().as_second();
        assert_eq!(day("America/Toronto", "1919-03-31T04:29:59Z").1, jump);
        assert_eq!(day("America/Toronto", "1919-03-31T04:30:00Z").0, jump);
    }

    #[test]
    fn a_clock_put_back_across_midnight_does_not_reopen_the_day() {
        // St. John's, 2010-11-07: at 00:01 the clock was put back to 23:01 of the 6th.
        let midnight = "2010-11-07T02:30:00Z".parse::<jiff::Timestamp>().unwrap().as_second();
        assert_eq!(day("America/St_Johns", "2010-11-07T02:29:59Z").1, midnight);
        assert_eq!(day("America/St_Johns", "2010-11-07T02:45:00Z").0, midnight);
    }

    #[test]
    fn beyond_the_civil_calendar_a_window_still_holds_now() {
        for unit in [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year] {
            let calendar = Calendar::new(unit, "Europe/Berlin").unwrap();
            for now in [i64::MIN, -400_000_000_000_000, 253_402_300_799_999, i64::MAX - 1] {
                let now = Timestamp::from_unix_millis(now);
                assert!(calendar.window_at(now).contains(now), "{unit:?} {now:?}");
            }
        }
    }
}
