//! The composition root: builds the service from its settings, runs it, drains it.

mod announced_limits;
mod example;
mod signals;

use std::future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tollgate_policy::PolicyLimiter;
use tollgate_wire::headers::PolicyHeaders;
use tracing::{info, warn};

use self::example::Example;
use self::signals::{Hangup, Signals, hangup};
use crate::access::listener::{Access, Listener};
use crate::access::principals::{LivePrincipals, Principal};
use crate::args::LogFormat;
use crate::cli::output;
use crate::decide::engine::Engine;
use crate::decide::envoy::EnvoyEngine;
use crate::decide::live_domains::LiveDomains;
use crate::decide::live_policies::LivePolicies;
use crate::grpc::{self, AddedHeaders, Grpc};
use crate::http::{Edge, Http};
use crate::live::follow;
use crate::live::reload::{Reloads, Reread};
use crate::live::watch::Watch;
use crate::metrics::{
    BodyMemory, FigureSource, Figures, Metrics, Occupancy, PolicyFigures, PrincipalFigures, Scrape,
    StoreMetrics, TlsFigures,
};
use crate::net::accept::Acceptor;
use crate::net::budget::Budget;
use crate::net::connections_per_peer::Peers;
use crate::net::drain::Phase;
use crate::net::handshake::ListenerTls;
use crate::net::open_files::{self, Caps};
use crate::net::protocol::Protocol;
use crate::net::socket;
use crate::net::timeouts::Lifetime;
use crate::observe::secret_file;
use crate::observe::warning_log;
use crate::settings::{GrpcSettings, InitialPolicies, Settings};
use crate::store::{self, Metered, ServedStore, StoreSetup};
use crate::tls::Security;
use crate::tls::ServerTls;

/// The time for open connections to finish. With the steps before and after it, the process ends within five seconds of
/// the signal.
const DRAIN_LIMIT: Duration = Duration::from_millis(4_700);

/// A part of the service that runs by itself and has not started.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The service, bound to its addresses and not yet answering.
struct Server {
    /// Each accepts connections until the service drains, and ends with the last connection.
    acceptors: Vec<Task>,
    /// Each runs until the service has stopped.
    background: Vec<Task>,
    public: Listener,
    admin: Listener,
    /// The listener for metrics only.
    metrics_only: Option<Listener>,
    /// The listener for probes only.
    probes_only: Option<Listener>,
    grpc: Option<Listener>,
    /// Whether everyone may use the scopes of a listener.
    is_open: bool,
    /// Whether a principal has a token.
    asks_token: bool,
    /// A summary of the limits, for people.
    rule: String,
    /// A command to try, if there is one.
    example: Option<Example>,
    caps: Caps,
    max_connections: u32,
    /// The maximum number of open files of the process.
    open_files: Option<u64>,
    drain_delay: Option<Duration>,
    log_format: LogFormat,
    phase: Phase,
    metrics: Arc<Metrics>,
    signals: Signals,
}

/// The end of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
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
pub async fn serve(mut settings: Settings) -> anyhow::Result<Ended> {
    settings.secret_files.iter().for_each(|path| secret_file::warn_if_public(path));
    let memory = settings.memory.clone();
    let Some(store) = settings.store.take() else {
        return run(settings, ServedStore::Memory(memory), None, future::ready(())).await;
    };
    let StoreSetup { url, prefix, identity, layout, timeout, connect_timeout, builder } = store;
    let shared = builder.build().context("the shared store")?;
    let (status, warming) = (shared.clone(), shared.clone());
    let metrics = Arc::new(StoreMetrics::new(move || status.status()));
    let metered = Metered::new(shared, timeout, identity, Arc::clone(&metrics));
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
    let warm_up = store::warm_up(&warming, connect_timeout, Arc::clone(&metrics));
    let (outages, telling) = (metered.outages(), metered.outages());
    tokio::spawn(async move { telling.keep_telling().await });
    let ended = run(settings, ServedStore::Shared(Arc::new(metered)), Some(metrics), warm_up).await;
    outages.tell();
    ended
}

