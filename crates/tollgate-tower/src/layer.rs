//! The layer: rules, put in front of a service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response};
use thiserror::Error;
use tollgate::{Limiter, PolicyQuota, Store, StoreError};
use tower_layer::Layer;

use crate::gate::{ByKey, Counting, Gate, Leaves, OnDenied, OnTrouble, Settings, jitter_seconds};
use crate::headers::{HeaderFormat, LimitHeaders};
use crate::key::KeyExtractor;
use crate::route::{Route, RouteErrorKind, Routes};
use crate::rule::{By, OnInvalid, OnMissing, OnStoreError, Rule};
use crate::warning::{Warning, Warnings};
use crate::{Denial, Head, RateLimit};

/// Limits in front of a service: a request that is denied never reaches it.
///
/// Clones share everything. The type has no parameters, so a field or a function can name it; the counters are those
/// of the limiters.
///
/// # Layers around layers
///
/// Each counts for itself. Of two, the outer one decides first, and what it denies takes nothing of the inner one; what
/// the inner one denies was taken of the outer one. An allowed response tells of the outer one's limits, and a denial of
/// those of the one that denied. Where quotas are to be taken all or nothing, put them into one limiter; where routes
/// are to have limits of their own, into one layer.
///
/// ```
/// # #[cfg(feature = "axum")]
/// # fn app() -> axum::Router {
/// use axum::{Router, routing::get};
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::RateLimitLayer;
/// use tollgate_tower::key::{Global, PeerAddress};
///
/// let everybody = RateLimitLayer::new(Limiter::new(Quota::per_second(1_000)), Global);
/// let each_address = RateLimitLayer::new(Limiter::new(Quota::per_minute(100)), PeerAddress::new());
/// // Of axum's layers the last one is the outermost: whom it denies takes nothing from everybody.
/// let app = Router::new().route("/", get(|| async { "hello" })).layer(everybody).layer(each_address);
/// # app
/// # }
/// ```
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::key::{Global, PeerAddress};
/// use tollgate_tower::{BuildError, RateLimitLayer, Rule};
///
/// // A hundred a minute for each address.
/// let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(100)), PeerAddress::new());
///
/// // The same, but for logins five a minute, and no limit for `/health`.
/// let all = Rule::new(Limiter::new(Quota::per_minute(100))).key(PeerAddress::new());
/// let login = Limiter::builder("login").quota(Quota::per_minute(5)).build(tollgate::MemoryStore::new())?;
/// let layer = RateLimitLayer::builder(all)
///     .route("POST /login", Rule::new(login))
///     .route("/health", Rule::unlimited())
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RateLimitLayer {
    limits: Arc<Limits>,
}

/// What a layer is made of: see [`RateLimitLayer::builder`].
pub struct RateLimitLayerBuilder {
    rule: Rule,
    routes: Vec<(Box<str>, Rule)>,
    format: HeaderFormat,
    leaves: Leaves,
    exposes: Exposes,
    retry_jitter: Duration,
    on_denied: Option<Box<OnDenied>>,
    on_trouble: Option<Box<OnTrouble>>,
    warnings: Warnings,
}

/// A layer that cannot be. The fault of whoever put it together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It is not said whom a rule counts for.
    #[error("the rule for {route} has no key, and neither has the one for all other requests")]
    NoKey {
        /// The route, or `all other requests`.
        route: Box<str>,
    },
    /// Text that is no route.
    #[error("the route `{route}`: {kind}")]
    Route {
        /// As it was written.
        route: Box<str>,
        /// What is wrong.
        kind: RouteErrorKind,
    },
    /// Two routes match the same requests.
    #[error("the routes `{first}` and `{second}` match the same requests")]
    SameRoute {
        /// The first.
        first: Box<str>,
        /// The second.
        second: Box<str>,
    },
    /// Two rules count on the same counters by different limits, as limiters over one store do that have the same
    /// name. `Limiter::builder` names a limiter; where one limit is to hold for several routes, they share a clone.
    #[error(
        "the rules for {first} and for {second} count on the same counters by different limits: \
         policy `{policy}`, window {windows}"
    )]
    SameCounters {
        /// The first route, or `all other requests`.
        first: Box<str>,
        /// The second.
        second: Box<str>,
        /// The name of the policy in both limiters.
        policy: Box<str>,
        /// The window in both.
        windows: Box<str>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exposes {
    Nothing,
    LimitHeaders,
}

const ALL_OTHERS: &str = "all other requests";

/// All rules of a layer; `None` where nothing is counted.
#[derive(Debug)]
pub(crate) struct Limits {
    routes: Routes<Option<Arc<Gate>>>,
    others: Option<Arc<Gate>>,
    /// If a path does not do in place of a matched route.
    needs_route: Option<Arc<Settings>>,
}

impl RateLimitLayer {
    /// One rule for all requests: by this limiter, for whoever this finds.
    #[must_use]
    pub fn new<S: Store + 'static>(limiter: Limiter<S>, key: impl KeyExtractor + 'static) -> Self {
        let rule = Rule::new(limiter).key(key);
        let settings = Arc::new(Self::builder(Rule::unlimited()).settings());
        let others = gate(&rule, &rule, HeaderFormat::default(), &settings).unwrap_or(None);
        let limits = Limits { routes: Routes::new(Vec::new()), others, needs_route: None };
        Self { limits: Arc::new(limits) }
    }

    /// A layer with this rule for all requests that have no [route](RateLimitLayerBuilder::route) of their own.
    #[must_use]
    pub fn builder(rule: Rule) -> RateLimitLayerBuilder {
        RateLimitLayerBuilder {
            rule,
            routes: Vec::new(),
            format: HeaderFormat::default(),
            leaves: Leaves::Decisions,
            exposes: Exposes::Nothing,
            retry_jitter: Duration::ZERO,
            on_denied: None,
            on_trouble: None,
            warnings: Warnings::default(),
        }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.limits))
    }
}

