//! The limiters compared, each in a file of its own.
//!
//! A new peer is one file with a [`Contestant`] and one line in [`PEERS`].

mod dashmap;
mod governor;
mod harness;
#[cfg(feature = "limitador")]
mod limitador;
mod moka;
mod pingora;
mod throttlecrab;
mod tollgate;

pub use self::governor::with_fake_clock as governor_with_fake_clock;
pub use self::governor::{bucket as governor_bucket, keyed as governor};
pub use self::tollgate::{
    Kind, NEVER_REACHED, of_kind, one_quota, two_quotas, with_clock as tollgate_with_clock,
};

use std::time::Duration;

use tollgate_bench_harness::keys::Chunk;

/// A limiter under measurement, called as its users would.
pub trait Contestant: Send + Sync {
    /// Decides on each key in turn, with cost 1. Returns how many are admitted.
    fn decide(&self, keys: Chunk<'_>) -> usize;

    /// The same for sixteen keys at a time, in one call if the limiter has batches.
    fn decide_by_16(&self, keys: Chunk<'_>) -> usize {
        self.decide(keys)
    }
}

/// The limit that a contestant is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Too high to be reached while the bench runs.
    NeverReached,
    /// [`FEW`] an hour.
    Few,
}

/// Units an hour under [`Limit::Few`].
pub const FEW: u32 = 100;

/// Builds a contestant for this many keys.
pub type Build = fn(Limit, u32) -> Box<dyn Contestant>;

/// The optional contestants, besides ours and governor: other crates, two maps that a user could make a limiter of, and
/// last the cost of the harness itself.
pub const PEERS: &[(&str, Build)] = &[
    ("throttlecrab", throttlecrab::periodic),
    #[cfg(feature = "limitador")]
    ("limitador", limitador::in_memory),
    ("pingora", pingora::rate),
    ("dashmap", dashmap::by_hand),
    ("moka", moka::by_hand),
    (HARNESS, harness::harness),
];

/// The name of the contestant that decides nothing.
pub const HARNESS: &str = "(harness)";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Limit {
    /// Units in [`window`](Self::window).
    const fn units(self) -> u32 {
        match self {
            Self::NeverReached => NEVER_REACHED,
            Self::Few => FEW,
        }
    }

    const fn window(self) -> Duration {
        match self {
            Self::NeverReached => DAY,
            Self::Few => Duration::from_secs(60 * 60),
        }
    }
}
