//! Limits in front of axum, over real sockets.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(feature = "axum")]

mod after;
mod answers;
mod connections;
mod crowd;
mod keys;
#[cfg(all(feature = "jwt", feature = "policy", feature = "tonic"))]
mod one_view;
#[cfg(feature = "policy")]
mod policies;
mod routes;
mod setup;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
#[cfg(feature = "policy")]
mod ways_around;