async fn run(
    settings: Settings,
    store: ServedStore,
    shared: Option<Arc<StoreMetrics>>,
    warm_up: impl Future<Output = ()>,
) -> anyhow::Result<Ended> {
    let mut server = Server::bind(settings, store, shared).await?;
    tokio::select! {
        biased;
        signal = server.signals.next() => {
            info!(signal, "stopped before it had started");
            return Ok(Ended::Drained);
        }
        () = warm_up => {}
    }
    server.announce();
    server.run().await
}

/// The parts that all listeners share.
struct Parts {
    phase: Phase,
    metrics: Arc<Metrics>,
    budget: Budget,
    tls: Option<Arc<ServerTls>>,
    max_connections_per_peer: Option<u32>,
}

impl Parts {
    /// Returns the task that accepts the connections of a listener.
    fn acceptor<P: Protocol>(
        &self,
        socket: TcpListener,
        max_connections: u32,
        listener: &Listener,
        protocol: P,
    ) -> Task {
        let open = self.metrics.connections(listener.name);
        let phase = self.phase.of_listener(open.clone(), max_connections, self.budget.clone());
        let peers = self.max_connections_per_peer.map(Peers::new);
        let handshakes = self.metrics.handshakes(listener.name);
        let tls = self.tls.clone().filter(|_| listener.security != Security::Plain);
        let tls = tls.map(|tls| ListenerTls::new(tls, listener.security, P::ALPN, handshakes));
        Box::pin(Acceptor::new(socket, max_connections, peers, protocol, tls, open, phase).run())
    }
}

