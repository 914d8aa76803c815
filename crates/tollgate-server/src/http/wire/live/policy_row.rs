//! A policy, with its figures of the last minute.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_policy::{FileOverride, Mode, Policy, PolicyKind, TrialTally};

use crate::dashboard::series::{PolicyCounts, PolicySeries, Recorder, SeriesPoint};

/// A policy and what it decided in the span.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LivePolicy")]
pub(in crate::http) struct PolicyRow<'a> {
    name: &'a str,
    /// `enforce`, `shadow` or `off`.
    mode: &'a str,
    /// What it does with the requests that it matches: `limit`, `exempt` or `deny`.
    role: &'static str,
    /// The key; absent if it exempts or denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// What it limits, as written in a file.
    quotas: Vec<String>,
    /// The candidates, in one list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Vec<String>>,
    /// What decides while the store is down; absent if it exempts or denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_store_failure: Option<String>,
    /// Requests that it admitted or exempted, where it decided.
    allowed: u64,
    /// Requests that it denied.
    denied: u64,
    /// Requests without a decision, because the store gave none and the policy insists on one.
    failed: u64,
    /// Those of the allowed and denied that were decided without the store.
    by_fallback: u64,
    /// Verdicts that it would have given, in shadow mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<TrialCounts>,
    /// Verdicts that its candidates would have given.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<TrialCounts>,
    /// The allowed and denied in each of the last 60 seconds, the latest one last; `null` where nothing was recorded.
    checks: Vec<Option<u32>>,
    /// The denied among them.
    denials: Vec<Option<u32>>,
}

/// Verdicts on trial.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TrialCounts")]
struct TrialCounts {
    allowed: u64,
    denied: u64,
    failed: u64,
}

impl<'a> PolicyRow<'a> {
    pub(in crate::http) fn new(policy: &'a Policy, recorder: &Recorder) -> Self {
        let empty = PolicySeries::default();
        let series = recorder.policy(policy.name()).unwrap_or(&empty);
        let counts = series.minute(recorder.second());
        let PolicyCounts { allowed, denied, failed, by_fallback, shadow, candidate } = counts;
        let is_counting = policy.kind() == PolicyKind::Count;
        let candidates: Vec<String> = policy.written_candidates().collect();
        let is_shadow = policy.mode() == Mode::Shadow && !policy.is_exempt();
        let sparkline = |figure: fn(SeriesPoint) -> u32| {
            recorder.last_minute(series).map(|point| point.map(figure)).collect()
        };
        Self {
            name: policy.name(),
            mode: policy.mode().name(),
            role: match policy.kind() {
                PolicyKind::Exempt => "exempt",
                PolicyKind::Deny => "deny",
                _ => "limit",
            },
            key: is_counting.then(|| policy.identity().to_string()),
            quotas: policy.written_limits().collect(),
            on_store_failure: is_counting.then(|| policy.on_store_failure().to_string()),
            allowed,
            denied,
            failed,
            by_fallback,
            shadow: trial(shadow, is_shadow),
            candidate: trial(candidate, !candidates.is_empty() || has_candidates(policy.overrides())),
            candidates: if candidates.is_empty() { Vec::new() } else { vec![candidates] },
            checks: sparkline(|point| point.allowed.saturating_add(point.denied)),
            denials: sparkline(|point| point.denied),
        }
    }
}

fn trial(tally: TrialTally, is_live: bool) -> Option<TrialCounts> {
    let TrialTally { allowed, denied, failed, .. } = tally;
    (is_live || tally != TrialTally::default()).then_some(TrialCounts { allowed, denied, failed })
}

fn has_candidates(overrides: &[FileOverride]) -> bool {
    overrides.iter().flat_map(FileOverride::candidates).any(|list| !list.is_empty())
}
