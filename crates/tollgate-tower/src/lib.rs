//! Rate limits in front of any [tower](https://docs.rs/tower) service: axum, hyper, tonic.
//!
//! A denied request never reaches the service. It is answered 429 (or RESOURCE_EXHAUSTED) with the time to wait. The
//! response to an admitted one has limit headers, and its handler finds the states of the quotas
//! ([`QuotaStates`](tollgate::QuotaStates)) in the request's extensions.
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # fn app() -> axum::Router {
//! use axum::{Router, routing::get};
//! use tollgate::{Limiter, Quota};
//! use tollgate_tower::{RateLimitLayer, key::PeerAddress};
//!
//! let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(100)), PeerAddress::new());
//! let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
//! // To be served by `app.into_make_service_with_connect_info::<std::net::SocketAddr>()`.
//! # app
//! # }
//! ```
//!
//! # How a request flows
//!
//! ```text
//! request ─▶ route ─▶ skip ─▶ cost ─▶ key ─▶ limiter ─▶ inner service ─▶ headers ─▶ response
//!            the rule         how     whom   allowed                    refunds
//!            that holds       much    it is  or denied: 429 ──────────────────────▶
//!                                     for
//! ```
//!
//! A [`RateLimitLayer`] has one [`Rule`] for all requests, and others for the routes that need them. An
//! [extractor](key) finds the key of a request, and a [format](headers) decides which limit headers clients see.
//! Counters are in this process, with a [`Limiter`](tollgate::Limiter), whose decisions allocate no future, or in Redis
//! or Valkey, with a [`SharedLimiter`](tollgate::SharedLimiter).
//!
//! | You want | See |
//! |---|---|
//! | limits by route and method, in one layer | [`RateLimitLayerBuilder::route`] |
//! | a limit for each user, tenant, address | [`key`], [`Rule::key`] |
//! | clients behind proxies | [`key::ClientAddress`] |
//! | requests that cost more than others | [`Rule::cost`], [`Rule::cost_of`] |
//! | a cost that is known after the response | [`Rule::reserve`], [`Reservation`] |
//! | at most so many requests at once | [`InFlightLayer`], also [shared](InFlightLayer::shared) between processes |
//! | an estimate that is settled when the response has ended | [`InFlightLayer::cost_of`], [`RequestHold`] |
//! | policies with a limit in flight | `Rule::keeper`, with the feature `policy` |
//! | only some responses count | [`Rule::refund_if`] |
//! | other headers, none, or those that scripts may read | [`RateLimitLayerBuilder::header_format`], [`expose_headers`](RateLimitLayerBuilder::expose_headers) |
//! | another response to a denial | [`RateLimitLayerBuilder::on_denied`] |
//! | the policies of the service | `Rule::policies`, with the feature `policy` |
//! | a failed store | [`Rule::on_store_error`], [`FallbackStore`](tollgate::FallbackStore) |
//! | warnings about a wrong setup | [`SetupWarning`] |
//!
//! # gRPC
//!
//! A request with `content-type: application/grpc` gets a gRPC status: RESOURCE_EXHAUSTED for a denial, with the time
//! to wait as `google.rpc.RetryInfo`, UNAVAILABLE for a failed store, INVALID_ARGUMENT or UNAUTHENTICATED for a missing
//! or invalid key, INTERNAL for a request that the store can never count and for other errors of the setup. A method is
//! a route: `POST /package.Service/Method`.
//!
//! # Features
//!
//! No feature is on by default.
//!
//! | Feature | Adds |
//! |---|---|
//! | `axum` | axum's peer address, matched route and bodies |
//! | `jwt` | claims of verified tokens as keys |
//! | `policy` | policies of `tollgate-policy` instead of a limiter and a key. To read them from files, depend on that crate with its feature `file` |
//! | `tonic` | tonic's peer address and bodies |
//! | `tokio` | a [`Reservation`] over a shared store can be dropped: a task gives back its units |
//!
//! The manual in `docs/` of the repository continues: `middleware.md` lists the examples, `policies.md` explains policy
//! files, and `warnings.md` the codes of warnings and problems.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "policy")]
mod attributes;
mod denial;
mod engine;
mod future;
mod gate;
mod head;
mod held_body;
mod in_flight;
pub mod key;
mod key_engine;
mod layer;
mod limits;
mod outage_log;
mod outcome;
#[cfg(feature = "policy")]
mod policy_engine;
#[cfg(feature = "policy")]
mod policy_units;
mod reply;
mod request_hold;
mod reservation;
mod response_work;
mod route;
mod rule;
mod ruling;
mod service;
mod warning;

#[doc(inline)]
pub use tollgate_wire::{body, headers};

#[cfg(feature = "policy")]
pub use self::attributes::{AttributeError, AttributeSource, AttributeSources, RequestView};
pub use self::denial::Denial;
pub use self::future::ResponseFuture;
pub use self::head::{Head, MatchedRoute};
pub use self::held_body::HeldBody;
pub use self::in_flight::{HeldResponseFuture, InFlightLayer, LimitInFlight};
pub use self::layer::{BuildError, RateLimitLayer, RateLimitLayerBuilder};
pub use self::reply::ReplyBody;
pub use self::request_hold::RequestHold;
pub use self::reservation::Reservation;
pub use self::route::RouteErrorKind;
pub use self::rule::{OnInvalid, OnMissing, OnStoreError, Rule};
pub use self::service::RateLimit;
pub use self::warning::SetupWarning;
