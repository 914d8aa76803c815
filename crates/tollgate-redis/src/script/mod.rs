//! The one script: what is asked of it, how that is written down, and what its answers mean.
//!
//! Pure functions, but for the script itself, which the server runs. [`Request`] is one step to be taken;
//! [`encode`] writes groups of them into one call, [`decode`] reads its reply.

mod decode;
mod encode;
mod packed;
mod request;

pub(crate) use self::decode::{Answer, Found, Outcome, Reply, decode};
pub(crate) use self::encode::{Group, encode};
pub(crate) use self::request::{Request, Shape, Step, Windows};

/// What the server runs.
pub(crate) const TEXT: &str = include_str!("tollgate.lua");

/// The SHA-1 of [`TEXT`], by which the server knows it.
pub(crate) const SHA1: &str = "507fcf66e3358b6ce0d20bb19d096ecbf385578f";

#[cfg(test)]
mod tests;
