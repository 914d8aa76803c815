//! The script: its requests, their encoding, and its answers.
//!
//! Pure functions, except for the script itself, which the server runs. [`Request`] is one step; [`encode`] writes
//! groups of them into one call, [`decode`] reads its reply.

mod decode;
mod encode;
mod hold;
mod packed;
pub(crate) mod records;
mod request;
mod step;
mod window_spec;

pub(crate) use self::decode::{Reply, ScriptAnswer, ScriptOutcome, decode};
pub(crate) use self::encode::{Group, encode, encode_holds};
pub(crate) use self::hold::{
    AdjustedCounter, AdjustedPlace, FlightShape, HoldName, HoldOperation, HoldOutcome, HoldSettlement,
    HoldShape, HoldVerdict, SettledCounters,
};
pub(crate) use self::request::{KeyText, Request, Shape};
pub(crate) use self::step::{ChargedDenials, CountChange, CounterStep, Room};
pub(crate) use self::window_spec::WindowSpec;

/// The texts of all scripts, those that count first.
pub(crate) const TEXTS: &[&str] = &[TEXT, hold::TEXT, records::TEXT];

/// How many scripts count.
pub(crate) const COUNTING_SCRIPTS: usize = 2;

/// The text of the script.
pub(crate) const TEXT: &str = include!("text.in");

/// The SHA-1 of [`TEXT`], with which calls name it.
pub(crate) const SHA1: &str = "609c33c1226fdd8316fa5f11b48ae61e6041b706";

#[cfg(test)]
mod tests;
