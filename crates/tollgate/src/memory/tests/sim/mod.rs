//! The real store and limiter in a simulated world, and a ledger that checks every answer.
//!
//! A seed makes a [`World`](world::World): a store's settings, a clock with a precise and a lagging reading that moves
//! forward and back in the middle of calls, and the operations of some threads. The world is run, and
//! [`linearize`](linearize::linearize) looks for an order of its steps in which the [`Ledger`](ledger::Ledger) agrees
//! with every answer. The ledger has its own window arithmetic, its own counts and a log of the clock. Only `system` and
//! [`conversion`] know the library.
//!
//! ```text
//! seed ─▶ generate ─▶ world ─▶ execution (system, clock, scheduler) ─▶ history ─▶ linearize (ledger, terms)
//!                       ▲                                                             │
//!                       └────────────────────────── shrink ◀──────────────────── violation ─▶ trace
//! ```
//!
//! There are three tiers of worlds of quotas. In calm worlds whole calls follow each other on one thread; tens of thousands run in a second.
//! Busy worlds are like them, but with hundreds of calls for up to forty keys, so that shards are full of counters. In
//! crowded worlds, which need a build with `--cfg tollgate_shuttle`, two to four threads are interrupted at every
//! atomic operation. Tables have a few slots in all tiers, so shards grow, are rebuilt and drop closed counters all the
//! time.
//!
//! `cargo xtask prove sim` runs many worlds of each tier. `cargo xtask prove sim --planted` shows that the ledger finds
//! the bugs in `planted/`.
//!
//! Holds have worlds of their own, in `holds`, with a ledger that needs no beliefs.
//!
//! The models of `loom_models` have their own clock and no seeds, but the same ledger.

#![cfg_attr(tollgate_loom, expect(dead_code, reason = "the models need one kind of windows"))]

pub(super) mod answer;
#[cfg(not(tollgate_loom))]
mod clock;
mod contents;
pub(super) mod conversion;
#[cfg(not(tollgate_loom))]
mod execution;
#[cfg(not(tollgate_loom))]
mod generate;
#[cfg(not(tollgate_loom))]
mod holds;
mod ledger;
pub(super) mod linearize;
#[cfg(not(tollgate_loom))]
mod quiet;
#[cfg(not(tollgate_loom))]
mod random;
#[cfg(tollgate_shuttle)]
mod scheduler;
#[cfg(not(tollgate_loom))]
mod shrink;
#[cfg(not(tollgate_loom))]
mod system;
pub(super) mod terms;
#[cfg(not(tollgate_loom))]
mod tiers;
pub(super) mod trace;
pub(super) mod world;
