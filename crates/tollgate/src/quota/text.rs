//! The written form of a quota: `limit/window` or `limit per window`, then `~kind`, then `@anchor` or `@zone`.
//!
//! ```text
//! quota = limit "/" window [ "~" kind ] [ "@" anchor ]
//! kind  = "sliding" | "burst" [ ":" units ] | "log" [ ":" length ]
//! ```
//!
//! In place of `~` and `:` there may be spaces. The notations of other limiters are read if they mean the same:
//! `10/minute;100/hour` of Flask-Limiter, `5-S` of ulule/limiter, `5/m` of django-ratelimit. They are printed in our own
//! form. A text that names an algorithm in other words is an error that says so.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use super::length_text::LengthText;
use super::other_notations::{cl_throttle, nginx};
use super::{
    Anchor, BurstSeries, CalendarUnit, DAY, HOUR, MINUTE, Quota, QuotaError, QuotaErrorKind, SECOND, Series,
};

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
        if let Some(quota) = nginx(whole.as_str()).or_else(|| cl_throttle(whole.as_str())) {
            return quota.map_err(|error| whole.trim().error(error.kind()));
        }
        // The anchor is split off first, because a zone's name may contain a `/` as well.
        let (amount, anchor) = match whole.split_once("@") {
            Some((amount, anchor)) => (amount, Some(anchor.trim())),
            None => (whole.clone(), None),
        };
        if let Some((anchor, kind)) = anchor.as_ref().and_then(|anchor| anchor.split_once("~")) {
            let is_named = meant_anchor(anchor.trim().as_str()).is_some();
            let error = if is_named { QuotaErrorKind::KindAfterAnchor } else { QuotaErrorKind::CalendarKind };
            return Err(kind.error(error));
        }
        let (amount, kind) = match amount.split_at_kind() {
            Some((amount, kind, has_tilde)) => {
                let kind = WrittenKind::read(&kind, has_tilde).map_err(|error| {
                    let is_unknown = error.kind() == QuotaErrorKind::UnknownKind;
                    // Behind a `~`, only the word is wrong.
                    let is_meant = |other: &QuotaErrorKind| {
                        is_unknown && (!has_tilde || *other == QuotaErrorKind::InFlight)
                    };
                    let other = QuotaErrorKind::of_algorithm(kind.as_str()).filter(is_meant);
                    other.map_or(error, |other| whole.trim().error(other))
                })?;
                (amount, Some(kind))
            }
            None => (amount, None),
        };
        let windows = Self::read_windows(whole, &amount, anchor.as_ref()).map_err(|error| {
            let named = if kind.is_some() { &amount } else { whole };
            match QuotaErrorKind::of_algorithm(named.as_str()) {
                Some(kind) => whole.trim().error(kind),
                None => error,
            }
        })?;
        match kind {
            Some(kind) => kind.of(windows).map_err(|error| {
                let place = match error.kind() {
                    QuotaErrorKind::BurstAnchor
                    | QuotaErrorKind::SlidingAnchor
                    | QuotaErrorKind::LogAnchor => anchor.as_ref(),
                    _ => None,
                };
                place.unwrap_or(&whole.trim()).error(error.kind())
            }),
            None => Ok(windows),
        }
    }

    /// Reads limit, window and anchor.
    fn read_windows(
        whole: &Part<'_>,
        amount: &Part<'_>,
        anchor: Option<&Part<'_>>,
    ) -> Result<Self, QuotaError> {
        let (limit, window) = amount
            .split_once("/")
            .or_else(|| amount.split_at_per())
            .map(|(limit, window)| (limit.trim(), window.trim()))
            .or_else(|| amount.trim().limit_and_letter())
            .ok_or_else(|| whole.trim().error(QuotaErrorKind::MissingSeparator))?;
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
            None => length.calendar(value, anchor),
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, self.series)?;
        match &self.series {
            Series::Burst(BurstSeries { burst: Some(burst), .. }) => write!(f, ":{burst}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epoch(millis) => LengthText(*millis).fmt(f),
            Self::Staggered(millis) => LengthText(*millis).fmt(f).and_then(|()| f.write_str("@staggered")),
            Self::FirstHit(millis) => LengthText(*millis).fmt(f).and_then(|()| f.write_str("@first_hit")),
            #[cfg(feature = "calendar")]
            Self::Calendar(calendar) => write!(f, "{}@{}", calendar.unit().name(), calendar.zone()),
            Self::Burst(series) => LengthText(series.window).fmt(f).and_then(|()| f.write_str("~burst")),
            Self::Sliding { window, is_staggered } => {
                LengthText(*window).fmt(f)?;
                f.write_str(if *is_staggered { "~sliding@staggered" } else { "~sliding" })
            }
            Self::Log { window, step } => {
                LengthText(*window).fmt(f)?;
                f.write_str("~log")?;
                if *step == 1 { Ok(()) } else { write!(f, ":{}", LengthText(*step)) }
            }
        }
    }
}