impl RateLimitLayerBuilder {
    /// Has a rule of its own for a route: a method or any, and a path, such as `POST /login`, `/users/{id}` or
    /// `/files/{*rest}`. Of several that match, the most specific holds, and it alone.
    ///
    /// A route is looked for in the [matched route](Head::route) of a request; where there is none, in its path,
    /// letter by letter. A route for GET holds for HEAD as well.
    #[must_use]
    pub fn route(mut self, route: &str, rule: Rule) -> Self {
        self.routes.push((route.into(), rule));
        self
    }

    /// Tells clients of their limits in this format: `draft-11` unless this is set.
    #[must_use]
    pub fn header_format(self, format: HeaderFormat) -> Self {
        Self { format, ..self }
    }

    /// Leaves no [`Decision`](tollgate::Decision) in the extensions of a request, nor that of policies, for services
    /// that read none. To leave it takes an allocation, which is the only one that a request without headers needs.
    #[must_use]
    pub fn without_decisions(self) -> Self {
        Self { leaves: Leaves::Nothing, ..self }
    }

    /// Lets scripts of other origins read the headers of the limits, by `Access-Control-Expose-Headers`.
    #[must_use]
    pub fn expose_headers(self) -> Self {
        Self { exposes: Exposes::LimitHeaders, ..self }
    }

    /// Adds up to so much, rounded up to whole seconds, to the `Retry-After` of a denial, at random, so that clients do
    /// not all come back at once. It never takes anything away. The other headers and the body tell the time as it is, and
    /// so does the `RetryInfo` of gRPC.
    #[must_use]
    pub fn retry_jitter(self, most: Duration) -> Self {
        Self { retry_jitter: most, ..self }
    }

    /// Changes or replaces the response to a denial, which is given with all its headers. Denials of gRPC stay as they
    /// are. The [`Denial`] is also the decision.
    ///
    /// ```
    /// use http::{HeaderValue, StatusCode};
    /// # use tollgate_tower::{RateLimitLayer, Rule};
    ///
    /// # let rule = Rule::unlimited();
    /// let layer = RateLimitLayer::builder(rule).on_denied(|denial, mut response| {
    ///     *response.body_mut() = format!("{} left\n", denial.remaining()).into();
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

