//! Quotas: a limit, the length of its windows and where they start.
//!
//! A [`Quota`] is checked when it is made, so all other code can rely on its bounds. `text` parses and prints it;
//! `error` has its errors.

#[cfg(feature = "calendar")]
mod calendar;
mod error;
#[cfg(feature = "serde")]
mod serde;
mod text;

use std::time::Duration;

#[cfg(feature = "calendar")]
use self::calendar::Calendar;
pub use self::error::{QuotaError, QuotaErrorKind};
use crate::{Key, LocalShare, Timestamp, Window};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A limit on the units in each window: a number, a window length and an anchor.
///
/// `Quota::per_minute(5)` is five units in each minute. The written form is `5/1m`, and parsing it gives the same
/// quota:
///
/// | written | means |
/// |---|---|
/// | `5/1m`, `5/m`, `5/minute`, `5/MINUTE`, `5 per minute`, `5-M`, `5/60s` | five in each minute, minutes as the clock shows them |
/// | `10/3h`, `10 per 3 hours` | ten in each three hours, counted from the Unix epoch |
/// | `5/1m@first_hit` | five in the minute that starts with a key's first unit |
/// | `5/1m@staggered` | five in each minute, with a different start for every key |
/// | `100/day`, `100/1d` | a hundred in 24 hours, from midnight to midnight UTC |
/// | `100/week`, `100/7d` | a hundred in seven days, from Thursday to Thursday 00:00 UTC, as the epoch began on one |
/// | `100/day@Europe/Berlin` | a hundred in a calendar day of that zone, which may have 23 or 25 hours |
///
/// [`Quota::list`] reads several, `10/minute;100/hour`.
///
/// The last row needs the feature `calendar`. `week` (from Monday), `month` and `year` work with a zone as well.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Anchor, Quota};
///
/// let quota: Quota = "10 per 3 hours".parse()?;
/// assert_eq!(quota, Quota::new(10, Duration::from_secs(3 * 60 * 60))?);
/// assert_eq!(quota.to_string(), "10/3h");
/// assert_eq!(quota.anchor(), Anchor::Epoch);
///
/// let error = "10/3M".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "quota `10/3M`, column 5: unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)"
/// );
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    windows: Windows,
}

/// The kind of windows; lengths in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Windows {
    Epoch(u64),
    Staggered(u64),
    FirstHit(u64),
    #[cfg(feature = "calendar")]
    Calendar(Calendar),
}

/// Where windows start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Anchor {
    /// At multiples of the length since 1970-01-01 00:00 UTC: minutes and hours as the clock shows them.
    #[default]
    Epoch,
    /// Like `Epoch`, but shifted for each key by the XXH64 (seed 0) of its canonical bytes modulo the length, so that
    /// keys reset at different instants. Every process and store computes the same shift.
    Staggered,
    /// At a key's first charged unit; later ones do not extend the window. Until then a peek answers as if
    /// the window opened now.
    FirstHit,
    /// At the first instant of a day, week, month or year in a time zone.
    Calendar,
}

/// How long a window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WindowLength {
    /// Always this long, 1 ms to 10 years.
    Fixed(Duration),
    /// The length that the calendar gives it.
    Calendar(CalendarUnit),
}

/// A unit of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// From the first instant of a date to the first of the next.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

impl Quota {
    /// The largest limit, and the count at which `used` saturates: 2^40 - 1.
    pub const MAX_LIMIT: u64 = (1 << 40) - 1;

    /// The shortest window: 1 ms.
    pub const MIN_WINDOW: Duration = Duration::from_millis(1);

    /// The longest window: 3,653 days, the most that any ten calendar years have.
    pub const MAX_WINDOW: Duration = Duration::from_millis(3_653 * DAY);

