//! The steps of the store for one request.

use smallvec::SmallVec;
use tollgate::{Charge, Clock, Counted, QuotaState, Source, Step, Store, StoreError};
use tollgate_policy::WhenFull;

use super::EnvoyLimiter;
use super::plan::{CountedPlan, Effect, Plan, Planned};
use crate::Charging;

/// The state of each descriptor's limit after the request; `None` if it has none, or a shadow limit could not be
/// counted.
pub(super) type States = SmallVec<[Option<QuotaState>; 2]>;

type Places = SmallVec<[usize; 2]>;
type Charges<'a> = SmallVec<[Charge<'a>; 2]>;

impl<S: Store, C: Clock> EnvoyLimiter<S, C> {
    /// Counts what the plan asks.
    pub(super) async fn count(&self, plan: &Plan<'_>) -> Result<States, StoreError> {
        let mut states = States::from_elem(None, plan.0.len());
        let has_charged = match self.settings.charging {
            Charging::AllOrNothing => self.charge_all_or_nothing(plan, &mut states).await?,
            Charging::Each => self.charge_each(plan, &mut states).await?,
        };
        if plan.counted().any(|(_, counted)| counted.effect == Effect::Refund) {
            let refunded = self.refund(plan, &mut states).await;
            refunded.map_err(|error| if has_charged { error.after_others() } else { error })?;
        }
        Ok(states)
    }

    /// Charges all limits that decide, or none of them. Quotas without room are left out as long as one has room, and
    /// nothing is ever charged and given back. Returns whether something was charged.
    async fn charge_all_or_nothing(&self, plan: &Plan<'_>, states: &mut States) -> Result<bool, StoreError> {
        let effect = |place: usize| match plan.0.get(place) {
            Some(Planned::Counted(counted)) => Some(counted.effect),
            _ => None,
        };
        let is_quota = |place: &usize| effect(*place) == Some(Effect::DeniesWithAllQuotas);
        let deciding = plan
            .counted()
            .filter(|(_, counted)| matches!(counted.effect, Effect::Denies | Effect::DeniesWithAllQuotas));
        let mut places: Places = deciding.map(|(place, _)| place).collect();
        let is_admitted = loop {
            let chosen = plan.counted().filter(|(place, _)| places.contains(place));
            let charges: Charges<'_> = chosen.map(|(_, counted)| counted.charge()).collect();
            if charges.is_empty() {
                break true;
            }
            let counted = self.with_room(&charges, self.store.step(Step::Charge(&charges)).await)?;
            for (place, state) in places.iter().zip(&counted) {
                set(states, *place, *state);
            }
            if counted.is_admitted() {
                break true;
            }
            let has_room =
                |place: &usize| matches!(states.get(*place), Some(Some(state)) if state.has_room());
            if places.iter().any(|place| !is_quota(place) && !has_room(place)) {
                break false;
            }
            places.retain(|place| has_room(place));
            if !places.iter().any(is_quota) && !plan.has_free_quota(self.settings.quota_mode) {
                break false;
            }
        };
        self.try_out(plan, is_admitted, states).await;
        Ok(is_admitted && !places.is_empty())
    }

    /// Counts limits in shadow mode, after the decision. If the request is denied, nothing is taken from them.
    async fn try_out(&self, plan: &Plan<'_>, is_admitted: bool, states: &mut States) {
        let shadows = || plan.counted().filter(|(_, counted)| counted.effect == Effect::Shadow);
        let is_fallback =
            |state: &Option<QuotaState>| state.is_some_and(|state| state.source() == Source::Fallback);
        if shadows().next().is_none() || states.iter().any(is_fallback) {
            return;
        }
        let charges: Charges<'_> = shadows().map(|(_, counted)| counted.charge()).collect();
        let step = |charge| {
            let charge = std::slice::from_ref(charge);
            if is_admitted { Step::Charge(charge) } else { Step::Peek(charge) }
        };
        let steps: Vec<Step<'_>> = charges.iter().map(step).collect();
        // The store itself: what its trouble means is said for decisions.
        let answers = self.store.store().step_each(&steps).await;
        for ((place, _), answer) in shadows().zip(answers) {
            if let Some(state) = answer.ok().as_ref().and_then(|counted| counted.first()) {
                set(states, place, *state);
            }
        }
    }

