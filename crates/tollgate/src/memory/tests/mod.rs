//! Tests of the store's inside, in tables of a few slots.
//!
//! - `loom_models`: a few steps of two or three threads, in every order; `hold_models`, the same of units in flight;
//! - `crowds`: many steps of eight threads, in orders that shuttle, miri or the machine choose;
//! - `sim`: many steps of one thread, and crowds, in a simulated world with a clock that moves at any moment. A ledger
//!   checks every answer.

#[cfg(not(tollgate_loom))]
mod crowds;
#[cfg(tollgate_loom)]
mod hold_models;
#[cfg(tollgate_loom)]
mod loom_models;
mod sim;