    /// Creates a quota with windows of this length, aligned to the epoch. Limit 0 denies everything.
    ///
    /// # Errors
    ///
    /// If the limit is above [`MAX_LIMIT`](Self::MAX_LIMIT), or the window is shorter than 1 ms, longer than
    /// [`MAX_WINDOW`](Self::MAX_WINDOW) or no whole number of milliseconds.
    pub fn new(limit: u64, window: Duration) -> Result<Self, QuotaError> {
        if !window.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(QuotaErrorKind::FractionOfMillisecond.into());
        }
        let millis = u64::try_from(window.as_millis()).map_err(|_| QuotaErrorKind::WindowOutOfRange)?;
        Self::from_millis(limit, millis)
    }

    fn from_millis(limit: u64, window: u64) -> Result<Self, QuotaError> {
        if limit > Self::MAX_LIMIT {
            return Err(QuotaErrorKind::LimitTooLarge.into());
        }
        if !(1..=3_653 * DAY).contains(&window) {
            return Err(QuotaErrorKind::WindowOutOfRange.into());
        }
        Ok(Self { limit, windows: Windows::Epoch(window) })
    }

    /// This many in each second.
    #[must_use]
    pub const fn per_second(limit: u32) -> Self {
        Self { limit: limit as u64, windows: Windows::Epoch(SECOND) }
    }

    /// This many in each minute.
    #[must_use]
    pub const fn per_minute(limit: u32) -> Self {
        Self { limit: limit as u64, windows: Windows::Epoch(MINUTE) }
    }

    /// This many in each hour.
    #[must_use]
    pub const fn per_hour(limit: u32) -> Self {
        Self { limit: limit as u64, windows: Windows::Epoch(HOUR) }
    }

    /// This many in each day of 24 hours, from midnight to midnight UTC.
    #[must_use]
    pub const fn per_day(limit: u32) -> Self {
        Self { limit: limit as u64, windows: Windows::Epoch(DAY) }
    }

    /// Creates a quota for each day, week, month or year of an IANA time zone, such as `Europe/Berlin`.
    ///
    /// # Errors
    ///
    /// If the limit is above [`MAX_LIMIT`](Self::MAX_LIMIT), or the time zone database does not contain the zone. Names
    /// whose meaning depends on the machine, such as `localtime`, are not accepted.
    #[cfg(feature = "calendar")]
    pub fn calendar(limit: u64, unit: CalendarUnit, zone: &str) -> Result<Self, QuotaError> {
        if limit > Self::MAX_LIMIT {
            return Err(QuotaErrorKind::LimitTooLarge.into());
        }
        let calendar = Calendar::new(unit, zone).ok_or(QuotaErrorKind::UnknownZone)?;
        Ok(Self { limit, windows: Windows::Calendar(calendar) })
    }

    /// Returns the quota with another anchor.
    ///
    /// # Errors
    ///
    /// If either anchor is [`Anchor::Calendar`], whose windows have no fixed length.
    pub fn with_anchor(self, anchor: Anchor) -> Result<Self, QuotaError> {
        let Some(millis) = self.windows.fixed_millis() else {
            return Err(QuotaErrorKind::CalendarAnchor.into());
        };
        let windows = match anchor {
            Anchor::Epoch => Windows::Epoch(millis),
            Anchor::Staggered => Windows::Staggered(millis),
            Anchor::FirstHit => Windows::FirstHit(millis),
            Anchor::Calendar => return Err(QuotaErrorKind::CalendarAnchor.into()),
        };
        Ok(Self { limit: self.limit, windows })
    }

    /// Returns the quota with another limit. Counters are kept: they belong to the windows, not to the limit.
    ///
    /// # Errors
    ///
    /// If the limit is above [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub fn with_limit(self, limit: u64) -> Result<Self, QuotaError> {
        if limit > Self::MAX_LIMIT {
            return Err(QuotaErrorKind::LimitTooLarge.into());
        }
        Ok(Self { limit, ..self })
    }

    /// Returns the quota with another limit, at most [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub(crate) fn with_limit_up_to_max(&self, limit: u64) -> Self {
        Self { limit: limit.min(Self::MAX_LIMIT), windows: self.windows.clone() }
    }

    /// Returns the quota with this share of its limit.
    pub(crate) fn with_share(&self, share: LocalShare) -> Self {
        Self { limit: share.of(self.limit), windows: self.windows.clone() }
    }

    /// Returns units allowed in each window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how long a window is.
    #[must_use]
    pub fn window(&self) -> WindowLength {
        match &self.windows {
            Windows::Epoch(millis) | Windows::Staggered(millis) | Windows::FirstHit(millis) => {
                WindowLength::Fixed(Duration::from_millis(*millis))
            }
            #[cfg(feature = "calendar")]
            Windows::Calendar(calendar) => WindowLength::Calendar(calendar.unit()),
        }
    }

    /// Returns where windows start.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        match &self.windows {
            Windows::Epoch(_) => Anchor::Epoch,
            Windows::Staggered(_) => Anchor::Staggered,
            Windows::FirstHit(_) => Anchor::FirstHit,
            #[cfg(feature = "calendar")]
            Windows::Calendar(_) => Anchor::Calendar,
        }
    }

    /// Returns the time zone of a calendar quota.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        match &self.windows {
            #[cfg(feature = "calendar")]
            Windows::Calendar(calendar) => Some(calendar.zone()),
            _ => None,
        }
    }

    /// Returns the window of this key that holds `now`.
    ///
    /// For [`Anchor::FirstHit`], whose windows only a store knows, it is the window that would open now.
    #[must_use]
    pub fn window_at(&self, key: &Key<'_>, now: Timestamp) -> Window {
        match &self.windows {
            Windows::Epoch(millis) => Window::aligned_millis(now, *millis, 0),
            Windows::Staggered(millis) => Window::aligned_millis(now, *millis, key.xxh64()),
            Windows::FirstHit(millis) => Window::opening_at(now, *millis),
            #[cfg(feature = "calendar")]
            Windows::Calendar(calendar) => calendar.window_at(now),
        }
    }

    /// The window that ends then, if one of this quota's does.
    pub(crate) fn window_ending(&self, end: Timestamp) -> Window {
        match &self.windows {
            Windows::Epoch(millis) | Windows::Staggered(millis) | Windows::FirstHit(millis) => {
                Window::new(end.saturating_sub_millis(*millis), end)
            }
            #[cfg(feature = "calendar")]
            Windows::Calendar(calendar) => calendar.window_at(end.saturating_sub_millis(1)),
        }
    }

    /// The length of windows in milliseconds, where it is fixed.
    pub(crate) fn fixed_millis(&self) -> Option<u64> {
        self.windows.fixed_millis()
    }

    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }
}

impl Windows {
    fn fixed_millis(&self) -> Option<u64> {
        match self {
            Self::Epoch(millis) | Self::Staggered(millis) | Self::FirstHit(millis) => Some(*millis),
            #[cfg(feature = "calendar")]
            Self::Calendar(_) => None,
        }
    }
}
