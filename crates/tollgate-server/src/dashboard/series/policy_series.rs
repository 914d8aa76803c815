//! The series of one policy, or of all together.

use super::counts::{PointSum, PolicyCounts, SeriesPoint};
use super::point_ring::PointRing;
use super::recorded_time::{MINUTE, Tier};

/// See the [module](self). A policy without traffic has no rings.
#[derive(Debug, Default)]
pub(crate) struct PolicySeries {
    /// The last reading.
    read: PolicyCounts,
    /// The last second whose ticks have seen the policy.
    pub(super) seen: u64,
    rings: Option<Rings>,
}

#[derive(Debug)]
struct Rings {
    seconds: PointRing<SeriesPoint>,
    periods: PointRing<SeriesPoint>,
    /// The other figures of the last minute, if there ever were some.
    rest: Option<PointRing<[u32; 7]>>,
    /// The last second that was written.
    last: u64,
}

impl PolicySeries {
    /// Records the counts at the end of this second. Returns what is new.
    pub(super) fn read(&mut self, second: u64, counts: &PolicyCounts) -> PolicyCounts {
        let new = counts.since(&self.read);
        self.read = *counts;
        self.add(second, &new);
        new
    }

    /// Records new counts of this second.
    pub(super) fn add(&mut self, second: u64, new: &PolicyCounts) {
        self.seen = second;
        if self.rings.is_none() && new.is_zero() {
            return;
        }
        self.rings.get_or_insert_with(Rings::new).add(second, new);
    }

    /// Returns a point of which there is data.
    pub(crate) fn point(&self, tier: Tier, number: u64) -> SeriesPoint {
        let Some(rings) = &self.rings else { return SeriesPoint::default() };
        match tier {
            // Whatever is older than the rings was before the first traffic.
            Tier::Seconds if number <= rings.last => rings.seconds.get(number),
            Tier::Periods if number <= tier.number(rings.last) => rings.periods.get(number),
            _ => SeriesPoint::default(),
        }
    }

    /// Returns the sum over the minute that ends with this second.
    pub(crate) fn minute(&self, second: u64) -> PolicyCounts {
        let Some(rings) = &self.rings else { return PolicyCounts::default() };
        let numbers = second.saturating_sub(MINUTE) + 1..=second.min(rings.last);
        let mut points = PointSum::default();
        numbers.clone().for_each(|number| points.add(rings.seconds.get(number)));
        let mut rest = [0; 7];
        if let Some(ring) = &rings.rest {
            for counts in numbers.map(|number| ring.get(number)) {
                rest.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
            }
        }
        points.with_rest(rest)
    }
}

impl Rings {
    fn new() -> Self {
        let (seconds, periods) =
            (PointRing::new(Tier::Seconds.length()), PointRing::new(Tier::Periods.length()));
        Self { seconds, periods, rest: None, last: 0 }
    }

    fn add(&mut self, second: u64, new: &PolicyCounts) {
        self.seconds.clear(self.last, second);
        self.periods.clear(Tier::Periods.number(self.last), Tier::Periods.number(second));
        self.rest.iter_mut().for_each(|rest| rest.clear(self.last, second));
        self.last = second;
        let point = new.point();
        if let Some(place) = self.seconds.point(second) {
            *place = point;
        }
        if let Some(place) = self.periods.point(Tier::Periods.number(second)) {
            place.add(point);
        }
        let rest = new.rest();
        if self.rest.is_some() || rest != [0; 7] {
            let ring = self.rest.get_or_insert_with(|| PointRing::new(MINUTE as usize));
            ring.point(second).into_iter().for_each(|place| *place = rest);
        }
    }
}
