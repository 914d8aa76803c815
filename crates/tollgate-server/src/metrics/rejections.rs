//! Requests without a decision, by status.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::StatusCode;
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

/// A count for each status. Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug)]
pub(crate) struct Rejections(Box<[Status]>);

#[derive(Debug, Default)]
struct Status {
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

    fn of(&self, status: StatusCode) -> Option<&Status> {
        self.0.get(usize::from(status.as_u16().checked_sub(STATUSES.start)?))
    }

    pub(super) fn encode(&self, mut metric: MetricEncoder<'_>) -> fmt::Result {
        for (status, figures) in STATUSES.zip(&self.0) {
            let count = figures.count.load(Ordering::Relaxed);
            if count > 0 || figures.is_expected.load(Ordering::Relaxed) {
                let labels = [("status", status.to_string())];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        Ok(())
    }
}

impl Default for Rejections {
    fn default() -> Self {
        Self(STATUSES.map(|_| Status::default()).collect())
    }
}
