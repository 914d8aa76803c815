//! Tests of policies in one binary, because linking takes longer than most of them. `allocation` is another one: it counts
//! allocations, and what counts them makes all of them slower. `reading` and `robust` are, because proofs run them by name.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod changes;
mod charges;
mod limiter;
mod manual;
mod overlaps;
mod recipes;
mod texts;
mod view;
mod written;
