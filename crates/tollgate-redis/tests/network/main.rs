//! The network of the store: real servers that are reached in every way there is, and then are away.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests, in real time")]

mod batch;
mod cluster;
mod holds;
mod lanes;
mod login;
mod nonsense;
mod outage;
mod records;
mod rotation;
mod self_signed;
mod sentinel;
mod skew;
mod support;
mod warm_up;
