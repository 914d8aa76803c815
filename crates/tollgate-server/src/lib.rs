//! The rate-limit service behind the `tollgate` binary: exact fixed windows over HTTP.
//!
//! A request takes this way through the modules:
//!
//! ```text
//! accept ──▶ connection ──▶ http ──▶ attributes ──▶ policy ──▶ engine ──▶ Store ──▶ http ──▶ reply
//! cap on     limits of      routing,  what the      whom it    charges,   one       headers,
//! them       time and size  body,     caller says   counts     metrics,   step      body
//!                           query                              log lines
//! ```
//!
//! [`args`] is what the user wrote, [`Settings`] the ready objects made of it, and [`serve`] puts everything
//! together. The engine knows no HTTP, the `http` modules know no counters, and all of it works over any
//! [`Store`](tollgate::Store); `store` has those that the service can be started with.

mod accept;
pub mod args;
mod attributes;
pub mod check_config;
pub mod client;
mod connection;
pub mod doctor;
mod engine;
pub mod explain;
mod http;
mod log_gap;
pub mod logs;
mod metrics;
mod phase;
mod policy;
mod serve;
mod settings;
mod shutdown;
mod stopwatch;
mod store;
mod watchdog;

pub use self::policy::PolicyError;
pub use self::serve::{Ended, serve};
pub use self::settings::{Settings, SettingsError};
