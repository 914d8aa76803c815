//! The store on real servers of Redis and Valkey.

#![expect(clippy::unwrap_used, reason = "an error is a failed test")]

mod across;
mod boundary;
mod callers;
mod conformance;
mod ends;
mod holds;
mod kept_holds;
mod kinds;
mod layout;
mod model;
mod races;
mod records;
mod servers;
mod storage;
mod waiting;
