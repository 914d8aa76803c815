//! What a report says about other limits.

use tollgate_policy::Policies;

use super::super::policies::Tracks;
use super::{MAX_RUNGS, Rungs, UncalculatedQuota, uncalculated};
use crate::report::{LostLimit, Note};

/// Which quotas have been tried under their own limits alone, and why.
pub(in super::super) fn notes(
    policies: &Policies,
    tracks: &Tracks,
    rungs: &Rungs,
    limits_of_each: usize,
) -> Vec<Note> {
    let (stated, wanted): (Vec<_>, Vec<_>) =
        uncalculated(policies, tracks).partition(|quota| quota.is_stated_by_requests);
    let is_tried = |quota: &&UncalculatedQuota<'_>| {
        rungs.all().any(|rung| (rung.track, rung.quota) == (quota.number, quota.place))
    };
    let tried = wanted.iter().filter(is_tried).count();
    let mut notes = Vec::new();
    if limits_of_each == 0 && !wanted.is_empty() {
        notes.push(Note::NoTriedLimits);
    } else if tried < wanted.len() {
        notes.push(Note::FewTriedLimits { tried, quotas: wanted.len(), most: MAX_RUNGS });
    }
    let lost = rungs.lost().filter_map(|rung| {
        let track = tracks.of(rung.track)?;
        let policy = policies.as_slice().get(track.policy)?;
        let quota = track.quotas.get(rung.quota)?.quota.quota().to_string();
        Some(LostLimit { policy: track.role.title(policy.name()), limit: rung.limit, quota })
    });
    let limits: Vec<LostLimit> = lost.collect();
    if !limits.is_empty() {
        notes.push(Note::LostLimits { limits, max_bytes: rungs.max_bytes });
    }
    let quotas = tracks.iter().flat_map(|track| &track.quotas);
    let fixed = quotas.filter(|quota| quota.of_override.is_some() && quota.requests > 0).count();
    if fixed > 0 {
        notes.push(Note::FixedOverrides { quotas: fixed as u64 });
    }
    if !stated.is_empty() {
        notes.push(Note::StatedLimits);
    }
    notes
}
