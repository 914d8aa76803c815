//! The script: its requests, their encoding, and its answers.
//!
//! Pure functions, except for the script itself, which the server runs. [`Request`] is one step; [`encode`] writes
//! groups of them into one call, [`decode`] reads its reply.

mod decode;
mod encode;
mod packed;
mod request;
mod step;
mod window_spec;

pub(crate) use self::decode::{Reply, ScriptAnswer, ScriptOutcome, decode};
pub(crate) use self::encode::{Group, encode};
pub(crate) use self::request::{KeyText, Request, Shape};
pub(crate) use self::step::{ChargedDenials, CountChange, CounterStep, Room};
pub(crate) use self::window_spec::WindowSpec;

/// The text of the script.
pub(crate) const TEXT: &str = include!("text.in");

/// The SHA-1 of [`TEXT`], with which calls name it.
pub(crate) const SHA1: &str = "216499d60deeb9d5a45a5e5b916ab75a462e9496";

#[cfg(test)]
mod tests;
