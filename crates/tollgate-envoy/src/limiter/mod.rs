//! Decisions on requests, by limits that can be replaced while it runs.
//!
//! `plan` reads a request. `steps` calls the store: `turns` orders steps on one counter, and `quota_mode` leaves out
//! quotas without room. `assemble` and `metadata` build the answer, and `tally` counts for metrics.

mod assemble;
mod deadline;
mod metadata;
mod plan;
mod quota_mode;
mod steps;
mod tally;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tollgate::{Clock, FallbackStore, OnStoreFailure, StepDeadline, Store, SystemClock};
use tollgate_policy::WhenFull;

use self::deadline::StartTimer;
use self::plan::{Effect, Plan};
use self::steps::States;
use self::tally::Tally;
use crate::hits::HitTable;
use crate::{Code, CountedKey, DecideError, Domains, HitCounts, Request, Response, Series, Settings};

/// A limiter with the configuration of envoyproxy/ratelimit: decides whether to allow a request.
///
/// The limits can be [replaced](Self::replace) at any time. A request is decided entirely under those that are live
/// when it arrives.
///
/// # What a request consumes
///
/// By default, all limits of a request are charged, or none is: a request that one limit denies consumes nothing from
/// the others. With [`ChargingMode::Each`](crate::ChargingMode::Each), every limit is charged by itself.
///
/// - Limits in shadow mode are charged after the decision, each by itself, and never deny. Nothing is taken from them
///   if the request is denied.
/// - Limits in quota mode deny only together: if at least one has room, those with room are charged. If several count
///   on one counter, the first of them come first, after limits that deny by themselves.
/// - With 0 units, a limit is looked at. It denies if one more unit has no room. With `ChargingMode::Each` it denies
///   only if more than the limit is used.
/// - Units that are given back go to the window that is open now, whatever the other descriptors are told. If they
///   cannot be given back, only a request that does nothing else fails.
///
/// # Consistency
///
/// Descriptors with the same entries and the same unit share a counter, whatever their limits. So a limit that comes
/// with a descriptor counts together with the configured one of the same unit. Of several descriptors of a request that
/// share a counter, each is charged after those before it.
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
pub struct EnvoyLimiter<S, C = SystemClock> {
    store: FallbackStore<S, C>,
    deadline: Option<Box<StartTimer>>,
    when_full: WhenFull,
    settings: Settings,
    live: ArcSwap<Domains>,
    hits: Option<HitTable>,
    unknown_domains: AtomicU64,
    hidden_denials: AtomicU64,
}

impl<S: Store> EnvoyLimiter<S> {
    /// These limits over this store. A store that may have to wait needs a [deadline](Self::deadline). While it cannot
    /// answer, there is no decision, and Envoy's `failure_mode_deny` decides what happens to requests.
    pub fn new(store: S, domains: Domains, settings: Settings) -> Self {
        Self::over(FallbackStore::new(store, OnStoreFailure::Closed), domains, settings)
    }
}

impl<S, C> EnvoyLimiter<S, C> {
    /// Creates a limiter with these limits over this store, which sets what happens while the store below it cannot
    /// answer.
    pub fn over(store: FallbackStore<S, C>, mut domains: Domains, settings: Settings) -> Self {
        let hits = settings.hits.map(HitTable::new);
        hits.iter().for_each(|hits| domains.count_hits(hits));
        Self {
            store,
            deadline: None,
            when_full: WhenFull::default(),
            settings,
            live: ArcSwap::from_pointee(domains),
            hits,
            unknown_domains: AtomicU64::new(0),
            hidden_denials: AtomicU64::new(0),
        }
    }

    /// Sets the deadline of a decision, for all its steps together. After it, limits that decide are answered as during
    /// an outage of the store. Shadow limits and refunds are left out of the answer.
    #[must_use]
    pub fn deadline<F, T>(self, deadline: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        Self { deadline: Some(Box::new(move || Box::pin(deadline()))), ..self }
    }

    /// Sets the answer for a key without a counter while the store is full.
    #[must_use]
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// Returns the store.
    pub const fn store(&self) -> &S {
        self.store.store()
    }

    /// Returns the limits that are live now.
    pub fn live(&self) -> Arc<Domains> {
        self.live.load_full()
    }

    /// Returns the hits of each limit since it is there, if [they are counted](Settings::hits), in the order of labels.
    pub fn hits(&self) -> Vec<(Series, HitCounts)> {
        self.hits.as_ref().map(HitTable::counts).unwrap_or_default()
    }

