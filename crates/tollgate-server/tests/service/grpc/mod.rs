//! Envoy's rate-limit service over gRPC, as a client of tonic's meets it.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod access;
mod calls;
mod hostile;
mod imported;
mod kinds;
mod kuadrant;
mod services;
