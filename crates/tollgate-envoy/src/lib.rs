//! Envoy's rate-limit service: decisions with the configuration of envoyproxy/ratelimit.
//!
//! Use this crate if your own server answers Envoy by the files of envoyproxy/ratelimit. `tollgate serve --import
//! envoy-ratelimit --grpc` is such a server.
//!
//! ```
//! use tollgate::MemoryStore;
//! use tollgate_envoy::{Code, Descriptor, Domains, EnvoyLimiter, Request, SameDomain, Settings};
//! use tollgate_policy::Sources;
//!
//! let text = "
//! domain: shop
//! descriptors:
//!   - { key: user, rate_limit: { unit: day, requests_per_unit: 5 } }
//! ";
//! let domains = Domains::parse(&Sources::of("shop.yaml", text), SameDomain::Refuse)?;
//! let limiter = EnvoyLimiter::new(MemoryStore::new(), domains, Settings::default());
//!
//! let descriptors = [Descriptor::new([("user", "alice")])].into_iter().collect();
//! let request = Request { domain: "shop", descriptors, hits_addend: 3 };
//! # tollgate_testkit::block_on(async {
//! assert_eq!(limiter.decide(&request).await?.overall, Code::Ok);
//! // Two of five units are left, less than the three that the request takes.
//! assert_eq!(limiter.decide(&request).await?.overall, Code::OverLimit);
//! # Ok::<(), tollgate_envoy::DecideError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Counters are in memory, or in any other [`Store`](tollgate::Store), such as that of `tollgate-redis`.
//!
//! The crate has no optional features. The manual in `docs/` of the repository continues: `envoy.md` explains the move
//! from envoyproxy/ratelimit, with all differences, and `grpc.md` the service for Envoy.
//!
//! # The way of a request
//!
//! This crate has no network. A listener decodes Envoy's message into a [`Request`], and an [`EnvoyLimiter`] answers
//! with a [`Response`] by the [`Domains`] that files describe.
//!
//! ```text
//! Request ─▶ Domains ─▶ plan ─▶ Store ─▶ states ─▶ Response
//!            the rule   what    one      what is   statuses, headers,
//!            of each    each    step     used      metadata
//!            descriptor asks
//! ```

mod digest;
mod domains;
mod error;
mod file;
mod hits;
mod json;
mod limiter;
mod origin;
mod request;
mod response;
mod rule;
mod series;
mod settings;
mod unit;
mod verdicts;
mod warning;
mod wildcards;

pub use self::digest::{digest, stand_in};
pub use self::domains::{Domains, SameDomain};
pub use self::error::{DecideError, InvalidRequest};
pub use self::hits::{HitCounts, NearLimit};
pub use self::json::{JsonError, JsonFault};
pub use self::limiter::EnvoyLimiter;
pub use self::origin::InvalidConfigs;
pub use self::request::{Descriptor, Descriptors, Entries, Entry, Override, Request};
pub use self::response::{Code, CountedKey, CurrentLimit, Response, ResponseHeader, Status};
pub use self::series::Series;
pub use self::settings::{ChargingMode, HeaderNames, Settings};
pub use self::unit::Unit;
pub use self::verdicts::DomainVerdicts;
pub use self::warning::{Warning, WarningKind};
