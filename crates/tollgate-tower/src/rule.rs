//! Rules: limits for the requests of a route.

use std::fmt;
use std::sync::Arc;

use http::{HeaderValue, response};
use tollgate::{AnyStore, PolicyQuota, SharedLimiter, Store};
#[cfg(feature = "policy")]
use tollgate::{Clock, HoldKeeper};
#[cfg(feature = "policy")]
use tollgate_policy::PolicyLimiter;

#[cfg(feature = "policy")]
use crate::attributes::AttributeSources;
#[cfg(feature = "policy")]
use crate::engine::AnyPolicyEngine;
use crate::head::Head;
use crate::key::KeyExtractor;
#[cfg(feature = "policy")]
use crate::policy_engine::PolicyEngine;

/// A rule for some requests: the limiter that counts them, their key and their cost.
///
/// A layer has one for each of its [routes](crate::RateLimitLayerBuilder::route), and one for all other requests. A
/// route's rule inherits from it the settings that it does not make itself: the [key](Self::key), and the answers to
/// [missing](Self::on_missing) and [invalid](Self::on_invalid) keys and to [store errors](Self::on_store_error), and the
/// [keeper](Self::keeper).
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::Rule;
/// use tollgate_tower::key::PeerAddress;
///
/// // Only failed logins count: what a successful one took is given back.
/// let rule = Rule::new(Limiter::new(Quota::per_minute(5)))
///     .key(PeerAddress::new())
///     .refund_if(|response| response.status.is_success());
/// ```
#[derive(Clone)]
pub struct Rule {
    pub(crate) limiter: RuleLimiter,
    pub(crate) extractor: Option<Arc<dyn KeyExtractor>>,
    pub(crate) cost: Cost,
    pub(crate) reserves: bool,
    #[cfg(feature = "policy")]
    pub(crate) keeper: Option<HoldKeeper>,
    pub(crate) skip: Option<Arc<SkipTest>>,
    pub(crate) refund_if: Option<Arc<RefundTest>>,
    pub(crate) on_missing: Option<OnMissing>,
    pub(crate) on_invalid: Option<OnInvalid>,
    pub(crate) on_store_error: Option<OnStoreError>,
    pub(crate) when_full: Option<OnStoreError>,
}

pub(crate) type SkipTest = dyn Fn(Head<'_>) -> bool + Send + Sync;
pub(crate) type RefundTest = dyn Fn(&response::Parts) -> bool + Send + Sync;

/// The limiter that counts.
#[derive(Clone)]
pub(crate) enum RuleLimiter {
    Nobody,
    Limiter(SharedLimiter<AnyStore>),
    #[cfg(feature = "policy")]
    Policies(Arc<dyn AnyPolicyEngine>),
}

/// The cost of a request, in units.
#[derive(Clone)]
pub(crate) enum Cost {
    Fixed(u32),
    Of(Arc<dyn Fn(Head<'_>) -> u32 + Send + Sync>),
}

/// The answer to a request without a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// 400, with the name of the missing key.
    BadRequest,
    /// 401 with this `WWW-Authenticate`, such as `Bearer`.
    Unauthorized(HeaderValue),
    /// The request is admitted uncounted. If no request can have the key, because a [part of the service is
    /// missing](crate::key::Fault::Setup), the answer is still 500.
    Skip,
}

/// The answer to a request with an invalid key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInvalid {
    /// The extractor's choice: 401 if it requires proof, else 400.
    AsFound,
    /// 400 in any case.
    BadRequest,
    /// 401 with this `WWW-Authenticate` in any case.
    Unauthorized(HeaderValue),
}

/// The answer while the store fails. A [`FallbackStore`](tollgate::FallbackStore) below the limiter handles most
/// failures itself, and can count locally; this is for the errors that it returns.
///
/// A request that the store can [never count](tollgate::StoreError::Uncountable) is always refused, with 500 and a
/// problem of type `urn:problem-type:tollgate:uncountable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreError {
    /// 503, a problem of type `urn:problem-type:tollgate:store-unavailable`.
    Refuse,
    /// The request is admitted uncounted.
    Admit,
}

