//! Quota mode: which limits of a request are left to charge when some have no room.

use smallvec::SmallVec;
use tollgate::{Charge, QuotaState};

use super::plan::{CountedPlan, DescriptorPlan, Effect, Plan};

impl Plan<'_> {
    pub(super) fn is_quota(&self, place: usize) -> bool {
        let planned = self.0.get(place);
        matches!(planned, Some(DescriptorPlan::Counted(counted)) if counted.effect == Effect::DeniesWithAllQuotas)
    }

    /// Returns whether the limit of a descriptor is charged even if the step denies: it is an overdraft, or the step
    /// charges one on its counter.
    pub(super) fn is_charged_if_denied(&self, place: usize) -> bool {
        let Some(DescriptorPlan::Counted(counted)) = self.0.get(place) else { return false };
        let is_overdraft_on_counter = |(_, other): (usize, &CountedPlan<'_>)| {
            other.decides() && other.is_overdraft() && other.charge().counter() == counted.charge().counter()
        };
        counted.is_overdraft() || counted.decides() && self.counted().any(is_overdraft_on_counter)
    }

    /// The places that are left once quotas without room are left out. Limits that deny by themselves come first, then
    /// quotas in their order, each if all that come before it on its counter still have room. `None` if a limit denies
    /// by itself, or nothing is left out.
    pub(super) fn without_full_quotas(
        &self,
        places: &[usize],
        states: &[Option<QuotaState>],
    ) -> Option<SmallVec<[usize; 2]>> {
        let mut kept: SmallVec<[(usize, Charge<'_>, &QuotaState); 2]> = SmallVec::new();
        for is_quota in [false, true] {
            for place in places.iter().copied().filter(|place| self.is_quota(*place) == is_quota) {
                let (Some(DescriptorPlan::Counted(counted)), Some(Some(state))) =
                    (self.0.get(place), states.get(place))
                else {
                    continue;
                };
                let charge = counted.charge();
                kept.push((place, charge, state));
                let on_counter = || kept.iter().filter(|(_, other, _)| other.counter() == charge.counter());
                let cost: u64 = on_counter().map(|(_, charge, _)| u64::from(charge.cost())).sum();
                let has_room = match self.is_charged_if_denied(place) {
                    true => state.has_room(),
                    false => on_counter().all(|(_, _, state)| state.used() + cost.max(1) <= state.limit()),
                };
                if has_room {
                    continue;
                }
                if !is_quota {
                    return None;
                }
                kept.pop();
            }
        }
        let mut left: SmallVec<[usize; 2]> = kept.iter().map(|(place, ..)| *place).collect();
        if left.len() == places.len() {
            // They share a counter that only the store knows of. The first of them may have room alone.
            let has_room = |place: usize| matches!(states.get(place), Some(Some(state)) if state.has_room());
            let full = |place: &usize| self.is_quota(*place) && !has_room(*place);
            let mut keeps_first = left.iter().filter(|place| full(place)).count() > 1;
            left.retain(|place| !full(place) || std::mem::take(&mut keeps_first));
        }
        left.sort_unstable();
        Some(left).filter(|left| left.len() < places.len())
    }

    /// Returns whether a descriptor in quota mode has room, whatever is counted. A descriptor without a limit counts as
    /// in quota mode if all limits are. An unlimited one never does, so that the quotas of the request can deny.
    pub(super) fn has_free_quota(&self, are_all_quotas: bool) -> bool {
        self.0.iter().any(|planned| match planned {
            DescriptorPlan::NoLimit => are_all_quotas,
            DescriptorPlan::Unlimited(_) => false,
            DescriptorPlan::Counted(counted) => {
                let is_quota = are_all_quotas || counted.rule.is_some_and(|rule| rule.is_quota);
                is_quota && matches!(counted.effect, Effect::Shadow | Effect::Refund)
            }
        })
    }
}
