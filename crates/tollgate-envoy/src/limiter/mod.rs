//! Decisions on requests, by limits that can be replaced while it runs.
//!
//! What a request asks is in `plan`, what the store is asked in `steps`, and what is answered in `assemble` and
//! `metadata`.

mod assemble;
mod deadline;
mod metadata;
mod plan;
mod steps;

use std::fmt;
use std::future::{Pending, pending};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate::{Clock, FallbackStore, OnStoreFailure, Store, SystemClock};
use tollgate_policy::WhenFull;

use self::plan::Plan;
use crate::{DecideError, Domains, Request, Response, Settings};

/// A limiter by the configuration of envoyproxy/ratelimit: decides whether a request may go on.
///
/// The limits can be [replaced](Self::replace) at any time. A request is decided entirely under those that are live when
/// it arrives.
///
/// # What a request consumes
///
/// By default, all limits of a request are charged, or none is: a request that one limit denies consumes nothing of the
/// others. With [`Charging::Each`](crate::Charging::Each), every limit is charged by itself.
///
/// - Limits in shadow mode are charged after the decision, each by itself, and never deny. Nothing is taken from them
///   if the request is denied.
/// - Limits in quota mode deny only together: if at least one has room, those with room are charged. If several count on
///   one counter, the first of them come first, after limits that deny by themselves.
/// - With 0 units, a limit is looked at. It denies if one more unit has no room. With `Charging::Each` it denies only
///   if more than the limit is used.
/// - Units that are given back go to the window that is open now, whatever the other descriptors are told. If they cannot
///   be given back, only a request that does nothing else fails.
///
/// # Consistency
///
/// Descriptors with the same entries and the same unit share a counter, whatever their limits. So a limit that comes
/// with a descriptor counts together with the configured one of the same unit.
///
/// # Examples
///
/// ```
/// use tollgate::MemoryStore;
/// use tollgate_envoy::{Code, Descriptor, Domains, EnvoyLimiter, Request, SameDomain, Settings};
/// use tollgate_policy::Sources;
///
/// let text = "
/// domain: shop
/// descriptors:
///   - { key: user, rate_limit: { unit: day, requests_per_unit: 1 } }
/// ";
/// let domains = Domains::parse(&Sources::of("shop.yaml", text), SameDomain::Refuse)?;
/// let limiter = EnvoyLimiter::new(MemoryStore::new(), domains, Settings::default());
///
/// let descriptors = [Descriptor::new([("user", "alice")])].into_iter().collect();
/// let request = Request { domain: "shop", descriptors, hits_addend: 0 };
/// # tollgate_testkit::block_on(async {
/// assert_eq!(limiter.decide(&request).await?.overall, Code::Ok);
/// let denied = limiter.decide(&request).await?;
/// assert_eq!(denied.overall, Code::OverLimit);
/// assert_eq!(denied.statuses[0].limit_remaining, 0);
/// # Ok::<(), tollgate_envoy::DecideError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EnvoyLimiter<S, C = SystemClock, D = fn() -> Pending<()>> {
    store: FallbackStore<S, C>,
    deadline: D,
    when_full: WhenFull,
    settings: Settings,
    live: ArcSwap<Domains>,
}

impl<S: Store> EnvoyLimiter<S> {
    /// These limits over this store. A store that may have to wait needs a [deadline](Self::deadline). While it is in
    /// trouble, there is no decision, and Envoy's `failure_mode_deny` says what becomes of requests.
    pub fn new(store: S, domains: Domains, settings: Settings) -> Self {
        Self::over(FallbackStore::new(store, OnStoreFailure::Closed), domains, settings)
    }
}

impl<S, C> EnvoyLimiter<S, C> {
    /// These limits over this store, which says what happens while the store below it is in trouble.
    pub fn over(store: FallbackStore<S, C>, domains: Domains, settings: Settings) -> Self {
        let live = ArcSwap::from_pointee(domains);
        Self { store, deadline: pending, when_full: WhenFull::default(), settings, live }
    }
}

impl<S, C, D> EnvoyLimiter<S, C, D> {
    /// Sets the deadline of a decision, for all its steps together. After it, limits that decide are answered as while
    /// the store is in trouble. Shadow limits and refunds are left out of the answer.
    #[must_use]
    pub fn deadline<F, T>(self, deadline: F) -> EnvoyLimiter<S, C, F>
    where
        F: Fn() -> T,
        T: Future<Output = ()>,
    {
        let Self { store, when_full, settings, live, .. } = self;
        EnvoyLimiter { store, deadline, when_full, settings, live }
    }

    /// Sets the answer for a key without a counter while the store is full.
    #[must_use]
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// The store.
    pub const fn store(&self) -> &S {
        self.store.store()
    }

    /// The limits that are live now.
    pub fn live(&self) -> Arc<Domains> {
        self.live.load_full()
    }

    /// Makes other limits live, from the next request on. Counters are kept.
    pub fn replace(&self, domains: Domains) {
        self.live.store(Arc::new(domains));
    }
}

impl<S, C, D, T> EnvoyLimiter<S, C, D>
where
    S: Store,
    C: Clock,
    D: Fn() -> T,
    T: Future<Output = ()>,
{
    /// Decides whether a request may go on, and counts it.
    ///
    /// # Errors
    ///
    /// If the request makes no sense, or the store could not count.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the units may or may not have been taken.
    pub async fn decide(&self, request: &Request<'_>) -> Result<Response, DecideError> {
        let live = self.live();
        let plan = Plan::new(request, live.domain(request.domain), &self.settings)?;
        let states = self.count(&plan).await?;
        Ok(assemble::response(request, &plan, &states, &self.settings))
    }
}

/// Without the store, which knows keys.
impl<S, C, D> fmt::Debug for EnvoyLimiter<S, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvoyLimiter").field("settings", &self.settings).finish_non_exhaustive()
    }
}
