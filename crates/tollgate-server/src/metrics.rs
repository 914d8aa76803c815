//! What the service counts of itself, in atomics that are read when somebody asks. Never a key as a label.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tollgate::Verdict;

use crate::http::Listener;
use crate::policy::Policy;

/// Counters of the whole service.
///
/// Every access is relaxed: each is a figure of its own that guards no other memory.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    allowed: AtomicU64,
    denied: AtomicU64,
    duration: Histogram,
    store_full: AtomicU64,
    rejected: [AtomicU64; REJECTIONS.len()],
    connections: [AtomicI64; 2],
}

/// How full the store is; asked for at each scrape.
pub(crate) type StoreSize = Box<dyn Fn() -> Occupancy + Send + Sync>;

/// Counters held, and counters that can be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occupancy {
    pub(crate) keys: usize,
    pub(crate) max_keys: usize,
}

/// The statuses of requests that never came to a decision.
const REJECTIONS: [StatusCode; 7] = [
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// Upper bounds in nanoseconds: from what memory takes to what a store over a network takes at its worst.
const BOUNDS: [u64; 15] = [
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
    5_000_000,
    25_000_000,
    100_000_000,
    1_000_000_000,
];

#[derive(Debug, Default)]
struct Histogram {
    /// One for each bound, and one for what is above them.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_nanos: AtomicU64,
}

impl Metrics {
    pub(crate) fn decided(&self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Allowed => &self.allowed,
            Verdict::Denied => &self.denied,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One step of the store, with what belongs to it, took so long. A batch is one step.
    pub(crate) fn took(&self, elapsed: Duration) {
        self.duration.observe(elapsed);
    }

    pub(crate) fn store_was_full(&self) {
        self.store_full.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rejected(&self, status: StatusCode) {
        let counters = REJECTIONS.iter().zip(&self.rejected);
        if let Some((_, counter)) = counters.into_iter().find(|(other, _)| **other == status) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a connection until the guard is dropped.
    pub(crate) fn connection(self: &Arc<Self>, listener: Listener) -> OpenConnection {
        self.connections(listener).fetch_add(1, Ordering::Relaxed);
        OpenConnection { metrics: Arc::clone(self), listener }
    }

    fn connections(&self, listener: Listener) -> &AtomicI64 {
        let [public, admin] = &self.connections;
        match listener {
            Listener::Public => public,
            Listener::Admin => admin,
        }
    }
}

/// One connection, counted as open.
pub(crate) struct OpenConnection {
    metrics: Arc<Metrics>,
    listener: Listener,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.connections(self.listener).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Histogram {
    fn observe(&self, elapsed: Duration) {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS.len());
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn encode(&self, mut metric: MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds
            .zip(&self.buckets)
            .map(|(bound, bucket)| (bound, bucket.load(Ordering::Relaxed)))
            .collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.sum_nanos.load(Ordering::Relaxed) as f64 / 1e9;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

/// The text that `/metrics` answers with, in the OpenMetrics format.
pub(crate) struct Scrape {
    registry: Registry,
}

impl Scrape {
    pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    pub(crate) fn new(metrics: Arc<Metrics>, store_size: StoreSize) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Source { metrics, store_size }));
        Self { registry }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(4096);
        // Writing into a string does not fail, and the collector below adds no failure of its own.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

struct Source {
    metrics: Arc<Metrics>,
    store_size: StoreSize,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

impl Collector for Source {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = &self.metrics;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);

        let help = "Checks decided, by policy and verdict";
        let mut metric = encoder.encode_descriptor("tollgate_decisions", help, None, MetricType::Counter)?;
        for (verdict, counter) in [("allowed", &metrics.allowed), ("denied", &metrics.denied)] {
            let labels = [("policy", Policy::NAME), ("verdict", verdict)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count(counter), None)?;
        }

        let (name, help) =
            ("tollgate_decision_duration", "Time from attributes to decision; of a batch, to all");
        let unit = Some(&Unit::Seconds);
        metrics.duration.encode(encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?)?;

        let Occupancy { keys, max_keys } = (self.store_size)();
        for (name, help, value) in [
            ("tollgate_store_keys", "Counters held; closed windows' are among them until swept", keys),
            ("tollgate_store_max_keys", "Counters that can be held", max_keys),
        ] {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }

        let (name, help) = ("tollgate_store_full", "Requests whose key the store had no room for");
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&count(&metrics.store_full), None)?;

        let (name, help) =
            ("tollgate_http_requests_rejected", "Requests that came to no decision, by status");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (status, counter) in REJECTIONS.iter().zip(&metrics.rejected) {
            let labels = [("status", status.as_str())];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count(counter), None)?;
        }

        let (name, help) = ("tollgate_http_connections", "Connections open now, by listener");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for listener in [Listener::Public, Listener::Admin] {
            let labels = [("listener", listener.name())];
            let open = metrics.connections(listener).load(Ordering::Relaxed);
            metric.encode_family(&labels)?.encode_gauge(&open)?;
        }

        let help = "The version that runs";
        let metric = encoder.encode_descriptor("tollgate_build", help, None, MetricType::Info)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        prometheus_client::metrics::info::Info::new(version).encode(metric)
    }
}
