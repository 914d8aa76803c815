//! The period of a survey: how long it is, and which kinds of days it has.

use std::time::Duration;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use tollgate::Timestamp;

use crate::report::Note;
use crate::time::written;

/// The longest time without a request that belongs to the period: a long weekend.
const GAP: Duration = Duration::from_secs(3 * 86_400);

/// The seconds of a day.
const DAY: f64 = 86_400.0;

/// Days of a week, the shortest period that has all kinds of days.
pub(super) const WEEK: f64 = 7.0;

/// One in so many of the minutes with requests is at a weekend, or a note says that they are missing.
const WEEKENDS: u64 = 20;

/// The times of all requests.
pub(super) struct Period {
    zone: TimeZone,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Gaps that are no part of the period, together, and the longest: how long it is and when it begins.
    gaps: Duration,
    longest_gap: Option<(Duration, Timestamp)>,
    /// The last minute with a request, and how many there are on workdays and at weekends.
    minute: Option<i64>,
    minutes: [u64; 2],
    /// The last day with a request, and how many there have been.
    day: Option<Date>,
    days: u64,
}

impl Period {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self {
            zone,
            first: None,
            last: None,
            gaps: Duration::ZERO,
            longest_gap: None,
            minute: None,
            minutes: [0; 2],
            day: None,
            days: 0,
        }
    }

    /// Notes a request. Returns its time, or that of the request before it, if that is later.
    pub(super) fn note(&mut self, time: Timestamp) -> Timestamp {
        let now = self.last.map_or(time, |last| last.max(time));
        self.first.get_or_insert(now);
        if let Some(last) = self.last.replace(now) {
            self.note_gap(last, now);
        }
        self.note_minute(now);
        now
    }

    /// Notes the time between two requests, if it is no part of the period.
    fn note_gap(&mut self, from: Timestamp, to: Timestamp) {
        let gap = to.since(from);
        if gap > GAP {
            self.gaps = self.gaps.saturating_add(gap);
            if self.longest_gap.is_none_or(|(longest, _)| gap > longest) {
                self.longest_gap = Some((gap, from));
            }
        }
    }

    /// Notes on what kind of day a minute with requests is.
    fn note_minute(&mut self, now: Timestamp) {
        let minute = now.as_unix_millis().div_euclid(60_000);
        if self.minute.replace(minute) == Some(minute) {
            return;
        }
        let Ok(time) = jiff::Timestamp::from_millisecond(now.as_unix_millis()) else { return };
        let day = self.zone.to_datetime(time).date();
        self.days += u64::from(self.day.replace(day) != Some(day));
        let [workdays, weekends] = &mut self.minutes;
        let is_weekend = matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday);
        *if is_weekend { weekends } else { workdays } += 1;
    }

    pub(super) const fn first(&self) -> Option<Timestamp> {
        self.first
    }

    pub(super) const fn last(&self) -> Option<Timestamp> {
        self.last
    }

    pub(super) const fn days_with_requests(&self) -> u64 {
        self.days
    }

    /// Returns its length, without its long gaps.
    pub(super) fn days(&self) -> f64 {
        let whole = self.first.zip(self.last).map(|(first, last)| last.since(first));
        whole.unwrap_or_default().saturating_sub(self.gaps).as_secs_f64() / DAY
    }

    /// Returns a note if it has long gaps, and one if a week or more has nearly nothing but workdays. A period of
    /// weekends alone has long gaps, and so counts as shorter.
    pub(super) fn notes(&self) -> impl Iterator<Item = Note> {
        let long_gaps = self.longest_gap.map(|(longest, from)| Note::LongGaps {
            all: self.gaps,
            longest,
            from: written(from, &self.zone),
        });
        let [workdays, weekends] = self.minutes;
        let is_missing = self.days() >= WEEK && weekends * WEEKENDS < workdays + weekends;
        long_gaps.into_iter().chain(is_missing.then_some(Note::NoWeekends))
    }
}
