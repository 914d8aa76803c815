//! Quotas: a limit, the length of its windows, and how they count.
//!
//! A [`Quota`] is checked when it is made, so all other code can rely on its bounds. `text` parses and prints it;
//! `other_notations` reads those of other limiters; `bound` has the most that it admits; `error` has its errors.

mod bound;
#[cfg(feature = "calendar")]
mod calendar;
mod error;
mod length_text;
mod other_notations;
#[cfg(feature = "serde")]
mod serde;
mod text;

use std::time::Duration;

#[cfg(feature = "calendar")]
use self::calendar::Calendar;
pub use self::error::{QuotaError, QuotaErrorKind};
pub(crate) use self::length_text::LengthText;
pub(crate) use self::text::fixed_length_millis;
use crate::kind::{
    Bucket, BucketError, BurstStanding, LogEntries, LogStanding, SlidingStanding, Standing, WindowStanding,
    fitting_step, max_entries,
};
use crate::{Key, LocalShare, Timestamp, Window};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A limit on the units in each window: a number, a window length, and a [kind](QuotaKind) or an anchor.
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
/// | `100/1m~burst:20`, `100/1m burst 20` | a hundred in each minute over time, at most twenty at once |
/// | `100/1m~burst` | the same, at most a hundred at once |
/// | `rate=10r/s burst=20 nodelay`, `CL.THROTTLE user 20 10 1` | `10/1s~burst:21`, in the notation of nginx and of redis-cell |
/// | `100/1m~log`, `5000/1h log 1m` | never more than the limit in any minute or hour; the second logs in steps of a minute |
/// | `100/1m~sliding`, `100 per minute sliding` | a hundred in a minute of the clock, up to 199 in any other, estimated from two windows |
///
/// [`Quota::list`] reads several, `10/minute;100/hour`.
///
/// A time zone needs the feature `calendar`. `week` (from Monday), `month` and `year` work with a zone as well.
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
    series: Series,
}

/// How units are counted: what a quota has besides its limit. Lengths are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Series {
    Epoch(u64),
    Staggered(u64),
    FirstHit(u64),
    #[cfg(feature = "calendar")]
    Calendar(Calendar),
    Burst(BurstSeries),
    Sliding {
        window: u64,
        is_staggered: bool,
    },
    Log {
        window: u64,
        step: u64,
    },
}

/// A bucket with the numbers that it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BurstSeries {
    window: u64,
    /// `None` if the burst is the limit.
    burst: Option<u64>,
    bucket: Bucket,
}

