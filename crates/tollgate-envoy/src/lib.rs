//! Envoy's rate-limit service: the configuration of envoyproxy/ratelimit, and decisions by it.
//!
//! This crate has no network. A listener decodes a message into a [`Request`] and encodes the [`Response`].

mod error;
mod request;
mod response;
mod unit;

pub use self::error::{DecideError, InvalidRequest};
pub use self::request::{Descriptor, Descriptors, Entries, Entry, Override, Request};
pub use self::response::{Code, CurrentLimit, Header, Response, Status};
pub use self::unit::Unit;
