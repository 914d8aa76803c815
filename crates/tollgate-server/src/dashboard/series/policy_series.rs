//! The series of one policy, or of all together.

use super::counts::{PolicyCounts, SeriesPoint};
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

#[derive(Debug, Default)]
struct Rings {
    /// In the order of the figures of a point. Most policies are never on trial, and few ever fail: what was always zero
    /// has no ring.
    figures: [Option<FigureRings>; 5],
    /// The verdicts on trial in the last minute, if there ever were some.
    trials: Option<[PointRing<u32>; 6]>,
    /// The last second that was written.
    last: u64,
}

/// A figure over time.
#[derive(Debug)]
struct FigureRings {
    seconds: PointRing<u32>,
    periods: PointRing<u32>,
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
        self.rings.get_or_insert_default().add(second, new);
    }

    /// Returns a point of which there is data.
    pub(crate) fn point(&self, tier: Tier, number: u64) -> SeriesPoint {
        let Some(rings) = &self.rings else { return SeriesPoint::default() };
        // Whatever is older than the rings was before the first traffic.
        if number > tier.number(rings.last) {
            return SeriesPoint::default();
        }
        let figure = |rings: &Option<FigureRings>| {
            rings.as_ref().map_or(0, |rings| match tier {
                Tier::Seconds => rings.seconds.get(number),
                Tier::Periods => rings.periods.get(number),
            })
        };
        SeriesPoint::of_figures(rings.figures.each_ref().map(figure))
    }

    /// Returns how many were allowed and how many denied, in each second of the minute that ends with its last one, the
    /// oldest one first.
    pub(super) fn decided(&self) -> [(u32, u32); MINUTE] {
        let mut decided = [(0, 0); MINUTE];
        let Some(Rings { figures: [allowed, denied, ..], last, .. }) = &self.rings else { return decided };
        if let Some(rings) = allowed {
            let latest = decided.iter_mut().zip(rings.seconds.latest(*last, MINUTE));
            latest.for_each(|((allowed, _), count)| *allowed = *count);
        }
        if let Some(rings) = denied {
            let latest = decided.iter_mut().zip(rings.seconds.latest(*last, MINUTE));
            latest.for_each(|((_, denied), count)| *denied = *count);
        }
        decided
    }

    /// Returns the sum over the minute that ends with its last second.
    pub(crate) fn minute(&self) -> PolicyCounts {
        let Some(Rings { figures, trials, last }) = &self.rings else { return PolicyCounts::default() };
        let sum = |ring: &PointRing<u32>| ring.latest(*last, MINUTE).copied().map(u64::from).sum();
        let points = figures.each_ref().map(|rings| rings.as_ref().map_or(0, |rings| sum(&rings.seconds)));
        let trials = trials.as_ref().map_or([0; 6], |rings| rings.each_ref().map(sum));
        PolicyCounts::of_sums(points, trials)
    }
}

impl Rings {
    fn add(&mut self, second: u64, new: &PolicyCounts) {
        for (rings, count) in self.figures.iter_mut().zip(new.point().figures()) {
            if count > 0 || rings.is_some() {
                rings.get_or_insert_with(FigureRings::new).add(self.last, second, count);
            }
        }
        let verdicts = new.trial_verdicts();
        if verdicts != [0; 6] || self.trials.is_some() {
            let new = || [(); 6].map(|()| PointRing::new(MINUTE));
            for (ring, count) in self.trials.get_or_insert_with(new).iter_mut().zip(verdicts) {
                ring.clear(self.last, second);
                ring.point(second).into_iter().for_each(|place| *place = count);
            }
        }
        self.last = second;
    }
}

impl FigureRings {
    fn new() -> Self {
        let [seconds, periods] = Tier::ALL.map(|tier| PointRing::new(tier.length()));
        Self { seconds, periods }
    }

    fn add(&mut self, last: u64, second: u64, count: u32) {
        let period = Tier::Periods.number(second);
        self.seconds.clear(last, second);
        self.periods.clear(Tier::Periods.number(last), period);
        self.seconds.point(second).into_iter().for_each(|place| *place = count);
        self.periods.point(period).into_iter().for_each(|place| *place = place.saturating_add(count));
    }
}
