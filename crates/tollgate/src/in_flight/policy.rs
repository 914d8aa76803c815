//! A limit on units in flight under the name of its policy.

use std::fmt;
use std::sync::Arc;

use super::InFlight;
use crate::charge::scope_digest;

/// A limit on units in flight under the name of its policy: with a key, it names one counter.
///
/// A counter belongs to the policy's name and the key, so a changed limit keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyInFlight {
    in_flight: InFlight,
    policy: Arc<str>,
    /// A digest of what names the counter besides its key, 128 bits.
    scope_digest: u128,
}

impl PolicyInFlight {
    /// Returns the limit under this policy's name.
    #[must_use]
    pub fn new(policy: &str, in_flight: InFlight) -> Self {
        // No quota of the policy has this series, so the counter is no quota's.
        Self { in_flight, policy: policy.into(), scope_digest: scope_digest(policy, "~in_flight") }
    }

    /// Returns the policy's name.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the limit.
    #[must_use]
    pub const fn in_flight(&self) -> InFlight {
        self.in_flight
    }

    pub(crate) const fn scope_digest(&self) -> u128 {
        self.scope_digest
    }
}

/// Under the policy name `default`.
impl From<InFlight> for PolicyInFlight {
    fn from(in_flight: InFlight) -> Self {
        Self::new("default", in_flight)
    }
}

impl fmt::Debug for PolicyInFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.policy, self.in_flight)
    }
}