    /// Returns how many requests had a domain that the configuration does not have. They are admitted.
    pub fn unknown_domains(&self) -> u64 {
        // Relaxed, here and below: a figure of its own that guards no other memory.
        self.unknown_domains.load(Ordering::Relaxed)
    }

    /// Returns how many descriptors had such a domain, for each of them, if [hits are counted](Settings::hits). Of
    /// thousands of domains, the later ones are counted together as `other`.
    pub fn domains_not_found(&self) -> Vec<(Box<str>, u64)> {
        self.hits.as_ref().map(HitTable::domains_not_found).unwrap_or_default()
    }

    /// Returns how many requests were admitted only because of [`Settings::shadow_mode`].
    pub fn hidden_denials(&self) -> u64 {
        self.hidden_denials.load(Ordering::Relaxed)
    }

    /// Makes other limits live from the next request on. Counters are kept, and so are the figures of metrics, except
    /// those of removed limits and domains.
    pub fn replace(&self, mut domains: Domains) {
        domains.keep_verdicts(&self.live());
        self.hits.iter().for_each(|hits| domains.count_hits(hits));
        self.live.store(Arc::new(domains));
    }
}

impl<S: Store, C: Clock> EnvoyLimiter<S, C> {
    /// Decides whether to allow a request, and counts it.
    ///
    /// # Errors
    ///
    /// If the request is invalid, or the store could not count.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the units may or may not have been charged.
    pub fn decide(&self, request: &Request<'_>) -> impl Future<Output = Result<Response, DecideError>> {
        self.decide_until(None, request)
    }

    /// Like [`decide`](Self::decide), for a caller that waits no longer than until this deadline. All steps of the
    /// store [carry it](Store::step_until); after it, those that a store did not answer are treated as during an outage.
    ///
    /// # Errors
    ///
    /// The same as [`decide`](Self::decide).
    ///
    /// # Cancel safety
    ///
    /// The same as [`decide`](Self::decide).
    pub async fn decide_until(
        &self,
        deadline: Option<StepDeadline>,
        request: &Request<'_>,
    ) -> Result<Response, DecideError> {
        self.decide_noting(deadline, request, |_, _| {}).await
    }

    /// Like [`decide_until`](Self::decide_until), and passes each counted descriptor with a configured limit to `note`,
    /// with the limits that decided.
    ///
    /// # Errors
    ///
    /// The same as [`decide`](Self::decide).
    ///
    /// # Cancel safety
    ///
    /// The same as [`decide`](Self::decide).
    pub async fn decide_noting(
        &self,
        deadline: Option<StepDeadline>,
        request: &Request<'_>,
        mut note: impl FnMut(&Arc<Domains>, CountedKey<'_>),
    ) -> Result<Response, DecideError> {
        let live = self.live();
        let domain = live.domain(request.domain);
        let plan = Plan::new(request, domain, &self.settings)?;
        let states = self.count(&plan, deadline).await?;
        let response = assemble::response(request, &plan, &states, &self.settings);
        let Some(domain) = domain else {
            self.unknown_domains.fetch_add(1, Ordering::Relaxed);
            let descriptors = request.descriptors.len();
            self.hits.iter().for_each(|hits| hits.domain_not_found(request.domain, descriptors));
            return Ok(response);
        };
        if self.settings.shadow_mode && assemble::is_denied(&plan, &response.statuses, &self.settings) {
            self.hidden_denials.fetch_add(1, Ordering::Relaxed);
        }
        domain.verdicts().count(response.overall);
        counted_keys(&plan, &states, &response).for_each(|counted| note(&live, counted));
        if let Some(table) = &self.hits {
            let tally = Tally { table, domain, request, settings: &self.settings };
            tally.count_hits(&plan, &states, &response.statuses);
        }
        Ok(response)
    }
}

/// Returns the descriptors that were counted under a limit of the configuration.
fn counted_keys<'a>(
    plan: &'a Plan<'_>,
    states: &'a States,
    response: &'a Response,
) -> impl Iterator<Item = CountedKey<'a>> {
    let counted = plan.counted().filter(|(_, counted)| counted.effect != Effect::Refund);
    counted.filter_map(|(place, counted)| {
        let (_, rule) = (states.get(place)?.as_ref()?, counted.rule?);
        let is_over = response.statuses.get(place).is_some_and(|status| status.code == Code::OverLimit);
        let denies = response.overall == Code::OverLimit && is_over && counted.decides();
        Some(CountedKey { rule: rule.place, key: &counted.key, denies })
    })
}

/// Without the store, which contains keys.
impl<S, C> fmt::Debug for EnvoyLimiter<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvoyLimiter").field("settings", &self.settings).finish_non_exhaustive()
    }
}
