//! Trials: quotas that are counted after the decision and never affect it.

use tollgate::{
    Answer, AnswerError, Clock, CountDenied, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms,
    InFlightState, QuotaStates, Source, Step, StepDeadline, Store, StoreError,
};

use super::charge_result::ChargeResult;
use super::{Charges, Matching, PolicyLimiter};
use crate::limiter::TrialAnswer;
use crate::{TrialKind, matched};

/// The answer that a policy in shadow mode or some candidates would have given.
#[derive(Debug, Clone)]
pub(super) struct TrialRecord {
    pub(super) policy: u32,
    pub(super) kind: TrialKind,
    result: TrialResult,
}

#[derive(Debug, Clone)]
enum TrialResult {
    Counted(QuotaStates),
    InFlight(InFlightState),
    /// The policy would have denied the request, whatever the counts.
    Denied,
    Failed(StoreError),
}

/// Those of one request.
pub(super) type Trials = Vec<TrialRecord>;

/// A planned trial, and whether it charges units.
struct PlannedTrial<'a> {
    trial: matched::Trial<'a>,
    charges: Charges<'a>,
    takes: bool,
    /// The state of its limit in flight, if a hold was looked at.
    in_flight: Option<Result<InFlightState, StoreError>>,
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Makes the trials of each decided request, all in one call to the store. The answers are in the order of the
    /// requests.
    pub(super) async fn try_out(
        &self,
        decided: &[(&Matching<'_>, &ChargeResult)],
        deadline: Option<StepDeadline>,
    ) -> Vec<Trials> {
        // Usually there is nothing to try out, and then nothing is allocated.
        if decided.iter().all(|(matching, _)| is_idle(matching)) {
            return Vec::new();
        }
        // Apart, so that a request that tries out nothing does not carry this along.
        let planned = decided.iter().map(|(matching, result)| plan(matching, result)).collect();
        Box::pin(self.make_trials(decided, planned, deadline)).await
    }

    /// Makes the trials of a hold that asked for so many units in flight. First, the limits in flight on trial are looked
    /// at; a trial that has no room there charges nothing.
    pub(super) async fn try_out_hold(
        &self,
        matching: &Matching<'_>,
        result: &ChargeResult,
        units: u32,
        deadline: Option<StepDeadline>,
    ) -> Trials {
        if is_idle(matching) {
            return Trials::new();
        }
        let mut planned = plan_of_hold(matching, result);
        for plan in &mut planned {
            plan.in_flight = self.look_in_flight(&plan.trial, result, units, deadline).await;
        }
        let decided = [(matching, result)];
        Box::pin(self.make_trials(&decided, vec![planned], deadline)).await.pop().unwrap_or_default()
    }

    /// Returns what the trials of a request would answer, as a hold of one unit if a limit in flight applies. They charge
    /// nothing.
    pub(super) async fn look_at_trials(&self, matching: &Matching<'_>, result: &ChargeResult) -> Trials {
        if is_idle(matching) {
            return Trials::new();
        }
        let mut planned = plan_of_hold(matching, result);
        for plan in &mut planned {
            plan.takes = false;
            plan.in_flight = self.look_in_flight(&plan.trial, result, 1, None).await;
        }
        Box::pin(self.make_trials(&[(matching, result)], vec![planned], None)).await.pop().unwrap_or_default()
    }

    /// Returns the state of the limit in flight that is on trial, if there is one.
    async fn look_in_flight(
        &self,
        trial: &matched::Trial<'_>,
        result: &ChargeResult,
        units: u32,
        deadline: Option<StepDeadline>,
    ) -> Option<Result<InFlightState, StoreError>> {
        let charge = trial.in_flight(units)?;
        let limit = charge.in_flight().in_flight();
        // The policy's own limit has the same counter, and tells how many were live before this hold.
        let mut same = result.in_flight_records().iter();
        if let Some(record) = same.find(|record| record.policy == trial.place()) {
            let live_before = record.state.live().saturating_sub(record.state.units());
            return Some(Ok(InFlightState::decide(limit, live_before, units)));
        }
        let in_flight = [charge];
        let terms = HoldTerms::new(HoldId::random(), &in_flight, &[], HoldLength::default());
        let answer = self.store.store().hold_until(HoldStep::Look(terms), deadline).await;
        Some(answer.and_then(|answer| match answer {
            HoldAnswer::Decided(states) => {
                states.in_flight().first().copied().ok_or_else(|| AnswerError::Nonsense.into())
            }
            _ => Err(AnswerError::Nonsense.into()),
        }))
    }

    async fn make_trials(
        &self,
        decided: &[(&Matching<'_>, &ChargeResult)],
        planned: Vec<Vec<PlannedTrial<'_>>>,
        deadline: Option<StepDeadline>,
    ) -> Vec<Trials> {
        let steps: Vec<Step<'_>> = planned.iter().flatten().filter_map(PlannedTrial::step).collect();
        // The store itself: what its trouble means is said for decisions.
        let answers = match steps.as_slice() {
            [] => Vec::new(),
            steps => self.store.store().step_each_until(steps, deadline).await,
        };
        let mut answers = answers.into_iter();
        let mut answered = |plan: &PlannedTrial<'_>| {
            plan.answered(|| answers.next().unwrap_or_else(|| Err(AnswerError::Nonsense.into())))
        };
        let trials = decided
            .iter()
            .zip(&planned)
            .map(|((matching, _), plans)| denials(matching).chain(plans.iter().map(&mut answered)).collect());
        trials.collect()
    }

    /// Like [`try_out`](Self::try_out), but of a request that was decided at once; `None` if the store has to be waited
    /// for and the request has taken nothing.
    pub(super) fn try_out_at_once(&self, matching: &Matching<'_>, result: &ChargeResult) -> Option<Trials> {
        // Usually there is nothing to try out.
        if is_idle(matching) {
            return Some(Trials::new());
        }
        let takes = |counted: &QuotaStates| counted.iter().any(|state| state.units() > 0);
        let mut has_taken = takes(&result.counted);
        let mut trials: Trials = denials(matching).collect();
        for plan in plan(matching, result) {
            let Some(step) = plan.step() else { continue };
            let answer = match self.store.store().step(step) {
                Answer::Now(answer) => answer,
                // It was not begun, and nobody waits for it any more.
                Answer::Later(_) if has_taken => Err(StoreError::trouble(AnswerError::Late)),
                Answer::Later(_) => return None,
            };
            has_taken |= answer.as_ref().map_or_else(StoreError::may_have_charged, takes);
            trials.push(plan.answered(|| answer));
        }
        Some(trials)
    }
}

impl PlannedTrial<'_> {
    /// Returns the step of its quotas, if it has any.
    fn step(&self) -> Option<Step<'_>> {
        if self.charges.is_empty() {
            return None;
        }
        let has_room = |state: &Result<InFlightState, _>| state.as_ref().is_ok_and(InFlightState::has_room);
        let takes = self.takes && self.in_flight.as_ref().is_none_or(has_room);
        Some(if takes { Step::Charge(&self.charges) } else { Step::Peek(&self.charges) })
    }

    /// Returns the record, with the answer to the step, if there was one.
    fn answered(&self, answer: impl FnOnce() -> Result<QuotaStates, StoreError>) -> TrialRecord {
        let counted = self.step().map(|_| answer());
        let result = match (counted, &self.in_flight) {
            (Some(Err(error)), _) => TrialResult::Failed(error),
            (Some(Ok(counted)), _) if !counted.is_admitted() => TrialResult::Counted(counted),
            (_, Some(Err(error))) => TrialResult::Failed(error.clone()),
            (Some(Ok(counted)), Some(Ok(state))) if state.has_room() => TrialResult::Counted(counted),
            (_, Some(Ok(state))) => TrialResult::InFlight(*state),
            (Some(Ok(counted)), None) => TrialResult::Counted(counted),
            // A trial has a quota or a limit in flight.
            (None, None) => TrialResult::Failed(AnswerError::Nonsense.into()),
        };
        TrialRecord { policy: self.trial.place(), kind: self.trial.kind(), result }
    }
}

