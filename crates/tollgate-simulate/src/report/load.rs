//! The load over time: the busiest moments, and a time line.

use serde::Serialize;

use super::TimeShare;

/// The busiest second or minute, with the limits and without them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeakReport {
    /// What is compared: seconds or minutes of the clock.
    pub length: PeakLength,
    /// The busiest one of all requests.
    pub requests: Peak,
    /// The busiest one of the requests that are admitted.
    pub admitted: Peak,
}

/// The length of the intervals of which one is the busiest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PeakLength {
    /// Seconds of the clock.
    Second,
    /// Minutes of the clock.
    Minute,
}

/// The requests of the busiest second or minute, of several the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Peak {
    /// Requests in it.
    pub requests: u64,
    /// Its start.
    pub start: String,
}

/// The requests of the whole period, in bars of equal length without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The start of the first bar: a whole step by the clock of the report's zone, before a change to or from summer
    /// time.
    pub start: String,
    /// The length of each bar in seconds: 1, 2, 5, 10 or 30 seconds or minutes, 1, 3, 6 or 12 hours, a day, a week or
    /// longer.
    pub step_seconds: u64,
    /// The bars in order of time, at most 240.
    pub bars: Vec<TimeShare>,
}

impl PeakLength {
    /// Its name: `second`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
        }
    }
}