    /// Changes or replaces the response to a request that a [store in trouble](Rule::on_store_error) could not decide
    /// on. That of gRPC stays as it is. The error is for logs: callers can do nothing with it.
    #[must_use]
    pub fn on_trouble(
        self,
        on_trouble: impl Fn(&StoreError, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self { on_trouble: Some(Box::new(on_trouble)), ..self }
    }

    /// Gives [warnings](Warning) to this instead of [`tracing`], each once.
    #[must_use]
    pub fn on_warning(self, on_warning: impl Fn(Warning) + Send + Sync + 'static) -> Self {
        Self { warnings: Warnings::new(Box::new(on_warning)), ..self }
    }

    /// The layer.
    ///
    /// # Errors
    ///
    /// If a rule has no key, a route cannot be, two match the same requests, or two rules count on the same counters
    /// by different limits.
    pub fn build(self) -> Result<RateLimitLayer, BuildError> {
        let routes = routes(&self.routes)?;
        self.expect_own_counters()?;
        let (rule, format) = (self.rule.clone(), self.format);
        let rules = self.routes.clone();
        let settings = Arc::new(self.settings());
        let resolve = |text: &str, own: &Rule| {
            gate(own, &rule, format, &settings).ok_or_else(|| BuildError::NoKey { route: text.into() })
        };
        let needs_route = routes.iter().any(Route::has_parameters).then(|| Arc::clone(&settings));
        let gates: Result<Vec<_>, _> = routes
            .into_iter()
            .zip(&rules)
            .map(|(route, (text, own))| Ok((route, resolve(&format!("`{text}`"), own)?)))
            .collect();
        let others = resolve(ALL_OTHERS, &rule)?;
        Ok(RateLimitLayer { limits: Arc::new(Limits { routes: Routes::new(gates?), others, needs_route }) })
    }

    fn settings(self) -> Settings {
        let exposes = match self.exposes {
            Exposes::Nothing => None,
            Exposes::LimitHeaders => Some(HeaderValue::from_static(self.format.exposed())),
        };
        Settings {
            leaves: self.leaves,
            exposes,
            retry_jitter: jitter_seconds(self.retry_jitter),
            on_denied: self.on_denied,
            on_trouble: self.on_trouble,
            warnings: self.warnings,
        }
    }

    fn expect_own_counters(&self) -> Result<(), BuildError> {
        let named = self.routes.iter().map(|(text, rule)| (format!("`{text}`"), rule.by.quotas()));
        let all: Vec<(String, &[PolicyQuota])> =
            named.chain([(ALL_OTHERS.to_owned(), self.rule.by.quotas())]).collect();
        for (index, (second, of_second)) in all.iter().enumerate() {
            for (first, of_first) in all.iter().take(index) {
                let meets = |one: &&PolicyQuota| {
                    of_second
                        .iter()
                        .any(|other| one.shares_counters_with(other) && one.quota() != other.quota())
                };
                if let Some(quota) = of_first.iter().find(meets) {
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

fn routes(rules: &[(Box<str>, Rule)]) -> Result<Vec<Route>, BuildError> {
    let mut routes = Vec::<Route>::new();
    for (text, _) in rules {
        let route = Route::new(text).map_err(|kind| BuildError::Route { route: text.clone(), kind })?;
        if let Some(first) = routes.iter().find(|first| first.is_same_as(&route)) {
            return Err(BuildError::SameRoute { first: first.to_string().into(), second: text.clone() });
        }
        routes.push(route);
    }
    Ok(routes)
}

/// The rule with everything filled in that it takes from the one for all other requests: `Some(None)` if it counts
/// nothing, `None` if it has no key.
fn gate(
    rule: &Rule,
    others: &Rule,
    format: HeaderFormat,
    settings: &Arc<Settings>,
) -> Option<Option<Arc<Gate>>> {
    let counting = match &rule.by {
        By::Nobody => return Some(None),
        By::Limiter(engine) => {
            let extractor = rule.extractor.clone().or_else(|| others.extractor.clone())?;
            Counting::ByKey(ByKey {
                limit_headers: LimitHeaders::new(format, engine.quotas()),
                engine: Arc::clone(engine),
                counts_peers: extractor.counts_peers(),
                extractor,
            })
        }
        #[cfg(feature = "policy")]
        By::Policies(engine) => Counting::ByPolicies(Arc::clone(engine)),
    };
    let on_missing = rule.on_missing.clone().or_else(|| others.on_missing.clone());
    let on_invalid = rule.on_invalid.clone().or_else(|| others.on_invalid.clone());
    Some(Some(Arc::new(Gate {
        counting,
        cost: rule.cost.clone(),
        reserves: rule.reserves,
        skip: rule.skip.clone(),
        refund_if: rule.refund_if.clone(),
        on_missing: on_missing.unwrap_or(OnMissing::BadRequest),
        on_invalid: on_invalid.unwrap_or(OnInvalid::AsFound),
        on_store_error: rule.on_store_error.or(others.on_store_error).unwrap_or(OnStoreError::Refuse),
        when_full: rule.when_full.or(others.when_full).unwrap_or(OnStoreError::Refuse),
        settings: Arc::clone(settings),
    })))
}

impl Limits {
    /// What holds for this request; `None` if it is not counted.
    pub(crate) fn gate(&self, head: Head<'_>) -> Option<&Arc<Gate>> {
        if let Some(settings) = &self.needs_route
            && head.route().is_none()
        {
            settings.warnings.give(Warning::NoMatchedRoute);
        }
        self.routes.find(head).unwrap_or(&self.others).as_ref()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

impl fmt::Debug for RateLimitLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayerBuilder")
            .field("rule", &self.rule)
            .field("routes", &self.routes)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}