/// How a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaKind {
    /// In fixed windows: all units are free again at the window's end. Up to twice the limit passes around a boundary.
    Window,
    /// In a bucket: each unit is free again after its share of the window. At most `burst` units pass at once, and
    /// `burst + floor(time * limit / window)` in any time.
    Burst,
    /// In two windows, the previous one weighted by the part that the last window's length still covers. In any time
    /// shorter than a window, at most `limit + floor(limit * (time - 1 ms) / window)` units pass.
    Sliding,
    /// In a log: each unit counts until a window's length has passed since it was charged. Never more than the limit
    /// passes in any time shorter than a window.
    Log,
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
        Ok(Self { limit, series: Series::Epoch(window) })
    }

    /// This many in each second.
    #[must_use]
    pub const fn per_second(limit: u32) -> Self {
        Self { limit: limit as u64, series: Series::Epoch(SECOND) }
    }

    /// This many in each minute.
    #[must_use]
    pub const fn per_minute(limit: u32) -> Self {
        Self { limit: limit as u64, series: Series::Epoch(MINUTE) }
    }

    /// This many in each hour.
    #[must_use]
    pub const fn per_hour(limit: u32) -> Self {
        Self { limit: limit as u64, series: Series::Epoch(HOUR) }
    }

    /// This many in each day of 24 hours, from midnight to midnight UTC.
    #[must_use]
    pub const fn per_day(limit: u32) -> Self {
        Self { limit: limit as u64, series: Series::Epoch(DAY) }
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
        Ok(Self { limit, series: Series::Calendar(calendar) })
    }

    /// Returns the quota with another anchor.
    ///
    /// # Errors
    ///
    /// If either anchor is [`Anchor::Calendar`], whose windows have no fixed length; for a bucket or a log, which have no
    /// windows; and for a sliding window that would start with its first unit.
    pub fn with_anchor(self, anchor: Anchor) -> Result<Self, QuotaError> {
        let Some(millis) = self.series.fixed_millis() else {
            return Err(QuotaErrorKind::CalendarAnchor.into());
        };
        let series = match (&self.series, anchor) {
            (_, Anchor::Calendar) => return Err(QuotaErrorKind::CalendarAnchor.into()),
            (Series::Burst(_), _) => return Err(QuotaErrorKind::BurstAnchor.into()),
            (Series::Log { .. }, _) => return Err(QuotaErrorKind::LogAnchor.into()),
            (Series::Sliding { .. }, Anchor::FirstHit) => return Err(QuotaErrorKind::SlidingAnchor.into()),
            (Series::Sliding { .. }, anchor) => {
                Series::Sliding { window: millis, is_staggered: anchor == Anchor::Staggered }
            }
            (_, Anchor::Epoch) => Series::Epoch(millis),
            (_, Anchor::Staggered) => Series::Staggered(millis),
            (_, Anchor::FirstHit) => Series::FirstHit(millis),
        };
        Ok(Self { limit: self.limit, series })
    }

    /// Returns the quota as a bucket, `100/1m~burst:20`: at most `burst` units at once, and the limit in each window's
    /// length over time. Without a burst it is the limit, whatever the limit becomes.
    ///
    /// # Errors
    ///
    /// If the windows have another anchor than the epoch; if the burst is 0 or above [`MAX_LIMIT`](Self::MAX_LIMIT); if
    /// limit and window, divided by their greatest common divisor, leave a limit above 2^22; or if a full bucket would
    /// take more than ten years to drain.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// let quota = Quota::per_minute(100).with_burst(Some(20))?;
    /// assert_eq!(quota.to_string(), "100/1m~burst:20");
    /// assert_eq!(quota.capacity(), 20);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn with_burst(self, burst: Option<u64>) -> Result<Self, QuotaError> {
        let (Series::Epoch(window) | Series::Burst(BurstSeries { window, .. })) = self.series else {
            return Err(QuotaErrorKind::BurstAnchor.into());
        };
        BurstSeries::new(self.limit, window, burst)
            .map(|series| Self { series: Series::Burst(series), ..self })
    }

    /// Returns the quota as a sliding window, `100/1m~sliding`, which estimates the units in the last window's length.
    ///
    /// # Errors
    ///
    /// If the windows have no fixed length or start with their first unit, or if the limit is above a million or, for
    /// windows of more than 52 days, 2^52 divided by the window in milliseconds.
    pub fn sliding(self) -> Result<Self, QuotaError> {
        let (window, is_staggered) = match self.series {
            Series::Epoch(window) | Series::Sliding { window, is_staggered: false } => (window, false),
            Series::Staggered(window) | Series::Sliding { window, is_staggered: true } => (window, true),
            _ => return Err(QuotaErrorKind::SlidingAnchor.into()),
        };
        let series = Series::Sliding { window, is_staggered };
        series.allows(self.limit)?;
        Ok(Self { series, ..self })
    }

    /// Returns the quota as a log, `3/1m~log`: each unit counts until a window's length has passed. Charges of one step
    /// are one entry, and leave together, a window's length after the step's last millisecond. A step of a millisecond
    /// is exact.
    ///
    /// # Errors
    ///
    /// If the windows have another anchor than the epoch; if the step is no whole number of milliseconds, or longer than
    /// a window; if the limit is above 2^24 - 1; or if a log could have more than 256 entries, which a longer step avoids.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// let exact = Quota::per_minute(3).with_log(Duration::from_millis(1))?;
    /// assert_eq!(exact.to_string(), "3/1m~log");
    /// let error = Quota::per_hour(1_000).with_log(Duration::from_millis(1)).unwrap_err();
    /// assert!(error.to_string().contains("~log:15s"));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn with_log(self, step: Duration) -> Result<Self, QuotaError> {
        let (Series::Epoch(window) | Series::Log { window, .. }) = self.series else {
            return Err(QuotaErrorKind::LogAnchor.into());
        };
        let millis = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
        if !step.subsec_nanos().is_multiple_of(1_000_000) || !(1..=window).contains(&millis) {
            return Err(QuotaErrorKind::LogStep.into());
        }
        let series = Series::Log { window, step: millis };
        series.allows(self.limit)?;
        Ok(Self { series, ..self })
    }

    /// Returns the quota with another limit. Counters are kept: they do not belong to the limit. The units of a bucket
    /// weigh in proportion, because they drain at the new rate. A burst without a number follows the limit.
    ///
    /// # Errors
    ///
    /// If the limit is above [`MAX_LIMIT`](Self::MAX_LIMIT), or above what the kind of quota allows, as
    /// [`with_burst`](Self::with_burst), [`sliding`](Self::sliding) and [`with_log`](Self::with_log) document.
    pub fn with_limit(self, limit: u64) -> Result<Self, QuotaError> {
        if limit > Self::MAX_LIMIT {
            return Err(QuotaErrorKind::LimitTooLarge.into());
        }
        let series = match self.series {
            Series::Burst(series) => Series::Burst(BurstSeries::new(limit, series.window, series.burst)?),
            series => series,
        };
        series.allows(limit)?;
        Ok(Self { limit, series })
    }

    /// Returns the quota with another limit, or with the nearest below it that is possible.
    pub(crate) fn with_limit_up_to_max(&self, limit: u64) -> Self {
        let limit = limit.min(Self::MAX_LIMIT);
        match &self.series {
            Series::Burst(series) => {
                let series = series.near(limit, series.burst);
                Self { limit, series: Series::Burst(series) }
            }
            series => Self { limit: limit.min(series.max_limit()), series: series.clone() },
        }
    }

    /// Returns the quota with this share of its limit and of its burst.
    pub(crate) fn with_share(&self, share: LocalShare) -> Self {
        let limit = share.of(self.limit);
        match &self.series {
            Series::Burst(series) => {
                let series = series.near(limit, series.burst.map(|burst| share.of(burst)));
                Self { limit, series: Series::Burst(series) }
            }
            series => Self { limit, series: series.clone() },
        }
    }

    /// Returns units allowed in each window's length.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the units that can be used at once: the burst of a bucket, else the limit.
    #[must_use]
    #[inline(always)]
    pub const fn capacity(&self) -> u64 {
        match &self.series {
            Series::Burst(series) => series.bucket.burst(),
            _ => self.limit,
        }
    }

    /// Returns how the quota counts.
    #[must_use]
    pub const fn kind(&self) -> QuotaKind {
        match &self.series {
            Series::Burst(_) => QuotaKind::Burst,
            Series::Sliding { .. } => QuotaKind::Sliding,
            Series::Log { .. } => QuotaKind::Log,
            _ => QuotaKind::Window,
        }
    }

    /// Returns the step of a log.
    #[must_use]
    pub const fn log_step(&self) -> Option<Duration> {
        match self.series {
            Series::Log { step, .. } => Some(Duration::from_millis(step)),
            _ => None,
        }
    }

    /// Returns whether both count in the same way: of one policy they would share counters, whatever their limits and
    /// bursts.
    #[must_use]
    pub fn has_series_of(&self, other: &Self) -> bool {
        match (&self.series, &other.series) {
            (Series::Burst(one), Series::Burst(other)) => one.window == other.window,
            (one, other) => one == other,
        }
    }

    /// Returns the bucket of a quota with a burst.
    #[must_use]
    pub const fn bucket(&self) -> Option<Bucket> {
        match &self.series {
            Series::Burst(series) => Some(series.bucket),
            _ => None,
        }
    }

    /// Returns how long a window is.
    #[must_use]
    pub fn window(&self) -> WindowLength {
        match &self.series {
            #[cfg(feature = "calendar")]
            Series::Calendar(calendar) => WindowLength::Calendar(calendar.unit()),
            series => WindowLength::Fixed(Duration::from_millis(series.fixed_millis().unwrap_or_default())),
        }
    }

    /// Returns where windows start; [`Epoch`](Anchor::Epoch) for a bucket and a log, which have none.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        match &self.series {
            Series::Epoch(_)
            | Series::Burst(_)
            | Series::Log { .. }
            | Series::Sliding { is_staggered: false, .. } => Anchor::Epoch,
            Series::Staggered(_) | Series::Sliding { is_staggered: true, .. } => Anchor::Staggered,
            Series::FirstHit(_) => Anchor::FirstHit,
            #[cfg(feature = "calendar")]
            Series::Calendar(_) => Anchor::Calendar,
        }
    }

    /// Returns the time zone of a calendar quota.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        match &self.series {
            #[cfg(feature = "calendar")]
            Series::Calendar(calendar) => Some(calendar.zone()),
            _ => None,
        }
    }

    /// Returns the window of this key that holds `now`.
    ///
    /// For [`Anchor::FirstHit`], whose windows only a store knows, it is the window that would open now, and so it is for
    /// a bucket and a log, which have none.
    #[must_use]
    pub fn window_at(&self, key: &Key<'_>, now: Timestamp) -> Window {
        match &self.series {
            Series::Epoch(window) | Series::Sliding { window, is_staggered: false } => {
                Window::aligned_millis(now, *window, 0)
            }
            Series::Staggered(window) | Series::Sliding { window, is_staggered: true } => {
                Window::aligned_millis(now, *window, key.xxh64())
            }
            Series::FirstHit(window)
            | Series::Burst(BurstSeries { window, .. })
            | Series::Log { window, .. } => Window::opening_at(now, *window),
            #[cfg(feature = "calendar")]
            Series::Calendar(calendar) => calendar.window_at(now),
        }
    }

    /// Returns a counter of this key of which nothing is used.
    #[must_use]
    pub fn unused_at(&self, key: &Key<'_>, now: Timestamp) -> Standing {
        match &self.series {
            Series::Burst(series) => Standing::Burst(BurstStanding::with_level(series.bucket, 0, now)),
            Series::Sliding { .. } => {
                Standing::Sliding(SlidingStanding::at(None, self.window_at(key, now), now))
            }
            Series::Log { window, step } => {
                Standing::Log(Box::new(LogStanding::at(LogEntries::default(), *window, *step, now).0))
            }
            _ => Standing::Window(WindowStanding::new(0, self.window_at(key, now))),
        }
    }

    /// The window that ends then, if one of this quota's does.
    pub(crate) fn window_ending(&self, end: Timestamp) -> Window {
        match &self.series {
            #[cfg(feature = "calendar")]
            Series::Calendar(calendar) => calendar.window_at(end.saturating_sub_millis(1)),
            series => Window::new(end.saturating_sub_millis(series.fixed_millis().unwrap_or_default()), end),
        }
    }

    /// The length of windows in milliseconds, where it is fixed.
    pub(crate) fn fixed_millis(&self) -> Option<u64> {
        self.series.fixed_millis()
    }

    /// The length of fixed windows in milliseconds, unless a calendar has it.
    #[inline(always)]
    pub(crate) const fn window_millis(&self) -> Option<u64> {
        match self.series {
            Series::Epoch(window) | Series::Staggered(window) | Series::FirstHit(window) => Some(window),
            _ => None,
        }
    }

    /// The length of sliding windows in milliseconds.
    #[inline(always)]
    pub(crate) const fn sliding_millis(&self) -> Option<u64> {
        match self.series {
            Series::Sliding { window, .. } => Some(window),
            _ => None,
        }
    }

    pub(crate) fn series(&self) -> &Series {
        &self.series
    }
}

