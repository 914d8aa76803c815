//! Errors of quotas, with their places in the text.

use std::fmt;
use std::ops::Range;

use thiserror::Error;

use super::Quota;
use super::length_text::LengthText;
use crate::MANUAL;

/// An invalid or conflicting quota: the kind of error and, if the quota was parsed, its place in the text.
///
/// Always the caller's fault; a retry does not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaError {
    kind: QuotaErrorKind,
    subject: Subject,
}

/// The kind of error in a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuotaErrorKind {
    /// The text has no `/` or `per` between limit and window.
    #[error("expected `limit/window`, such as 5/1m")]
    MissingSeparator,
    /// The limit is not a whole number.
    #[error("the limit must be a whole number")]
    InvalidLimit,
    /// The limit is above 2^40 - 1.
    #[error("the limit is above 1099511627775 (2^40 - 1)")]
    LimitTooLarge,
    /// The text has several quotas where one is expected.
    #[error("expected one quota, found several")]
    Several,
    /// nginx would delay the requests of this burst.
    #[error(
        "nginx delays the requests of such a burst, and Tollgate does not delay; to admit them at once, add nodelay"
    )]
    Delayed,
    /// The text means a kind of quota in words of another limiter.
    #[error("write the kind of a quota after its window, such as {0}")]
    OtherKind(&'static str),
    /// The word after `~` is not a kind.
    #[error(
        "unknown kind: expected burst (a token bucket, a leaky bucket, GCRA), sliding, or log (a moving window)"
    )]
    UnknownKind,
    /// A kind follows an anchor.
    #[error("write the kind before the anchor, such as 100/1m~sliding@staggered")]
    KindAfterAnchor,
    /// A calendar quota has a kind.
    #[error("a calendar quota counts in fixed windows and has no other kind; 100/1d~burst has a length")]
    CalendarKind,
    /// The text has two kinds, or something behind one that takes nothing.
    #[error(
        "unexpected after a kind: a quota has one; burst takes a number, ~burst:20, and log a length, ~log:1s"
    )]
    AfterKind,
    /// A burst is not a whole number.
    #[error("the burst must be a whole number, such as burst 20 (~burst alone is as large as the limit)")]
    InvalidBurst,
    /// The burst is 0.
    #[error("a burst is at least 1, the units that pass at once (burst=0 of nginx is ~burst:1)")]
    BurstZero,
    /// The burst is above 2^40 - 1.
    #[error("the burst is above 1099511627775 (2^40 - 1)")]
    BurstTooLarge,
    /// A full bucket would take more than ten years to drain.
    #[error("a full bucket would take more than 10 years to drain: lower the burst")]
    BurstTooSlow,
    /// The rate of a bucket has too many digits.
    #[error(
        "limit and window, divided by their greatest common divisor, must leave a limit of at most 4194304: choose a \
         rounder limit"
    )]
    LimitTooFine,
    /// A bucket has no windows.
    #[error("a bucket has no windows that could start anywhere: leave out the anchor")]
    BurstAnchor,
    /// Sliding windows have a fixed length and start apart from the keys' first units.
    #[error("a sliding window has a fixed length, and no anchor but epoch and staggered")]
    SlidingAnchor,
    /// A sliding window cannot count so many units.
    #[error("a sliding window of this length counts up to {0} units; a bucket, ~burst, counts more")]
    SlidingLimit(u64),
    /// A log has no windows.
    #[error("a log has no windows that could start anywhere: leave out the anchor")]
    LogAnchor,
    /// The step of a log is no length, or too long.
    #[error("the step of a log must be a length from 1 ms to the window's, such as ~log:1s")]
    LogStep,
    /// A log cannot count so many units.
    #[error("a log counts up to 16777215 units (2^24 - 1); a bucket, ~burst, counts more")]
    LogLimit,
    /// Only fixed windows can block.
    #[error("only a quota of fixed windows, such as 5/1m, can block")]
    BlockKind,
    /// A log could have too many entries.
    #[error("a log has at most 256 entries: log in steps, ~log:{} or longer", LengthText(*fitting_step))]
    LogEntries {
        /// A step with which it has no more, in milliseconds.
        fitting_step: u64,
    },
    /// The text means a number of requests at the same time.
    #[error(
        "a limit on requests in flight has no window: write 20~in_flight where a policy has its quotas \
         ({MANUAL}/policies.md#in-flight)"
    )]
    InFlight,
    /// The text is no limit on requests in flight.
    #[error("expected a limit on units in flight, such as 20~in_flight")]
    InFlightText,
    /// The length of a hold is none, or too long.
    #[error("a hold lives from 1 ms to an hour without a renewal, such as 30s")]
    HoldLength,
    /// The limit on units in flight is above 2^20.
    #[error("the limit is above 1048576 (2^20), the most units in flight")]
    InFlightLimit,
    /// The window does not start with a whole number or a unit.
    #[error("the window must be a unit with or without a whole number, such as 90s or minute")]
    InvalidWindow,
    /// The unit of the window is not known.
    #[error("unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)")]
    UnknownUnit,
    /// The window is shorter than 1 ms or longer than 10 years.
    #[error("the window must be between 1 ms and 3653 days (10 years) long")]
    WindowOutOfRange,
    /// The window is not a whole number of milliseconds.
    #[error("the window must be a whole number of milliseconds")]
    FractionOfMillisecond,
    /// Months and years have no fixed length.
    #[error("a month or year has no fixed length: name a time zone, such as 100/month@UTC")]
    NeedsZone,
    /// A time zone needs a single calendar unit.
    #[error("a time zone needs day, week, month or year, such as 100/day@Europe/Berlin")]
    ZoneNeedsCalendarUnit,
    /// The text after `@` is neither an anchor nor a known time zone.
    #[error("neither an anchor (epoch, staggered, first_hit) nor a known time zone, such as Europe/Berlin")]
    UnknownAnchor,
    /// The text after `@` resembles this anchor.
    #[error("unknown anchor: did you mean {0}?")]
    MisspeltAnchor(&'static str),
    /// The time zone database does not contain the zone.
    #[error("unknown time zone: expected an IANA name, such as Europe/Berlin")]
    UnknownZone,
    /// Calendar windows are not compiled in.
    #[error("calendar windows need the feature `calendar` of crate tollgate")]
    CalendarDisabled,
    /// Calendar windows cannot have another anchor.
    #[error("a calendar quota cannot have another anchor, and other quotas cannot have the calendar's")]
    CalendarAnchor,
    /// A limiter was given no quota.
    #[error("at least one quota is needed")]
    NoQuota,
    /// Two quotas of one policy would count the same units on the same counter.
    #[error("two quotas of one policy have the same window, kind, anchor and zone")]
    SameWindow,
}

