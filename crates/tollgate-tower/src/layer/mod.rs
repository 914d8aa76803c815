//! The layer: rules in front of a service.

mod builder;
mod error;

use std::sync::Arc;

use tollgate::{SharedLimiter, Store};
use tollgate_wire::headers::HeaderFormats;
use tower_layer::Layer;

pub use self::builder::RateLimitLayerBuilder;
use self::builder::gate;
pub use self::error::BuildError;
use crate::key::KeyExtractor;
use crate::limits::Limits;
use crate::route::RouteTable;
use crate::rule::Rule;
use crate::service::RateLimit;

/// A layer of limits: a denied request never reaches the service.
///
/// Clones share everything. The type has no parameters, so fields and functions can name it.
///
/// # Layers around layers
///
/// Each layer counts separately. The outer one decides first, and its denials charge nothing to the inner one; requests
/// that the inner one denies have been charged by the outer one. An allowed response shows the outer layer's limits,
/// and a denial those of the layer that denied. To charge quotas all or nothing, put them into one limiter. For limits
/// by route, use one layer.
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
/// // axum's last layer is the outermost: requests that it denies do not charge `everybody`.
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

impl RateLimitLayer {
    /// Creates a layer with one rule for all requests: this [limiter](Rule::new) and this key.
    #[must_use]
    pub fn new<S: Store + 'static>(
        limiter: impl Into<SharedLimiter<S>>,
        key: impl KeyExtractor + 'static,
    ) -> Self {
        let rule = Rule::new(limiter).key(key);
        let settings = Arc::new(Self::builder(Rule::unlimited()).settings());
        let others = gate(&rule, &rule, HeaderFormats::default(), &settings).unwrap_or(None);
        let limits = Limits { routes: RouteTable::new(Vec::new()), others, needs_route: None };
        Self { limits: Arc::new(limits) }
    }

    /// Returns a builder with this rule for all requests without their own [route](RateLimitLayerBuilder::route).
    #[must_use]
    pub fn builder(rule: Rule) -> RateLimitLayerBuilder {
        RateLimitLayerBuilder::new(rule)
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.limits))
    }
}
