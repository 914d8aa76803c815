//! A limit on units in flight under the name of its policy.

use std::fmt;
use std::sync::Arc;

use super::InFlight;
use crate::charge::scope_digest;
use crate::{LocalShare, OnStoreFailure};

/// A limit on units in flight under the name of its policy: with a key, it names one counter.
///
/// A counter belongs to the policy's name and the key, so a changed limit keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyInFlight {
    in_flight: InFlight,
    policy: Arc<str>,
    on_store_failure: Option<OnStoreFailure>,
    expiry_report: ExpiryReport,
    /// A digest of what names the counter besides its key, 128 bits.
    scope_digest: u128,
}

/// Whether a store in memory reports expired units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpiryReport {
    Due,
    Omitted,
}

impl PolicyInFlight {
    /// What stands for the windows of a quota in the identity and the name of its counter. No quota has this series, so
    /// the counter is no quota's.
    pub const SERIES: &'static str = "~in_flight";

    /// Returns the limit under this policy's name.
    #[must_use]
    pub fn new(policy: &str, in_flight: InFlight) -> Self {
        let scope_digest = scope_digest(policy, Self::SERIES);
        let expiry_report = ExpiryReport::Due;
        Self { in_flight, policy: policy.into(), on_store_failure: None, expiry_report, scope_digest }
    }

    /// Sets what happens while the store cannot answer. It overrides the policy of the
    /// [`FallbackStore`](crate::FallbackStore) above the store.
    #[must_use]
    pub fn with_on_store_failure(self, on_store_failure: OnStoreFailure) -> Self {
        Self { on_store_failure: Some(on_store_failure), ..self }
    }

    /// Lets a store in memory report no [expired units](crate::InFlightState::expired). It remembers units that wait to be
    /// reported for a bounded number of policies; those whose names somebody else chooses would take the places of the
    /// others.
    #[must_use]
    pub fn without_expired_units(self) -> Self {
        Self { expiry_report: ExpiryReport::Omitted, ..self }
    }

    /// Returns whether a store in memory reports expired units.
    pub(crate) fn reports_expired_units(&self) -> bool {
        self.expiry_report == ExpiryReport::Due
    }

    /// The same counters under this share of the limit.
    pub(crate) fn with_share(&self, share: LocalShare) -> Self {
        Self { in_flight: self.in_flight.with_share(share), ..self.clone() }
    }

    /// Returns the policy for outages of the store, if the limit has its own.
    #[must_use]
    pub const fn on_store_failure(&self) -> Option<OnStoreFailure> {
        self.on_store_failure
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

    /// Returns a digest of what identifies the counter besides its key, as
    /// [`PolicyQuota::scope_digest`](crate::PolicyQuota::scope_digest) does.
    #[must_use]
    pub const fn scope_digest(&self) -> u128 {
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
