//! The store in every trouble that there is with servers and networks, on real ones, again and again.
//!
//! A [`Fault`](fault::Fault) is brought about in rounds. Each test runs a few of them, as far as `cargo xtask test`
//! has time; `cargo xtask prove redis` runs as many as it is told to, and is strict about time as well.
//!
//! | promise | how a round sees it broken |
//! |---|---|
//! | G1 | a counter admitted more than its limit, once for each time the server lost its data |
//! | G5 | a key without an expiry, or with one too late, among all that a full `SCAN` finds |
//! | G6 | a denial by a counter that had room, a panic, an error that is not what happened, a decision that took too long |
//! | G1, G5 | of holds: a unit that is live too long or too short, a hold that is taken, settled or charged twice |
//! | G7 | a count above the charges that were acknowledged and those whose outcome is unknown |
//!
//! Recorded [histories](histories) of one counter are checked for more: some order of the operations explains all
//! answers.
//!
//! [Holders](holders) take units in flight and settle them, with a ledger of their own.
//!
//! [Copies of records](records) must be the same in all processes at each version.
//!
//! Besides: of two quotas of a request one was charged, or somebody got another's reply.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests, in real time")]

mod cancel;
mod clock;
mod cluster;
mod commands;
mod crowd;
mod cut;
mod diary;
mod ends;
mod expiry;
mod fault;
mod fleet;
mod histories;
mod holders;
mod holds;
mod kinds;
mod late;
mod ledger;
mod process;
mod prove;
mod records;
mod reserve;
mod rotation;
mod sentinel;
mod skew;
mod slow;
