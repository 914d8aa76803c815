//! The overrides behind a decision.

use tollgate::Timestamp;

use crate::Policy;
use crate::overrides::ByOverride;

/// An override that gives a request its limits, lifts them, or denies it.
///
/// It names neither the key nor the record: an answer says only that there is an override, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AppliedOverride {
    /// The time from which on it does not apply any more, by the store's clock; `None` if it has no end.
    pub until: Option<Timestamp>,
}

/// A policy whose limits an override replaced for a request.
#[derive(Debug, Clone, Copy)]
pub struct OverriddenPolicy<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The override.
    pub by_override: AppliedOverride,
}

impl From<ByOverride<'_>> for AppliedOverride {
    fn from(by_override: ByOverride<'_>) -> Self {
        Self { until: by_override.until() }
    }
}