impl Series {
    fn fixed_millis(&self) -> Option<u64> {
        match self {
            Self::Epoch(window)
            | Self::Staggered(window)
            | Self::FirstHit(window)
            | Self::Burst(BurstSeries { window, .. })
            | Self::Sliding { window, .. }
            | Self::Log { window, .. } => Some(*window),
            #[cfg(feature = "calendar")]
            Self::Calendar(_) => None,
        }
    }
}

impl Series {
    /// The highest limit.
    fn max_limit(&self) -> u64 {
        match self {
            Self::Sliding { window, .. } => SlidingStanding::max_count(*window),
            Self::Log { window, step } if window / step + 2 > LogEntries::MAX_LEN as u64 => {
                LogEntries::MAX_LEN as u64
            }
            Self::Log { .. } => LogEntries::MAX_UNITS,
            _ => Quota::MAX_LIMIT,
        }
    }

    /// Refuses a limit that this kind cannot count.
    fn allows(&self, limit: u64) -> Result<(), QuotaErrorKind> {
        match self {
            Self::Sliding { .. } if limit > self.max_limit() => {
                Err(QuotaErrorKind::SlidingLimit(self.max_limit()))
            }
            Self::Log { .. } if limit > LogEntries::MAX_UNITS => Err(QuotaErrorKind::LogLimit),
            Self::Log { window, step } if max_entries(limit, *window, *step) > LogEntries::MAX_LEN as u64 => {
                Err(QuotaErrorKind::LogEntries { fitting_step: fitting_step(*window) })
            }
            _ => Ok(()),
        }
    }
}

impl BurstSeries {
    #[inline(always)]
    pub(crate) const fn bucket(&self) -> Bucket {
        self.bucket
    }

    fn new(limit: u64, window: u64, burst: Option<u64>) -> Result<Self, QuotaError> {
        if burst == Some(0) {
            return Err(QuotaErrorKind::BurstZero.into());
        }
        if burst.is_some_and(|burst| burst > Quota::MAX_LIMIT) {
            return Err(QuotaErrorKind::BurstTooLarge.into());
        }
        let bucket = Bucket::new(limit, window, burst.unwrap_or(limit)).map_err(|error| match error {
            BucketError::TooFine => QuotaErrorKind::LimitTooFine,
            BucketError::TooSlow => QuotaErrorKind::BurstTooSlow,
        })?;
        Ok(Self { window, burst, bucket })
    }

    /// Returns the same series with the bucket that is nearest to these numbers, and not above them.
    fn near(&self, limit: u64, burst: Option<u64>) -> Self {
        let bucket = Bucket::near(limit, self.window, burst.unwrap_or(limit));
        Self { window: self.window, burst, bucket }
    }
}
