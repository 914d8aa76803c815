//! Whether an answer is what is expected of it.

use std::collections::BTreeMap;

use crate::answer::{Answer, AnsweredQuota};
use crate::expected::ExpectedQuota;
use crate::observation::{Act, Observation};

/// Why an answer does not agree with an expectation.
pub(crate) type Disagreement = String;

/// Compares a decision with the quotas that it should have counted. `used` says what their counters had before, if that is
/// known.
pub(crate) fn counted(
    observation: &Observation,
    answer: &Answer,
    quotas: &[ExpectedQuota],
    used: Option<impl Fn(&ExpectedQuota) -> u64>,
) -> Result<(), Disagreement> {
    let Observation { act, cost, .. } = observation;
    let is_unsure = used.is_none();
    let used = |quota: &ExpectedQuota| used.as_ref().map_or(0, |used| used(quota));
    let has_room = |quota: &&ExpectedQuota| used(quota) + quota.units(*cost) <= quota.limit;
    let (in_flight, others): (Vec<_>, Vec<_>) = quotas.iter().partition(|quota| quota.is_in_flight());
    if *act == Act::Check && !in_flight.is_empty() {
        return Err("a check cannot meet a limit in flight".to_owned());
    }
    let (is_free, others_have_room) = (in_flight.iter().all(has_room), others.iter().all(has_room));
    let is_admitted = is_free && others_have_room;
    let is_charged = is_admitted && *act != Act::Peek;
    let expected: BTreeMap<(String, String), AnsweredQuota> = quotas
        .iter()
        .map(|quota| {
            let used = used(quota) + if is_charged { quota.units(*cost) } else { 0 };
            let state = AnsweredQuota { limit: quota.limit, used, by_override: quota.by_override };
            ((quota.policy.to_owned(), quota.series.to_owned()), state)
        })
        .collect();
    let mut said = answer.quotas.clone();
    for (name, quota) in &mut said {
        let Some(expected) = expected.get(name) else { continue };
        // A denial that a process remembers may be older than the last charge through the other one.
        if is_unsure || answer.is_local && quota.used <= expected.used {
            quota.used = expected.used;
        }
    }
    if said != expected {
        return Err(format!("expected {expected:?}"));
    }
    let ends = quotas.iter().any(|quota| quota.by_override.is_some_and(|until| until.is_some()));
    if answer.is_local && (answer.is_allowed || ends) {
        return Err("only a denial without an end is remembered".to_owned());
    }
    if !is_unsure && answer.is_allowed != is_admitted {
        return Err(format!("expected allowed: {is_admitted}"));
    }
    let is_never = in_flight.iter().any(|quota| quota.limit == 0);
    let reason = if is_never { "cost_exceeds_limit" } else { "in_flight_exceeded" };
    let is_by_units = is_never || others_have_room;
    if !is_unsure && !is_free && is_by_units && answer.reason.as_deref() != Some(reason) {
        return Err(format!("expected the reason {reason}"));
    }
    let holds = answer.is_allowed && *act == Act::Reserve && !quotas.is_empty();
    if answer.hold.is_some() != holds {
        return Err(format!("expected a hold: {holds}"));
    }
    let status = if answer.is_allowed || *act == Act::Peek { 200 } else { 429 };
    let ground = quotas.is_empty().then_some("unlimited");
    if (answer.status, answer.ground.as_deref()) != (status, ground) {
        return Err(format!("expected {status} {ground:?}"));
    }
    Ok(())
}

/// Compares a decision with the denial by an override of this policy.
pub(crate) fn denied(
    observation: &Observation,
    answer: &Answer,
    policy: &str,
    until: Option<i64>,
) -> Result<(), Disagreement> {
    let status = if observation.act == Act::Peek { 200 } else { 403 };
    let said = (answer.status, answer.is_allowed, answer.reason.as_deref(), answer.policy.as_deref());
    let expected = (status, false, Some("denied_by_override"), Some(policy));
    if said != expected || answer.by_override != Some(until) || answer.has_wait || !answer.quotas.is_empty() {
        return Err(format!("expected {expected:?} until {until:?} without a wait"));
    }
    Ok(())
}
