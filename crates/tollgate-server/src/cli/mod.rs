//! The commands of the binary besides `serve`, and what all commands share: their threads and their output.

pub mod check;
pub mod check_config;
pub mod client;
pub mod doctor;
pub mod explain;
pub mod man;
pub mod new_token;
pub mod output;
pub mod overrides;
pub mod runtime;
#[cfg(feature = "simulate")]
pub mod simulate;
mod time_span;
pub mod version;
