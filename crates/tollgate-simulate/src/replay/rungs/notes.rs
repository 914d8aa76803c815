//! What a report says about other limits and kinds.

use tollgate_policy::Policies;

use super::super::policies::Tracks;
use super::kinds::OtherKinds;
use super::ladder::Ladder;
use super::{MAX_RUNGS, Rung, Rungs, UncalculatedQuota, uncalculated};
use crate::report::{LostQuota, Note};

/// Which quotas have been tried under their own limits alone, and why.
pub(in super::super) fn notes(
    policies: &Policies,
    tracks: &Tracks,
    rungs: &Rungs,
    limits_of_each: usize,
) -> Vec<Note> {
    let (stated, wanted): (Vec<_>, Vec<_>) =
        uncalculated(policies, tracks).partition(|quota| quota.is_stated_by_requests);
    let (trying_limits, trying_kinds) = rungs.parts();
    let is_tried = |quota: &&UncalculatedQuota<'_>| {
        let mut all = trying_limits.iter().flat_map(|ladder| &ladder.rungs);
        all.any(|rung| (rung.track, rung.quota) == (quota.number, quota.place))
    };
    let tried = wanted.iter().filter(is_tried).count();
    let mut notes = Vec::new();
    if limits_of_each == 0 && !wanted.is_empty() {
        notes.push(Note::NoTriedLimits);
    } else if tried < wanted.len() {
        notes.push(Note::FewTriedLimits { tried, quotas: wanted.len(), most: MAX_RUNGS });
    }
    let title = |track: usize, quota: usize| {
        let track = tracks.of(track)?;
        let policy = policies.as_slice().get(track.policy)?;
        let quota = track.quotas.get(quota)?.quota.quota().to_string();
        Some((track.role.title(policy.name()), quota))
    };
    let lost = |ladders: &[Ladder], written: fn(&Rung) -> String| -> Vec<LostQuota> {
        let rungs = ladders.iter().filter(|ladder| ladder.is_lost).flat_map(|ladder| &ladder.rungs);
        let lost = rungs.filter_map(|rung| {
            let (policy, quota) = title(rung.track, rung.quota)?;
            Some(LostQuota { policy, tried: written(rung), quota })
        });
        lost.collect()
    };
    let limits = lost(trying_limits, |rung| rung.tried.limit().to_string());
    if !limits.is_empty() {
        notes.push(Note::LostLimits { limits, max_bytes: rungs.max_bytes });
    }
    let met = tracks.iter().filter(|track| track.has_met_another());
    let met: Vec<(String, u64)> = met.map(|track| (track.role.title(&track.name), track.joined)).collect();
    if !met.is_empty() {
        notes.push(Note::MetPolicies { policies: met });
    }
    let quotas = tracks.iter().flat_map(|track| &track.quotas);
    let fixed = quotas.filter(|quota| quota.of_override.is_some() && quota.requests > 0).count();
    if fixed > 0 {
        notes.push(Note::FixedOverrides { quotas: fixed as u64 });
    }
    if !stated.is_empty() {
        notes.push(Note::StatedLimits);
    }
    let has_requests = |kinds: &&OtherKinds| {
        let quota = tracks.of(kinds.track).and_then(|track| track.quotas.get(kinds.quota));
        quota.is_some_and(|quota| quota.requests > 0)
    };
    let kinds: Vec<&OtherKinds> = rungs.kinds.iter().filter(has_requests).collect();
    if limits_of_each == 0 && tracks.iter().any(|track| !track.quotas.is_empty()) {
        notes.push(Note::NoTriedKinds);
    }
    let possible = rungs.kinds.iter().map(|kinds| kinds.possible.len()).sum();
    let tried = trying_kinds.iter().map(|ladder| ladder.rungs.len()).sum();
    if tried < possible {
        notes.push(Note::FewTriedKinds { tried, kinds: possible });
    }
    let lost = lost(trying_kinds, |rung| rung.tried.to_string());
    if !lost.is_empty() {
        notes.push(Note::LostKinds { kinds: lost, max_bytes: rungs.max_bytes });
    }
    let impossible = kinds.iter().filter(|kinds| !kinds.impossible.is_empty()).filter_map(|kinds| {
        let (policy, quota) = title(kinds.track, kinds.quota)?;
        Some((policy, quota, kinds.impossible.clone()))
    });
    let impossible: Vec<_> = impossible.collect();
    if !impossible.is_empty() {
        notes.push(Note::ImpossibleKinds { quotas: impossible });
    }
    let fixed = kinds.iter().filter(|kinds| kinds.is_fixed).count();
    if fixed > 0 {
        notes.push(Note::FixedKinds { quotas: fixed as u64 });
    }
    notes
}
