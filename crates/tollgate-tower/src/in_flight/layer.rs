//! The layer.

use std::fmt;
use std::sync::Arc;

use tollgate::{Clock, InFlight, InFlightLimiter, MemoryStore, PolicyInFlight, SystemClock};
use tower_layer::Layer;

use super::service::LimitInFlight;
use super::setup::Setup;
use crate::key::KeyExtractor;
use crate::rule::{OnInvalid, OnMissing};
use crate::warning::Warnings;

/// A layer that limits how many requests of a key are in flight at once.
///
/// A request is in flight from the time at which its key is known until the *body* of its response has ended or was
/// dropped, so a slow stream counts for as long as it runs, and a client that has gone does not count. One more is
/// answered 429 with `Retry-After: 1` (without, if the limit is 0), because nobody knows when another will end; to gRPC
/// clients, RESOURCE_EXHAUSTED. If a connection is upgraded, to a WebSocket for example, the body ends at once: the
/// handler then keeps a clone of the [`RequestHold`](crate::RequestHold) in the request's extensions for as long as the
/// connection lives.
///
/// The unit is in this process. It is free on every way out, also if the handler panics or its future is dropped, so none
/// leaks, and none has to expire.
///
/// A request without a key is answered 400 unless [`on_missing`](Self::on_missing) says something else, and one with an
/// invalid key 400 or 401. If the memory has no room for another key, the answer is 503.
///
/// For quotas, put a [`RateLimitLayer`](crate::RateLimitLayer) around this layer or inside it. The outer one decides
/// first: requests that a `RateLimitLayer` denies need not be in flight, and requests that are denied here have been
/// charged by a layer around this one.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "axum")]
/// # fn app() -> axum::Router {
/// use axum::{Router, routing::get};
/// use tollgate::InFlight;
/// use tollgate_tower::{InFlightLayer, key::PeerAddress};
///
/// let at_most_four: InFlight = "4~in_flight".parse().expect("a limit");
/// let layer = InFlightLayer::new(at_most_four, PeerAddress::new());
/// let app = Router::new().route("/report", get(|| async { "slow work" })).layer(layer);
/// # app
/// # }
/// ```
pub struct InFlightLayer<C = SystemClock> {
    setup: Arc<Setup<C>>,
}

impl InFlightLayer {
    /// Creates a layer with its own counts.
    #[must_use]
    pub fn new(in_flight: InFlight, key: impl KeyExtractor + 'static) -> Self {
        Self::with_store(in_flight, MemoryStore::new(), key)
    }
}

impl<C: Clock> InFlightLayer<C> {
    /// Creates a layer whose counts are in this store. Layers over one store share those of one policy name, which is
    /// `default` for an [`InFlight`] alone; denials show it.
    #[must_use]
    pub fn with_store(
        in_flight: impl Into<PolicyInFlight>,
        store: MemoryStore<C>,
        key: impl KeyExtractor + 'static,
    ) -> Self {
        let setup = Setup {
            limiter: InFlightLimiter::with_store(in_flight, store),
            extractor: Arc::new(key),
            on_missing: OnMissing::BadRequest,
            on_invalid: OnInvalid::AsFound,
            warnings: Arc::new(Warnings::default()),
        };
        Self { setup: Arc::new(setup) }
    }

    /// Sets the answer to a request without a key. [`OnMissing::Skip`] admits it without a limit.
    #[must_use]
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        Self { setup: Arc::new(Setup { on_missing, ..self.setup.copy() }) }
    }

    /// Sets the answer to a request with an invalid key.
    #[must_use]
    pub fn on_invalid(self, on_invalid: OnInvalid) -> Self {
        Self { setup: Arc::new(Setup { on_invalid, ..self.setup.copy() }) }
    }
}

impl<S, C> Layer<S> for InFlightLayer<C> {
    type Service = LimitInFlight<S, C>;

    fn layer(&self, inner: S) -> LimitInFlight<S, C> {
        LimitInFlight::new(inner, Arc::clone(&self.setup))
    }
}

impl<C> Clone for InFlightLayer<C> {
    fn clone(&self) -> Self {
        Self { setup: Arc::clone(&self.setup) }
    }
}

impl<C> fmt::Debug for InFlightLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightLayer").field("limiter", &self.setup.limiter).finish_non_exhaustive()
    }
}
