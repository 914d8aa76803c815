//! Decisions by the limits of Envoy's rate-limit service, for every protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate::{FallbackStore, OnStoreFailure, StoreError};
use tollgate_envoy::{DecideError, Domains, EnvoyLimiter, Request, Response, Settings};
use tollgate_policy::Generation;
use tracing::warn;

use crate::access::caller::{Caller, OnlySomePolicies};
use crate::decide::counting::CountingParts;
use crate::decide::units_left_log::UnitsLeftLog;
use crate::metrics::{CheckSource, EnvoyFigures, Metrics};
use crate::observe::log_gap::LogGap;
use crate::observe::stopwatch::Stopwatch;
use crate::store::readiness::Readiness;
use crate::store::{ServedStore, StoreState};
use crate::talkers::Talkers;

/// The pause in the log after a line about a full store.
const LOG_GAP: Duration = Duration::from_secs(60);

/// Envoy's limits, which decide instead of policies.
#[derive(Debug)]
pub(crate) struct InitialDomains {
    /// A summary of the limits, for people.
    pub(crate) rule: String,
    /// `None` if they are still to come, and no request gets a decision before.
    pub(crate) domains: Option<Domains>,
    /// Their origin, in messages: the folder of the files, or the URL of a server.
    pub(crate) source: Box<str>,
    pub(crate) settings: Settings,
    pub(crate) on_store_failure: OnStoreFailure,
    /// Whether `/healthcheck` fails during an outage of the store.
    pub(crate) outage_is_unhealthy: bool,
    /// Whether the service is not ready while there is no domain.
    pub(crate) needs_domains: bool,
}

/// Decides by the configuration of envoyproxy/ratelimit, and measures it.
pub(crate) struct DomainEngine {
    limiter: EnvoyLimiter<ServedStore>,
    /// `None` if nobody sees them.
    talkers: Option<Arc<Talkers>>,
    settings: Settings,
    /// The folder of the files, or the URL of a server.
    source: Box<str>,
    /// Whether the first limits are still to come.
    awaits_limits: AtomicBool,
    /// Of the live limits, counted from 1.
    version: AtomicU64,
    on_store_failure: OnStoreFailure,
    /// Whether descriptors may bring limits.
    caller_quotas: bool,
    metrics: Arc<Metrics>,
    /// All requests, whatever the outcome.
    requests: AtomicU64,
    /// Requests that got no counter because memory was full.
    full: AtomicU64,
    /// Requests without a decision, because of the store.
    store_errors: AtomicU64,
    /// Invalid requests.
    invalid: AtomicU64,
    full_logged: LogGap,
    units_left: UnitsLeftLog,
    readiness: Readiness,
    outage_is_unhealthy: bool,
    needs_domains: bool,
    /// Whether requests were once decided.
    was_ready: AtomicBool,
}

/// The reason why there is no decision.
#[derive(Debug)]
pub(crate) enum NoDecision {
    OnlySomePolicies(OnlySomePolicies),
    /// The descriptor at this index has a limit, which is not allowed.
    NoLimits(usize),
    /// The first limits are still to come.
    NoLimitsYet,
    Envoy(DecideError),
}

impl DomainEngine {
    pub(crate) fn new(counting: &CountingParts, initial: InitialDomains) -> Self {
        let CountingParts { store, memory, when_full, caller_quotas, metrics, talkers, .. } =
            counting.clone();
        let InitialDomains { domains, source, settings, on_store_failure, .. } = initial;
        let InitialDomains { outage_is_unhealthy, needs_domains, .. } = initial;
        let awaits_limits = AtomicBool::new(domains.is_none());
        let store = FallbackStore::new(store, on_store_failure).memory(memory);
        // It needs no timer: the steps of a decision carry their deadline to a shared store, and memory never waits.
        let limiter =
            EnvoyLimiter::over(store, domains.unwrap_or_default(), settings.clone()).when_full(when_full);
        talkers.iter().for_each(|talkers| talkers.follow_domains(&limiter.live()));
        let (requests, full, full_logged, store_errors, invalid, units_left) = Default::default();
        let readiness = Readiness::default();
        Self {
            limiter,
            talkers,
            settings,
            source,
            awaits_limits,
            version: AtomicU64::new(1),
            on_store_failure,
            caller_quotas,
            metrics,
            requests,
            full,
            store_errors,
            invalid,
            full_logged,
            units_left,
            readiness,
            outage_is_unhealthy,
            needs_domains,
            was_ready: AtomicBool::new(false),
        }
    }

