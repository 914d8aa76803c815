//! All figures of the service at one moment, from which every format is written.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Timestamp;
use tollgate_envoy::{Domains, HitCounts, Series};
use tollgate_policy::{Generation, OverridesVersion, PolicySet};
use tollgate_redis::StoreStatus;

use super::Metrics;
use super::store::StoreMetrics;
use super::xds::{AcceptedUpdate, XdsStatus};
use crate::access::principals::{Principals, SharedPrincipals};
use crate::args::MetricAliases;
use crate::live::record::ReloadState;

/// The sources of all figures.
pub(crate) struct MetricSources {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) policies: FigureSource<PolicyFigures>,
    pub(crate) overrides: FigureSource<Option<OverridesFigures>>,
    pub(crate) envoy: Option<FigureSource<EnvoyFigures>>,
    pub(crate) principals: Option<PrincipalFigures>,
    pub(crate) memory_size: FigureSource<Occupancy>,
    pub(crate) shared: Option<Arc<StoreMetrics>>,
    pub(crate) body_memory: FigureSource<BodyMemory>,
    pub(crate) tls: Option<FigureSource<TlsFigures>>,
    pub(crate) xds: Option<Arc<XdsStatus>>,
    pub(crate) aliases: Option<MetricAliases>,
}

/// Returns some of the figures. Each scrape calls it.
pub(crate) type FigureSource<T> = Box<dyn Fn() -> T + Send + Sync>;

/// The figures of the service at one moment. Counters of the whole service and histograms are read when they are
/// written.
pub(crate) struct Snapshot {
    pub(super) metrics: Arc<Metrics>,
    pub(crate) policies: PolicyFigures,
    /// `None` if there can be none.
    pub(crate) overrides: Option<OverridesFigures>,
    pub(crate) envoy: Option<EnvoyFigures>,
    pub(super) principals: Option<(Arc<Principals>, Arc<ReloadState>)>,
    pub(crate) memory: Occupancy,
    pub(crate) shared: Option<(Arc<StoreMetrics>, StoreStatus)>,
    pub(super) body_memory: BodyMemory,
    pub(super) tls: Option<TlsFigures>,
    pub(super) xds: Option<(Arc<XdsStatus>, Option<AcceptedUpdate>)>,
    pub(super) aliases: Option<MetricAliases>,
}

/// The figures of the policies.
pub(crate) struct PolicyFigures {
    pub(crate) live: Arc<PolicySet>,
    /// Requests that got no counter because memory was full.
    pub(crate) store_full: u64,
    /// The outcomes of reloads, if the policies come from a file.
    pub(crate) reloads: Option<Arc<ReloadState>>,
}

/// The figures of the overrides.
#[derive(Debug, Clone)]
pub(crate) struct OverridesFigures {
    /// How many there are, also inert ones and those that have ended.
    pub(crate) overrides: usize,
    pub(crate) version: Option<OverridesVersion>,
    pub(crate) is_stale: bool,
    /// The time since they were last read.
    pub(crate) age: Option<Duration>,
    /// The changes that this process was asked for, by what came of them.
    pub(crate) changes: [(&'static str, u64); 6],
    /// How often all of them were read from the store; `None` if none keeps them.
    pub(crate) loads: Option<u64>,
}

/// The live principals, and the outcomes of reloads.
pub(crate) struct PrincipalFigures {
    pub(crate) live: SharedPrincipals,
    pub(crate) reloads: Arc<ReloadState>,
}

/// Counters and holds in memory, and the maximum number of counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occupancy {
    pub(crate) counters: usize,
    pub(crate) max_counters: usize,
    /// Ids of holds.
    pub(crate) holds: usize,
    /// Holds that have expired before they were settled.
    pub(crate) expired_holds: usize,
}

/// Memory of requests and answers in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyMemory {
    pub(crate) held_bytes: usize,
    /// Requests that were refused because there was none left.
    pub(crate) refused: u64,
}

/// The state of the certificate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TlsFigures {
    pub(crate) expiry: Timestamp,
    /// The number of reloads by outcome.
    pub(crate) reloads: [(&'static str, u64); 3],
    pub(crate) is_in_step: bool,
}

/// The figures of Envoy's service by files of envoyproxy/ratelimit.
pub(crate) struct EnvoyFigures {
    pub(crate) live: Arc<Domains>,
    /// That of the live limits; `None` if the first are still to come.
    pub(crate) generation: Option<Generation>,
    /// Requests to Envoy's service, over every protocol.
    pub(crate) requests: u64,
    /// Requests of domains that no file has.
    pub(crate) unknown_domains: u64,
    /// Requests without a decision because of the store.
    pub(crate) store_errors: u64,
    /// Invalid requests.
    pub(crate) invalid: u64,
    /// Descriptors in domains that no file has.
    pub(crate) domains_not_found: Vec<(Box<str>, u64)>,
    /// Requests that were admitted only because of `SHADOW_MODE`.
    pub(crate) hidden_denials: u64,
    /// The hits of each limit, if they are counted.
    pub(crate) hits: Vec<(Series, HitCounts)>,
}

impl MetricSources {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let principals = self.principals.as_ref();
        Snapshot {
            metrics: Arc::clone(&self.metrics),
            policies: (self.policies)(),
            overrides: (self.overrides)(),
            envoy: self.envoy.as_ref().map(|envoy| envoy()),
            principals: principals.map(|figures| (figures.live.load_full(), Arc::clone(&figures.reloads))),
            memory: (self.memory_size)(),
            shared: self.shared.as_ref().map(|shared| (Arc::clone(shared), shared.status())),
            body_memory: (self.body_memory)(),
            tls: self.tls.as_ref().map(|tls| tls()),
            xds: self.xds.as_ref().map(|xds| (Arc::clone(xds), xds.last_accepted())),
            aliases: self.aliases,
        }
    }
}

impl fmt::Debug for MetricSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricSources").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}
