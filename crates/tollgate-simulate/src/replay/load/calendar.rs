//! When requests came, by the hour of the week and by day.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Days that are told apart: ten years. Later ones count as the last of these.
const MAX_DAYS: usize = 3_653;

/// All shifts of zones since 1970 lie at whole quarters of an hour. In seconds.
const QUARTER: i64 = 15 * 60;

/// Requests, and those that were denied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestCounts {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
}

impl RequestCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.denied += other.denied;
    }
}

/// Where requests of a quarter of an hour are counted.
#[derive(Debug, Clone, Copy)]
struct CalendarHour {
    /// Among the days that are told apart.
    day: usize,
    /// From Monday.
    weekday: usize,
    hour: usize,
}

/// When requests came.
#[derive(Debug)]
pub(crate) struct Calendar {
    zone: TimeZone,
    /// The quarter of an hour that was looked up last.
    quarter: i64,
    place: Option<CalendarHour>,
    /// By weekday, from Monday, and hour.
    pub(crate) week: [[RequestCounts; 24]; 7],
    /// Where each day is among the next.
    days: BTreeMap<Date, usize>,
    of_days: Vec<RequestCounts>,
}

impl Default for Calendar {
    fn default() -> Self {
        Self::new(TimeZone::UTC)
    }
}

impl Calendar {
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self {
            zone,
            quarter: i64::MIN,
            place: None,
            week: Default::default(),
            days: BTreeMap::new(),
            of_days: Vec::new(),
        }
    }

    pub(crate) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Notes the requests of a second, counted from 1970.
    pub(crate) fn note(&mut self, second: i64, requests: RequestCounts) {
        let quarter = second.div_euclid(QUARTER);
        if quarter != self.quarter {
            (self.quarter, self.place) = (quarter, self.place(second));
        }
        // Beyond the years of the calendar there are no days.
        let Some(CalendarHour { day, weekday, hour }) = self.place else { return };
        let day = self.of_days.get_mut(day);
        let hour = self.week.get_mut(weekday).and_then(|day| day.get_mut(hour));
        [day, hour].into_iter().flatten().for_each(|share| share.add(requests));
    }

    /// The days on which requests came, in order.
    pub(crate) fn days(&self) -> impl Iterator<Item = (Date, RequestCounts)> {
        self.days.iter().filter_map(|(date, place)| Some((*date, *self.of_days.get(*place)?)))
    }

    fn place(&mut self, second: i64) -> Option<CalendarHour> {
        let time = jiff::Timestamp::from_second(second).ok()?.to_zoned(self.zone.clone());
        let weekday = usize::try_from(time.weekday().to_monday_zero_offset()).ok()?;
        let hour = usize::try_from(time.hour()).ok()?;
        let known = self.days.get(&time.date()).copied();
        let last = || self.days.values().next_back().copied().filter(|_| self.days.len() >= MAX_DAYS);
        let day = known.or_else(last).unwrap_or_else(|| {
            self.of_days.push(RequestCounts::default());
            self.days.insert(time.date(), self.of_days.len() - 1);
            self.of_days.len() - 1
        });
        Some(CalendarHour { day, weekday, hour })
    }
}
