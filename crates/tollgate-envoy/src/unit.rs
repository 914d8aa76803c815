//! The units of time that limits are in.

use std::fmt;
use std::time::Duration;

use tollgate::Quota;

/// A unit of time, which is the length of a limit's windows.
///
/// All windows are aligned to the Unix epoch, also the long ones: a week begins on Thursday at midnight UTC, a month
/// has 30 days, and a year 365.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// All units, from the shortest to the longest.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Returns the unit with this number in Envoy's messages; `None` for 0, which is `UNKNOWN`, and other numbers.
    ///
    /// ```
    /// use tollgate_envoy::Unit;
    ///
    /// assert_eq!(Unit::from_number(7), Some(Unit::Week));
    /// assert_eq!(Unit::from_number(0), None);
    /// ```
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.number() == number)
    }

    /// Returns the unit with this name, in upper or lower case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// Returns the number in Envoy's messages. The week came last, so the numbers are not in the order of the lengths.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Second => 1,
            Self::Minute => 2,
            Self::Hour => 3,
            Self::Day => 4,
            Self::Month => 5,
            Self::Year => 6,
            Self::Week => 7,
        }
    }

    /// Returns the name in Envoy's messages, such as `MINUTE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "SECOND",
            Self::Minute => "MINUTE",
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Week => "WEEK",
            Self::Month => "MONTH",
            Self::Year => "YEAR",
        }
    }

    /// A quota with its windows and limit 0.
    pub(crate) fn quota(self) -> Quota {
        let quota = Quota::new(0, self.length());
        // Every length is a whole number of seconds below ten years.
        quota.unwrap_or(Quota::per_second(0))
    }

    /// Returns the length of its windows.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of `envoy.type.v3.RateLimitUnit` and the lengths of envoyproxy/ratelimit.
    #[test]
    fn units_have_envoys_numbers_and_the_lengths_of_ratelimit() {
        for (name, number, seconds) in [
            ("second", 1, 1),
            ("minute", 2, 60),
            ("hour", 3, 3_600),
            ("day", 4, 86_400),
            ("month", 5, 30 * 86_400),
            ("year", 6, 365 * 86_400),
            ("Week", 7, 7 * 86_400),
        ] {
            let unit = Unit::from_name(name).unwrap();
            assert_eq!(Unit::from_number(number), Some(unit));
            assert_eq!(unit.length().as_secs(), seconds, "{name}");
        }
        for number in [-1, 0, 8, i32::MAX] {
            assert_eq!(Unit::from_number(number), None, "{number}");
        }
        assert_eq!(Unit::from_name("fortnight"), None);
    }
}