impl Rule {
    /// Counts with this limiter, one unit a request: a [`Limiter`](tollgate::Limiter) in memory, or a [`SharedLimiter`]
    /// over any store.
    #[must_use]
    pub fn new<S: Store + 'static>(limiter: impl Into<SharedLimiter<S>>) -> Self {
        Self { limiter: RuleLimiter::Limiter(limiter.into().into_any()), ..Self::unlimited() }
    }

    /// Counts by policies, from a file or in code, as the service does. They choose the key, the quotas, the format of
    /// the headers and the status of a denial. They find attributes in these sources, each value only if a policy needs
    /// it.
    ///
    /// A request without a key is answered according to the policy, else with 400. The
    /// [`PolicyDecision`](tollgate_policy::PolicyDecision) is in the request's extensions, together with the states of
    /// its quotas. You can replace the limiter's policies at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Config, PolicyLimiter};
    /// use tollgate_tower::key::{ClientAddress, ForwardedHeader, TrustedProxies};
    /// use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};
    ///
    /// let config = Config::parse("limits.yaml", "policies: [{ name: all, key: [ip], quotas: [100/1m] }]")?;
    /// let proxies = TrustedProxies::parse(["10.0.0.1"])?;
    /// let client = ClientAddress::behind(proxies, ForwardedHeader::XForwardedFor);
    /// let sources = AttributeSources::new().with("ip", client);
    /// assert!(sources.lacking(config.policies()).is_empty());
    ///
    /// let limiter = Arc::new(PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "limits.yaml"));
    /// let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources)).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn policies<S, C>(limiter: &Arc<PolicyLimiter<S, C>>, sources: AttributeSources) -> Self
    where
        S: Store + 'static,
        C: Clock + 'static,
    {
        Self {
            limiter: RuleLimiter::Policies(Arc::new(PolicyEngine::new(limiter, sources))),
            ..Self::unlimited()
        }
    }

    /// Counts nothing: the requests are admitted. Settings without effect here make the layer's `build` fail. On the
    /// default rule, settings that [routes](crate::RateLimitLayerBuilder::route) inherit have an effect.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            limiter: RuleLimiter::Nobody,
            extractor: None,
            cost: Cost::Fixed(1),
            reserves: false,
            #[cfg(feature = "policy")]
            keeper: None,
            skip: None,
            refund_if: None,
            on_missing: None,
            on_invalid: None,
            on_store_error: None,
            when_full: None,
        }
    }

    /// Sets the extractor of the key.
    #[must_use]
    pub fn key(self, key: impl KeyExtractor + 'static) -> Self {
        Self { extractor: Some(Arc::new(key)), ..self }
    }

    /// Sets the units of a request; one by default. With 0, a request only peeks.
    #[must_use]
    pub fn cost(self, cost: u32) -> Self {
        Self { cost: Cost::Fixed(cost), ..self }
    }

    /// Computes the units of each request.
    #[must_use]
    pub fn cost_of(self, cost: impl Fn(Head<'_>) -> u32 + Send + Sync + 'static) -> Self {
        Self { cost: Cost::Of(Arc::new(cost)), ..self }
    }

    /// Charges the cost, the most that the request may cost, as a [`Reservation`](crate::Reservation) in the request's
    /// extensions. The handler commits the actual cost; the rest is given back. It excludes
    /// [`refund_if`](Self::refund_if), because the handler decides.
    ///
    /// A request that is admitted without counting has none. If some are [skipped](Self::skip), or
    /// [admitted](OnStoreError::Admit) during an outage, the handler should take an `Option`.
    #[must_use]
    pub fn reserve(self) -> Self {
        Self { reserves: true, ..self }
    }

    /// Lets requests hold what policies with a limit in flight (`20~in_flight`) count, until the body of the response has
    /// ended. The keeper renews the holds.
    ///
    /// Such a request is charged its [cost](Self::cost_of) as an estimate. Its [`RequestHold`](crate::RequestHold) is in
    /// its extensions, in place of a [`Reservation`](crate::Reservation), and sets the actual cost. Without a keeper,
    /// requests that meet such a policy are answered 500 (`TG1008`).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{HoldKeeper, MemoryStore};
    /// use tollgate_policy::{Config, PolicyLimiter};
    /// use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    /// tokio::spawn(task);
    /// let config = Config::parse("limits.yaml", "policies: [{ name: all, key: [ip], quotas: [20~in_flight] }]")?;
    /// let limiter = Arc::new(PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "limits.yaml"));
    /// let rule = Rule::policies(&limiter, AttributeSources::new()).keeper(&keeper);
    /// let layer = RateLimitLayer::builder(rule).build()?;
    /// # let _ = layer;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn keeper(self, keeper: &HoldKeeper) -> Self {
        Self { keeper: Some(keeper.clone()), ..self }
    }

    /// Admits requests uncounted for which this is true. For a path, prefer an [unlimited](Self::unlimited) route: it
    /// does not match an unusual spelling that the service may read otherwise.
    #[must_use]
    pub fn skip(self, skip: impl Fn(Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { skip: Some(Arc::new(skip)), ..self }
    }

    /// Gives back the units of a request if this returns `true` for the response, as a
    /// [refund](tollgate::Limiter::refund) does. The response waits for it, but its headers show the state before.
    ///
    /// Nothing is given back without a response (the service failed, or the client disconnected); otherwise clients
    /// could avoid being counted by disconnecting. For gRPC, it sees the headers, not the trailers.
    #[must_use]
    pub fn refund_if(self, refund_if: impl Fn(&response::Parts) -> bool + Send + Sync + 'static) -> Self {
        Self { refund_if: Some(Arc::new(refund_if)), ..self }
    }

    /// Sets the answer to a request without a key; 400 by default.
    #[must_use]
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        Self { on_missing: Some(on_missing), ..self }
    }

    /// Sets the answer to a request with an invalid key; by default the extractor chooses.
    #[must_use]
    pub fn on_invalid(self, on_invalid: OnInvalid) -> Self {
        Self { on_invalid: Some(on_invalid), ..self }
    }

    /// Sets the answer while the store fails; 503 by default.
    #[must_use]
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        Self { on_store_error: Some(on_store_error), ..self }
    }

    /// Sets the answer while the store is [full](tollgate::StoreError::Full) and the request's key has no counter; 503
    /// by default. A client that can send many keys can fill a store, and with `Admit` it is then not limited.
    #[must_use]
    pub fn when_full(self, when_full: OnStoreError) -> Self {
        Self { when_full: Some(when_full), ..self }
    }
}

