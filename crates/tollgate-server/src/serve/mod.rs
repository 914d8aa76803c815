//! The composition root: builds the service from its settings, runs it, drains it.

mod admission;
mod announce;
mod announced_limits;
mod background;
mod example;
mod figures;
mod listeners;
mod override_parts;
mod rules;
mod signals;

use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;
use tollgate::MemoryStore;
use tollgate_policy::Generation;
use tollgate_redis::StoreUrl;
use tollgate_wire::headers::PolicyHeaders;
use tracing::{info, warn};

use self::admission::Admission;
use self::background::{BackgroundTasks, Task};
use self::example::StartExample;
use self::figures::OptionalParts;
use self::listeners::{Acceptors, BoundListener, Sockets};
use self::override_parts::{OverrideParts, StoredOverrides};
use self::rules::Rules;
use self::signals::{Hangup, Signals};
use crate::access::listener::{Listener, ListenerKind};
use crate::args::LogFormat;
use crate::dashboard::Dashboard;
use crate::decide::counting::CountingParts;
use crate::decide::engine::DecisionEngine;
use crate::grpc::{self, AddedHeaders, Grpc, RateLimitSettings};
use crate::http::{Edge, FollowedRules, Http};
use crate::live::reload::Reload as _;
use crate::metrics::{Metrics, Scrape, StoreMetrics};
use crate::net::budget::Budget;
use crate::net::drain::Phase;
use crate::net::open_files::{self, Caps};
use crate::net::resources::Resources;
use crate::net::timeouts::Lifetime;
use crate::observe::secret_file;
use crate::overrides::Overrides;
use crate::settings::{GrpcSettings, Settings};
use crate::store::{self, MeteredStore, ServedStore, StoreSetup};
use crate::talkers::Talkers;

/// The time for open connections to finish. With the steps before and after it, the process ends within five seconds of
/// the signal.
const DRAIN_LIMIT: Duration = Duration::from_millis(4_700);

/// The parts that only a service with a shared store has.
struct SharedParts {
    /// Its kind, for people.
    kind: &'static str,
    metrics: Arc<StoreMetrics>,
    overrides: StoredOverrides,
}

/// The service, bound to its addresses and not yet answering.
struct BoundServer {
    /// Each accepts connections until the service drains, and ends with the last connection.
    acceptors: Vec<Task>,
    background: BackgroundTasks,
    overrides: Arc<Overrides>,
    /// All listeners, in the order in which they are announced.
    listeners: Vec<Listener>,
    /// `None` if checks come over gRPC alone.
    checks: Option<Listener>,
    admin: Listener,
    /// Whether everyone who reaches the admin listener may use it, and others than this host or its owner do.
    is_admin_open: bool,
    /// Whether a principal has a token.
    asks_token: bool,
    /// A summary of the limits, for people.
    rule: String,
    /// The generation of the first limits, if they are there.
    generation: Option<Generation>,
    /// A command to try, if there is one.
    example: Option<StartExample>,
    caps: Caps,
    max_connections: u32,
    /// The maximum number of open files of the process.
    open_files: Option<u64>,
    drain_delay: Option<Duration>,
    log_format: LogFormat,
    resources: Resources,
    signals: Signals,
}

/// The end of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceEnd {
    /// Open connections have finished, or their time was up.
    Drained,
    /// A second signal cut the drain short.
    Interrupted,
}

/// Builds the service, announces its addresses, and serves until a signal comes.
///
/// First it waits until a shared store answers, for two seconds at most. Then the service starts even if the store is
/// down.
///
/// # Errors
///
/// If an address cannot be bound, signals cannot be caught, or a part of the service stopped unexpectedly.
pub fn serve(settings: Settings) -> Pin<Box<dyn Future<Output = anyhow::Result<ServiceEnd>> + Send>> {
    // Boxed, because a program that runs the future would otherwise compile everything in it once more.
    Box::pin(serve_to_the_end(settings))
}

