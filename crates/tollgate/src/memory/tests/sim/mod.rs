//! The real store and limiter in a simulated world, and a ledger that judges every answer.
//!
//! A seed makes a [`World`](world::World): a store's settings, a clock with a precise and a lagging reading that moves
//! forth and back in the middle of calls, and what some threads do. The world is run, and [`judge`](judge::judge) looks
//! for an order of its steps in which the [`Ledger`](ledger::Ledger) agrees with every answer. The ledger has window
//! arithmetic, counts and a log of the clock of its own; what the library does is known to [`system`] alone.
//!
//! ```text
//! seed ─▶ generate ─▶ world ─▶ course (system, clock, scheduler) ─▶ history ─▶ judge (ledger, terms) ─▶ violation
//!                       ▲                                                                               │
//!                       └────────────────────────────── shrink ◀────────────────────────────────────────┤
//!                                                                                             story ◀───┘
//! ```
//!
//! There are three tiers. In calm worlds whole calls follow each other on one thread; tens of thousands run in a second.
//! Busy worlds are like them, but with hundreds of calls for up to forty keys, so that shards are full of counters. In
//! crowded worlds, which need a build with `--cfg tollgate_shuttle`, two to four threads are interrupted at every
//! atomic operation. Tables have a few slots in all of them, so shards grow, are rebuilt and drop closed counters all the
//! time.
//!
//! `cargo xtask prove sim` runs many of both; `cargo xtask prove sim --planted` shows that the bugs in `planted/` are found.
//!
//! The models of `loom_models` have another clock and no seeds, but the same ledger.

#![cfg_attr(tollgate_loom, expect(dead_code, reason = "the models need one kind of windows"))]

pub(super) mod answer;
#[cfg(not(tollgate_loom))]
mod clock;
pub(super) mod conversion;
#[cfg(not(tollgate_loom))]
mod course;
#[cfg(not(tollgate_loom))]
mod dice;
#[cfg(not(tollgate_loom))]
mod generate;
pub(super) mod judge;
mod ledger;
#[cfg(not(tollgate_loom))]
mod quiet;
#[cfg(tollgate_shuttle)]
mod scheduler;
#[cfg(not(tollgate_loom))]
mod shrink;
pub(super) mod story;
#[cfg(not(tollgate_loom))]
mod system;
pub(super) mod terms;
#[cfg(not(tollgate_loom))]
mod tiers;
pub(super) mod world;
