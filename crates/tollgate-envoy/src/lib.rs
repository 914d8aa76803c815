//! Envoy's rate-limit service: the configuration of envoyproxy/ratelimit, and decisions by it.
//!
//! This crate has no network. A listener decodes Envoy's message into a [`Request`], and an [`EnvoyLimiter`] answers with
//! a [`Response`] by the [`Domains`] that files describe.
//!
//! ```text
//! Request ─▶ Domains ─▶ plan ─▶ Store ─▶ states ─▶ Response
//!            the rule   what    one      what is   statuses, headers,
//!            of each    each    step     used      metadata
//!            descriptor asks
//! ```
//!
//! `docs/envoy.md` of the repository is the manual.

mod digest;
mod domains;
mod error;
mod file;
mod hits;
mod json;
mod limiter;
mod request;
mod response;
mod rule;
mod settings;
mod unit;
mod verdicts;
mod warning;
mod wildcards;

pub use self::digest::{digest, stand_in};
pub use self::domains::{Domains, SameDomain};
pub use self::error::{DecideError, InvalidRequest};
pub use self::hits::{HitCounts, NearLimit, Series};
pub use self::json::{JsonError, JsonFault};
pub use self::limiter::EnvoyLimiter;
pub use self::request::{Descriptor, Descriptors, Entries, Entry, Override, Request};
pub use self::response::{Code, CurrentLimit, Header, Response, Status};
pub use self::settings::{Charging, HeaderNames, Settings};
pub use self::unit::Unit;
pub use self::verdicts::DomainVerdicts;
pub use self::warning::{Warning, WarningKind};
