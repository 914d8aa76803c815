//! What is asked of an estimate.

use tollgate::{CountDenied, Quota, Timestamp};

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct WhatIfQuestion {
    /// In place of all quotas of the policy.
    pub(crate) quota: Quota,
    /// Whether the policy charges denied requests.
    pub(crate) count_denied: CountDenied,
    pub(crate) circumstances: Circumstances,
}

/// What an estimate has to know of the policy and the service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) now: Timestamp,
    /// The quotas of the policy.
    pub(crate) quotas: usize,
    /// Whether it limits units in flight.
    pub(crate) has_in_flight: bool,
    /// Whether other processes may count for the policy.
    pub(crate) is_shared: bool,
}
