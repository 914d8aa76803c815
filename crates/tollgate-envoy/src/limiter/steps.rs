//! The steps of the store for one request.

use std::ops::Deref;

use smallvec::SmallVec;
use tollgate::{Charge, Clock, QuotaState, QuotaStates, Source, Step, StepDeadline, Store, StoreError};
use tollgate_policy::WhenFull;

use super::EnvoyLimiter;
use super::deadline::Deadline;
use super::plan::{CountedPlan, Effect, Plan};
use super::turns::in_turn;
use crate::ChargingMode;

/// The state of each descriptor's limit after the request; `None` if it has none, or a limit that decides nothing could
/// not be counted.
pub(super) struct States {
    each: SmallVec<[Option<QuotaState>; 2]>,
    /// Whether some were admitted without counting, because the store was full.
    pub(super) is_without_room: bool,
}

/// The places of descriptors in their request.
pub(super) type Places = SmallVec<[usize; 2]>;

type Charges<'a> = SmallVec<[Charge<'a>; 2]>;

/// The handling of limits in shadow mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShadowHandling {
    /// The request is admitted.
    Charged,
    /// The request is denied.
    LookedAt,
    /// They were charged with the others.
    Done,
}

impl<S: Store, C: Clock> EnvoyLimiter<S, C> {
    /// Executes the plan within one deadline.
    pub(super) async fn count(
        &self,
        plan: &Plan<'_>,
        deadline: Option<StepDeadline>,
    ) -> Result<States, StoreError> {
        let mut states = States { each: SmallVec::from_elem(None, plan.0.len()), is_without_room: false };
        let mut deadline = Deadline::new(self.deadline.as_deref(), deadline);
        let shadows = match self.settings.charging {
            ChargingMode::AllOrNothing => {
                if self.charge_all_or_nothing(plan, &mut states, &mut deadline).await? {
                    ShadowHandling::Charged
                } else {
                    ShadowHandling::LookedAt
                }
            }
            ChargingMode::Each => {
                self.charge_each(plan, &mut states, &mut deadline).await?;
                ShadowHandling::Done
            }
        };
        // The decision stands, whatever becomes of these.
        self.try_out(plan, shadows, &mut states, &mut deadline).await;
        match self.refund(plan, &mut states, &mut deadline).await {
            Err(error) if plan.counted().all(|(_, counted)| counted.effect == Effect::Refund) => Err(error),
            _ => Ok(states),
        }
    }

    /// Charges all limits that decide, or none of them. Quotas without room are left out as long as one has room, and
    /// nothing is ever charged and given back. Returns whether the request is admitted.
    async fn charge_all_or_nothing(
        &self,
        plan: &Plan<'_>,
        states: &mut States,
        deadline: &mut Deadline<'_>,
    ) -> Result<bool, StoreError> {
        let deciding = plan.counted().filter(|(_, counted)| counted.decides());
        let mut places: Places = deciding.map(|(place, _)| place).collect();
        let mut charged = places.clone();
        while !self.charge_together(plan, &charged, states, deadline).await? {
            let Some(fewer) = plan.without_full_quotas(&places, states) else { return Ok(false) };
            let is_quota_left = fewer.iter().any(|place| plan.is_quota(*place));
            if !is_quota_left && !plan.has_free_quota(self.settings.quota_mode) {
                return Ok(false);
            }
            places = fewer;
            // The first step has charged these, whatever its verdict.
            let is_charged = |place: &usize| plan.is_charged_if_denied(*place);
            charged = places.iter().copied().filter(|place| !is_charged(place)).collect();
        }
        Ok(true)
    }

    /// Charges the limits of these descriptors in one step. Returns whether all of them have room.
    async fn charge_together(
        &self,
        plan: &Plan<'_>,
        places: &Places,
        states: &mut States,
        deadline: &mut Deadline<'_>,
    ) -> Result<bool, StoreError> {
        let chosen = plan.counted().filter(|(place, _)| places.contains(place));
        let charges: Charges<'_> = chosen.map(|(_, counted)| counted.charge()).collect();
        if charges.is_empty() {
            return Ok(true);
        }
        let step = Step::Charge(&charges);
        let answer = deadline.bound(async |until| self.store.step_until(step, until).await).await;
        let answer = answer.unwrap_or_else(|late| self.store.without_store(step, late.into()));
        let counted = self.with_room(&charges, answer, states)?;
        for (place, state) in places.iter().zip(&counted) {
            set(states, *place, *state);
        }
        Ok(counted.is_admitted())
    }

