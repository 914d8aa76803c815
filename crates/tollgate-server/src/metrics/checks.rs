//! Counts each check once, by the source of its answer, so that every availability is a ratio within one metric.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{OnStoreFailure, Source};
use tollgate_envoy::Response;
use tollgate_policy::{CountState, Policy, PolicyDecision, QuotaChanges};

use super::Metrics;

/// The source of the answer to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckSource {
    /// The store.
    Store,
    /// This process: an earlier answer of the store proves the denial.
    Local,
    /// The policies alone: no quota applies, or a key attribute is missing.
    Policies,
    /// This process, which counted against its share because the store failed.
    FallbackLocal,
    /// Nothing was counted, because the store failed or was full.
    FallbackOpen,
    /// There was no decision, or the caller gave up before it.
    None,
}

/// A count for each source. Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug, Default)]
pub(super) struct Checks([AtomicU64; CheckSource::ALL.len()]);

impl CheckSource {
    const ALL: [Self; 6] =
        [Self::Store, Self::Local, Self::Policies, Self::FallbackLocal, Self::FallbackOpen, Self::None];

    pub(crate) fn of(decision: &PolicyDecision) -> Self {
        let mut policies = decision.quotas().map(|standing| standing.policy);
        let mut in_flight = decision.in_flight().map(|standing| standing.policy);
        match decision.source() {
            _ if decision.state().is_none() && decision.limit_in_flight().is_none() => Self::Policies,
            Source::Store => Self::Store,
            Source::Local => Self::Local,
            _ => {
                let counts_locally =
                    |policy: &Policy| matches!(policy.on_store_failure(), OnStoreFailure::Local(_));
                let is_local = policies.any(counts_locally) || in_flight.any(counts_locally);
                let is_counted = is_local && !decision.is_without_room();
                if is_counted { Self::FallbackLocal } else { Self::FallbackOpen }
            }
        }
    }

    /// Like [`of`](Self::of), but for units that were added under a caller's own limits.
    pub(crate) fn of_count(counted: &QuotaChanges<CountState>) -> Self {
        match counted.iter().any(|(.., counted)| counted.state.source() == Source::Fallback) {
            true => Self::FallbackOpen,
            false => Self::Store,
        }
    }

    /// Like [`of`](Self::of), but for a decision by the limits of Envoy's service.
    pub(crate) fn of_envoy(response: &Response, on_store_failure: OnStoreFailure) -> Self {
        let is_local = matches!(on_store_failure, OnStoreFailure::Local(_));
        match response.source {
            // Other limits of the request may have been counted.
            _ if response.is_without_room => Self::FallbackOpen,
            None => Self::Policies,
            Some(Source::Store) => Self::Store,
            Some(Source::Local) => Self::Local,
            Some(_) if is_local => Self::FallbackLocal,
            Some(_) => Self::FallbackOpen,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Local => "local",
            Self::Policies => "policies",
            Self::FallbackLocal => "fallback_local",
            Self::FallbackOpen => "fallback_open",
            Self::None => "none",
        }
    }
}

/// Counts a check that its caller gives up, which is dropped before it has an answer.
pub(crate) struct UndroppedCheck<'a>(Option<&'a Metrics>);

impl<'a> UndroppedCheck<'a> {
    pub(super) fn new(metrics: &'a Metrics) -> Self {
        Self(Some(metrics))
    }

    /// Counts the completed check by its outcome.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for UndroppedCheck<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.0 {
            metrics.checked(CheckSource::None);
        }
    }
}

impl Checks {
    pub(super) fn count(&self, source: CheckSource) {
        if let Some(counter) = self.0.get(source as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn of(&self, source: CheckSource) -> u64 {
        self.0.get(source as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Returns the count of each source.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CheckSource::ALL.into_iter().map(|source| (source.name(), self.of(source)))
    }
}