impl Server {
    async fn bind(
        settings: Settings,
        store: ServedStore,
        shared: Option<Arc<StoreMetrics>>,
    ) -> anyhow::Result<Self> {
        let Settings {
            policies,
            envoy,
            memory,
            when_full,
            asking,
            trials_header,
            metric_aliases,
            listen,
            admin_listen,
            metrics_listen,
            plain_probes,
            grpc,
            allowed_hosts,
            principals,
            tls,
            max_connections,
            max_connections_per_peer,
            body_memory,
            max_attribute_bytes,
            drain_delay,
            log_format,
            ..
        } = settings;
        let open_files = open_files::raise_limit();
        let others = 1 + u32::from(metrics_listen.is_some()) + u32::from(plain_probes.is_some());
        let caps = Caps::fitted(max_connections, others, 1 + u32::from(grpc.is_some()), open_files);
        let public = socket::listen_on(listen, "--listen")?;
        let admin = socket::listen_on(admin_listen, "--admin-listen")?;
        let metrics_only = metrics_listen.map(|address| socket::listen_on(address, "--metrics-listen"));
        let metrics_only = metrics_only.transpose()?;
        let probes_only = plain_probes.map(|address| socket::listen_on(address, "--plain-probes"));
        let probes_only = probes_only.transpose()?;
        let grpc = grpc.map(|grpc| anyhow::Ok((socket::listen_on(grpc.listen, "--grpc")?, grpc)));
        let grpc = grpc.transpose()?;
        // Before the addresses are announced, because a reader of them may send a signal at once.
        let has_file = policies.file.is_some() || envoy.is_some() || principals.is_some() || tls.is_some();
        let on_hangup = if has_file { Hangup::Reloads } else { Hangup::Ends };
        let signals = Signals::catch(on_hangup).context("cannot catch signals")?;

        let mut background: Vec<Task> = Vec::new();
        let tls = tls.map(Arc::new);
        if let Some(tls) = &tls {
            tls.log_warnings();
            let watch = Watch::start(&tls.files().paths());
            background.push(Box::pin(follow::keep_in_step(Arc::clone(tls), watch, hangup()?)));
        }
        let unproven = if tls.is_some() { Security::Tls } else { Security::Plain };
        let is_mutual = tls.as_ref().is_some_and(|tls| tls.is_mutual());
        let security = if is_mutual { Security::Mutual } else { unproven };
        let is_open = principals.is_none() && !is_mutual;
        let asks_token = principals.iter().flat_map(|(_, all)| all).any(Principal::has_token);
        let (access, principals) = match principals {
            None if is_mutual => (Access::Everybody, None),
            None => (Access::Hosts(allowed_hosts), None),
            Some((file, principals)) => {
                let watch = Watch::start(file.files().paths());
                let (principals, live) = LivePrincipals::new(file, principals, security);
                let reloads = Arc::new(Reloads::new(principals));
                let figures =
                    PrincipalFigures { live: Arc::clone(&live), reloads: Arc::clone(reloads.state()) };
                background.push(Box::pin(follow::keep_in_step(reloads, watch, hangup()?)));
                (Access::Principals(live), Some(figures))
            }
        };
        let public_listener = Listener::checks(public.local_addr()?, access.clone(), security);
        let of_grpc = |(socket, _): &(TcpListener, GrpcSettings)| {
            Ok::<_, io::Error>(Listener::grpc(socket.local_addr()?, access.clone(), security))
        };
        let grpc_listener = grpc.as_ref().map(of_grpc).transpose()?;
        let admin_listener = Listener::admin(admin.local_addr()?, access, security);
        // A scraper has no certificate.
        let of_metrics =
            |socket: &TcpListener| Ok::<_, io::Error>(Listener::metrics(socket.local_addr()?, unproven));
        let metrics_listener = metrics_only.as_ref().map(of_metrics).transpose()?;
        let of_probes = |socket: &TcpListener| Ok::<_, io::Error>(Listener::probes(socket.local_addr()?));
        let probes_listener = probes_only.as_ref().map(of_probes).transpose()?;
        let own = [public_listener.clone(), admin_listener.clone()];
        let more = metrics_listener.clone().into_iter().chain(probes_listener.clone());
        let listeners: Vec<Listener> = own.into_iter().chain(more).collect();

        let names = listeners.iter().chain(&grpc_listener).map(|listener| listener.name);
        let (phase, metrics) = (Phase::default(), Arc::new(Metrics::new(names)));
        let InitialPolicies { policies, source, file, notes, warnings, other_store } = policies;
        let of_envoy = envoy.as_ref().map(|envoy| envoy.rule.clone());
        let rule = of_envoy.unwrap_or_else(|| announced_limits::rule(&policies, file.as_ref()));
        let example = match envoy {
            Some(_) => Some(Example::of_domains()),
            None => Example::of_policies(&policies, file.as_ref(), asking.dialect),
        };
        notes.iter().for_each(|note| info!(source, "{note}"));
        if file.is_none() {
            let warnings = warnings.iter().map(|warning| {
                format!("policy `{}`: {} [{}]", warning.policy(), warning.kind(), warning.code())
            });
            warning_log::log_first(warnings, &source, "correct these to see them");
        }
        let limiter = PolicyLimiter::new(store, policies, &source)
            .memory(memory.clone())
            .when_full(when_full)
            .max_value_bytes(max_attribute_bytes);
        let limiter = Arc::new(limiter);
        let reloads = file.map(|mut file| {
            file.log_warnings(&warnings);
            if other_store {
                info!(file = file.name(), "`--store` overrides `store:` of the file");
            }
            let watch = Watch::start(file.files().paths());
            let reloads = Arc::new(Reloads::new(LivePolicies::new(Arc::clone(&limiter), file)));
            let in_step = follow::keep_in_step(Arc::clone(&reloads), watch, hangup()?);
            background.push(Box::pin(in_step));
            anyhow::Ok(reloads)
        });
        let reloads = reloads.transpose()?;
        let envoy = envoy.map(|initial| {
            let (store, metrics) = (limiter.store().clone(), Arc::clone(&metrics));
            let (engine, files) =
                EnvoyEngine::new(store, memory.clone(), when_full, initial, asking.caller_quotas, metrics);
            let engine = Arc::new(engine);
            let watch = Watch::start(files.files().paths());
            let reloads = Arc::new(Reloads::new(LiveDomains::new(Arc::clone(&engine), files)));
            background.push(Box::pin(follow::keep_in_step(Arc::clone(&reloads), watch, hangup()?)));
            anyhow::Ok((engine, reloads as Arc<dyn Reread>))
        });
        let (envoy, of_envoy) = envoy.transpose()?.unzip();
        // Files of Envoy's limits take the place of those of policies.
        let reloads = of_envoy.or_else(|| reloads.map(|reloads| reloads as Arc<dyn Reread>));

        let (counted, reloaded) = (Arc::clone(&limiter), reloads.as_ref().map(|it| Arc::clone(it.state())));
        let beside = envoy.clone();
        let envoy_figures = envoy.clone().map(|envoy| {
            let figures: FigureSource<_> = Box::new(move || envoy.figures());
            figures
        });
        let figures = move || PolicyFigures {
            live: counted.live(),
            store_full: counted.store_full() + beside.as_ref().map_or(0, |envoy| envoy.store_full()),
            reloads: reloaded.clone(),
        };
        let size = move || Occupancy { counters: memory.counters(), max_counters: memory.max_counters() };
        let budget = Budget::new(body_memory);
        let body_budget = budget.clone();
        let body_figures =
            move || BodyMemory { held_bytes: body_budget.held(), refused: body_budget.refused() };
        let tls_figures = tls.clone().map(|tls| {
            let figures: FigureSource<_> = Box::new(move || TlsFigures {
                expiry: tls.expiry(),
                reloads: tls.reloads().counts(),
                is_in_step: tls.reloads().are_in_step(),
            });
            figures
        });
        let scrape = Scrape::new(Figures {
            metrics: Arc::clone(&metrics),
            policies: Box::new(figures),
            envoy: envoy_figures,
            principals,
            memory_size: Box::new(size),
            shared,
            body_memory: Box::new(body_figures),
            tls: tls_figures,
            aliases: metric_aliases,
        });
        let engine = Arc::new(Engine::new(limiter, when_full, Arc::clone(&metrics)));
        let caller_quotas = asking.caller_quotas;
        let edge = Edge::new(
            &listeners,
            Arc::clone(&engine),
            reloads,
            envoy.clone(),
            asking,
            trials_header,
            budget.clone(),
            Arc::clone(&metrics),
            scrape,
            phase.clone(),
        );
        let edge = Arc::new(edge);

        let parts = Parts {
            phase: phase.clone(),
            metrics: Arc::clone(&metrics),
            budget,
            tls,
            max_connections_per_peer,
        };
        let more = metrics_only.into_iter().chain(probes_only).map(|socket| (socket, caps.admin));
        let sockets = [(public, caps.public), (admin, caps.admin)].into_iter().chain(more);
        let acceptors = sockets.zip(listeners).map(|((socket, max_connections), listener)| {
            let http = Http::new(Arc::clone(&edge), listener.clone());
            parts.acceptor(socket, max_connections, &listener, http)
        });
        let mut acceptors: Vec<Task> = acceptors.collect();
        if let Some(((socket, settings), listener)) = grpc.zip(grpc_listener.clone()) {
            let limits = settings.limit_headers.then(|| PolicyHeaders::new(&engine.live()));
            let added_headers = AddedHeaders { limits, trials: trials_header };
            let (budget, metrics) = (parts.budget.clone(), Arc::clone(&parts.metrics));
            let service = grpc::Service::new(
                engine,
                envoy,
                budget,
                metrics,
                caller_quotas,
                max_attribute_bytes,
                added_headers,
            );
            let (service, reporter) = service.await.context("gRPC reflection")?;
            background.push(Box::pin(grpc::report(reporter, edge, phase.clone())));
            let lifetime = Lifetime::new(settings.max_connection_age);
            let grpc = Grpc::new(service, listener.clone(), settings.keep_alive, lifetime);
            acceptors.push(parts.acceptor(socket, caps.public, &listener, grpc));
        }
        let telling = Arc::clone(&metrics);
        background.push(Box::pin(async move { telling.cuts().keep_logging().await }));
        Ok(Self {
            acceptors,
            caps,
            max_connections,
            open_files,
            drain_delay,
            background,
            public: public_listener,
            admin: admin_listener,
            metrics_only: metrics_listener,
            probes_only: probes_listener,
            grpc: grpc_listener,
            is_open,
            asks_token,
            rule,
            example,
            log_format,
            phase,
            metrics,
            signals,
        })
    }