async fn serve_to_the_end(mut settings: Settings) -> anyhow::Result<ServiceEnd> {
    settings.secret_files.iter().for_each(|path| secret_file::warn_if_public(path));
    let memory = settings.memory.clone();
    let Some(store) = settings.store.take() else {
        let store = match settings.asking.test_clock.clone() {
            None => ServedStore::Memory(memory),
            Some(clock) => {
                warn!("the clock of the counters stands still until POST /v1/clock moves it: for tests only");
                let builder = MemoryStore::builder().max_counters(memory.max_counters());
                ServedStore::Tests(builder.clock(clock).build())
            }
        };
        return run(settings, store, None, future::ready(())).await;
    };
    let StoreSetup { url, prefix, identity, layout, timeout, connect_timeout, builder } = store;
    let shared = builder.build().context("the shared store")?;
    let (status, warming, records) =
        (shared.clone(), shared.clone(), shared.records(crate::overrides::RECORDS));
    let metrics = Arc::new(StoreMetrics::new(move || status.status()));
    let page = settings.dashboard.as_ref().and_then(|dashboard| dashboard.public_url.clone());
    let metered = MeteredStore::new(shared, timeout, identity.clone(), Arc::clone(&metrics)).linked_to(page);
    match layout {
        None => {
            info!(store = %url, prefix, "counters are shared with every service on this store that has the same prefix")
        }
        Some(layout) if !layout.names_prefix() => {
            info!(store = %url, %layout, "counters are shared with every program that writes keys of this layout to this store");
        }
        Some(layout) => {
            info!(store = %url, prefix, %layout, "counters are shared with every program that writes keys of this layout to this store");
        }
    }
    let kind = store_kind(&url);
    let warm_up = store::warm_up(&warming, connect_timeout, Arc::clone(&metrics));
    let (outages, telling) = (metered.outages(), metered.outages());
    tokio::spawn(async move { telling.keep_telling().await });
    let parts = SharedParts { kind, metrics, overrides: StoredOverrides { records, identity } };
    let ended = run(settings, ServedStore::Shared(Arc::new(metered)), Some(parts), warm_up).await;
    outages.tell();
    ended
}

async fn run(
    settings: Settings,
    store: ServedStore,
    shared: Option<SharedParts>,
    warm_up: impl Future<Output = ()>,
) -> anyhow::Result<ServiceEnd> {
    let mut server = BoundServer::bind(settings, store, shared).await?;
    let overrides = Arc::clone(&server.overrides);
    // Stopped when this function ends.
    let mut keeping = JoinSet::new();
    let kept = Arc::clone(&overrides);
    keeping.spawn(async move { kept.run().await });
    let ready = async {
        warm_up.await;
        overrides.first_read().await;
        overrides.warn_of_inert();
    };
    tokio::select! {
        biased;
        signal = server.signals.next() => {
            info!(signal, "stopped before it had started");
            return Ok(ServiceEnd::Drained);
        }
        () = ready => {}
    }
    server.announce();
    server.run().await
}

/// Returns the kind of a store, for people.
fn store_kind(url: &StoreUrl) -> &'static str {
    // It hides its password.
    match url.to_string() {
        _ if url.is_cluster() => "cluster",
        url if url.contains("+sentinel:") => "sentinel",
        _ => "redis",
    }
}

