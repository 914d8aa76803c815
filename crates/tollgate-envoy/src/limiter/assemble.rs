//! Turns states into an answer.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{QuotaState, whole_seconds};

use super::metadata;
use super::plan::{CountedPlan, DescriptorPlan, Effect, Plan};
use super::steps::States;
use crate::{
    ChargingMode, Code, CurrentLimit, HeaderNames, Request, Response, ResponseHeader, Settings, Status,
};

pub(super) fn response(
    request: &Request<'_>,
    plan: &Plan<'_>,
    states: &States,
    settings: &Settings,
) -> Response {
    let statuses = plan.0.iter().zip(states.iter()).map(|(planned, state)| match planned {
        DescriptorPlan::NoLimit => Status::NO_LIMIT,
        DescriptorPlan::Unlimited(_) => Status::UNLIMITED,
        DescriptorPlan::Counted(counted) => status(counted, state.as_ref(), settings.charging),
    });
    let statuses: SmallVec<[Status; 2]> = statuses.collect();
    let is_denied = is_denied(plan, &statuses, settings) && !settings.shadow_mode;
    let headers = settings.headers.as_ref().map(|names| headers(plan, &statuses, names));
    let dynamic_metadata = settings.dynamic_metadata.then(|| metadata::of(request, plan, &statuses));
    Response {
        overall: if is_denied { Code::OverLimit } else { Code::Ok },
        statuses,
        headers: headers.unwrap_or_default(),
        dynamic_metadata,
        source: states.iter().flatten().next().map(QuotaState::source),
        is_without_room: states.is_without_room,
        denied_with_units_left: denied_with_units_left(plan, states),
    }
}

/// Units that are left do not deny a cost of 1 or less. An overdraft denies only if none are, and a counted denial uses
/// them up.
fn denied_with_units_left(plan: &Plan<'_>, states: &States) -> Option<usize> {
    let has_units = |place: usize| {
        let state = states.get(place).and_then(Option::as_ref);
        state.is_some_and(|state| !state.has_room() && state.remaining() > 0)
    };
    let configured = plan.counted().filter(|(_, counted)| counted.rule.is_some() && counted.decides());
    configured.map(|(place, _)| place).find(|place| has_units(*place))
}

fn status(counted: &CountedPlan<'_>, state: Option<&QuotaState>, charging: ChargingMode) -> Status {
    // What was not counted has no figures.
    let Some(state) = state else { return Status::NO_LIMIT };
    let name = counted.rule.and_then(|rule| rule.name.clone());
    let current_limit =
        Some(CurrentLimit { requests_per_unit: counted.requests_per_unit, unit: counted.unit, name });
    let is_over = is_over(counted, state, charging);
    let code = if is_over && counted.effect != Effect::Shadow { Code::OverLimit } else { Code::Ok };
    let remaining = if is_over { 0 } else { state.remaining() };
    Status {
        code,
        current_limit,
        // Never above the limit, which has 32 bits.
        limit_remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        duration_until_reset: Some(Duration::from_secs(whole_seconds(state.more_after()))),
    }
}

/// Returns whether the limit had no room for the descriptor.
pub(super) fn is_over(counted: &CountedPlan<'_>, state: &QuotaState, charging: ChargingMode) -> bool {
    match (counted.effect, charging) {
        (Effect::Refund, _) => false,
        _ if counted.is_overdraft() => !state.has_room(),
        // A look at a limit that is used up, and not exceeded, is in order there.
        (_, ChargingMode::Each) if counted.cost == 0 => state.used() > state.limit(),
        // It was charged without asking for room.
        (_, ChargingMode::Each) if counted.is_above_limit() => true,
        _ => !state.has_room(),
    }
}

/// Denied by one limit, or by all that are quotas.
pub(super) fn is_denied(plan: &Plan<'_>, statuses: &[Status], settings: &Settings) -> bool {
    let over = |effect: Effect| {
        let same_effect = plan.counted().filter(move |(_, counted)| counted.effect == effect);
        same_effect.map(|(place, _)| statuses.get(place).is_some_and(|status| status.code == Code::OverLimit))
    };
    let quotas = || over(Effect::DeniesWithAllQuotas);
    over(Effect::Denies).any(|is_over| is_over)
        || quotas().next().is_some()
            && quotas().all(|is_over| is_over)
            && !plan.has_free_quota(settings.quota_mode)
}

/// The headers of the last limit that denies by itself, else of the first with the least left.
fn headers(plan: &Plan<'_>, statuses: &[Status], names: &HeaderNames) -> SmallVec<[ResponseHeader; 3]> {
    let limited = || {
        plan.counted().filter_map(|(place, counted)| {
            let status = statuses.get(place).filter(|status| status.current_limit.is_some());
            Some((counted.effect, status?))
        })
    };
    let denying =
        limited().filter(|(effect, status)| *effect == Effect::Denies && status.code == Code::OverLimit);
    let least = || limited().min_by_key(|(_, status)| status.limit_remaining);
    let Some((_, status)) = denying.last().or_else(least) else {
        return SmallVec::new();
    };
    let limit = status.current_limit.as_ref().map_or(0, |limit| limit.requests_per_unit);
    let reset = status.duration_until_reset.unwrap_or_default().as_secs();
    [(&names.limit, limit.into()), (&names.remaining, status.limit_remaining.into()), (&names.reset, reset)]
        .into_iter()
        .map(|(name, value)| ResponseHeader { name: name.clone(), value })
        .collect()
}
