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

impl Histogram {
    pub(super) fn observe(&self, elapsed: Duration) {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS.len());
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
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
