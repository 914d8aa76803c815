//! Tests of the store's inside, in tables of a few slots.
//!
//! - `loom_models`: a few steps of two or three threads, in every order;
//! - `crowds`: many steps of eight threads, in orders that shuttle, miri or the machine choose;
//! - `model`: many steps of one thread, compared with a reference;
//! - `sim`: the same and crowds, in a simulated world with a clock that moves at any moment, before a ledger.

#[cfg(not(tollgate_loom))]
mod crowds;
#[cfg(tollgate_loom)]
mod loom_models;
// Miri is too slow for it.
#[cfg(not(any(tollgate_loom, tollgate_shuttle, miri)))]
mod model;
#[cfg(tollgate_loom)]
mod serial;
#[cfg(not(tollgate_loom))]
mod sim;
