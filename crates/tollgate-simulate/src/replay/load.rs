//! The load over time: the calendar, the busiest moments and the time line, noted second by second.

use jiff::tz::TimeZone;
use tollgate::Timestamp;

use super::calendar::{Calendar, Share};
use super::finish::written;
use super::outcome::Verdict;
use super::timeline::Bars;
use crate::report::{Peak, PeakLength, PeakReport, Timeline};

/// When requests came. Times never go back.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) calendar: Calendar,
    bars: Bars,
    seconds: BusiestIntervals,
    minutes: BusiestIntervals,
    /// The first request, and the last.
    span: Option<(Timestamp, Timestamp)>,
    /// The second of the last request, and its requests, which are in none of the above yet.
    second: i64,
    open: Requests,
}

/// Requests of an interval.
#[derive(Debug, Clone, Copy, Default)]
struct Requests {
    share: Share,
    admitted: u64,
}

/// The busiest of some intervals: of all requests, and of those that are admitted.
#[derive(Debug, Default)]
struct BusiestIntervals {
    /// The number of the interval that is still open.
    place: i64,
    open: Requests,
    requests: (u64, i64),
    admitted: (u64, i64),
}

impl Load {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { calendar: Calendar::new(zone), ..Self::default() }
    }

    pub(super) fn note(&mut self, now: Timestamp, verdict: Verdict) {
        let second = now.as_unix_millis().div_euclid(1_000);
        match &mut self.span {
            Some((_, last)) => *last = now,
            None => self.begin(now, second),
        }
        if second != self.second {
            self.close(second);
        }
        self.open.share.requests += 1;
        self.open.share.denied += u64::from(verdict.is_denied());
        self.open.admitted += u64::from(verdict.is_allowed());
    }

    /// The first request, and the last.
    pub(super) const fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.span
    }

    /// Notes the last second, so that all figures are whole.
    pub(super) fn end(&mut self) {
        if self.span.is_some() {
            self.close(self.second);
            self.minutes.close();
        }
    }

    pub(super) fn peaks(&self) -> Vec<PeakReport> {
        if self.span.is_none() {
            return Vec::new();
        }
        let report = |length, seconds: i64, busiest: &BusiestIntervals| {
            let peak = |(requests, place): (u64, i64)| {
                let start = Timestamp::from_unix_millis(place.saturating_mul(seconds * 1_000));
                Peak { requests, start: written(start, self.calendar.zone()) }
            };
            PeakReport { length, requests: peak(busiest.requests), admitted: peak(busiest.admitted) }
        };
        let seconds = report(PeakLength::Second, 1, &self.seconds);
        vec![seconds, report(PeakLength::Minute, 60, &self.minutes)]
    }

    pub(super) fn timeline(&self) -> Option<Timeline> {
        self.bars.reported(self.calendar.zone())
    }

    fn begin(&mut self, now: Timestamp, second: i64) {
        self.span = Some((now, now));
        self.second = second;
        self.bars = Bars::new(second, self.calendar.zone());
        self.seconds = BusiestIntervals::new(second);
        self.minutes = BusiestIntervals::new(second.div_euclid(60));
    }

    /// Notes the requests of the open second, and begins another one.
    fn close(&mut self, next: i64) {
        let requests = std::mem::take(&mut self.open);
        self.calendar.note(self.second, requests.share);
        self.bars.note(self.second, requests.share);
        self.seconds.note(self.second, requests);
        self.seconds.close();
        self.minutes.note(self.second.div_euclid(60), requests);
        self.second = next;
    }
}

impl BusiestIntervals {
    fn new(place: i64) -> Self {
        Self { place, requests: (0, place), admitted: (0, place), ..Self::default() }
    }

    fn note(&mut self, place: i64, requests: Requests) {
        if place != self.place {
            self.close();
            self.place = place;
        }
        self.open.share.requests += requests.share.requests;
        self.open.admitted += requests.admitted;
    }

    fn close(&mut self) {
        let Requests { share, admitted } = std::mem::take(&mut self.open);
        if share.requests > self.requests.0 {
            self.requests = (share.requests, self.place);
        }
        if admitted > self.admitted.0 {
            self.admitted = (admitted, self.place);
        }
    }
}