impl TrialRecord {
    pub(super) fn answer(&self) -> TrialAnswer<'_> {
        match &self.result {
            TrialResult::Counted(counted) => TrialAnswer::Quotas(counted),
            TrialResult::InFlight(state) => TrialAnswer::InFlight(state),
            TrialResult::Denied => TrialAnswer::Denied,
            TrialResult::Failed(error) => TrialAnswer::Failed(error),
        }
    }
}

/// Returns whether a request has no trials.
fn is_idle(matching: &Matching<'_>) -> bool {
    matching
        .counting()
        .is_none_or(|matched| matched.would_deny.is_empty() && matched.trials().next().is_none())
}

/// Returns the trials that count nothing.
fn denials(matching: &Matching<'_>) -> impl Iterator<Item = TrialRecord> {
    let places =
        matching.counting().into_iter().flat_map(|matched| &matched.would_deny).map(|(_, place)| *place);
    places.map(|policy| TrialRecord { policy, kind: TrialKind::Shadow, result: TrialResult::Denied })
}

/// Plans the trials of a check, which meets no limit in flight.
fn plan<'a>(matching: &'a Matching<'_>, result: &ChargeResult) -> Vec<PlannedTrial<'a>> {
    let mut planned = plan_of_hold(matching, result);
    planned.retain(|plan| !plan.charges.is_empty());
    planned
}

fn plan_of_hold<'a>(matching: &'a Matching<'_>, result: &ChargeResult) -> Vec<PlannedTrial<'a>> {
    let counted = &result.counted;
    let is_of_fallback = counted.decided().is_some_and(|state| state.source() == Source::Fallback)
        || result.in_flight.as_ref().is_some_and(|in_flight| in_flight.source() == Source::Fallback);
    let Some(matched) = matching.counting().filter(|_| !is_of_fallback) else { return Vec::new() };
    let denied_by_another = |trial: &matched::Trial<'_>| {
        let charged = matched.enforced().zip(counted);
        let mut denying = charged.filter(|(_, state)| !state.has_room());
        let mut in_flight = result.in_flight_records().iter().filter(|record| !record.state.has_room());
        denying.any(|(charge, _)| charge.counter().quota().policy() != trial.policy().name())
            || in_flight.any(|record| record.policy != trial.place())
    };
    let plan = |trial: matched::Trial<'a>| {
        let charges: Charges<'_> = trial.charges().collect();
        // An overdraft is charged for every request. All quotas of a policy have the same setting.
        let mut overdrafts =
            charges.iter().filter(|charge| charge.counter().quota().count_denied() == CountDenied::Overdraft);
        let takes = result.is_admitted() || overdrafts.next().is_some() || !denied_by_another(&trial);
        PlannedTrial { charges, trial, takes, in_flight: None }
    };
    matched.trials().map(plan).collect()
}
