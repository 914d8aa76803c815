//! Envoy's rate-limit service: the configuration of envoyproxy/ratelimit, and decisions by it.
//!
//! This crate has no network. A listener decodes a message into a [`Request`] and encodes the [`Response`].

mod domains;
mod error;
mod file;
mod limiter;
mod request;
mod response;
mod rule;
mod settings;
mod unit;
mod wildcards;

pub use self::domains::{Domains, SameDomain};
pub use self::error::{DecideError, InvalidRequest};
pub use self::limiter::EnvoyLimiter;
pub use self::request::{Descriptor, Descriptors, Entries, Entry, Override, Request};
pub use self::response::{Code, CurrentLimit, Header, Response, Status};
pub use self::settings::{Charging, HeaderNames, Settings};
pub use self::unit::Unit;
