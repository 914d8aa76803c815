//! The builder of layers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tollgate::{PolicyQuota, StoreError};
use tollgate_wire::headers::{HeaderFormats, LimitHeaders};

use super::{BuildError, RateLimitLayer};
use crate::denial::Denial;
use crate::engine::Engine;
use crate::gate::{DenialHook, ExposedHeaders, Gate, HandlerData, Settings, TroubleHook, jitter_seconds};
use crate::key_engine::KeyEngine;
use crate::limits::Limits;
use crate::outage_log::OutageLog;
use crate::outcome::UnitHandling;
use crate::route::{RoutePattern, RouteTable};
use crate::rule::{OnInvalid, OnMissing, OnStoreError, Rule, RuleLimiter};
use crate::warning::{SetupWarning, Warnings};

/// A builder of layers: see [`RateLimitLayer::builder`].
pub struct RateLimitLayerBuilder {
    rule: Rule,
    routes: Vec<(Box<str>, Rule)>,
    formats: Option<HeaderFormats>,
    handler_data: HandlerData,
    exposed_headers: ExposedHeaders,
    retry_jitter: Duration,
    on_denied: Option<Box<DenialHook>>,
    on_trouble: Option<Box<TroubleHook>>,
    warnings: Warnings,
}

const ALL_OTHERS: &str = "all other requests";

