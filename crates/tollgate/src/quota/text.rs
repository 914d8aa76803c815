//! The written form of a quota: `limit/window` or `limit per window`, then `@anchor` or `@zone`.
//!
//! The notations of other limiters are read if they mean the same: `10/minute;100/hour` of Flask-Limiter, `5-S` of
//! ulule/limiter, `5/m` of django-ratelimit. They are printed in our own form. A text that names another algorithm is
//! an error that says so.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::{Anchor, CalendarUnit, DAY, HOUR, MINUTE, Quota, QuotaError, QuotaErrorKind, SECOND, Windows};

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let whole = Part { text, range: 0..text.len() };
        match whole.list().nth(1) {
            Some(_) => Err(whole.trim().error(QuotaErrorKind::Several)),
            None => Self::read(&whole),
        }
    }
}

impl Quota {
    /// Reads one quota, or several with `;`, `,` or `|` between them: `10/minute;100/hour`.
    ///
    /// # Errors
    ///
    /// If one of them is invalid. An empty text is an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// let quotas = Quota::list("10/minute;100 per 3 hours")?;
    /// assert_eq!(quotas, ["10/1m".parse()?, "100/3h".parse()?]);
    ///
    /// let error = Quota::list("10/minute;100/fortnight").unwrap_err();
    /// assert_eq!(error.range(), Some(14..23));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn list(text: &str) -> Result<Vec<Self>, QuotaError> {
        Part { text, range: 0..text.len() }.list().map(|part| Self::read(&part)).collect()
    }

    fn read(whole: &Part<'_>) -> Result<Self, QuotaError> {
        Self::read_windows(whole).map_err(|error| match QuotaErrorKind::of_algorithm(whole.as_str()) {
            Some(kind) => whole.trim().error(kind),
            None => error,
        })
    }

    fn read_windows(whole: &Part<'_>) -> Result<Self, QuotaError> {
        // The anchor is split off first, because a zone's name may contain a `/` as well.
        let (amount, anchor) = match whole.split_once("@") {
            Some((amount, anchor)) => (amount, Some(anchor.trim())),
            None => (whole.clone(), None),
        };
        let (limit, window) = amount
            .split_once("/")
            .or_else(|| amount.split_at_per())
            .map(|(limit, window)| (limit.trim(), window.trim()))
            .or_else(|| amount.trim().limit_and_letter())
            .ok_or_else(|| whole.trim().error(QuotaErrorKind::MissingSeparator))?;
        if limit.is_requests() {
            return Err(whole.trim().error(QuotaErrorKind::Bucket));
        }
        let value = limit.number().ok_or_else(|| limit.error(QuotaErrorKind::InvalidLimit))?;
        if value > Self::MAX_LIMIT {
            return Err(limit.error(QuotaErrorKind::LimitTooLarge));
        }
        let length = Length::read(&window)?;
        let Some(anchor) = anchor else { return length.fixed(value) };
        if let Some(named) = named_anchor(anchor.as_str()) {
            return length.fixed(value)?.with_anchor(named).map_err(|error| anchor.error(error.kind()));
        }
        match meant_anchor(anchor.as_str()) {
            Some(meant) => Err(anchor.error(QuotaErrorKind::MisspeltAnchor(meant))),
            None => length.calendar(value, &anchor),
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, self.windows)
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epoch(millis) => write_length(f, *millis),
            Self::Staggered(millis) => write_length(f, *millis).and_then(|()| f.write_str("@staggered")),
            Self::FirstHit(millis) => write_length(f, *millis).and_then(|()| f.write_str("@first_hit")),
            #[cfg(feature = "calendar")]
            Self::Calendar(calendar) => write!(f, "{}@{}", calendar.unit().name(), calendar.zone()),
        }
    }
}

