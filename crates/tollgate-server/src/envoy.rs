//! Decisions as Envoy's rate-limit service makes them, for every protocol that asks for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Sleep, sleep};
use tollgate::{
    Answer, Counted, FallbackStore, MemoryStore, OnStoreFailure, Step, Store, StoreError, SystemClock,
};
use tollgate_envoy::{DecideError, Domains, EnvoyLimiter, Request, Response, Settings};
use tollgate_policy::{PolicyLimiter, Printable, WhenFull};
use tracing::warn;

use crate::caller::{Caller, OtherPolicy};
use crate::live_domains::DomainFiles;
use crate::metrics::{CheckSource, Metrics};
use crate::stopwatch::Stopwatch;

/// What the service decides by in the place of policies.
#[derive(Debug)]
pub(crate) struct InitialDomains {
    /// What is allowed, for people.
    pub(crate) rule: String,
    pub(crate) domains: Domains,
    pub(crate) files: DomainFiles,
    pub(crate) settings: Settings,
    pub(crate) on_store_failure: OnStoreFailure,
    /// How long a decision waits for the store, whatever number of steps it takes.
    pub(crate) timeout: Duration,
}

/// Decides by the configuration of envoyproxy/ratelimit, and measures it.
pub(crate) struct EnvoyEngine<S> {
    limiter: EnvoyLimiter<CountedByPolicies<S>, SystemClock, Deadline>,
    on_store_failure: OnStoreFailure,
    metrics: Arc<Metrics>,
}

/// Why there is no decision.
#[derive(Debug)]
pub(crate) enum Undecided {
    OtherPolicy(OtherPolicy),
    Envoy(DecideError),
}

/// Starts the deadline of a decision.
type Deadline = Box<dyn Fn() -> Sleep + Send + Sync>;

/// The store of a limiter by policies, which counts beside them.
struct CountedByPolicies<S>(Arc<PolicyLimiter<S>>);

impl<S: Store> EnvoyEngine<S> {
    /// An engine, and the files of its domains.
    pub(crate) fn new(
        policies: Arc<PolicyLimiter<S>>,
        memory: MemoryStore,
        when_full: WhenFull,
        initial: InitialDomains,
        metrics: Arc<Metrics>,
    ) -> (Self, DomainFiles) {
        let InitialDomains { domains, files, settings, on_store_failure, timeout, .. } = initial;
        let store = FallbackStore::new(CountedByPolicies(policies), on_store_failure).memory(memory);
        let deadline: Deadline = Box::new(move || sleep(timeout));
        let limiter = EnvoyLimiter::over(store, domains, settings).when_full(when_full).deadline(deadline);
        let engine = Self { limiter, on_store_failure, metrics };
        engine.log_warnings();
        (engine, files)
    }

    /// Decides whether a request may go on, and counts it.
    ///
    /// # Errors
    ///
    /// If the caller may use only some policies, which domains are none of, or there is no decision.
    pub(crate) async fn decide(&self, caller: &Caller, request: &Request<'_>) -> Result<Response, Undecided> {
        caller.may_touch_all().map_err(Undecided::OtherPolicy)?;
        let stopwatch = Stopwatch::start();
        let undropped = self.metrics.undropped();
        let decision = self.limiter.decide(request).await;
        undropped.ended();
        match &decision {
            Ok(response) => {
                self.metrics.checked(CheckSource::of_envoy(response.source, self.on_store_failure));
                self.metrics.took(stopwatch.elapsed());
            }
            // It asks for what cannot be answered, so it is no check.
            Err(DecideError::Invalid(_)) => {}
            Err(_) => self.metrics.checked(CheckSource::None),
        }
        decision.map_err(Undecided::Envoy)
    }
}

impl<S> EnvoyEngine<S> {
    pub(crate) const fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    pub(crate) fn replace(&self, domains: Domains) {
        self.limiter.replace(domains);
        self.log_warnings();
    }

    fn log_warnings(&self) {
        for warning in self.limiter.live().warnings() {
            warn!("{}", Printable(&warning.to_string()));
        }
    }
}

impl<S: Store> Store for CountedByPolicies<S> {
    fn step<'a>(
        &'a self,
        step: Step<'a>,
    ) -> Answer<impl Future<Output = Result<Counted, StoreError>> + Send> {
        self.0.store().step(step)
    }

    fn step_each<'a>(
        &'a self,
        steps: &'a [Step<'a>],
    ) -> Answer<impl Future<Output = Vec<Result<Counted, StoreError>>> + Send> {
        self.0.store().step_each(steps)
    }
}