/// A kind of quota, as written.
enum WrittenKind {
    Sliding,
    /// A bucket; without a number, its burst is the limit.
    Burst(Option<u64>),
    /// A log; without a step, it is exact.
    Log(Option<Duration>),
}

impl WrittenKind {
    /// Without `~`, a burst needs a number: `100/1m burst` may be meant as one of any size.
    fn read(text: &Part<'_>, has_tilde: bool) -> Result<Self, QuotaError> {
        let text = text.trim();
        let letters = text.as_str().bytes().take_while(u8::is_ascii_alphabetic).count();
        let (name, rest) = text.split_at(letters);
        let after = rest.as_str().strip_prefix([':', ' ']).map(|after| rest.end(after.len()).trim());
        match (name.as_str().to_ascii_lowercase().as_str(), after) {
            ("sliding", None) if rest.is_empty() => Ok(Self::Sliding),
            ("burst", None) if rest.is_empty() && has_tilde => Ok(Self::Burst(None)),
            ("burst", None) if rest.is_empty() => Err(text.error(QuotaErrorKind::InvalidBurst)),
            ("burst", Some(burst)) => match burst.number() {
                Some(burst) => Ok(Self::Burst(Some(burst))),
                None => Err(burst.error(QuotaErrorKind::InvalidBurst)),
            },
            ("log", None) if rest.is_empty() => Ok(Self::Log(None)),
            ("log", Some(step)) => {
                let length = Length::read(&step).map_err(|error| step.error(error.kind()))?;
                let millis = length.millis().ok_or_else(|| step.error(QuotaErrorKind::LogStep))?;
                Ok(Self::Log(Some(Duration::from_millis(millis))))
            }
            ("sliding" | "burst" | "log", _) => Err(rest.error(QuotaErrorKind::AfterKind)),
            _ => Err(text.error(QuotaErrorKind::UnknownKind)),
        }
    }

    fn of(&self, windows: Quota) -> Result<Quota, QuotaError> {
        match self {
            Self::Sliding => windows.sliding(),
            Self::Burst(burst) => windows.with_burst(*burst),
            Self::Log(step) => windows.with_log(step.unwrap_or(Duration::from_millis(1))),
        }
    }
}

fn named_anchor(name: &str) -> Option<Anchor> {
    match name {
        "epoch" => Some(Anchor::Epoch),
        "staggered" => Some(Anchor::Staggered),
        "first_hit" => Some(Anchor::FirstHit),
        _ => None,
    }
}

/// Returns the milliseconds of a length in the notation of windows, if it is one of a fixed length.
pub(crate) fn fixed_length_millis(text: &str) -> Option<u64> {
    Length::read(&Part { text, range: 0..text.len() }).ok()?.millis()
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

    /// The parts before and after `~`, or before and at the first word for a kind, with whether there is a `~`.
    fn split_at_kind(&self) -> Option<(Self, Self, bool)> {
        if let Some((amount, kind)) = self.split_once("~") {
            return Some((amount, kind, true));
        }
        let lower = self.as_str().to_ascii_lowercase();
        let at = [" sliding", " burst", " log"].iter().filter_map(|word| lower.find(word)).min()?;
        let (amount, kind) = self.split_at(at);
        Some((amount, kind, false))
    }

    fn split_at(&self, bytes: usize) -> (Self, Self) {
        let at = self.range.start + bytes;
        let part = |range| Part { text: self.text, range };
        (part(self.range.start..at), part(at..self.range.end))
    }

    /// The last so many bytes.
    fn end(&self, bytes: usize) -> Self {
        Part { text: self.text, range: self.range.end - bytes..self.range.end }
    }

    fn is_empty(&self) -> bool {
        self.range.is_empty()
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

    /// `None` if it is of no fixed length.
    fn millis(&self) -> Option<u64> {
        match self.unit {
            Unit::Fixed(millis, _) => Some(self.count.unwrap_or(1).saturating_mul(millis)),
            Unit::Calendar(_) => None,
        }
    }

    fn fixed(&self, limit: u64) -> Result<Quota, QuotaError> {
        let Some(millis) = self.millis() else {
            return Err(self.whole.error(QuotaErrorKind::NeedsZone));
        };
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