/// In the largest unit that divides the length.
fn write_length(f: &mut fmt::Formatter<'_>, millis: u64) -> fmt::Result {
    let (unit, name) = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")]
        .into_iter()
        .find(|(unit, _)| millis.is_multiple_of(*unit))
        .unwrap_or((1, "ms"));
    write!(f, "{}{name}", millis / unit)
}

fn named_anchor(name: &str) -> Option<Anchor> {
    match name {
        "epoch" => Some(Anchor::Epoch),
        "staggered" => Some(Anchor::Staggered),
        "first_hit" => Some(Anchor::FirstHit),
        _ => None,
    }
}

/// The anchor that this resembles: in capitals, with another separator or none, or abbreviated.
fn meant_anchor(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().replace(['-', '_', ' '], "").as_str() {
        "epoch" => Some("epoch"),
        "stagger" | "staggered" => Some("staggered"),
        "firsthit" => Some("first_hit"),
        _ => None,
    }
}

impl CalendarUnit {
    /// Its written form.
    #[cfg(feature = "calendar")]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A piece of the quota's text with its position.
#[derive(Clone)]
struct Part<'a> {
    text: &'a str,
    range: Range<usize>,
}

impl<'a> Part<'a> {
    fn as_str(&self) -> &'a str {
        self.text.get(self.range.clone()).unwrap_or_default()
    }

    fn split_once(&self, separator: &str) -> Option<(Self, Self)> {
        let at = self.range.start + self.as_str().find(separator)?;
        let part = |range| Part { text: self.text, range };
        Some((part(self.range.start..at), part(at + separator.len()..self.range.end)))
    }

    /// The parts before and after `per`, in any case.
    fn split_at_per(&self) -> Option<(Self, Self)> {
        let at = self.range.start + self.as_str().to_ascii_lowercase().find("per")?;
        let part = |range| Part { text: self.text, range };
        Some((part(self.range.start..at), part(at + "per".len()..self.range.end)))
    }

    fn trim(&self) -> Self {
        let start = self.range.end - self.as_str().trim_start().len();
        let end = start + self.as_str().trim().len();
        Part { text: self.text, range: start..end }
    }

    /// The parts between separators of quotas; all of it, if there are none.
    fn list(&self) -> impl Iterator<Item = Self> {
        let start = self.range.start;
        let separated = self.as_str().split([';', ',', '|']);
        separated.scan(start, |next, part| {
            let start = *next;
            *next += part.len() + 1;
            Some(Part { text: self.text, range: start..start + part.len() })
        })
    }

    /// `5-S`, `10-M`, `1000-H` and `2000-D`: letters stand for units, whatever their case. The letter is replaced by
    /// our own letter for the unit.
    fn limit_and_letter(&self) -> Option<(Self, Self)> {
        let (limit, letter) = self.split_once("-")?;
        let unit = match letter.as_str() {
            "S" | "s" => "s",
            "M" | "m" => "m",
            "H" | "h" => "h",
            "D" | "d" => "d",
            _ => return None,
        };
        limit.number().map(|_| (limit, Part { text: unit, range: 0..unit.len() }))
    }

    /// Returns whether it is `10r`, as nginx writes it.
    fn is_requests(&self) -> bool {
        let text = self.as_str().strip_prefix("rate=").unwrap_or(self.as_str());
        text.strip_suffix('r')
            .is_some_and(|limit| limit.bytes().all(|byte| byte.is_ascii_digit()) && !limit.is_empty())
    }

    /// Only digits. A value that does not fit becomes the largest number, which is above every bound.
    fn number(&self) -> Option<u64> {
        let digits = self.as_str();
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        whole.then(|| digits.parse().unwrap_or(u64::MAX))
    }

    fn error(&self, kind: QuotaErrorKind) -> QuotaError {
        QuotaError::in_text(kind, self.text, self.range.clone())
    }
}

/// The window as written: how many of which unit.
struct Length<'a> {
    count: Option<u64>,
    unit: Unit,
    whole: Part<'a>,
}

