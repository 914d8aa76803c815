//! What decisions are made under.

use std::sync::Arc;

use tollgate::Timestamp;

use super::configuration::Configuration;
use super::tally::{Counters, HoldCounters, Tally};
use crate::{MatchedPolicies, OverrideSet, Policies, Policy};

/// What a decision is made under: one version of the policies, when it became live, and its tallies; and one version of
/// the overrides. Neither changes, so a decision that holds both is made under the same ones to its end.
#[derive(Debug)]
pub struct PolicySet {
    configuration: Arc<Configuration>,
    overrides: OverrideSet,
}

/// A first version without policies.
impl Default for PolicySet {
    fn default() -> Self {
        Self::first(Policies::new(Vec::new()), "")
    }
}

impl PolicySet {
    pub(super) fn first(policies: Policies, source: &str) -> Self {
        let configuration = Arc::new(Configuration::first(policies, source));
        Self { configuration, overrides: OverrideSet::default() }
    }

    /// Replaces these policies, under the same overrides. A new policy with the name of an old one continues its figures.
    pub(super) fn next(&self, policies: Policies, source: &str) -> Self {
        let overrides = self.overrides.for_policies(&policies);
        Self { configuration: Arc::new(self.configuration.next(policies, source)), overrides }
    }

    /// Replaces the overrides, under the same policies.
    pub(super) fn with_overrides(&self, change: impl FnOnce(&OverrideSet, &Policies) -> OverrideSet) -> Self {
        let overrides = change(&self.overrides, self.policies());
        Self { configuration: Arc::clone(&self.configuration), overrides }
    }

    /// Replaces these policies with a caller's limits, under the same version. Their figures are not reported. Overrides
    /// are for policies alone.
    pub(super) fn of_caller(&self, limits: Policy) -> Self {
        let configuration = Arc::new(self.configuration.of_caller(limits));
        Self { configuration, overrides: self.overrides.cleared() }
    }

    /// Returns the policies.
    #[must_use]
    #[inline]
    pub fn policies(&self) -> &Policies {
        self.configuration.policies()
    }

    /// Returns the overrides. Those of a [caller's limits](Self::is_of_caller) are none.
    #[must_use]
    pub const fn overrides(&self) -> &OverrideSet {
        &self.overrides
    }

    /// Which version of the policies this is, counted from 1 by the limiter that holds it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.configuration.version()
    }

    /// Returns whether these are the [limits of one caller](Policy::of_caller), given with its request.
    #[must_use]
    pub fn is_of_caller(&self) -> bool {
        self.configuration.is_of_caller()
    }

    /// Returns the source of the policies, as given to the limiter.
    #[must_use]
    pub fn source(&self) -> &str {
        self.configuration.source()
    }

    /// Returns the time at which the policies became live, by this process's clock.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.configuration.since()
    }

    /// Returns the figures of each policy, including earlier versions of the same name.
    pub fn tally(&self) -> impl Iterator<Item = (&Policy, Tally)> {
        self.configuration.tally()
    }

    /// Returns the number of checks to which neither a quota nor an exempt policy applied: they were admitted without
    /// counting.
    #[must_use]
    pub fn unlimited(&self) -> u64 {
        self.configuration.unlimited()
    }

    /// Checks that were denied because [no policy matched](crate::UnmatchedRequests).
    #[must_use]
    pub fn unmatched(&self) -> u64 {
        self.configuration.unmatched()
    }

    /// Returns the first version from which on the policy has had its key in every version.
    pub(super) fn key_since(&self, policy: u32) -> u64 {
        self.configuration.key_since(policy)
    }

    pub(super) fn counters(&self, policy: u32) -> Option<&Counters> {
        self.configuration.counters(policy)
    }

    /// Notes something about a hold in the tallies of these policies, as far as they are in this version.
    pub(super) fn note_holds<'a>(&self, names: impl Iterator<Item = &'a str>, note: impl Fn(&HoldCounters)) {
        self.configuration.note_holds(names, note);
    }

    pub(super) fn note_unlimited(&self) {
        self.configuration.note_unlimited();
    }

    pub(super) fn note_unmatched(&self) {
        self.configuration.note_unmatched();
    }

    /// Notes a request that came to no decision, because the store gave none: for the policies that insisted on one, or
    /// for all where the reason was another.
    pub(super) fn note_failure(&self, matched: &MatchedPolicies<'_>) {
        self.configuration.note_failure(matched);
    }
}