    /// Counts limits in shadow mode, after the decision.
    async fn try_out(
        &self,
        plan: &Plan<'_>,
        done: ShadowHandling,
        states: &mut States,
        deadline: &mut Deadline<'_>,
    ) {
        let shadows = || plan.counted().filter(|(_, counted)| counted.effect == Effect::Shadow);
        let is_fallback =
            |state: &Option<QuotaState>| state.is_some_and(|state| state.source() == Source::Fallback);
        if done == ShadowHandling::Done || shadows().next().is_none() || states.iter().any(is_fallback) {
            return;
        }
        let charges: Charges<'_> = shadows().map(|(_, counted)| counted.charge()).collect();
        let step = |((_, counted), charge): ((usize, &CountedPlan<'_>), _)| {
            let charge = std::slice::from_ref(charge);
            let takes = done == ShadowHandling::Charged || counted.is_overdraft();
            if takes { Step::Charge(charge) } else { Step::Peek(charge) }
        };
        let steps: Vec<Step<'_>> = shadows().zip(&charges).map(step).collect();
        // Bypasses the fallback policy: a failed shadow step is ignored.
        let answers = in_turn(self.store.store(), &steps, deadline, fail).await;
        for ((place, _), answer) in shadows().zip(answers) {
            if let Some(state) = answer.ok().as_ref().and_then(|counted| counted.first()) {
                set(states, place, *state);
            }
        }
    }

    /// Charges every limit by itself.
    async fn charge_each(
        &self,
        plan: &Plan<'_>,
        states: &mut States,
        deadline: &mut Deadline<'_>,
    ) -> Result<(), StoreError> {
        let charged = || plan.counted().filter(|(_, counted)| counted.effect != Effect::Refund);
        let charges: Charges<'_> = charged().map(|(_, counted)| counted.charge()).collect();
        let steps = charged().zip(&charges).map(|((_, counted), charge)| match counted.is_above_limit() {
            // A charge of more than the whole limit takes nothing, not even if denials are counted.
            true => Step::Record(*charge),
            false => Step::Charge(std::slice::from_ref(charge)),
        });
        let steps: Vec<Step<'_>> = steps.collect();
        if steps.is_empty() {
            return Ok(());
        }
        let without_store = |step: Step<'_>, late| self.store.without_store(step, late);
        let answers = in_turn(&self.store, &steps, deadline, without_store).await;
        for ((place, _), state) in charged().zip(&self.with_room_each(&charges, answers, states)?) {
            set(states, place, *state);
        }
        Ok(())
    }

    /// Gives units back to the windows that are open now.
    async fn refund(
        &self,
        plan: &Plan<'_>,
        states: &mut States,
        deadline: &mut Deadline<'_>,
    ) -> Result<(), StoreError> {
        let refunds = || plan.counted().filter(|(_, counted)| counted.effect == Effect::Refund);
        let charges: Charges<'_> = refunds().map(|(_, counted)| counted.charge()).collect();
        let peeks: Vec<Step<'_>> =
            charges.iter().map(|charge| Step::Peek(std::slice::from_ref(charge))).collect();
        if peeks.is_empty() {
            return Ok(());
        }
        let peeked = in_turn(&self.store, &peeks, deadline, fail).await;
        let peeked = self.with_room_each(&charges, peeked, states)?;
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
        let refunded = QuotaStates::of_each(in_turn(&self.store, &steps, deadline, fail).await)?;
        for (((place, _), _), state) in with_marks().zip(&refunded) {
            set(states, place, *state);
        }
        Ok(())
    }

    fn with_room_each(
        &self,
        charges: &[Charge<'_>],
        answers: Vec<Result<QuotaStates, StoreError>>,
        states: &mut States,
    ) -> Result<QuotaStates, StoreError> {
        let each = charges.iter().zip(answers);
        let with_room = |(charge, answer)| self.with_room(std::slice::from_ref(charge), answer, states);
        QuotaStates::of_each(each.map(with_room).collect())
    }

    /// The answer, or that of a setting if the store is full.
    fn with_room(
        &self,
        charges: &[Charge<'_>],
        counted: Result<QuotaStates, StoreError>,
        states: &mut States,
    ) -> Result<QuotaStates, StoreError> {
        match (counted, self.when_full) {
            (Err(StoreError::Full), WhenFull::Allow) => {
                states.is_without_room = true;
                Ok(self.store.uncounted(charges))
            }
            (counted, _) => counted,
        }
    }
}

impl Deref for States {
    type Target = [Option<QuotaState>];

    fn deref(&self) -> &Self::Target {
        &self.each
    }
}

/// The answer of a step that nothing replaces.
fn fail(_: Step<'_>, error: StoreError) -> Result<QuotaStates, StoreError> {
    Err(error)
}

fn set(states: &mut States, place: usize, state: QuotaState) {
    if let Some(slot) = states.each.get_mut(place) {
        *slot = Some(state);
    }
}
