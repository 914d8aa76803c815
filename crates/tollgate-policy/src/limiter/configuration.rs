//! A version of the policies, with what is counted of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate::{Clock, OnStoreFailure, SystemClock, Timestamp};

use super::tally::{Counters, HoldCounters, Tally};
use crate::{MatchedPolicies, Policies, Policy};

/// A version of the policies: when it became live, and its tallies. Sets share it, so a set with the same policies and
/// other overrides costs no copy.
#[derive(Debug)]
pub(super) struct Configuration {
    policies: Policies,
    version: u64,
    source: Box<str>,
    since: Timestamp,
    /// One for each policy. A policy that stays keeps its figures.
    counters: Box<[Arc<Counters>]>,
    /// Since which version each policy has had its key, without a gap.
    key_since: Box<[u64]>,
    unlimited: Arc<AtomicU64>,
    unmatched: Arc<AtomicU64>,
    is_of_caller: bool,
    /// The places of policies by their names, once a hold asks for them.
    places: OnceLock<HashMap<Box<str>, usize>>,
}

impl Configuration {
    pub(super) fn first(policies: Policies, source: &str) -> Self {
        let counters = policies.as_slice().iter().map(|_| Arc::default()).collect();
        let key_since = policies.as_slice().iter().map(|_| 1).collect();
        let since = SystemClock.now();
        Self {
            policies,
            key_since,
            version: 1,
            source: source.into(),
            since,
            counters,
            unlimited: Arc::default(),
            unmatched: Arc::default(),
            is_of_caller: false,
            places: OnceLock::new(),
        }
    }

    /// Replaces these policies. A new policy with the name of an old one continues its figures.
    pub(super) fn next(&self, policies: Policies, source: &str) -> Self {
        let names = self.policies.as_slice().iter().map(Policy::name);
        let kept: HashMap<&str, &Arc<Counters>> = names.zip(&self.counters).collect();
        let counters = |policy: &Policy| kept.get(policy.name()).map(|counters| Arc::clone(counters));
        let counters =
            policies.as_slice().iter().map(|policy| counters(policy).unwrap_or_default()).collect();
        let (version, since) = (self.version + 1, SystemClock.now());
        let before = self.policies.as_slice().iter().zip(&self.key_since);
        let before: HashMap<&str, (&Policy, u64)> =
            before.map(|(policy, since)| (policy.name(), (policy, *since))).collect();
        let key_since = policies.as_slice().iter().map(|policy| match before.get(policy.name()) {
            Some((before, key_since)) if before.identity() == policy.identity() => *key_since,
            // It may have had another key before it was removed.
            _ => version,
        });
        let key_since = key_since.collect();
        let (unlimited, unmatched) = (Arc::clone(&self.unlimited), Arc::clone(&self.unmatched));
        let (source, is_of_caller, places) = (source.into(), false, OnceLock::new());
        Self {
            policies,
            version,
            source,
            since,
            counters,
            key_since,
            unlimited,
            unmatched,
            is_of_caller,
            places,
        }
    }

    /// Replaces these policies with a caller's limits, under the same version. Their figures are not reported.
    pub(super) fn of_caller(&self, limits: Policy) -> Self {
        Self {
            policies: Policies::new(vec![limits]),
            version: self.version,
            source: self.source.clone(),
            since: self.since,
            counters: [Arc::default()].into(),
            key_since: [self.version].into(),
            unlimited: Arc::default(),
            unmatched: Arc::default(),
            is_of_caller: true,
            places: OnceLock::new(),
        }
    }

    pub(super) const fn policies(&self) -> &Policies {
        &self.policies
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) const fn is_of_caller(&self) -> bool {
        self.is_of_caller
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) const fn since(&self) -> Timestamp {
        self.since
    }

    pub(super) fn tally(&self) -> impl Iterator<Item = (&Policy, Tally)> {
        self.policies.as_slice().iter().zip(self.counters.iter().map(|counters| counters.tally()))
    }

    pub(super) fn unlimited(&self) -> u64 {
        self.unlimited.load(Ordering::Relaxed)
    }

    pub(super) fn unmatched(&self) -> u64 {
        self.unmatched.load(Ordering::Relaxed)
    }

    /// Returns the first version from which on the policy has had its key in every version.
    pub(super) fn key_since(&self, policy: u32) -> u64 {
        self.key_since.get(policy as usize).copied().unwrap_or(self.version)
    }

    pub(super) fn counters(&self, policy: u32) -> Option<&Counters> {
        self.counters.get(policy as usize).map(AsRef::as_ref)
    }

    /// Notes something about a hold in the tallies of these policies, as far as they are in this version.
    pub(super) fn note_holds<'a>(&self, names: impl Iterator<Item = &'a str>, note: impl Fn(&HoldCounters)) {
        let places = self.places.get_or_init(|| {
            let names = self.policies.as_slice().iter().map(|policy| policy.name().into());
            names.zip(0..).collect()
        });
        for name in names {
            if let Some(counters) = places.get(name).and_then(|place| self.counters.get(*place)) {
                note(counters.holds());
            }
        }
    }

    pub(super) fn note_unlimited(&self) {
        // Relaxed: a figure of its own that guards no other memory.
        self.unlimited.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_unmatched(&self) {
        // Relaxed: as above.
        self.unmatched.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a request that came to no decision, because the store gave none: for the policies that insisted on
    /// one, or for all where the reason was another.
    pub(super) fn note_failure(&self, matched: &MatchedPolicies<'_>) {
        let is_closed = |policy: &Policy| policy.on_store_failure() == OnStoreFailure::Closed;
        let any_closed = matched.deciding().any(|entry| is_closed(entry.policy));
        for entry in matched.deciding().filter(|entry| !any_closed || is_closed(entry.policy)) {
            if let Some(counters) = self.counters(entry.applied.policy) {
                counters.failed();
            }
        }
    }
}