    /// Decides whether to allow a request, and counts it. The caller waits until this time at most, if it has said so.
    ///
    /// # Errors
    ///
    /// If the caller may use only some policies, because domains are not policies; if the first limits are still to
    /// come; if a descriptor has a limit, which is not allowed; or if the store cannot decide.
    pub(crate) async fn decide(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        caller_until: Option<Instant>,
    ) -> Result<Response, NoDecision> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        caller.may_touch_all().map_err(NoDecision::OnlySomePolicies)?;
        if self.awaits_limits() {
            return Err(NoDecision::NoLimitsYet);
        }
        let limited = request.descriptors.iter().position(|descriptor| descriptor.limit.is_some());
        if let Some(index) = limited.filter(|_| !self.caller_quotas) {
            self.invalid.fetch_add(1, Ordering::Relaxed);
            return Err(NoDecision::NoLimits(index));
        }
        let stopwatch = Stopwatch::start();
        let undropped = self.metrics.undropped();
        let deadline = self.limiter.store().deadline(stopwatch, caller_until);
        let decision = self.limiter.decide_noting(deadline, request, |domains, counted| {
            self.talkers.iter().for_each(|talkers| talkers.note_rule(domains, counted));
        });
        let decision = decision.await;
        undropped.ended();
        match &decision {
            Ok(response) => {
                if response.is_without_room {
                    self.note_full();
                }
                self.units_left.note_response(request, response);
                self.metrics.checked(CheckSource::of_envoy(response, self.on_store_failure));
                self.metrics.took(stopwatch.elapsed());
            }
            // An invalid request is not a check.
            Err(DecideError::Invalid(_)) => {
                self.invalid.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.store_errors.fetch_add(1, Ordering::Relaxed);
                self.metrics.checked(CheckSource::None);
                if matches!(error, DecideError::Store(StoreError::Full)) {
                    self.note_full();
                }
            }
        }
        decision.map_err(NoDecision::Envoy)
    }

    /// Returns the state of the store, at most a moment old.
    pub(crate) async fn store_state(&self) -> StoreState {
        let store = self.limiter.store().clone();
        self.readiness.state(async move { store.state().await }).await
    }

    /// Returns whether the service stays healthy, because requests were once decided. An orchestrator that restarts
    /// unhealthy services could otherwise restart all of them during an outage of the store, which helps nobody.
    pub(crate) fn stays_healthy(&self) -> bool {
        !self.outage_is_unhealthy && !self.lacks_domains() && self.was_ready.load(Ordering::Relaxed)
    }

    /// Returns whether the service is not ready because there is no domain. Requests are still decided.
    pub(crate) fn lacks_domains(&self) -> bool {
        self.needs_domains && self.live().names().next().is_none()
    }

    /// Notes that requests are decided.
    pub(crate) fn note_ready(&self) {
        self.was_ready.store(true, Ordering::Relaxed);
    }

    pub(crate) const fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    /// Returns how many requests got no counter because memory was full.
    pub(crate) fn store_full(&self) -> u64 {
        // Relaxed, here and below: a figure of its own that guards no other memory.
        self.full.load(Ordering::Relaxed)
    }

    /// Returns the figures of Envoy's service for metrics.
    pub(crate) fn figures(&self) -> EnvoyFigures {
        EnvoyFigures {
            live: self.limiter.live(),
            generation: self.generation(),
            requests: self.requests.load(Ordering::Relaxed),
            unknown_domains: self.limiter.unknown_domains(),
            store_errors: self.store_errors.load(Ordering::Relaxed),
            invalid: self.invalid.load(Ordering::Relaxed),
            domains_not_found: self.limiter.domains_not_found(),
            hidden_denials: self.limiter.hidden_denials(),
            hits: self.limiter.hits(),
        }
    }

    fn note_full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
        if self.full_logged.passes(LOG_GAP) {
            warn!("the store is full and has no room for unseen keys: raise --max-counters");
        }
    }

    /// Makes these limits live, unless they are the live ones. Returns whether they became live.
    pub(crate) fn replace(&self, domains: Domains) -> bool {
        let differs = !domains.is_same_as(&self.limiter.live());
        if differs {
            self.limiter.replace(domains);
            self.talkers.iter().for_each(|talkers| talkers.follow_domains(&self.limiter.live()));
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        // Release: a request that no longer waits sees these limits.
        self.awaits_limits.store(false, Ordering::Release);
        differs
    }

    /// Returns whether the first limits are still to come.
    pub(crate) fn awaits_limits(&self) -> bool {
        self.awaits_limits.load(Ordering::Acquire)
    }

    /// Returns the generation of the live limits under the settings of this service; `None` if the first are still to come.
    pub(crate) fn generation(&self) -> Option<Generation> {
        let under = |domains: &Domains| domains.generation_under(&self.settings, self.on_store_failure);
        (!self.awaits_limits()).then(|| under(&self.live()))
    }

    /// Returns the limits that are live now.
    pub(crate) fn live(&self) -> Arc<Domains> {
        self.limiter.live()
    }

    /// Returns the version of the live limits.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the folder of the files, or the URL of the server that sends the limits.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}