#[derive(Clone, Copy)]
enum Unit {
    /// Of a fixed length in milliseconds; days and weeks are calendar units as well.
    Fixed(u64, Option<CalendarUnit>),
    /// Of no fixed length.
    Calendar(CalendarUnit),
}

impl<'a> Length<'a> {
    fn read(whole: &Part<'a>) -> Result<Self, QuotaError> {
        let digits = whole.as_str().bytes().take_while(u8::is_ascii_digit).count();
        let split = whole.range.start + digits;
        let count = Part { text: whole.text, range: whole.range.start..split }.number();
        let unit = Part { text: whole.text, range: split..whole.range.end }.trim();
        let name = unit.as_str();
        if !name.starts_with(|first: char| first.is_alphabetic()) {
            return Err(unit.error(QuotaErrorKind::InvalidWindow));
        }
        let known = Unit::named(name).ok_or_else(|| unit.error(QuotaErrorKind::UnknownUnit))?;
        Ok(Self { count, unit: known, whole: whole.clone() })
    }

    fn fixed(&self, limit: u64) -> Result<Quota, QuotaError> {
        let Unit::Fixed(millis, _) = self.unit else {
            return Err(self.whole.error(QuotaErrorKind::NeedsZone));
        };
        let millis = self.count.unwrap_or(1).saturating_mul(millis);
        Quota::from_millis(limit, millis).map_err(|error| self.whole.error(error.kind()))
    }

    /// The text after `@` is not an anchor, so it must be a zone, and the window a single calendar unit.
    fn calendar(&self, limit: u64, zone: &Part<'_>) -> Result<Quota, QuotaError> {
        let (Unit::Calendar(unit) | Unit::Fixed(_, Some(unit))) = self.unit else {
            // `5/1m@first` is more likely a misspelt anchor than a misplaced zone.
            let looks_like_zone = zone.as_str().contains('/') || zone.as_str() == "UTC";
            let kind = if looks_like_zone {
                QuotaErrorKind::ZoneNeedsCalendarUnit
            } else {
                QuotaErrorKind::UnknownAnchor
            };
            return Err(zone.error(kind));
        };
        if self.count.unwrap_or(1) != 1 {
            return Err(self.whole.error(QuotaErrorKind::ZoneNeedsCalendarUnit));
        }
        calendar_quota(limit, unit, zone)
    }
}

#[cfg(feature = "calendar")]
fn calendar_quota(limit: u64, unit: CalendarUnit, zone: &Part<'_>) -> Result<Quota, QuotaError> {
    Quota::calendar(limit, unit, zone.as_str()).map_err(|_| zone.error(QuotaErrorKind::UnknownAnchor))
}

#[cfg(not(feature = "calendar"))]
fn calendar_quota(_: u64, _: CalendarUnit, zone: &Part<'_>) -> Result<Quota, QuotaError> {
    Err(zone.error(QuotaErrorKind::CalendarDisabled))
}

impl Unit {
    /// Words have any case, as in Flask-Limiter; single letters do not, because `M` may be a month.
    fn named(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        Some(match if name.len() > 2 { lower.as_str() } else { name } {
            "ms" | "millisecond" | "milliseconds" => Self::Fixed(1, None),
            "s" | "sec" | "secs" | "second" | "seconds" => Self::Fixed(SECOND, None),
            "m" | "min" | "mins" | "minute" | "minutes" => Self::Fixed(MINUTE, None),
            "h" | "hr" | "hrs" | "hour" | "hours" => Self::Fixed(HOUR, None),
            "d" | "day" | "days" => Self::Fixed(DAY, Some(CalendarUnit::Day)),
            "w" | "week" | "weeks" => Self::Fixed(7 * DAY, Some(CalendarUnit::Week)),
            "month" | "months" => Self::Calendar(CalendarUnit::Month),
            "year" | "years" => Self::Calendar(CalendarUnit::Year),
            _ => return None,
        })
    }
}