    /// Charges every limit by itself. Returns whether something was charged.
    async fn charge_each(&self, plan: &Plan<'_>, states: &mut States) -> Result<bool, StoreError> {
        let charged = || plan.counted().filter(|(_, counted)| counted.effect != Effect::Refund);
        let counted = self.step_each(charged(), |charge| Step::Charge(charge)).await?;
        for ((place, _), state) in charged().zip(&counted) {
            set(states, place, *state);
        }
        Ok(!counted.is_empty())
    }

    /// Gives units back to the windows that are open now.
    async fn refund(&self, plan: &Plan<'_>, states: &mut States) -> Result<(), StoreError> {
        let refunds = || plan.counted().filter(|(_, counted)| counted.effect == Effect::Refund);
        let peeked = self.step_each(refunds(), |charge| Step::Peek(charge)).await?;
        for ((place, _), state) in refunds().zip(&peeked) {
            set(states, place, *state);
        }
        // What a fallback answered was not charged to the store.
        let with_marks = || refunds().zip(&peeked).filter(|(_, state)| state.source() != Source::Fallback);
        let steps: Vec<Step<'_>> = with_marks()
            .map(|((_, counted), state)| Step::Refund { charge: counted.charge(), mark: state.mark() })
            .collect();
        if steps.is_empty() {
            return Ok(());
        }
        let refunded = Counted::of_each(self.store.step_each(&steps).await)?;
        for (((place, _), _), state) in with_marks().zip(&refunded) {
            set(states, place, *state);
        }
        Ok(())
    }

    /// Takes a step on each counter by itself.
    async fn step_each<'p, 'q: 'p>(
        &self,
        counted: impl Iterator<Item = (usize, &'p CountedPlan<'q>)>,
        step: for<'a> fn(&'a [Charge<'a>]) -> Step<'a>,
    ) -> Result<Counted, StoreError> {
        let charges: Charges<'_> = counted.map(|(_, counted)| counted.charge()).collect();
        let charges: SmallVec<[[Charge<'_>; 1]; 2]> = charges.into_iter().map(|charge| [charge]).collect();
        let steps: Vec<Step<'_>> = charges.iter().map(|charge| step(charge)).collect();
        if steps.is_empty() {
            return Ok([].into_iter().collect());
        }
        let answers = self.store.step_each(&steps).await;
        Counted::of_each(
            charges.iter().zip(answers).map(|(charge, answer)| self.with_room(charge, answer)).collect(),
        )
    }

    /// The answer, or that of a setting if the store is full.
    fn with_room(
        &self,
        charges: &[Charge<'_>],
        counted: Result<Counted, StoreError>,
    ) -> Result<Counted, StoreError> {
        match (counted, self.when_full) {
            (Err(StoreError::Full), WhenFull::Allow) => Ok(self.store.uncounted(charges)),
            (counted, _) => counted,
        }
    }
}

impl Plan<'_> {
    /// Whether a limit in quota mode has room, whatever is counted.
    pub(super) fn has_free_quota(&self, are_all_quotas: bool) -> bool {
        self.0.iter().any(|planned| match planned {
            Planned::NoLimit => false,
            Planned::Unlimited(rule) => are_all_quotas || rule.is_quota,
            Planned::Counted(counted) => {
                let is_quota = are_all_quotas || counted.rule.is_some_and(|rule| rule.is_quota);
                is_quota && matches!(counted.effect, Effect::Shadow | Effect::Refund)
            }
        })
    }
}

fn set(states: &mut States, place: usize, state: QuotaState) {
    if let Some(slot) = states.get_mut(place) {
        *slot = Some(state);
    }
}
