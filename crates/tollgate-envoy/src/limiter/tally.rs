//! Counts decisions for metrics.

use tollgate::{QuotaState, Source};

use super::assemble;
use super::plan::{CountedPlan, Effect, Plan};
use super::steps::States;
use crate::domains::Domain;
use crate::hits::{HitCounts, HitTable};
use crate::{ChargingMode, Request, Settings, Status};

/// Counts the hits of a request.
pub(super) struct Tally<'a, 'r> {
    pub(super) table: &'a HitTable,
    pub(super) domain: &'a Domain,
    pub(super) request: &'a Request<'r>,
    pub(super) settings: &'a Settings,
}

impl Tally<'_, '_> {
    /// Counts the hits of each limit, once the request is decided.
    pub(super) fn count_hits(&self, plan: &Plan<'_>, states: &States, statuses: &[Status]) {
        let Self { table, domain, request, settings } = *self;
        let is_denied = assemble::is_denied(plan, statuses, settings);
        for (place, counted) in plan.counted().filter(|(_, counted)| counted.effect != Effect::Refund) {
            let (Some(Some(state)), Some(descriptor)) = (states.get(place), request.descriptors.get(place))
            else {
                continue;
            };
            let is_charged = settings.charging == ChargingMode::Each
                || plan.is_charged_if_denied(place)
                || !is_denied && !assemble::is_over(counted, state, settings.charging);
            let before = state.used().saturating_sub(if is_charged { counted.cost.into() } else { 0 });
            let more = self.hits(counted, state, before);
            match counted.rule.and_then(|rule| rule.hits.as_ref()) {
                Some(hits) => hits.add(&more),
                None => {
                    let series = domain.series(&descriptor.entries, counted.rule);
                    let limit = counted.rule.and_then(|rule| rule.series.as_ref());
                    table.of_request(series, limit).add(&more);
                }
            }
        }
    }

    /// The hits of one descriptor on its limit with this usage. What was not charged counts as if it had been.
    fn hits(&self, counted: &CountedPlan<'_>, state: &QuotaState, before: u64) -> HitCounts {
        let (table, charging) = (self.table, self.settings.charging);
        let (cost, limit) = (u64::from(counted.cost), state.limit());
        let near = table.near(limit);
        let is_over = assemble::is_over(counted, state, charging);
        let is_local = state.source() == Source::Local;
        let after = before.saturating_add(cost);
        let mut more = HitCounts { total_hits: cost, ..HitCounts::default() };
        if is_over {
            // A limit that is charged by itself has taken what was left. All or nothing, no unit was taken.
            let taken =
                if charging == ChargingMode::Each { limit.saturating_sub(before).min(cost) } else { 0 };
            more.over_limit = cost - taken;
            more.near_limit = taken.min(limit.saturating_sub(near));
            if is_local {
                more.over_limit_with_local_cache = more.over_limit;
            }
            if counted.effect == Effect::Shadow {
                more.shadow_mode = more.over_limit;
            }
        } else {
            more.within_limit = cost;
            // An overdraft may have passed the limit.
            more.near_limit = after.min(limit).saturating_sub(near.max(before));
        }
        more
    }
}
