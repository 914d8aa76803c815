//! The service's own metrics: atomics that the service counts in, a snapshot of them, a table that names each, and the
//! text formats.

mod aliases;
mod checks;
mod connections;
mod cuts;
mod family;
mod handshakes;
mod histogram;
mod policies;
mod process_counts;
mod rejections;
mod scrape;
mod snapshot;
mod store;
mod table;
mod text;
mod xds;

use std::time::Duration;

use self::checks::Checks;
pub(crate) use self::checks::{CheckSource, UndroppedCheck};
pub(crate) use self::connections::OpenConnections;
pub(crate) use self::cuts::Cut;
use self::cuts::Cuts;
pub(crate) use self::handshakes::Handshakes;
pub(crate) use self::histogram::DurationCounts;
use self::histogram::Histogram;
pub(crate) use self::process_counts::ProcessCounts;
pub(crate) use self::rejections::Rejections;
pub(crate) use self::scrape::Scrape;
pub(crate) use self::snapshot::{
    BodyMemory, EnvoyFigures, FigureSource, MetricSources, Occupancy, OverridesFigures, PolicyFigures,
    PrincipalFigures, Snapshot, TlsFigures,
};
pub(crate) use self::store::StoreMetrics;
pub(crate) use self::text::TextFormat;
pub(crate) use self::xds::XdsStatus;

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

    /// Counts a check that is dropped before it [ends](UndroppedCheck::ended).
    pub(crate) fn undropped(&self) -> UndroppedCheck<'_> {
        UndroppedCheck::new(self)
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
        let known = self.connections.iter().find(|connections| connections.listener() == listener);
        known.cloned().unwrap_or_else(|| OpenConnections::new(listener))
    }

    /// The TLS handshakes of this listener.
    pub(crate) fn handshakes(&self, listener: &'static str) -> Handshakes {
        let known = self.handshakes.iter().find(|handshakes| handshakes.listener() == listener);
        known.cloned().unwrap_or_else(|| Handshakes::new(listener))
    }
}
