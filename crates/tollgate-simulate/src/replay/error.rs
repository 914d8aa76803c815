//! The reason why a replay cannot continue.

use thiserror::Error;
use tollgate::StoreError;
use tollgate_policy::PolicyError;

use super::policies::classes::ByClass;

/// The reason why requests cannot be replayed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There are more live counters than memory is reserved for.
    #[error("the counters of the replay: {0}; there is room for eight per client that --max-clients allows")]
    Store(StoreError),
    /// The clients of each class are counted for each policy, and there is not enough memory for so many.
    #[error(
        "{policies} policies times {classes} classes are more than {} pairs; give fewer classes",
        ByClass::MAX_PAIRS
    )]
    TooManyPairs {
        /// The policies.
        policies: usize,
        /// The classes.
        classes: usize,
    },
    /// A store in memory always answers; this is a defect of Tollgate.
    #[error("the counters of the replay gave no answer")]
    NoAnswer,
    /// Policies with another limit are not valid; this is a defect of Tollgate.
    #[error("policies with another limit: {0}")]
    Policies(#[from] PolicyError),
}
