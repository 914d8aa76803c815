//! A policy, with its figures of the last minute.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tollgate_policy::{Policy, PolicyKind};
use tollgate_wire::body::TimeText;

use super::sparkline::Sparkline;
use crate::dashboard::series::{PolicyCounts, PolicySeries, Recorder, TrialVerdicts};
use crate::dashboard::{OverrideCounts, PolicyText, RunningTrial, TrialBook};
use crate::http::wire::decision::TrialKindBody;

/// The rows of policies. Each is made when it is written, so that a thousand of them are never in memory together.
pub(in crate::http) struct PolicyRows<'a> {
    pub(in crate::http) policies: &'a [Policy],
    /// In the same order.
    pub(in crate::http) texts: &'a [PolicyText],
    pub(in crate::http) recorder: &'a Recorder,
    pub(in crate::http) trials: &'a TrialBook,
    pub(in crate::http) overrides: &'a OverrideCounts,
}

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
    key: Option<&'a str>,
    /// What it limits, as written in a file.
    quotas: &'a [String],
    /// The candidates, in one list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Vec<String>>")]
    candidates: Option<[&'a [String]; 1]>,
    /// How many overrides apply to it now, without those in its file.
    overrides: usize,
    /// What decides while the store is down; absent if it exempts or denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_store_failure: Option<&'a str>,
    /// Requests that it admitted or exempted, where it decided.
    allowed: u64,
    /// Requests that it denied.
    denied: u64,
    /// Requests without a decision, because the store gave none and the policy insists on one.
    failed: u64,
    /// Those of the allowed and denied that were decided without the store.
    by_fallback: u64,
    /// Verdicts that it would have given in the span, in shadow mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<TrialCounts>,
    /// Verdicts that its candidates would have given in the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<TrialCounts>,
    /// What is on trial, with its verdicts since it began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trials: Vec<TrialRow>,
    /// The allowed and denied in each of the last 60 seconds, the latest one last; `null` where nothing was recorded.
    #[schemars(with = "Vec<Option<u32>>")]
    checks: Sparkline,
    /// The denied among them.
    #[schemars(with = "Vec<Option<u32>>")]
    denials: Sparkline,
}

/// Verdicts on trial.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TrialCounts")]
struct TrialCounts {
    allowed: u64,
    denied: u64,
    failed: u64,
}

/// A trial, next to what denies now: the limits of the policy itself, which candidates would replace; if it is in shadow
/// mode, other policies.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveTrial")]
struct TrialRow {
    kind: TrialKindBody,
    /// When it began: when the process started, or when a reload changed what is on trial.
    since: TimeText,
    /// Requests that it would have admitted.
    allowed: u64,
    /// Requests that it would have denied.
    denied: u64,
    /// Requests of which that is unknown, because the store did not answer.
    failed: u64,
    /// Those of `denied` that are denied now as well.
    denied_by_both: u64,
    /// Those of `denied` that are admitted now.
    denied_only_on_trial: u64,
    /// Those of `allowed` that are denied now.
    denied_only_now: u64,
}

impl Serialize for PolicyRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let each = self.policies.iter().zip(self.texts);
        serializer.collect_seq(each.map(|(policy, text)| PolicyRow::new(policy, text, self)))
    }
}

impl<'a> PolicyRow<'a> {
    fn new(
        policy: &'a Policy,
        PolicyText { key, quotas, candidates, on_store_failure }: &'a PolicyText,
        PolicyRows { recorder, trials, overrides, .. }: &PolicyRows<'_>,
    ) -> Self {
        let empty = PolicySeries::default();
        let series = recorder.policy(policy.name()).unwrap_or(&empty);
        let PolicyCounts { allowed, denied, failed, by_fallback, shadow, candidate } = series.minute();
        let [checks, denials] = Sparkline::pair(recorder.last_minute(series));
        let trials: Vec<TrialRow> = trials.of(policy.name()).map(TrialRow::from).collect();
        let runs = |kind| trials.iter().any(|trial| trial.kind == kind);
        Self {
            name: policy.name(),
            mode: policy.mode().name(),
            role: match policy.kind() {
                PolicyKind::Exempt => "exempt",
                PolicyKind::Deny => "deny",
                _ => "limit",
            },
            key: key.as_deref(),
            quotas,
            overrides: overrides.of(policy.name()),
            on_store_failure: on_store_failure.as_deref(),
            allowed,
            denied,
            failed,
            by_fallback,
            shadow: TrialCounts::new(shadow, runs(TrialKindBody::Shadow)),
            candidate: TrialCounts::new(candidate, runs(TrialKindBody::Candidate)),
            candidates: (!candidates.is_empty()).then_some([&**candidates]),
            trials,
            checks,
            denials,
        }
    }
}

impl TrialCounts {
    /// Returns the counts; `None` if nothing is on trial, and nothing was.
    fn new(verdicts: TrialVerdicts, runs: bool) -> Option<Self> {
        let TrialVerdicts { allowed, denied, failed } = verdicts;
        (runs || verdicts != TrialVerdicts::default()).then_some(Self { allowed, denied, failed })
    }
}

impl From<RunningTrial> for TrialRow {
    fn from(RunningTrial { kind, since, tally }: RunningTrial) -> Self {
        Self {
            kind: kind.into(),
            since: TimeText(since),
            allowed: tally.allowed,
            denied: tally.denied,
            failed: tally.failed,
            denied_by_both: tally.denied_by_both,
            denied_only_on_trial: tally.denied.saturating_sub(tally.denied_by_both),
            denied_only_now: tally.denied_only_now,
        }
    }
}
