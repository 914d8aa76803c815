//! The limiters compared, each in a file of its own.
//!
//! A new peer is one file with a [`Contestant`] and one line in [`FIELD`].

mod governor;
mod tollgate;

pub use self::tollgate::two_quotas;

/// A limiter under measurement, as its user would call it.
pub trait Contestant: Send + Sync {
    /// Decides on each key in turn, at cost 1, and counts the admitted.
    fn decide(&self, keys: &[String]) -> usize;

    /// The same for sixteen keys at a time, by the call for batches if there is one.
    fn decide_by_16(&self, keys: &[String]) -> usize {
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

/// Builds a contestant for so many keys.
pub type Build = fn(Limit, u32) -> Box<dyn Contestant>;

/// Everybody in the field: ourselves first, then the peer that results are told against.
pub const FIELD: &[(&str, Build)] = &[("ours", tollgate::one_quota), ("governor", governor::keyed)];
