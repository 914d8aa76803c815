//! The service's own metrics, in atomics that each scrape reads. A key never becomes a label, except in
//! `aliases/envoy_ratelimit.rs`, if a file requests it.

mod aliases;
mod checks;
mod cuts;
mod envoy;
mod histogram;
mod policies;
mod principals;
mod rejections;
mod store;
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use self::checks::Checks;
pub(crate) use self::checks::{CheckSource, Undropped};
pub(crate) use self::cuts::Cut;
use self::cuts::Cuts;
pub(crate) use self::envoy::EnvoyFigures;
use self::histogram::Histogram;
pub(crate) use self::policies::PolicyFigures;
pub(crate) use self::principals::PrincipalFigures;
pub(crate) use self::rejections::Rejections;
pub(crate) use self::store::StoreMetrics;
pub(crate) use self::tls::Handshakes;
use crate::args::MetricAliases;
use crate::tls::ServerTls;

/// Counters of the whole service.
///
/// Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug)]
pub(crate) struct Metrics {
    checks: Checks,
    duration: Histogram,
    rejections: Rejections,
    cuts: Cuts,
    connections: Box<[OpenConnections]>,
    handshakes: Box<[Handshakes]>,
}

/// Returns the figures of the policies. Each scrape calls it.
pub(crate) type Policies = Box<dyn Fn() -> PolicyFigures + Send + Sync>;

/// Returns the figures of Envoy's service. Each scrape calls it.
pub(crate) type Envoy = Box<dyn Fn() -> EnvoyFigures + Send + Sync>;

/// Returns how full the memory for counters is. Each scrape calls it.
pub(crate) type MemorySize = Box<dyn Fn() -> Occupancy + Send + Sync>;

/// Counters in memory, and their maximum number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occupancy {
    pub(crate) counters: usize,
    pub(crate) max_counters: usize,
}

/// Memory of requests and answers in flight, and how often there was no room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyMemory {
    pub(crate) held: usize,
    pub(crate) refused: u64,
}

impl Metrics {
    /// Creates metrics for these listeners, all zero.
    pub(crate) fn new(listeners: impl IntoIterator<Item = &'static str> + Clone) -> Self {
        Self {
            checks: Checks::default(),
            duration: Histogram::default(),
            rejections: Rejections::default(),
            cuts: Cuts::default(),
            connections: listeners.clone().into_iter().map(OpenConnections::new).collect(),
            handshakes: listeners.into_iter().map(Handshakes::new).collect(),
        }
    }

    /// Counts a check that is dropped before it [ends](Undropped::ended).
    pub(crate) fn undropped(&self) -> Undropped<'_> {
        Undropped::new(self)
    }

    /// Counts a check by where its answer came from.
    pub(crate) fn checked(&self, source: CheckSource) {
        self.checks.count(source);
    }

    /// Records the time from attributes to decision. A batch is one observation.
    pub(crate) fn took(&self, elapsed: Duration) {
        self.duration.observe(elapsed);
    }

    /// Requests without a decision.
    pub(crate) fn rejections(&self) -> &Rejections {
        &self.rejections
    }

    /// Connections that ended before their clients had their answers.
    pub(crate) fn cuts(&self) -> &Cuts {
        &self.cuts
    }

    /// The connections of this listener.
    pub(crate) fn connections(&self, listener: &'static str) -> OpenConnections {
        let known = self.connections.iter().find(|connections| connections.listener == listener);
        known.cloned().unwrap_or_else(|| OpenConnections::new(listener))
    }

    /// The TLS handshakes of this listener.
    pub(crate) fn handshakes(&self, listener: &'static str) -> Handshakes {
        let known = self.handshakes.iter().find(|handshakes| handshakes.listener() == listener);
        known.cloned().unwrap_or_else(|| Handshakes::new(listener))
    }
}

/// The number of open connections of a listener. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct OpenConnections {
    listener: &'static str,
    open: Arc<AtomicI64>,
    /// Connections that had to wait because the listener was full.
    full: Arc<AtomicU64>,
    /// Connections that were closed because their client had too many.
    refused: Arc<AtomicU64>,
}

/// One connection, which counts as open until the value is dropped.
pub(crate) struct OpenConnection(Arc<AtomicI64>);

impl OpenConnections {
    fn new(listener: &'static str) -> Self {
        Self { listener, open: Arc::default(), full: Arc::default(), refused: Arc::default() }
    }

    pub(crate) fn listener(&self) -> &'static str {
        self.listener
    }

    /// Returns the number of open connections.
    pub(crate) fn count(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts a connection that waits until another one ends.
    pub(crate) fn full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is closed because its client has too many.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts another open connection.
    pub(crate) fn one(&self) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(&self.open))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Renders the answer of `/metrics`.
pub(crate) struct Scrape {
    registry: Registry,
}

impl Scrape {
    pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    /// The media type of `plain_text`.
    pub(crate) const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    pub(crate) fn new(figures: Figures) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(figures));
        Self { registry }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(4096);
        // Writing into a string does not fail, and the collector below adds no failure of its own.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

