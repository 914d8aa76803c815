//! Tests of policies in one binary, because linking takes longer than most of them. `allocation` is separate, because
//! its counting allocator would slow down all of them. `reading` and `robust` are separate, because proofs run them by
//! name.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod changes;
mod charges;
mod generations;
mod limiter;
mod manual;
mod overdraft;
mod overlaps;
mod override_rules;
mod readings;
mod recipes;
mod refunds;
mod texts;
mod view;
mod written;