impl Rule {
    /// Returns a setting without effect. Settings of keys and trouble apply to all of `rules`: the rule itself and, for
    /// the default rule, those of the routes.
    pub(crate) fn idle(&self, rules: &[&Self]) -> Option<&'static str> {
        let counts = !matches!(self.limiter, RuleLimiter::Nobody);
        let has_keys = rules.iter().any(|rule| rule.is_by_key());
        let is_any_counted = rules.iter().any(|rule| !matches!(rule.limiter, RuleLimiter::Nobody));
        let settings = [
            ("cost", !matches!(self.cost, Cost::Fixed(1)) && !counts),
            ("reserve", self.reserves && !counts),
            ("skip", self.skip.is_some() && !counts),
            ("key", self.extractor.is_some() && !has_keys),
            ("on_missing", self.on_missing.is_some() && !has_keys),
            ("on_invalid", self.on_invalid.is_some() && !is_any_counted),
            ("on_store_error", self.on_store_error.is_some() && !is_any_counted),
            ("when_full", self.when_full.is_some() && !is_any_counted),
            ("refund_if", self.refund_if.is_some() && (self.reserves || !counts)),
            #[cfg(feature = "policy")]
            ("keeper", self.keeper.is_some() && !rules.iter().any(|rule| rule.is_by_policies())),
        ];
        settings.into_iter().find_map(|(setting, is_idle)| is_idle.then_some(setting))
    }

    pub(crate) fn is_by_key(&self) -> bool {
        matches!(self.limiter, RuleLimiter::Limiter(_))
    }

    pub(crate) fn is_by_policies(&self) -> bool {
        !matches!(self.limiter, RuleLimiter::Nobody | RuleLimiter::Limiter(_))
    }
}

impl Cost {
    pub(crate) fn of(&self, head: Head<'_>) -> u32 {
        match self {
            Self::Fixed(cost) => *cost,
            Self::Of(cost) => cost(head),
        }
    }
}

impl RuleLimiter {
    /// The quotas that are counted, where they are the same for every request.
    pub(crate) fn quotas(&self) -> &[PolicyQuota] {
        match self {
            Self::Limiter(limiter) => limiter.quotas(),
            _ => &[],
        }
    }

    /// Returns whether the other one may count in the same store.
    pub(crate) fn may_share_store_with(&self, other: &Self) -> bool {
        let address = |by: &Self| match by {
            Self::Limiter(limiter) => limiter.store().address(),
            _ => None,
        };
        address(self).zip(address(other)).is_none_or(|(one, other)| one == other)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("quotas", &self.limiter.quotas()).finish_non_exhaustive()
    }
}
