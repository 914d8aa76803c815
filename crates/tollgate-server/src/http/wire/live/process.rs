//! The process: who it is, and its figures of the last minute.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_wire::body::TimeText;

use crate::dashboard::series::PolicyCounts;
use crate::metrics::{DurationCounts, Occupancy, OverridesFigures, ProcessCounts};

/// The process that answers. Others of a fleet have figures of their own.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveProcess")]
pub(in crate::http) struct LiveProcess<'a> {
    /// The name of its machine.
    pub(in crate::http) host: &'a str,
    pub(in crate::http) pid: u32,
    /// When it started.
    pub(in crate::http) started: TimeText,
    /// Its version of Tollgate.
    pub(in crate::http) version: &'static str,
}

/// Whether requests are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ServiceState")]
pub(in crate::http) enum ServiceState {
    Ready,
    /// The service is about to stop.
    Draining,
    NotReady,
}

/// The overrides as this process knows them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveOverrides")]
pub(in crate::http) struct LiveOverrides {
    /// How many there are, those that have ended or are inert included.
    pub(in crate::http) count: usize,
    /// Whether they could not be read from the store for a second.
    pub(in crate::http) stale: bool,
    /// Milliseconds since they were last read; absent if they never were, or need not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) age_ms: Option<u64>,
}

/// Sums over all policies or domains.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveTotals")]
pub(in crate::http) struct LiveTotals {
    /// Checks, each counted once.
    pub(in crate::http) checks: u64,
    /// Those that a policy admitted, or exempted.
    pub(in crate::http) allowed: u64,
    /// Those that a policy denied.
    pub(in crate::http) denied: u64,
    /// Checks without a decision, counted for each of their policies with `on_store_failure: closed`.
    pub(in crate::http) failed: u64,
    /// Those of the allowed and denied that were decided while the store could not answer, or was full.
    pub(in crate::http) by_fallback: u64,
    /// Denials that policies on trial would have given.
    pub(in crate::http) trial_denied: u64,
    /// Checks that no policy limits.
    pub(in crate::http) unlimited: u64,
    /// Checks that were denied because no policy matches (`unmatched: deny`).
    pub(in crate::http) unmatched: u64,
    /// Checks in the last whole second.
    pub(in crate::http) checks_now: u64,
}

/// Checks by the source of their answers, in the words of `tollgate_checks_total`.
#[derive(Serialize, JsonSchema, Default)]
#[schemars(rename = "SourceCounts")]
pub(in crate::http) struct SourceCounts {
    /// The store, which is this process if counters are in memory.
    store: u64,
    /// This process: an earlier answer of the store proves the denial.
    local: u64,
    /// The policies alone: no quota applies, or a key attribute is missing.
    policies: u64,
    /// This process, which counted against its share because the store failed.
    fallback_local: u64,
    /// Nothing was counted, because the store failed or was full.
    fallback_open: u64,
    /// There was no decision, or the caller gave up before it.
    none: u64,
}

/// Durations that a share of the steps did not exceed, in milliseconds: the next bound of a bucket of the histogram.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Latency")]
pub(in crate::http) struct Latency {
    /// That of half of them; absent if it is above a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<f64>,
    /// That of 99 %; absent if it is above a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
}

/// Counters and holds in the memory of this process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveMemory")]
pub(in crate::http) struct LiveMemory {
    /// Counters; those of closed windows count until their space is reused.
    counters: usize,
    /// As many as there may be (`--max-counters`).
    max_counters: usize,
    /// Ids of holds: of those that live, and of settled ones that are still remembered.
    holds: usize,
    /// Holds that expired before they were settled, since the start.
    expired_holds: usize,
    /// Requests that got no counter because memory was full, in the span.
    store_full: u64,
}

impl LiveTotals {
    pub(in crate::http) fn new(process: &ProcessCounts, policies: &PolicyCounts, checks_now: u64) -> Self {
        Self {
            checks: process.checks(),
            allowed: policies.allowed,
            denied: policies.denied,
            failed: policies.failed,
            by_fallback: policies.by_fallback,
            trial_denied: policies.trial_denied(),
            unlimited: process.unlimited,
            unmatched: process.unmatched,
            checks_now,
        }
    }
}

impl SourceCounts {
    pub(in crate::http) fn new(process: &ProcessCounts) -> Self {
        let count =
            |source| process.sources.iter().find(|(name, _)| *name == source).map_or(0, |(_, count)| *count);
        Self {
            store: count("store"),
            local: count("local"),
            policies: count("policies"),
            fallback_local: count("fallback_local"),
            fallback_open: count("fallback_open"),
            none: count("none"),
        }
    }
}

impl Latency {
    /// Returns the durations; `None` if there are none.
    pub(in crate::http) fn of(counts: &DurationCounts) -> Option<Self> {
        (counts.all() > 0).then(|| Self { p50: millis(counts, 500), p99: millis(counts, 990) })
    }
}

impl LiveMemory {
    pub(in crate::http) fn new(memory: &Occupancy, process: &ProcessCounts) -> Self {
        let Occupancy { counters, max_counters, holds, expired_holds } = *memory;
        Self { counters, max_counters, holds, expired_holds, store_full: process.store_full }
    }
}

impl From<&OverridesFigures> for LiveOverrides {
    fn from(figures: &OverridesFigures) -> Self {
        let age_ms = figures.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        Self { count: figures.overrides, stale: figures.is_stale, age_ms }
    }
}

/// Returns a duration in milliseconds that so many of a thousand did not exceed.
pub(super) fn millis(counts: &DurationCounts, per_mille: u64) -> Option<f64> {
    counts.within(per_mille).map(|within| within.as_secs_f64() * 1_000.0)
}
