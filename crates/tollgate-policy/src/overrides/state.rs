//! Whether an override applies.

use thiserror::Error;

use super::{OverrideLimitsError, OverrideTargetError};

/// Whether an override applies to its requests now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideState {
    /// It applies.
    Active,
    /// Its end has come.
    Ended,
    /// It applies to no request, for this reason. If the reason is gone, it applies again.
    Inert(InertReason),
}

/// Why an override applies to no request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InertReason {
    /// Its policy does not exist.
    #[error("there is no policy `{0}`")]
    NoPolicy(Box<str>),
    /// Its policy exempts or denies what it matches.
    #[error("policy `{0}` counts nothing")]
    CountsNothing(Box<str>),
    /// Its policy has got another key.
    #[error("policy `{policy}` has another key: `{now}`, was `{was}`")]
    OtherKey {
        /// The policy.
        policy: Box<str>,
        /// The key that the policy has.
        now: Box<str>,
        /// The key that it had when the override was set.
        was: Box<str>,
    },
    /// The policy cannot have an override for such requests.
    #[error(transparent)]
    Target(#[from] OverrideTargetError),
    /// The policy cannot have such limits.
    #[error("its limits do not fit: {0}")]
    Limits(#[from] OverrideLimitsError),
    /// The store cannot count its limits.
    #[error("the store cannot count its limits: {0}")]
    Store(Box<str>),
    /// This program cannot read it.
    #[error("it cannot be read: {0}")]
    Unreadable(Box<str>),
}
