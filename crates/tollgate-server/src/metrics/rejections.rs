//! Requests without a decision, by status.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::StatusCode;

use super::family::MetricSample;

/// A count for each status. Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug)]
pub(crate) struct Rejections(Box<[StatusCount]>);

#[derive(Debug, Default)]
struct StatusCount {
    count: AtomicU64,
    /// Whether the status is exported at zero, so that Prometheus sees the first rejection as an increase.
    is_expected: AtomicBool,
}

/// The statuses of errors.
const STATUSES: std::ops::Range<u16> = 400..600;

impl Rejections {
    /// Exports this status from now on, even at zero.
    pub(crate) fn expect(&self, status: StatusCode) {
        if let Some(rejection) = self.of(status) {
            rejection.is_expected.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self, status: StatusCode) {
        if let Some(rejection) = self.of(status) {
            rejection.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn of(&self, status: StatusCode) -> Option<&StatusCount> {
        self.0.get(usize::from(status.as_u16().checked_sub(STATUSES.start)?))
    }

    /// Returns the count of each status that is exported.
    pub(super) fn samples(&self) -> impl Iterator<Item = MetricSample<'_>> {
        let counts = STATUSES.zip(&self.0).map(|(status, rejections)| {
            (status, rejections.count.load(Ordering::Relaxed), rejections.is_expected.load(Ordering::Relaxed))
        });
        let exported = counts.filter(|(_, count, is_expected)| *count > 0 || *is_expected);
        exported.map(|(status, count, _)| MetricSample {
            labels: vec![("status", Cow::Owned(status.to_string()))],
            value: count.into(),
        })
    }
}

impl Default for Rejections {
    fn default() -> Self {
        Self(STATUSES.map(|_| StatusCount::default()).collect())
    }
}
