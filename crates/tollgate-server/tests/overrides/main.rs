//! Overrides in two services on one store, under load, in trouble, and with ends that come.
//!
//! Drivers change overrides through either service, and write down which version each change became. Clients ask both
//! services, and write down every answer, which names the version by which it was decided. A judge then replays each
//! client's answers against what that version has said, and against the client's own counts.
//!
//! | promise | how a round sees it broken |
//! |---|---|
//! | G10, rule 26 | an answer that is not what its version says, a version that goes back or comes too late |
//! | rule 22 | other limits than those of the override that takes precedence |
//! | rule 23 | a count that another override has changed |
//! | rule 24 | an override at its end or after it, by the store's time in the answer |
//! | keys stay secret | a key in a log, in metrics or in an answer |
//!
//! The judge shares nothing with the product: it has its own precedence, counts, times and records of changes.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod agreement;
mod answer;
mod attributes;
mod books;
mod canaries;
mod change;
mod client;
mod condition;
mod driver;
mod expected;
mod found;
mod freshness;
mod judge;
mod ledger;
mod moment;
mod observation;
mod possible;
mod prove;
mod rfc3339;
mod rounds;
mod service;
mod site;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
mod versions;
mod world;