impl BoundServer {
    async fn bind(
        mut settings: Settings,
        store: ServedStore,
        shared: Option<SharedParts>,
    ) -> anyhow::Result<Self> {
        let open_files = open_files::raise_limit();
        let sockets = Sockets::bind(&settings.addresses).await?;
        let caps = sockets.caps(settings.max_connections, open_files);
        // Before the addresses are announced, because a reader of them may send a signal at once.
        let on_hangup = if settings.follows_files() { Hangup::Reloads } else { Hangup::Ends };
        let signals = Signals::catch(on_hangup).context("cannot catch signals")?;

        let mut background = BackgroundTasks::default();
        let (mut tls, mut tls_reloads) = (None, None);
        if let Some((server, reading)) = settings.tls.take() {
            let server = Arc::new(server);
            server.log_warnings(&reading);
            let reloads = Arc::new(server.reloads(reading));
            tls_reloads = Some(Arc::clone(reloads.state()));
            background.follow(reloads)?;
            tls = Some(server);
        }
        let (principals, allowed_hosts) = (settings.principals.take(), settings.allowed_hosts);
        let (admission, principals) =
            Admission::start(principals, allowed_hosts, tls.as_deref(), settings.tls_scope, &mut background)?;
        let bound = sockets.into_listeners(&admission, caps)?;
        let listeners: Vec<Listener> = bound.iter().map(|bound| bound.listener.clone()).collect();

        let resources = Resources {
            phase: Phase::default(),
            metrics: Arc::new(Metrics::new(listeners.iter().map(|listener| listener.name))),
            budget: Budget::new(settings.body_memory),
        };
        let talkers = settings.dashboard.as_ref().and_then(|dashboard| dashboard.talkers.as_ref());
        let talkers = talkers.map(Talkers::new).transpose();
        let talkers = talkers.ok().context("the system has no random numbers")?.map(Arc::new);
        let counting = CountingParts {
            store,
            memory: settings.memory,
            when_full: settings.when_full,
            max_attribute_bytes: settings.max_attribute_bytes,
            caller_quotas: settings.asking.caller_quotas,
            metrics: Arc::clone(&resources.metrics),
            page: settings.dashboard.as_ref().and_then(|dashboard| dashboard.public_url.clone()),
            talkers: talkers.clone(),
        };
        let source = settings.source;
        settings.notes.iter().for_each(|note| info!(source, "{note}"));
        settings.default_notes.log(&source);
        let dialect = settings.asking.dialect;
        let store_kind = shared.as_ref().map(|parts| parts.kind);
        let (shared, stored) = shared.map(|parts| (parts.metrics, parts.overrides)).unzip();
        let overrides = OverrideParts {
            settings: settings.overrides,
            store: stored,
            test_clock: settings.asking.test_clock.clone(),
        };
        let rules = Rules::start(settings.rules, &source, dialect, &counting, overrides, &mut background)?;
        let optional = OptionalParts {
            shared,
            principals,
            tls: tls.clone().zip(tls_reloads),
            aliases: settings.metric_aliases,
        };
        let figures = Arc::new(figures::figures(&resources, &counting, &rules, optional));
        let scrape = Scrape::new(Arc::clone(&figures));
        let dashboard = settings.dashboard.map(|_| {
            let (phase, warnings) = (resources.phase.clone(), rules.warnings.clone());
            Arc::new(Dashboard::new(figures, phase, warnings, store_kind).with_talkers(talkers))
        });
        if let Some(dashboard) = dashboard.clone() {
            background.add(async move { dashboard.keep_recording().await });
        }

        let (grpc_bound, http_bound): (Vec<BoundListener>, Vec<_>) =
            bound.into_iter().partition(|bound| bound.listener.kind == ListenerKind::Grpc);
        let http_listeners: Vec<Listener> = http_bound.iter().map(|bound| bound.listener.clone()).collect();
        let trials = settings.asking.trials_header;
        let hold_seal = Arc::clone(&settings.asking.hold_seal);
        let decider = Arc::clone(&rules.decider);
        let overrides = rules.overrides;
        let followed =
            FollowedRules { source: rules.source, xds: rules.xds, overrides: Arc::clone(&overrides) };
        let edge = Edge::new(
            &http_listeners,
            decider,
            followed,
            settings.asking,
            resources.clone(),
            scrape,
            dashboard,
        );
        let edge = Arc::new(edge);
        let peers = settings.max_connections_per_peer;
        let listening = Acceptors { resources: &resources, tls, max_connections_per_peer: peers };
        let http = http_bound.into_iter().map(|bound| {
            let http = Http::new(Arc::clone(&edge), bound.listener.clone());
            listening.task(bound, http)
        });
        let mut acceptors: Vec<Task> = http.collect();
        let GrpcSettings { limit_headers, max_connection_age, keep_alive } = settings.grpc;
        for bound in grpc_bound {
            let live = rules.decider.policies().filter(|_| limit_headers).map(DecisionEngine::live);
            let limits = live.map(|live| PolicyHeaders::new(&live));
            let checking = RateLimitSettings {
                caller_quotas: counting.caller_quotas,
                max_attribute_bytes: counting.max_attribute_bytes,
                added_headers: AddedHeaders { limits, trials },
            };
            let (decider, hold_seal) = (Arc::clone(&rules.decider), Arc::clone(&hold_seal));
            let service = grpc::Service::new(decider, resources.clone(), checking, hold_seal);
            let (service, reporter) = service.await.context("gRPC reflection")?;
            background.add(grpc::report(reporter, Arc::clone(&rules.decider), resources.phase.clone()));
            let lifetime = Lifetime::new(max_connection_age);
            let grpc = Grpc::new(service, bound.listener.clone(), keep_alive, lifetime);
            acceptors.push(listening.task(bound, grpc));
        }
        let metrics = Arc::clone(&resources.metrics);
        background.add(async move { metrics.cuts().keep_logging().await });
        let listener = |kind| listeners.iter().find(|it| it.kind == kind).cloned();
        Ok(Self {
            acceptors,
            background,
            overrides,
            checks: listener(ListenerKind::Checks),
            admin: listener(ListenerKind::Admin).context("the admin listener")?,
            listeners,
            is_admin_open: admission.is_open(ListenerKind::Admin) && settings.addresses.is_admin_reachable(),
            asks_token: admission.asks_token,
            rule: rules.summary,
            generation: rules.decider.generation(),
            example: rules.example,
            caps,
            max_connections: settings.max_connections,
            open_files,
            drain_delay: settings.drain_delay,
            log_format: settings.log_format,
            resources,
            signals,
        })
    }

