//! What a report says about other limits.

use tollgate_policy::Policies;

use super::{MAX_RUNGS, Rungs, uncalculated};
use crate::output::number::counted;
use crate::quoted::code;
use crate::replay::policies::Tracks;

/// Says which quotas have been tried under their own limits alone, and why.
pub(in super::super) fn notes(
    policies: &Policies,
    tracks: &Tracks,
    rungs: &Rungs,
    asked: usize,
) -> Vec<String> {
    let (stated, wanted): (Vec<_>, Vec<_>) =
        uncalculated(policies, tracks).partition(|quota| quota.is_stated_by_requests);
    let is_tried = |quota: &&super::UncalculatedQuota<'_>| {
        rungs.all().any(|rung| (rung.track, rung.quota) == (quota.number, quota.place))
    };
    let tried = wanted.iter().filter(is_tried).count();
    let mut notes = Vec::new();
    if asked == 0 && !wanted.is_empty() {
        notes.push(
            "Where several quotas decide together, only the policies' limit was tried; --try-limits tries others."
                .to_owned(),
        );
    } else if tried < wanted.len() {
        notes.push(format!(
            "Other limits were tried for {tried} of {} quotas that do not decide alone: at most {MAX_RUNGS} are tried for \
             all quotas together.",
            wanted.len()
        ));
    }
    let lost = rungs.lost().filter_map(|rung| {
        let track = tracks.of(rung.track)?;
        let policy = policies.as_slice().get(track.policy)?;
        let quota = track.quotas.get(rung.quota)?.quota.quota();
        Some(format!("{} with {} in place of {quota}", code(&track.role.title(policy.name())), rung.limit))
    });
    let lost: Vec<String> = lost.collect();
    if !lost.is_empty() {
        notes.push(format!(
            "Limits for whose counters there was no room are missing from the curves: {}. There is room for {} MiB of them; a \
             smaller --try-limits or a greater --max-clients leaves more.",
            lost.join(", "),
            rungs.max_bytes >> 20
        ));
    }
    let of_overrides = tracks.iter().flat_map(|track| &track.quotas);
    let of_overrides = of_overrides.filter(|quota| quota.of_override.is_some() && quota.requests > 0).count();
    if of_overrides > 0 {
        notes.push(format!(
            "No other limits were tried for {} of overrides. They keep their limits while others are tried for their policy.",
            counted(of_overrides as u64, "quota")
        ));
    }
    if !stated.is_empty() {
        notes.push("No other limits were tried for limits that come from requests.".to_owned());
    }
    notes
}