    /// Announces the addresses: for people on standard output, otherwise in a log line. Warnings come after them.
    fn announce(&self) {
        let Self { public, admin, metrics_only, probes_only, grpc, rule, example, .. } = self;
        let Self { open_files, max_connections, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        let certificates = match public.security {
            Security::Plain => "",
            Security::Tls => "--cacert CA ",
            Security::Mutual => "--cacert CA --cert CERTIFICATE --key KEY ",
        };
        let token = if self.asks_token { "-H \"Authorization: Bearer $(cat token.txt)\" " } else { "" };
        let try_it = example.as_ref().map(|example| match example {
            Example::Request(path) => format!("curl -i {certificates}{token}'{}{path}'", public.url()),
            Example::Explain(command) => command.clone(),
        });
        let mut is_printed = self.log_format == LogFormat::Text;
        if is_printed {
            let line = |name: &str, listener: &Option<Listener>| {
                let line = listener.as_ref().map(|listener| format!("{name:<7} {}\n", listener.url()));
                line.unwrap_or_default()
            };
            let metrics = line("metrics", metrics_only);
            let (probes, grpc) = (line("probes", probes_only), line("grpc", grpc));
            let to_try = try_it.as_ref().map(|try_it| format!("try     {try_it}\n")).unwrap_or_default();
            let text = format!(
                "tollgate {version}: {rule}\n\
                 checks  {}\n\
                 admin   {}\n\
                 {metrics}\
                 {probes}\
                 {grpc}\
                 {to_try}",
                public.url(),
                admin.url()
            );
            if let Err(error) = output::answer(&text) {
                is_printed = false;
                warn!(%error, "cannot write to standard output: the addresses are only in the log");
            }
        }
        // The system may allow less than was requested.
        let backlog = socket::backlog();
        let Caps { public: connections, admin: admin_connections } = self.caps;
        if is_printed {
            info!(connections, admin_connections, backlog, "started");
        } else {
            info!(
                version,
                checks = %public.address,
                admin = %admin.address,
                metrics = metrics_only.as_ref().map(|it| display(it.address)),
                probes = probes_only.as_ref().map(|it| display(it.address)),
                grpc = grpc.as_ref().map(|it| display(it.address)),
                rule,
                try_it,
                connections,
                admin_connections,
                backlog,
                "started"
            );
        }
        if connections < *max_connections {
            warn!(
                open_files,
                max_connections,
                "the service accepts fewer connections than --max-connections, because its limit of open files is \
                 too low: raise it (`ulimit -n`, in systemd `LimitNOFILE=`)"
            );
        }
        if self.is_open && !admin.address.ip().to_canonical().is_loopback() {
            warn!(admin = %admin.address, "anyone who can reach the admin listener can change counters: --insecure-admin");
        }
    }

    /// Serves until a signal arrives, then lets open connections finish.
    async fn run(self) -> anyhow::Result<Ended> {
        let Self { acceptors, background, drain_delay, phase, metrics, mut signals, .. } = self;
        let mut serving: JoinSet<()> = acceptors.into_iter().collect();
        // Stopped when this function ends.
        let _background: JoinSet<()> = background.into_iter().collect();

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
                    return Ok(Ended::Interrupted);
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
                Ok(Ended::Drained)
            }
            signal = signals.next() => {
                warn!(signal, "stopped at once");
                Ok(Ended::Interrupted)
            }
        }
    }
}
