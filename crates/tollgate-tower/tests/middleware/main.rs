//! Tests of the middleware in one binary, because linking takes longer than most of them. `allocations` is separate,
//! because its counting allocator would slow down all of them. `mutations` is separate, because a proof runs it by
//! name.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[cfg(all(feature = "policy", feature = "jwt"))]
mod attributes;
#[cfg(feature = "axum")]
mod axum;
mod client_address;
#[cfg(feature = "tokio")]
mod given_back;
mod keys;
#[cfg(feature = "axum")]
mod older_headers;
#[cfg(all(feature = "axum", feature = "policy"))]
mod pairs;
#[cfg(all(feature = "axum", feature = "policy"))]
mod programs;
mod service;
#[cfg(feature = "axum")]
mod spring_starter;
#[cfg(feature = "axum")]
mod support;
#[cfg(feature = "jwt")]
mod tokens;
#[cfg(feature = "tonic")]
mod tonic;
#[cfg(all(feature = "axum", feature = "jwt"))]
mod valkey_server;
mod values;