impl RateLimitLayerBuilder {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule,
            routes: Vec::new(),
            formats: None,
            handler_data: HandlerData::Decisions,
            exposed_headers: ExposedHeaders::Nothing,
            retry_jitter: Duration::ZERO,
            on_denied: None,
            on_trouble: None,
            warnings: Warnings::default(),
        }
    }

    /// Adds a rule for a route: a path with or without a method, such as `POST /login`, `/users/{id}` or
    /// `/files/{*rest}`. If several match, only the most specific applies.
    ///
    /// Routes are compared with the [path](crate::Head::path) of a request: the route that the router has matched or,
    /// if there is none, the path that the client sent. A route for GET matches HEAD as well.
    ///
    /// A path in another spelling than its canonical form, such as `/api/..%2fhealth`, has two readings: that form, and
    /// the path as it was sent. Services may read either, so each reading has its rule, or the rule for all other
    /// requests. If the two rules differ, both apply, as in two layers: the rule of the canonical form decides first,
    /// and its charge stands if the other one denies. Copies of one rule count once. A request is unlimited only if
    /// both readings are [unlimited](Rule::unlimited).
    ///
    /// A route with characters that clients escape needs both spellings: `/café` and `/caf%C3%A9`.
    #[must_use]
    pub fn route(mut self, route: &str, rule: Rule) -> Self {
        self.routes.push((route.into(), rule));
        self
    }

    /// Sets the [`HeaderFormat`](crate::headers::HeaderFormat) of the limit headers, or several while clients migrate;
    /// `draft-11` by default. Policies choose their own.
    #[must_use]
    pub fn header_format(self, formats: impl Into<HeaderFormats>) -> Self {
        Self { formats: Some(formats.into()), ..self }
    }

    /// Leaves no decision in the extensions of a request, neither [`QuotaStates`](tollgate::QuotaStates) nor that of policies.
    /// For services that read neither, this saves the only allocation of a request without headers.
    #[must_use]
    pub fn without_decisions(self) -> Self {
        Self { handler_data: HandlerData::Nothing, ..self }
    }

    /// Lets scripts from other origins read the limit headers, with `Access-Control-Expose-Headers`.
    #[must_use]
    pub fn expose_headers(self) -> Self {
        Self { exposed_headers: ExposedHeaders::LimitHeaders, ..self }
    }

    /// Adds a random time up to this, rounded up to whole seconds, to the `Retry-After` of a denial, so that clients do
    /// not all return at once. The other headers, the body and the `RetryInfo` of gRPC keep the exact time.
    #[must_use]
    pub fn retry_jitter(self, most: Duration) -> Self {
        Self { retry_jitter: most, ..self }
    }

    /// Changes or replaces the response to a denial, which has all its headers. Denials of gRPC are unchanged.
    ///
    /// ```
    /// use http::{HeaderValue, StatusCode};
    /// # use tollgate_tower::{RateLimitLayer, Rule};
    ///
    /// # let rule = Rule::unlimited();
    /// let layer = RateLimitLayer::builder(rule).on_denied(|denial, mut response| {
    ///     let left = denial.state().map_or(0, |state| state.remaining());
    ///     *response.body_mut() = format!("{left} left\n").into();
    ///     response.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
    ///     response
    /// });
    /// ```
    #[must_use]
    pub fn on_denied(
        self,
        on_denied: impl Fn(&Denial<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self { on_denied: Some(Box::new(on_denied)), ..self }
    }

    /// Changes or replaces the response to a request that the store could not count, because it
    /// [failed](Rule::on_store_error), is [full](Rule::when_full), or can never count it. Responses of gRPC are
    /// unchanged. The error and its [source](std::error::Error::source) are for logs, and name the address of the
    /// store.
    #[must_use]
    pub fn on_trouble(
        self,
        on_trouble: impl Fn(&StoreError, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self { on_trouble: Some(Box::new(on_trouble)), ..self }
    }

    /// Gives [warnings](SetupWarning) to this instead of [`tracing`], each once.
    #[must_use]
    pub fn on_warning(self, on_warning: impl Fn(SetupWarning) + Send + Sync + 'static) -> Self {
        Self { warnings: Warnings::new(Box::new(on_warning)), ..self }
    }

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// If a rule has no key, a route is invalid, two routes match the same requests, two rules share counters with
    /// different limits, or a setting has no effect.
    pub fn build(self) -> Result<RateLimitLayer, BuildError> {
        let routes = routes(&self.routes)?;
        self.expect_own_counters()?;
        self.expect_effect()?;
        let (rule, formats) = (self.rule.clone(), self.formats.unwrap_or_default());
        let rules = self.routes.clone();
        let settings = Arc::new(self.settings());
        let resolve = |text: &str, own: &Rule| {
            gate(own, &rule, formats, &settings).ok_or_else(|| BuildError::NoKey { route: text.into() })
        };
        let needs_route = routes.iter().any(RoutePattern::has_parameters).then(|| Arc::clone(&settings));
        let gates: Result<Vec<_>, _> = routes
            .into_iter()
            .zip(&rules)
            .map(|(route, (text, own))| Ok((route, resolve(&format!("`{text}`"), own)?)))
            .collect();
        let others = resolve(ALL_OTHERS, &rule)?;
        Ok(RateLimitLayer {
            limits: Arc::new(Limits { routes: RouteTable::new(gates?), others, needs_route }),
        })
    }

    pub(super) fn settings(self) -> Settings {
        Settings {
            handler_data: self.handler_data,
            exposed_headers: self.exposed_headers,
            retry_jitter: jitter_seconds(self.retry_jitter),
            on_denied: self.on_denied,
            on_trouble: self.on_trouble,
            warnings: Arc::new(self.warnings),
        }
    }

    /// A rule with policies must not make settings that the policies make themselves, unless they are for routes.
    fn expect_effect(&self) -> Result<(), BuildError> {
        let all: Vec<&Rule> = self.routes.iter().map(|(_, rule)| rule).chain([&self.rule]).collect();
        let route_settings = self.routes.iter().map(|(text, rule)| (format!("`{text}`"), rule.idle(&[rule])));
        let default_settings = (ALL_OTHERS.to_owned(), self.rule.idle(&all));
        for (route, idle) in route_settings.chain([default_settings]) {
            if let Some(setting) = idle {
                return Err(BuildError::NoEffect { route: route.into(), setting });
            }
        }
        match self.formats {
            Some(_) if self.rule.is_by_policies() && !all.iter().any(|rule| rule.is_by_key()) => {
                Err(BuildError::NoEffect { route: ALL_OTHERS.into(), setting: "header_format" })
            }
            _ => Ok(()),
        }
    }

    fn expect_own_counters(&self) -> Result<(), BuildError> {
        let named = self.routes.iter().map(|(text, rule)| (format!("`{text}`"), &rule.limiter));
        let all: Vec<(String, &RuleLimiter)> =
            named.chain([(ALL_OTHERS.to_owned(), &self.rule.limiter)]).collect();
        for (index, (second, second_limiter)) in all.iter().enumerate() {
            for (first, first_limiter) in all.iter().take(index) {
                let meets = |one: &&PolicyQuota| {
                    let mut others = second_limiter.quotas().iter();
                    others.any(|other| one.shares_counters_with(other) && one.quota() != other.quota())
                };
                let quota = first_limiter.quotas().iter().find(meets);
                if let Some(quota) = quota.filter(|_| first_limiter.may_share_store_with(second_limiter)) {
                    return Err(BuildError::SameCounters {
                        first: first.as_str().into(),
                        second: second.as_str().into(),
                        policy: quota.policy().into(),
                        windows: quota.windows().into(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn routes(rules: &[(Box<str>, Rule)]) -> Result<Vec<RoutePattern>, BuildError> {
    let mut routes = Vec::<RoutePattern>::new();
    for (text, _) in rules {
        let route =
            RoutePattern::new(text).map_err(|kind| BuildError::Route { route: text.clone(), kind })?;
        if let Some(first) = routes.iter().find(|first| first.is_same_as(&route)) {
            return Err(BuildError::SameRoute { first: first.to_string().into(), second: text.clone() });
        }
        routes.push(route);
    }
    Ok(routes)
}

/// Returns the rule, completed with the settings of the rule for all other requests: `Some(None)` if it counts nothing,
/// `None` if it has no key.
pub(super) fn gate(
    rule: &Rule,
    others: &Rule,
    formats: HeaderFormats,
    settings: &Arc<Settings>,
) -> Option<Option<Arc<Gate>>> {
    let (engine, limit_headers) = match &rule.limiter {
        RuleLimiter::Nobody => return Some(None),
        RuleLimiter::Limiter(limiter) => {
            let extractor = rule.extractor.clone().or_else(|| others.extractor.clone())?;
            let limit_headers = Arc::new(LimitHeaders::new(formats, limiter.quotas()));
            let by_key = KeyEngine::new(limiter.clone(), extractor, Arc::clone(&limit_headers));
            (Engine::ByKey(by_key), Some(limit_headers))
        }
        #[cfg(feature = "policy")]
        RuleLimiter::Policies(engine) => (Engine::ByPolicies(Arc::clone(engine)), None),
    };
    let handling = match &rule.refund_if {
        _ if rule.reserves => UnitHandling::Reserved(Arc::clone(&settings.warnings)),
        Some(_) => UnitHandling::ToGiveBack,
        None => UnitHandling::ForGood,
    };
    let on_missing = rule.on_missing.clone().or_else(|| others.on_missing.clone());
    let on_invalid = rule.on_invalid.clone().or_else(|| others.on_invalid.clone());
    Some(Some(Arc::new(Gate {
        outages: OutageLog::new(engine.name()),
        engine,
        limit_headers,
        cost: rule.cost.clone(),
        handling,
        #[cfg(feature = "policy")]
        keeper: rule.keeper.clone().or_else(|| others.keeper.clone()),
        skip: rule.skip.clone(),
        refund_if: rule.refund_if.clone(),
        on_missing: on_missing.unwrap_or(OnMissing::BadRequest),
        on_invalid: on_invalid.unwrap_or(OnInvalid::AsFound),
        on_store_error: rule.on_store_error.or(others.on_store_error).unwrap_or(OnStoreError::Refuse),
        when_full: rule.when_full.or(others.when_full).unwrap_or(OnStoreError::Refuse),
        settings: Arc::clone(settings),
    })))
}

impl fmt::Debug for RateLimitLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayerBuilder")
            .field("rule", &self.rule)
            .field("routes", &self.routes)
            .field("formats", &self.formats)
            .finish_non_exhaustive()
    }
}
