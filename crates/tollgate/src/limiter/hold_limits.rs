//! What holds over any store are counted against.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::freed::FreedSignal;
use crate::{Key, PolicyInFlight, PolicyQuota};

/// The limits of a limiter, and the signal for its waiters.
pub(super) struct HoldLimits {
    pub(super) in_flight: Option<PolicyInFlight>,
    /// There may be none.
    pub(super) quotas: Arc<[PolicyQuota]>,
    /// Tells waiters of this process that a hold has ended.
    pub(super) freed: Arc<FreedSignal>,
    hasher: RandomState,
}

impl HoldLimits {
    pub(super) fn new(in_flight: Option<PolicyInFlight>, quotas: Arc<[PolicyQuota]>) -> Self {
        Self { in_flight, quotas, freed: Arc::default(), hasher: RandomState::new() }
    }

    /// Tells waiters that units of the key are free.
    pub(super) fn tell_freed(&self, key: &Key<'_>) {
        self.freed.freed(self.number(key));
        self.freed.tell();
    }

    /// Returns the key's number for the signal.
    pub(super) fn number(&self, key: &Key<'_>) -> u64 {
        self.hasher.hash_one(key)
    }
}
