//! Points in time, as whole milliseconds since the Unix epoch.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time, in whole milliseconds since 1970-01-01 00:00 UTC; negative before it.
///
/// As in Unix time, there are no leap seconds. Arithmetic saturates at the ends of the range, which lie 292 million
/// years away, so it never wraps and never panics.
///
/// ```
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
/// use tollgate::Timestamp;
///
/// let noon = Timestamp::from_unix_millis(1_700_000_000_000);
/// assert_eq!((noon + Duration::from_secs(1)).as_unix_millis(), 1_700_000_001_000);
/// assert_eq!(noon.since(noon + Duration::from_secs(1)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01 00:00 UTC.
    pub const EPOCH: Self = Self(0);

    /// Returns the point that lies this many milliseconds after the epoch.
    #[must_use]
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_unix_millis(self) -> i64 {
        self.0
    }

    /// Returns the same point as the standard library counts time; `None` if it lies beyond what this system can
    /// express.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let distance = Duration::from_millis(self.0.unsigned_abs());
        if self.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
    }

    /// Returns the time from `earlier` to this; zero if this is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.millis_since(earlier))
    }

    /// Whole milliseconds from `earlier` to this; zero if it is not after it.
    pub(crate) const fn millis_since(self, earlier: Self) -> u64 {
        if self.0 > earlier.0 { self.0.abs_diff(earlier.0) } else { 0 }
    }

    pub(crate) const fn saturating_add_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add_unsigned(millis))
    }

    pub(crate) const fn saturating_sub_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_sub_unsigned(millis))
    }
}

/// The millisecond that the time lies in.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::EPOCH + after,
            Err(before) => {
                let before = before.duration();
                // Rounded down, so that a millisecond is one timestamp before the epoch as well.
                let is_within = before.subsec_nanos() % 1_000_000 > 0;
                (Self::EPOCH - before).saturating_sub_millis(u64::from(is_within))
            }
        }
    }
}

/// Moves forward by the whole milliseconds of the duration; a fraction of a millisecond is dropped.
impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.saturating_add_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Moves back by the whole milliseconds of the duration; a fraction of a millisecond is dropped.
impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        self.saturating_sub_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let (first, last) = (Timestamp::from_unix_millis(i64::MIN), Timestamp::from_unix_millis(i64::MAX));
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(first - Duration::MAX, first);
        assert_eq!(last.millis_since(first), u64::MAX);
        assert_eq!(first.millis_since(last), 0);
    }

    #[test]
    fn system_times_become_the_millisecond_that_they_lie_in() {
        let (micro, milli) = (Duration::from_micros(1), Duration::from_millis(1));
        let times = [
            (UNIX_EPOCH, 0),
            (UNIX_EPOCH + milli - micro, 0),
            (UNIX_EPOCH + milli, 1),
            (UNIX_EPOCH - micro, -1),
            (UNIX_EPOCH - milli, -1),
            (UNIX_EPOCH - milli - micro, -2),
        ];
        for (time, millis) in times {
            assert_eq!(Timestamp::from(time).as_unix_millis(), millis, "{time:?}");
        }
        for millis in [-1_700_000_000_001, -1, 0, 1, 1_700_000_000_001] {
            let timestamp = Timestamp::from_unix_millis(millis);
            assert_eq!(timestamp.to_system_time().map(Timestamp::from), Some(timestamp));
        }
    }
}
