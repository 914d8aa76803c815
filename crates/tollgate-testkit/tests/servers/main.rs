//! The servers that other tests rely on do what they are told.

#![expect(clippy::unwrap_used, reason = "an error is a failed test")]

mod clock;
mod cluster;
mod sentinels;
mod server;