impl Scrape {
    /// Returns the metrics in text format 0.0.4. It has no units and no end mark, and it names a counter as its
    /// samples.
    pub(crate) fn plain_text(&self) -> String {
        let open = self.text();
        let kinds = open.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let suffixes: HashMap<&str, &str> = kinds
            .filter_map(|(name, kind)| match kind {
                "counter" => Some((name, "_total")),
                "info" => Some((name, "_info")),
                _ => None,
            })
            .collect();
        let mut plain = String::with_capacity(open.len());
        for line in open.lines() {
            let described = ["# TYPE ", "# HELP "].into_iter().find(|start| line.starts_with(start));
            match described.and_then(|start| Some((start, line.strip_prefix(start)?.split_once(' ')?))) {
                Some((start, (name, rest))) => {
                    let suffix = suffixes.get(name).copied().unwrap_or_default();
                    let rest = match (start, rest) {
                        ("# TYPE ", "info") => "gauge",
                        ("# TYPE ", "unknown") => "untyped",
                        (_, rest) => rest,
                    };
                    plain.extend([start, name, suffix, " ", rest, "\n"]);
                }
                None if line == "# EOF" || line.starts_with("# UNIT ") => {}
                None => plain.extend([line, "\n"]),
            }
        }
        plain
    }
}

/// The sources of all metrics.
pub(crate) struct Figures {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) policies: Policies,
    pub(crate) envoy: Option<Envoy>,
    pub(crate) principals: Option<PrincipalFigures>,
    pub(crate) memory_size: MemorySize,
    pub(crate) shared: Option<Arc<StoreMetrics>>,
    pub(crate) body_memory: Box<dyn Fn() -> BodyMemory + Send + Sync>,
    pub(crate) tls: Option<Arc<ServerTls>>,
    pub(crate) aliases: Option<MetricAliases>,
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Figures").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = &self.metrics;
        let policies = (self.policies)();
        metrics.checks.encode(&mut encoder)?;
        policies.encode(&mut encoder)?;
        let envoy = self.envoy.as_ref().map(|envoy| envoy());
        envoy.iter().try_for_each(|envoy| envoy.encode(&mut encoder))?;
        if let Some(principals) = &self.principals {
            principals.encode(&mut encoder)?;
        }

        let (name, help) = (
            "tollgate_decision_duration",
            "Time from attributes to decision; for a batch, to its last decision",
        );
        let unit = Some(&Unit::Seconds);
        metrics.duration.encode(encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?)?;

        if let Some(shared) = &self.shared {
            let (name, help) = ("tollgate_local_denials", "Denials repeated without asking the store");
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&metrics.checks.of(CheckSource::Local), None)?;
            shared.encode(&mut encoder)?;
        }

        let Occupancy { counters, max_counters } = (self.memory_size)();
        for (name, help, value) in [
            (
                "tollgate_store_counters",
                "Counters in memory; those of closed windows count until their space is reused",
                counters,
            ),
            (
                "tollgate_store_max_counters",
                "Maximum number of counters in memory (--max-counters)",
                max_counters,
            ),
        ] {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }

        let (name, help) = ("tollgate_store_full", "Requests that got no counter because memory was full");
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&policies.store_full, None)?;

        let (name, help) = ("tollgate_http_requests_rejected", "Requests without a decision, by status");
        metrics.rejections.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;

        let (name, help) = ("tollgate_http_connections", "Open connections, by listener");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for connections in &metrics.connections {
            let labels = [("listener", connections.listener)];
            metric.encode_family(&labels)?.encode_gauge(&connections.count())?;
        }

        let (name, help) = (
            "tollgate_http_connections_full",
            "Connections that had to wait because --max-connections were open, by listener",
        );
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for OpenConnections { listener, full, .. } in &metrics.connections {
            let full = full.load(Ordering::Relaxed);
            metric
                .encode_family(&[("listener", *listener)])?
                .encode_counter::<NoLabelSet, _, u64>(&full, None)?;
        }

        let help = "Connections closed because their client had --max-connections-per-peer open, by listener";
        let name = "tollgate_http_connections_refused";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for OpenConnections { listener, refused, .. } in &metrics.connections {
            let refused = refused.load(Ordering::Relaxed);
            metric
                .encode_family(&[("listener", *listener)])?
                .encode_counter::<NoLabelSet, _, u64>(&refused, None)?;
        }

        let (name, help) = (
            "tollgate_http_connections_cut",
            "Connections that ended before the client had received its answers, by reason",
        );
        metrics.cuts.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;

        let (name, help) = (
            "tollgate_http_body_memory",
            "Memory of requests and answers in flight, limited by --body-memory",
        );
        let BodyMemory { held, refused } = (self.body_memory)();
        let held = i64::try_from(held).unwrap_or(i64::MAX);
        encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?.encode_gauge(&held)?;

        let (name, help) =
            ("tollgate_http_body_memory_refused", "Requests answered 503 because --body-memory was used up");
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&refused, None)?;

        if let Some(server) = &self.tls {
            tls::encode(server, &metrics.handshakes, &mut encoder)?;
        }

        match (self.aliases, &envoy) {
            (Some(MetricAliases::SpringStarter), _) => {
                aliases::spring_starter(&policies.live, &metrics.duration, &mut encoder)?;
            }
            (Some(MetricAliases::EnvoyRatelimit), Some(envoy)) => {
                let asked =
                    aliases::Asked { duration: &metrics.duration, reloads: policies.reloads.as_deref() };
                aliases::envoy_ratelimit(envoy, &asked, &mut encoder)?;
            }
            (Some(MetricAliases::EnvoyRatelimit) | None, _) => {}
        }

        let help = "Version of the service";
        let metric = encoder.encode_descriptor("tollgate_build", help, None, MetricType::Info)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        prometheus_client::metrics::info::Info::new(version).encode(metric)
    }
}
