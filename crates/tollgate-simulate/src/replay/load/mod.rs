//! The load over time: the calendar, the busiest moments and the time line, noted second by second.

pub(crate) mod calendar;
mod timeline;

use jiff::tz::TimeZone;
use tollgate::Timestamp;

use self::calendar::{Calendar, RequestCounts};
use self::timeline::TimelineBars;
use super::verdict::Verdict;
use crate::report::{Peak, PeakLength, PeakReport, Timeline};
use crate::routes::Busiest;
use crate::time::written;

/// When requests came. Times never go back.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) calendar: Calendar,
    bars: TimelineBars,
    seconds: BusiestIntervals,
    minutes: BusiestIntervals,
    /// The first request, and the last.
    span: Option<(Timestamp, Timestamp)>,
    /// The second of the last request, and its requests, which are in none of the above yet.
    second: i64,
    open: SecondCounts,
}

/// Requests of an interval.
#[derive(Debug, Clone, Copy, Default)]
struct SecondCounts {
    share: RequestCounts,
    admitted: u64,
}

/// The busiest of intervals of one length: of all requests, and of those that are admitted.
#[derive(Debug)]
struct BusiestIntervals {
    requests: Busiest,
    admitted: Busiest,
}

impl Default for Load {
    fn default() -> Self {
        Self::new(TimeZone::UTC)
    }
}

impl Load {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self {
            calendar: Calendar::new(zone),
            bars: TimelineBars::default(),
            seconds: BusiestIntervals::new(1_000),
            minutes: BusiestIntervals::new(60_000),
            span: None,
            second: 0,
            open: SecondCounts::default(),
        }
    }

    pub(crate) fn note(&mut self, now: Timestamp, verdict: Verdict) {
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
    pub(crate) const fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.span
    }

    /// Notes the last second, so that all figures are whole.
    pub(crate) fn end(&mut self) {
        if self.span.is_some() {
            self.close(self.second);
        }
    }

    pub(crate) fn peaks(&self) -> Vec<PeakReport> {
        let Some((first, _)) = self.span else { return Vec::new() };
        let report = |length, busiest: &BusiestIntervals| {
            let peak = |busiest: &Busiest| {
                let (requests, start) = busiest.most().unwrap_or((0, busiest.start_of(first)));
                Peak { requests, start: written(start, self.calendar.zone()) }
            };
            PeakReport { length, requests: peak(&busiest.requests), admitted: peak(&busiest.admitted) }
        };
        vec![report(PeakLength::Second, &self.seconds), report(PeakLength::Minute, &self.minutes)]
    }

    pub(crate) fn timeline(&self) -> Option<Timeline> {
        self.bars.reported(self.calendar.zone())
    }

    fn begin(&mut self, now: Timestamp, second: i64) {
        self.span = Some((now, now));
        self.second = second;
        self.bars = TimelineBars::new(second, self.calendar.zone());
    }

    /// Notes the requests of the open second, and begins another one.
    fn close(&mut self, next: i64) {
        let requests = std::mem::take(&mut self.open);
        self.calendar.note(self.second, requests.share);
        self.bars.note(self.second, requests.share);
        let start = Timestamp::from_unix_millis(self.second.saturating_mul(1_000));
        self.seconds.note(start, requests);
        self.minutes.note(start, requests);
        self.second = next;
    }
}

impl BusiestIntervals {
    const fn new(millis: i64) -> Self {
        Self { requests: Busiest::new(millis), admitted: Busiest::new(millis) }
    }

    /// Notes the requests of a second.
    fn note(&mut self, second: Timestamp, requests: SecondCounts) {
        self.requests.note(second, requests.share.requests);
        self.admitted.note(second, requests.admitted);
    }
}
