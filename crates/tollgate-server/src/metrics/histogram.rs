//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in nanoseconds, from the fastest step in memory to the slowest over a network. They include the
/// thresholds of the alerts in `examples/alerts`, so that those quantiles are not interpolated.
const BOUNDS: [u64; 20] = [
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    3_000_000,
    5_000_000,
    8_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    1_000_000_000,
];

/// Durations, sorted into buckets. Every access is relaxed: each count is independent.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// One for each bound, and one for longer durations.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_nanos: AtomicU64,
}

/// How many durations were in each bucket: since the start, or in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DurationCounts([u64; BOUNDS.len() + 1]);

impl DurationCounts {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut counts = self.0;
        counts.iter_mut().zip(earlier.0).for_each(|(count, before)| *count = count.saturating_sub(before));
        Self(counts)
    }

    /// Returns the number of durations.
    pub(crate) fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns a time that this share of the durations did not exceed, the next bound of a bucket; `None` if there are
    /// none, or if it is above the last bound.
    pub(crate) fn within(&self, per_mille: u64) -> Option<Duration> {
        let wanted = (self.all() * per_mille).div_ceil(1_000).max(1);
        let mut count = 0;
        let cumulated = self.0.iter().map(|bucket| {
            count += bucket;
            count
        });
        let (nanos, _) = BOUNDS.iter().zip(cumulated).find(|(_, count)| *count >= wanted)?;
        Some(Duration::from_nanos(*nanos))
    }
}

impl Histogram {
    pub(super) fn observe(&self, elapsed: Duration) {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS.len());
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the number of durations in each bucket.
    pub(super) fn counts(&self) -> DurationCounts {
        DurationCounts(self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)))
    }

    /// Returns the upper bound of each bucket in seconds, and the number of durations up to it.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::INFINITY]);
        let mut count = 0;
        let cumulated = self.buckets.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        bounds.zip(cumulated).collect()
    }

    pub(super) fn sum_seconds(&self) -> f64 {
        self.sum_nanos.load(Ordering::Relaxed) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_durations_is_within_the_bound_of_its_bucket() {
        let (histogram, micros) = (Histogram::default(), Duration::from_micros);
        assert_eq!(histogram.counts().within(500), None);
        for elapsed in [4, 5, 7, 90] {
            histogram.observe(micros(elapsed));
        }
        let counts = histogram.counts();
        let within = |per_mille| counts.within(per_mille);
        assert_eq!((within(500), within(501)), (Some(micros(5)), Some(micros(10))));
        assert_eq!((within(0), within(990)), (Some(micros(5)), Some(micros(100))));
        histogram.observe(Duration::from_secs(9));
        let later = histogram.counts().since(&counts);
        assert_eq!((later.all(), later.within(500)), (1, None));
    }
}