/// Parts of words by which other limiters name their algorithms, in small letters without separators.
const ALGORITHMS: [(&[&str], QuotaErrorKind); 3] = [
    (&["inflight", "concurren", "parallel", "simultan"], QuotaErrorKind::InFlight),
    (&["sliding", "rolling", "movingwindow"], QuotaErrorKind::OtherKind("100/1m~sliding or 100/1m~log")),
    (
        &["bucket", "gcra", "burst", "leaky", "smooth", "nodelay"],
        QuotaErrorKind::OtherKind("100/1m~burst:20"),
    ),
];

impl QuotaErrorKind {
    /// Returns the error for a text that names an algorithm in words of another limiter, such as `gcra`, or for such a
    /// key of a file.
    #[must_use]
    pub fn of_algorithm(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase().replace(['-', '_', ' '], "");
        let named = |(words, _): &&(&[&str], Self)| words.iter().any(|word| text.contains(word));
        ALGORITHMS.iter().find(named).map(|(_, kind)| *kind)
    }
}

/// The subject of the error.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    /// A value that is not a text.
    Value,
    /// A part of a text.
    Text(Box<str>, Range<usize>),
    /// Two quotas, as they are written.
    Pair(Box<str>, Box<str>),
}

impl QuotaError {
    pub(crate) fn in_text(kind: QuotaErrorKind, text: &str, range: Range<usize>) -> Self {
        Self { kind, subject: Subject::Text(text.into(), range) }
    }

    pub(crate) fn same_window(first: &Quota, second: &Quota) -> Self {
        let subject = Subject::Pair(first.to_string().into(), second.to_string().into());
        Self { kind: QuotaErrorKind::SameWindow, subject }
    }

    /// Returns the kind of error.
    #[must_use]
    pub const fn kind(&self) -> QuotaErrorKind {
        self.kind
    }

    /// Returns the range of the text that is wrong, if the quota was parsed; empty if something is missing there.
    #[must_use]
    pub fn range(&self) -> Option<Range<usize>> {
        match &self.subject {
            Subject::Text(_, range) => Some(range.clone()),
            Subject::Value | Subject::Pair(..) => None,
        }
    }
}

impl From<QuotaErrorKind> for QuotaError {
    fn from(kind: QuotaErrorKind) -> Self {
        Self { kind, subject: Subject::Value }
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Value => self.kind.fmt(f),
            Subject::Text(text, range) => {
                let column = text.get(..range.start).unwrap_or_default().chars().count() + 1;
                write!(f, "quota `{text}`, column {column}: {}", self.kind)
            }
            Subject::Pair(first, second) => write!(f, "quotas `{first}` and `{second}`: {}", self.kind),
        }
    }
}

impl std::error::Error for QuotaError {}
