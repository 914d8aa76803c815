//! Metrics by policy. The labels are policy names, so the operator bounds their number.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use tollgate::OnStoreFailure;
use tollgate_policy::{Mode, Override, Policy, PolicySet, Tally, TrialTally};

use crate::live::reload::ReloadState;

/// The figures of the policies at the time of a scrape.
pub(crate) struct PolicyFigures {
    pub(crate) live: Arc<PolicySet>,
    /// Requests that got no counter because memory was full.
    pub(crate) store_full: u64,
    /// The outcomes of reloads, if the policies come from a file.
    pub(crate) reloads: Option<Arc<ReloadState>>,
}

impl PolicyFigures {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let deciding = || deciding(&self.live);

        let (name, help) = ("tollgate_decisions", "Checks that were decided, by deciding policy and verdict");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (policy, tally) in deciding() {
            for (verdict, count) in [("allowed", tally.allowed), ("denied", tally.denied)] {
                let labels = [("policy", policy.name()), ("verdict", verdict)];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }

        let help =
            "Decisions made while the store could not answer or was full, by deciding policy and verdict";
        let name = "tollgate_fallback_decisions";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (policy, tally) in deciding().filter(|(policy, _)| !policy.is_exempt()) {
            let counts = [("allowed", tally.allowed_by_fallback), ("denied", tally.denied_by_fallback)];
            for (verdict, count) in counts {
                let labels = [("policy", policy.name()), ("verdict", verdict)];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }

        let (name, help) = (
            "tollgate_failed_checks",
            "Checks without a decision, counted for each of their policies with on_store_failure: closed",
        );
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (policy, tally) in deciding().filter(|(policy, tally)| insists(policy) || tally.failed > 0) {
            let labels = [("policy", policy.name())];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&tally.failed, None)?;
        }

        let (name, help) =
            ("tollgate_trials", "Verdicts that shadow policies and candidates would have given");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (policy, tally) in self.live.tally() {
            let is_shadow = policy.mode() == Mode::Shadow && !policy.is_exempt();
            let kinds =
                [("shadow", tally.shadow, is_shadow), ("candidate", tally.candidate, has_candidates(policy))];
            for (kind, TrialTally { allowed, denied, failed, .. }, _) in
                kinds.into_iter().filter(|(_, tally, is_live)| *is_live || *tally != TrialTally::default())
            {
                for (answer, count) in [("allowed", allowed), ("denied", denied), ("failed", failed)] {
                    let labels = [("policy", policy.name()), ("kind", kind), ("answer", answer)];
                    metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
                }
            }
        }

        let (name, help) = ("tollgate_unlimited_checks", "Checks that no policy limits");
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&self.live.unlimited(), None)?;

        let (name, help) =
            ("tollgate_unmatched_denials", "Checks denied because no policy matches (unmatched: deny)");
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&self.live.unmatched(), None)?;

        let (name, help) = ("tollgate_policies_version", "Version of the live policies, from 1");
        let version = i64::try_from(self.live.version()).unwrap_or(i64::MAX);
        encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&version)?;

        let Some(reloads) = &self.reloads else { return Ok(()) };
        let (name, help) = ("tollgate_policies_reloads", "Reloads of the policy file, by outcome");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (outcome, count) in reloads.counts() {
            let labels = [("outcome", outcome)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let help = "1 if the policy file as last read is live, 0 if it was invalid";
        let in_step = i64::from(reloads.failure().is_none());
        encoder
            .encode_descriptor("tollgate_policies_in_step", help, None, MetricType::Gauge)?
            .encode_gauge(&in_step)?;

        let help = "Time since the file last matched the live policies";
        let unit = Some(&Unit::Seconds);
        encoder
            .encode_descriptor("tollgate_policies_age", help, unit, MetricType::Gauge)?
            .encode_gauge(&reloads.age().as_secs_f64())
    }
}

/// Returns the policies that decide, with their figures. For a large set, several passes cost less than a list of all
/// figures.
pub(super) fn deciding(live: &PolicySet) -> impl Iterator<Item = (&Policy, Tally)> {
    live.tally().filter(|(policy, tally)| decides(policy, tally))
}

/// Returns whether the policy decides, or decided in an earlier version.
fn decides(policy: &Policy, tally: &Tally) -> bool {
    policy.mode() == Mode::Enforce || tally.allowed + tally.denied + tally.failed > 0
}

fn insists(policy: &Policy) -> bool {
    !policy.is_exempt() && policy.on_store_failure() == OnStoreFailure::Closed
}

fn has_candidates(policy: &Policy) -> bool {
    let mut of_overrides = policy.overrides().iter().flat_map(Override::candidates);
    !policy.candidates().is_empty() || of_overrides.any(|list| !list.is_empty())
}
