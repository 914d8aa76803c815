//! The layer.

use std::fmt;
use std::sync::Arc;

use tollgate::{Clock, HoldLimiter, InFlight, InFlightLimiter, MemoryStore, PolicyInFlight, SystemClock};
use tollgate_wire::headers::{HeaderFormats, LimitHeaders};
use tower_layer::Layer;

use super::service::LimitInFlight;
use super::setup::{LayerLimiter, Setup};
use crate::head::Head;
use crate::key::KeyExtractor;
use crate::rule::{Cost, OnInvalid, OnMissing, OnStoreError};

/// A layer that limits how many requests of a key are in flight at once.
///
/// A request is in flight from the time at which its key is known until the *body* of its response has ended or was
/// dropped, so a slow stream counts for as long as it runs, and a client that has gone does not count. One more is
/// answered 429 with `Retry-After: 1` (without, if the limit is 0), because nobody knows when another will end; to gRPC
/// clients, RESOURCE_EXHAUSTED. If a connection is upgraded, to a WebSocket for example, the body ends at once: the
/// handler then keeps a clone of the [`RequestHold`](crate::RequestHold) in the request's extensions for as long as the
/// connection lives.
///
/// By default, the unit is in this process. It is free on every way out, also if the handler panics or its future is
/// dropped, so none leaks, and none has to expire. [`shared`](Self::shared) counts in a store that other processes share;
/// there, units of a process that dies are free once its holds have expired.
///
/// If the limiter has quotas, a request is charged its [cost](Self::cost_of), an estimate, in the same step. The handler
/// may [set](crate::RequestHold::set_cost) the actual cost, which is settled when the request ends. Quotas deny as those
/// of a [`RateLimitLayer`](crate::RateLimitLayer) do, and responses have their headers.
///
/// A request without a key is answered 400 unless [`on_missing`](Self::on_missing) says something else, and one with an
/// invalid key 400 or 401. If the memory has no room for another key, the answer is 503.
///
/// A [`RateLimitLayer`](crate::RateLimitLayer) around this layer or inside it decides separately. The outer one decides
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

impl InFlightLayer {
    /// Creates a layer over a store that other processes may share. It limits units in flight, charges quotas, or both.
    ///
    /// If a client leaves while the store is asked, the limiter's keeper ends the hold that the store may have.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{HoldKeeper, Limiter, MemoryStore, Quota};
    /// use tollgate_tower::{InFlightLayer, key::Global};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    /// tokio::spawn(task);
    /// // Instead of the memory store, a store in Redis.
    /// let tokens = Limiter::builder("tokens").quota(Quota::per_minute(100_000));
    /// let tokens = tokens.build_shared_in_flight("20~in_flight:30s".parse()?, MemoryStore::new(), &keeper)?;
    /// let layer = InFlightLayer::shared(tokens, Global).cost(4_000);
    /// # let _ = layer;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shared(limiter: HoldLimiter, key: impl KeyExtractor + 'static) -> Self {
        Self::over(LayerLimiter::Shared(limiter), key)
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
        Self::with_limiter(InFlightLimiter::with_store(in_flight, store), key)
    }

    /// Creates a layer over this limiter, which counts in this process and may have quotas.
    #[must_use]
    pub fn with_limiter(limiter: InFlightLimiter<C>, key: impl KeyExtractor + 'static) -> Self {
        Self::over(LayerLimiter::InProcess(limiter), key)
    }

    fn over(limiter: LayerLimiter<C>, key: impl KeyExtractor + 'static) -> Self {
        Self { setup: Arc::new(Setup::new(limiter, Arc::new(key))) }
    }

    /// Sets the units that quotas are charged for a request; one by default.
    ///
    /// # Panics
    ///
    /// If the limiter has no quotas.
    #[must_use]
    pub fn cost(self, cost: u32) -> Self {
        self.with_cost(Cost::Fixed(cost))
    }

    /// Estimates the units that quotas are charged for a request from its head, such as its `content-length`. Clients
    /// choose what is in it: bound the estimate, and let the handler [set](crate::RequestHold::set_cost) the actual cost.
    ///
    /// # Panics
    ///
    /// If the limiter has no quotas.
    #[must_use]
    pub fn cost_of(self, cost: impl Fn(Head<'_>) -> u32 + Send + Sync + 'static) -> Self {
        self.with_cost(Cost::Of(Arc::new(cost)))
    }

    fn with_cost(self, cost: Cost) -> Self {
        assert!(!self.setup.limiter.quotas().is_empty(), "a cost has no effect without quotas");
        Self { setup: Arc::new(Setup { cost, ..self.setup.copy() }) }
    }

    /// Sets the format of the headers of quotas, or none.
    #[must_use]
    pub fn header_format(self, formats: impl Into<HeaderFormats>) -> Self {
        let limit_headers = Arc::new(LimitHeaders::new(formats, self.setup.limiter.quotas()));
        Self { setup: Arc::new(Setup { limit_headers, ..self.setup.copy() }) }
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

    /// Sets the answer while a shared store fails; 503 by default. Nothing counts the
    /// [`RequestHold`](crate::RequestHold) of a request that is admitted.
    #[must_use]
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        Self { setup: Arc::new(Setup { on_store_error, ..self.setup.copy() }) }
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
