//! The requests of the whole period, in bars: finer ones while nobody knows how long it is.

use jiff::tz::TimeZone;
use tollgate::Timestamp;

use super::calendar::RequestCounts;
use crate::report::{TimeShare, Timeline};
use crate::time::written;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// Bars that a report has at most.
const MOST: usize = 240;

/// Bars that are kept at most: five for each of the report, as many as the seconds of one of 5 seconds.
const MOST_KEPT: usize = 5 * MOST;

/// The lengths of bars while requests are noted: each is a multiple of the one before. Later ones double.
const KEPT_STEPS: [i64; 8] = [1, 10, MINUTE, 10 * MINUTE, HOUR, 3 * HOUR, DAY, WEEK];

/// The lengths of bars in a report. Each is a multiple of the kept step that is current whenever the report needs it.
/// Later ones double.
const STEPS: [i64; 16] = [
    1,
    2,
    5,
    10,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    WEEK,
];

/// A Monday, since weeks begin with it: 1969-12-29, in seconds before 1970.
const MONDAY: i64 = 3 * DAY;

/// Bars of equal length from the first request to the last. Times never go back.
#[derive(Debug)]
pub(crate) struct TimelineBars {
    /// What is added to seconds, so that hours, days and weeks of the zone begin at multiples.
    shift: i64,
    step: i64,
    /// The number of the first bar, counted from the Monday.
    first: i64,
    bars: Vec<RequestCounts>,
}

impl Default for TimelineBars {
    fn default() -> Self {
        Self { shift: MONDAY, step: 1, first: 0, bars: Vec::new() }
    }
}

impl TimelineBars {
    /// Without requests so far, of which the first is in this second.
    pub(crate) fn new(second: i64, zone: &TimeZone) -> Self {
        let time = jiff::Timestamp::from_second(second);
        let offset = time.map_or(0, |time| i64::from(zone.to_offset(time).seconds()));
        let shift = MONDAY + offset;
        Self { shift, first: second.saturating_add(shift), ..Self::default() }
    }

    /// Notes the requests of a second.
    pub(crate) fn note(&mut self, second: i64, requests: RequestCounts) {
        let second = second.saturating_add(self.shift);
        while second.div_euclid(self.step) - self.first >= MOST_KEPT as i64 {
            self.coarsen();
        }
        let Ok(place) = usize::try_from(second.div_euclid(self.step) - self.first) else { return };
        if place >= self.bars.len() {
            self.bars.resize(place + 1, RequestCounts::default());
        }
        if let Some(bar) = self.bars.get_mut(place) {
            bar.add(requests);
        }
    }

    /// As few bars as a report has.
    pub(crate) fn reported(&self, zone: &TimeZone) -> Option<Timeline> {
        if self.bars.is_empty() {
            return None;
        }
        let steps = STEPS.into_iter().chain(doubled(WEEK)).filter(|step| step % self.step == 0);
        let merged = steps.map(|step| (step, self.merged(step)));
        let (step, (first, bars)) = merged.into_iter().find(|(_, (_, bars))| bars.len() <= MOST)?;
        let start = first.saturating_mul(step).saturating_sub(self.shift);
        let bars = bars.iter().map(|share| TimeShare { requests: share.requests, denied: share.denied });
        Some(Timeline {
            start: written(Timestamp::from_unix_millis(start.saturating_mul(1_000)), zone),
            step_seconds: step.unsigned_abs(),
            bars: bars.collect(),
        })
    }

    fn coarsen(&mut self) {
        let next = KEPT_STEPS.into_iter().chain(doubled(WEEK)).find(|step| *step > self.step);
        let Some(next) = next else { return };
        (self.first, self.bars) = self.merged(next);
        self.step = next;
    }

    /// The same in bars of another step, a multiple of the one now: the number of the first, and all of them.
    fn merged(&self, step: i64) -> (i64, Vec<RequestCounts>) {
        let factor = step / self.step;
        let first = self.first.div_euclid(factor);
        let mut bars = Vec::new();
        for (place, share) in (self.first..).zip(&self.bars) {
            let Ok(place) = usize::try_from(place.div_euclid(factor) - first) else { break };
            if place >= bars.len() {
                bars.resize(place + 1, RequestCounts::default());
            }
            if let Some(bar) = bars.get_mut(place) {
                bar.add(*share);
            }
        }
        (first, bars)
    }
}

/// All steps after this one, each twice as long as the one before.
fn doubled(step: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(step.checked_mul(2), |step| step.checked_mul(2))
}
