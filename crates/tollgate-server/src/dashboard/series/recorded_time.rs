//! The numbers of points, and which of them have data.

use std::time::Duration;

use tollgate::Timestamp;

use super::point_ring::PointRing;

/// The seconds over which answers sum up.
pub(crate) const MINUTE: usize = 60;

/// How long a point is, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Seconds,
    Periods,
}

/// The points of a tier from the first number to the last one. Both are numbers of the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Points {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// Numbers the seconds since the start, and remembers which of them were recorded. The first second has the number 1.
#[derive(Debug)]
pub(super) struct RecordedTime {
    started: Timestamp,
    last: u64,
    seconds: PointRing<bool>,
    periods: PointRing<bool>,
}

impl Tier {
    pub(crate) const ALL: [Self; 2] = [Self::Seconds, Self::Periods];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "1s",
            Self::Periods => "5m",
        }
    }

    pub(crate) const fn seconds(self) -> u64 {
        match self {
            Self::Seconds => 1,
            Self::Periods => 300,
        }
    }

    /// Ten minutes, and a day.
    pub(super) const fn length(self) -> usize {
        match self {
            Self::Seconds => 600,
            Self::Periods => 288,
        }
    }

    /// Returns the number of the point in which this second is.
    pub(super) const fn number(self, second: u64) -> u64 {
        second.div_ceil(self.seconds())
    }

    /// Returns the last second of a point.
    pub(crate) const fn end(self, number: u64) -> u64 {
        number * self.seconds()
    }
}

impl RecordedTime {
    pub(super) fn new(started: Timestamp) -> Self {
        Self {
            started,
            last: 0,
            seconds: PointRing::new(Tier::Seconds.length()),
            periods: PointRing::new(Tier::Periods.length()),
        }
    }

    pub(super) const fn started(&self) -> Timestamp {
        self.started
    }

    /// Returns the last recorded second.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of the second that ends about now, if it was not recorded yet.
    ///
    /// A tick is a little late, now more and now less, so the nearest whole second counts.
    pub(super) fn number_at(&self, now: Timestamp) -> Option<u64> {
        let elapsed = now.since(self.started) + Duration::from_millis(500);
        (elapsed.as_secs() > self.last).then_some(elapsed.as_secs())
    }

    /// Records this second. Those in between have no data: the machine was busy or slept.
    pub(super) fn advance(&mut self, number: u64) {
        for tier in Tier::ALL {
            let (last, number) = (tier.number(self.last), tier.number(number));
            let ring = self.ring_mut(tier);
            ring.clear(last, number);
            if let Some(has_data) = ring.point(number) {
                *has_data = true;
            }
        }
        self.last = number;
    }

    /// Returns whether a point has data.
    pub(super) fn has_data(&self, tier: Tier, number: u64) -> bool {
        match tier {
            Tier::Seconds => self.seconds.get(number),
            Tier::Periods => self.periods.get(number),
        }
    }

    /// Returns whether each of the last seconds has data, the oldest one first.
    pub(super) fn last_minute(&self) -> impl Iterator<Item = bool> {
        self.seconds.latest(self.last, MINUTE).copied()
    }

    /// Returns the points that end after this second. All of them if it is not one of this process.
    pub(super) fn points(&self, tier: Tier, since: Option<u64>) -> Points {
        let last = tier.number(self.last);
        let oldest = (last + 1).saturating_sub(tier.length() as u64).max(1);
        let next = since.filter(|since| *since <= self.last).map_or(1, |since| since / tier.seconds() + 1);
        Points { first: next.max(oldest), end: last + 1 }
    }

    /// Returns when a point begins, in Unix seconds.
    pub(super) fn begin(&self, tier: Tier, number: u64) -> i64 {
        let second = tier.end(number.saturating_sub(1));
        let second = i64::try_from(second).unwrap_or(i64::MAX);
        self.started.as_unix_millis().saturating_add(second.saturating_mul(1_000)).div_euclid(1_000)
    }

    fn ring_mut(&mut self, tier: Tier) -> &mut PointRing<bool> {
        match tier {
            Tier::Seconds => &mut self.seconds,
            Tier::Periods => &mut self.periods,
        }
    }
}

impl Points {
    pub(crate) fn numbers(self) -> std::ops::Range<u64> {
        self.first..self.end
    }
}
