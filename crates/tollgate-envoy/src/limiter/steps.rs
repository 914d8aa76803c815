//! The steps of the store for one request.

use std::ops::Deref;
use std::pin::pin;

use smallvec::SmallVec;
use tollgate::{Charge, Clock, Key, QuotaState, QuotaStates, Source, Step, Store, StoreError};
use tollgate_policy::WhenFull;

use super::EnvoyLimiter;
use super::deadline::Deadline;
use super::plan::{CountedPlan, Effect, Plan, Planned};
use crate::Charging;

/// The state of each descriptor's limit after the request; `None` if it has none, or a limit that decides nothing could
/// not be counted.
pub(super) struct States {
    each: SmallVec<[Option<QuotaState>; 2]>,
    /// Whether some were admitted without counting, because the store was full.
    pub(super) is_without_room: bool,
}

type Places = SmallVec<[usize; 2]>;
type Charges<'a> = SmallVec<[Charge<'a>; 2]>;

/// The handling of limits in shadow mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shadows {
    /// The request is admitted.
    Charged,
    /// The request is denied.
    LookedAt,
    /// They were charged with the others.
    Done,
}

impl<S, C, D, T> EnvoyLimiter<S, C, D>
where
    S: Store,
    C: Clock,
    D: Fn() -> T,
    T: Future<Output = ()>,
{
    /// Executes the plan within one deadline.
    pub(super) async fn count(&self, plan: &Plan<'_>) -> Result<States, StoreError> {
        let mut states = States { each: SmallVec::from_elem(None, plan.0.len()), is_without_room: false };
        let timer = pin!(None);
        let mut deadline = Deadline::new(&self.deadline, timer);
        let shadows = match self.settings.charging {
            Charging::AllOrNothing => {
                if self.charge_all_or_nothing(plan, &mut states, &mut deadline).await? {
                    Shadows::Charged
                } else {
                    Shadows::LookedAt
                }
            }
            Charging::Each => {
                self.charge_each(plan, &mut states, &mut deadline).await?;
                Shadows::Done
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
        deadline: &mut Deadline<'_, D, T>,
    ) -> Result<bool, StoreError> {
        let deciding = plan.counted().filter(|(_, counted)| counted.decides());
        let mut places: Places = deciding.map(|(place, _)| place).collect();
        let mut charged = places.clone();
        loop {
            let chosen = plan.counted().filter(|(place, _)| charged.contains(place));
            let charges: Charges<'_> = chosen.map(|(_, counted)| counted.charge()).collect();
            if charges.is_empty() {
                return Ok(true);
            }
            let step = Step::Charge(&charges);
            let answer = deadline.bound(async { self.store.step(step).await }).await;
            let answer = answer.unwrap_or_else(|late| self.store.without_store(step, late.into()));
            let counted = self.with_room(&charges, answer, states)?;
            for (place, state) in charged.iter().zip(&counted) {
                set(states, *place, *state);
            }
            if counted.is_admitted() {
                return Ok(true);
            }
            match plan.without_full_quotas(&places, states) {
                Some(fewer)
                    if fewer.iter().any(|place| plan.is_quota(*place))
                        || plan.has_free_quota(self.settings.quota_mode) =>
                {
                    places = fewer;
                    // The first step has charged these, whatever its verdict.
                    let is_charged = |place: &usize| plan.is_charged_if_denied(*place);
                    charged = places.iter().copied().filter(|place| !is_charged(place)).collect();
                }
                _ => return Ok(false),
            }
        }
    }

    /// Counts limits in shadow mode, after the decision.
    async fn try_out(
        &self,
        plan: &Plan<'_>,
        done: Shadows,
        states: &mut States,
        deadline: &mut Deadline<'_, D, T>,
    ) {
        let shadows = || plan.counted().filter(|(_, counted)| counted.effect == Effect::Shadow);
        let is_fallback =
            |state: &Option<QuotaState>| state.is_some_and(|state| state.source() == Source::Fallback);
        if done == Shadows::Done || shadows().next().is_none() || states.iter().any(is_fallback) {
            return;
        }
        let charges: Charges<'_> = shadows().map(|(_, counted)| counted.charge()).collect();
        let step = |((_, counted), charge): ((usize, &CountedPlan<'_>), _)| {
            let charge = std::slice::from_ref(charge);
            let takes = done == Shadows::Charged || counted.is_overdraft();
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
        deadline: &mut Deadline<'_, D, T>,
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
        deadline: &mut Deadline<'_, D, T>,
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

impl Plan<'_> {
    fn is_quota(&self, place: usize) -> bool {
        let planned = self.0.get(place);
        matches!(planned, Some(Planned::Counted(counted)) if counted.effect == Effect::DeniesWithAllQuotas)
    }

    /// Returns whether the limit of a descriptor is charged even if the step denies: it is an overdraft, or the step
    /// charges one on its counter.
    pub(super) fn is_charged_if_denied(&self, place: usize) -> bool {
        let Some(Planned::Counted(counted)) = self.0.get(place) else { return false };
        let is_overdraft_on_counter = |(_, other): (usize, &CountedPlan<'_>)| {
            other.decides() && other.is_overdraft() && other.charge().counter() == counted.charge().counter()
        };
        counted.is_overdraft() || counted.decides() && self.counted().any(is_overdraft_on_counter)
    }

    /// The places that are left once quotas without room are left out. Limits that deny by themselves come first, then
    /// quotas in their order, each if all that come before it on its counter still have room. `None` if a limit denies
    /// by itself, or nothing is left out.
    fn without_full_quotas(&self, places: &Places, states: &States) -> Option<Places> {
        let mut kept: SmallVec<[(usize, Charge<'_>, &QuotaState); 2]> = SmallVec::new();
        for is_quota in [false, true] {
            for place in places.iter().copied().filter(|place| self.is_quota(*place) == is_quota) {
                let (Some(Planned::Counted(counted)), Some(Some(state))) =
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
        let mut left: Places = kept.iter().map(|(place, ..)| *place).collect();
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
            Planned::NoLimit => are_all_quotas,
            Planned::Unlimited(_) => false,
            Planned::Counted(counted) => {
                let is_quota = are_all_quotas || counted.rule.is_some_and(|rule| rule.is_quota);
                is_quota && matches!(counted.effect, Effect::Shadow | Effect::Refund)
            }
        })
    }
}

impl Deref for States {
    type Target = [Option<QuotaState>];

    fn deref(&self) -> &Self::Target {
        &self.each
    }
}

/// Takes steps at once, and those with one key in turn, in the order of the descriptors: a store takes the steps of a call
/// in any order. Usually no key is there twice. Answers that came before the deadline count; the other steps get that of
/// `without_answer`.
async fn in_turn<S, D, T>(
    store: &S,
    steps: &[Step<'_>],
    deadline: &mut Deadline<'_, D, T>,
    without_answer: impl Fn(Step<'_>, StoreError) -> Result<QuotaStates, StoreError>,
) -> Vec<Result<QuotaStates, StoreError>>
where
    S: Store,
    D: Fn() -> T,
    T: Future<Output = ()>,
{
    let turn = |(place, step): (usize, &Step<'_>)| {
        steps.iter().take(place).filter(|earlier| key(earlier) == key(step)).count()
    };
    let turns: SmallVec<[usize; 2]> = steps.iter().enumerate().map(turn).collect();
    let last = turns.iter().max().copied().unwrap_or_default();
    let mut answers: Vec<(usize, Result<QuotaStates, StoreError>)> = Vec::with_capacity(steps.len());
    for turn in 0..=last {
        let of_turn = || steps.iter().zip(&turns).enumerate().filter(|(_, (_, of))| **of == turn);
        let steps: SmallVec<[Step<'_>; 2]> = of_turn().map(|(_, (step, _))| *step).collect();
        let answered = deadline.bound(async { store.step_each(&steps).await }).await;
        let answered = answered
            .unwrap_or_else(|late| steps.iter().map(|step| without_answer(*step, late.into())).collect());
        answers.extend(of_turn().map(|(place, _)| place).zip(answered));
    }
    answers.sort_unstable_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The answer of a step that nothing replaces.
fn fail(_: Step<'_>, error: StoreError) -> Result<QuotaStates, StoreError> {
    Err(error)
}

fn key<'a>(step: &Step<'a>) -> Option<&'a Key<'a>> {
    match *step {
        Step::Charge([charge, ..]) | Step::Peek([charge, ..]) => Some(charge.counter().key()),
        Step::Record(charge) | Step::Refund { charge, .. } => Some(charge.counter().key()),
        _ => None,
    }
}

fn set(states: &mut States, place: usize, state: QuotaState) {
    if let Some(slot) = states.each.get_mut(place) {
        *slot = Some(state);
    }
}
