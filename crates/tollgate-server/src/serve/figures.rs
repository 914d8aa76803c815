//! The figures of a scrape, from the parts of the service.

use std::sync::Arc;

use tollgate::{Clock, MemoryStore};
use tollgate_policy::PolicySet;

use super::rules::Rules;
use crate::args::MetricAliases;
use crate::decide::counting::CountingParts;
use crate::live::record::ReloadState;
use crate::metrics::{
    BodyMemory, FigureSource, MetricSources, Occupancy, PolicyFigures, PrincipalFigures, StoreMetrics,
    TlsFigures,
};
use crate::net::resources::Resources;
use crate::store::ServedStore;
use crate::tls::ServerTls;

/// The parts that only some services have.
pub(super) struct OptionalParts {
    pub(super) shared: Option<Arc<StoreMetrics>>,
    pub(super) principals: Option<PrincipalFigures>,
    /// With the outcomes of its reloads.
    pub(super) tls: Option<(Arc<ServerTls>, Arc<ReloadState>)>,
    /// The other system whose metric names are exported as well.
    pub(super) aliases: Option<MetricAliases>,
}

/// Returns the sources of all figures.
pub(super) fn figures(
    resources: &Resources,
    counting: &CountingParts,
    rules: &Rules,
    optional: OptionalParts,
) -> MetricSources {
    let OptionalParts { shared, principals, tls, aliases } = optional;
    let reloads = rules.source.reloads().cloned();
    // If domains decide, the metrics of policies are there and zero.
    let (decider, without_policies) = (Arc::clone(&rules.decider), Arc::<PolicySet>::default());
    let policies = move || PolicyFigures {
        live: decider.policies().map_or_else(|| Arc::clone(&without_policies), |engine| engine.live()),
        store_full: decider.store_full(),
        reloads: reloads.clone(),
    };
    let envoy = rules.decider.shared_domains();
    let (memory, budget) = (counting.memory.clone(), resources.budget.clone());
    let store = counting.store.clone();
    let memory_size = move || match &store {
        ServedStore::Tests(store) => occupancy(store),
        _ => occupancy(&memory),
    };
    let body_memory = move || BodyMemory { held_bytes: budget.held(), refused: budget.refused() };
    let overrides = Arc::clone(&rules.overrides);
    MetricSources {
        metrics: Arc::clone(&resources.metrics),
        policies: Box::new(policies),
        overrides: Box::new(move || overrides.figures()),
        envoy: envoy.map(|engine| -> FigureSource<_> { Box::new(move || engine.figures()) }),
        principals,
        memory_size: Box::new(memory_size),
        shared,
        body_memory: Box::new(body_memory),
        tls: tls.map(|(tls, reloads)| -> FigureSource<_> { Box::new(move || tls_figures(&tls, &reloads)) }),
        xds: rules.xds.clone(),
        aliases,
    }
}

fn occupancy<C: Clock>(memory: &MemoryStore<C>) -> Occupancy {
    Occupancy {
        counters: memory.counters(),
        max_counters: memory.max_counters(),
        holds: memory.holds(),
        expired_holds: memory.expired_holds(),
    }
}

fn tls_figures(tls: &ServerTls, reloads: &ReloadState) -> TlsFigures {
    let is_in_step = reloads.failure().is_none();
    TlsFigures { expiry: tls.expiry(), reloads: reloads.counts(), is_in_step }
}
