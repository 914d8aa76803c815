//! The crate's behaviour through its public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod deciding;
mod generations;
mod hits;
mod loading;
mod overdraft;
mod rules;