    /// Serves until a signal arrives, then lets open connections finish.
    async fn run(self) -> anyhow::Result<ServiceEnd> {
        let Self { acceptors, background, drain_delay, resources, mut signals, .. } = self;
        let Resources { phase, metrics, .. } = resources;
        let mut serving: JoinSet<()> = acceptors.into_iter().collect();
        // Stopped when this function ends.
        let _background = background.start();

        let signal = tokio::select! {
            stopped = serving.join_next() => {
                stopped.transpose().context("the accept loop stopped")?;
                anyhow::bail!("the accept loop stopped");
            }
            signal = signals.next() => signal,
        };
        if let Some(delay) = drain_delay {
            info!(signal, "draining in {delay:?}: a second signal exits at once");
            phase.leave();
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                signal = signals.next() => {
                    warn!(signal, "stopped at once");
                    // Before the process ends, the files of Unix sockets are removed.
                    serving.shutdown().await;
                    return Ok(ServiceEnd::Interrupted);
                }
            }
        }
        info!(signal, "draining: a second signal exits at once");
        phase.drain();
        let finished = async {
            while let Some(finished) = serving.join_next().await {
                finished.context("the accept loop stopped")?;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            drained = tokio::time::timeout(DRAIN_LIMIT, finished) => {
                metrics.cuts().log_new();
                match drained {
                    Ok(finished) => {
                        finished?;
                        info!("stopped");
                    }
                    Err(_) => warn!("stopped: connections were left after {DRAIN_LIMIT:?}"),
                }
                Ok(ServiceEnd::Drained)
            }
            signal = signals.next() => {
                warn!(signal, "stopped at once");
                serving.shutdown().await;
                Ok(ServiceEnd::Interrupted)
            }
        }
    }
}
