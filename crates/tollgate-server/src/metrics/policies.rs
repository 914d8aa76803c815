//! Metrics by policy. The labels are policy names, so the operator bounds their number.

use tollgate::OnStoreFailure;
use tollgate_policy::{FileOverride, HoldTally, Mode, Policy, PolicySet, Tally, TrialTally};

use super::family::{MetricSample, Samples};

/// Returns the policies that decide, with their figures. For a large set, several passes cost less than a list of all
/// figures.
pub(super) fn deciding(live: &PolicySet) -> impl Iterator<Item = (&Policy, Tally)> {
    live.tally().filter(|(policy, tally)| decides(policy, tally))
}

pub(super) fn decisions(live: &PolicySet) -> Samples<'_> {
    Box::new(deciding(live).flat_map(|(policy, tally)| by_verdict(policy, tally.allowed, tally.denied)))
}

pub(super) fn fallback_decisions(live: &PolicySet) -> Samples<'_> {
    let limiting = deciding(live).filter(|(policy, _)| !policy.is_exempt());
    Box::new(
        limiting.flat_map(|(policy, tally)| {
            by_verdict(policy, tally.allowed_by_fallback, tally.denied_by_fallback)
        }),
    )
}

pub(super) fn failed_checks(live: &PolicySet) -> Samples<'_> {
    let closed = deciding(live).filter(|(policy, tally)| needs_store(policy) || tally.failed > 0);
    Box::new(closed.map(|(policy, tally)| MetricSample::new([("policy", policy.name())], tally.failed)))
}

pub(super) fn trials(live: &PolicySet) -> Samples<'_> {
    Box::new(live.tally().flat_map(|(policy, tally)| {
        let is_shadow = policy.mode() == Mode::Shadow && !policy.is_exempt();
        let kinds =
            [("shadow", tally.shadow, is_shadow), ("candidate", tally.candidate, has_candidates(policy))];
        let exported =
            kinds.into_iter().filter(|(_, tally, is_live)| *is_live || *tally != TrialTally::default());
        exported.flat_map(|(kind, TrialTally { allowed, denied, failed, .. }, _)| {
            [("allowed", allowed), ("denied", denied), ("failed", failed)].map(|(answer, count)| {
                MetricSample::new([("policy", policy.name()), ("kind", kind), ("answer", answer)], count)
            })
        })
    }))
}

pub(super) fn holds(live: &PolicySet) -> Samples<'_> {
    Box::new(holding(live).flat_map(|(policy, tally)| {
        let HoldTally { admitted, settled, lost, expired, .. } = tally;
        [("admitted", admitted), ("settled", settled), ("lost", lost), ("expired", expired)]
            .map(|(event, count)| MetricSample::new([("policy", policy.name()), ("event", event)], count))
    }))
}

pub(super) fn overrun_units(live: &PolicySet) -> Samples<'_> {
    Box::new(holding(live).flat_map(|(policy, HoldTally { overrun_units, forgiven_units, .. })| {
        [("charged", overrun_units), ("forgiven", forgiven_units)].map(|(settlement, units)| {
            MetricSample::new([("policy", policy.name()), ("settlement", settlement)], units)
        })
    }))
}

pub(super) fn expired_units(live: &PolicySet) -> Samples<'_> {
    let limiting = holding(live).filter(|(policy, holds)| policy.has_in_flight() || holds.expired_units > 0);
    Box::new(limiting.map(|(policy, HoldTally { expired_units, .. })| {
        MetricSample::new([("policy", policy.name())], expired_units)
    }))
}

/// Returns the policies that need or had holds.
fn holding(live: &PolicySet) -> impl Iterator<Item = (&Policy, HoldTally)> {
    let tallies = live.tally().map(|(policy, tally)| (policy, tally.holds));
    tallies.filter(|(policy, holds)| policy.has_in_flight() || *holds != HoldTally::default())
}

fn by_verdict(policy: &Policy, allowed: u64, denied: u64) -> [MetricSample<'_>; 2] {
    [("allowed", allowed), ("denied", denied)]
        .map(|(verdict, count)| MetricSample::new([("policy", policy.name()), ("verdict", verdict)], count))
}

/// Returns whether the policy decides, or decided in an earlier version.
fn decides(policy: &Policy, tally: &Tally) -> bool {
    policy.mode() == Mode::Enforce || tally.allowed + tally.denied + tally.failed > 0
}

/// Returns whether checks of the policy fail while the store is down.
fn needs_store(policy: &Policy) -> bool {
    !policy.is_exempt() && policy.on_store_failure() == OnStoreFailure::Closed
}

fn has_candidates(policy: &Policy) -> bool {
    let mut candidates = policy.overrides().iter().flat_map(FileOverride::candidates);
    !policy.candidates().is_empty() || candidates.any(|list| !list.is_empty())
}
