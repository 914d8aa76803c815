//! Trials: quotas that are counted after the decision and never affect it.

use tollgate::{
    Answer, AnswerError, Clock, CountDenied, QuotaStates, Source, Step, StepDeadline, Store, StoreError,
};

use super::{Charges, Matching, PolicyLimiter};
use crate::limiter::TrialAnswer;
use crate::{TrialKind, matched};

/// The answer that a policy in shadow mode or some candidates would have given.
#[derive(Debug, Clone)]
pub(super) struct TrialRecord {
    pub(super) policy: u32,
    pub(super) kind: TrialKind,
    /// `None` if the policy would have denied the request, whatever the counts.
    counted: Result<Option<QuotaStates>, StoreError>,
}

/// Those of one request.
pub(super) type Trials = Vec<TrialRecord>;

/// A planned trial, and whether it charges units.
struct PlannedTrial<'a> {
    trial: matched::Trial<'a>,
    charges: Charges<'a>,
    takes: bool,
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Makes the trials of each decided request, all in one call to the store. The answers are in the order of the
    /// requests.
    pub(super) async fn try_out(
        &self,
        decided: &[(&Matching<'_>, &QuotaStates)],
        deadline: Option<StepDeadline>,
    ) -> Vec<Trials> {
        // Usually there is nothing to try out, and then nothing is allocated.
        if decided.iter().all(|(matching, _)| is_idle(matching)) {
            return Vec::new();
        }
        // Apart, so that a request that tries out nothing does not carry this along.
        Box::pin(self.make_trials(decided, deadline)).await
    }

    async fn make_trials(
        &self,
        decided: &[(&Matching<'_>, &QuotaStates)],
        deadline: Option<StepDeadline>,
    ) -> Vec<Trials> {
        let planned: Vec<Vec<PlannedTrial<'_>>> =
            decided.iter().map(|(matching, counted)| plan(matching, counted)).collect();
        let steps: Vec<Step<'_>> = planned.iter().flatten().map(PlannedTrial::step).collect();
        // The store itself: what its trouble means is said for decisions.
        let answers = match steps.as_slice() {
            [] => Vec::new(),
            steps => self.store.store().step_each_until(steps, deadline).await,
        };
        let mut answers = answers.into_iter();
        let mut answered = |plan: &PlannedTrial<'_>| {
            plan.answered(answers.next().unwrap_or_else(|| Err(AnswerError::Nonsense.into())))
        };
        let trials = decided
            .iter()
            .zip(&planned)
            .map(|((matching, _), plans)| denials(matching).chain(plans.iter().map(&mut answered)).collect());
        trials.collect()
    }

    /// Like [`try_out`](Self::try_out), but of a request that was decided at once; `None` if the store has to be waited
    /// for and the request has taken nothing.
    pub(super) fn try_out_at_once(&self, matching: &Matching<'_>, counted: &QuotaStates) -> Option<Trials> {
        // Usually there is nothing to try out.
        if is_idle(matching) {
            return Some(Trials::new());
        }
        let takes = |counted: &QuotaStates| counted.iter().any(|state| state.units() > 0);
        let mut has_taken = takes(counted);
        let mut trials: Trials = denials(matching).collect();
        for plan in plan(matching, counted) {
            let answer = match self.store.store().step(plan.step()) {
                Answer::Now(answer) => answer,
                // It was not begun, and nobody waits for it any more.
                Answer::Later(_) if has_taken => Err(StoreError::trouble(AnswerError::Late)),
                Answer::Later(_) => return None,
            };
            has_taken |= answer.as_ref().map_or_else(StoreError::may_have_charged, takes);
            trials.push(plan.answered(answer));
        }
        Some(trials)
    }
}

impl PlannedTrial<'_> {
    fn step(&self) -> Step<'_> {
        if self.takes { Step::Charge(&self.charges) } else { Step::Peek(&self.charges) }
    }

    fn answered(&self, answer: Result<QuotaStates, StoreError>) -> TrialRecord {
        TrialRecord { policy: self.trial.place(), kind: self.trial.kind(), counted: answer.map(Some) }
    }
}

impl TrialRecord {
    pub(super) fn answer(&self) -> TrialAnswer<'_> {
        match &self.counted {
            Ok(Some(counted)) => TrialAnswer::Quotas(counted),
            Ok(None) => TrialAnswer::Denied,
            Err(error) => TrialAnswer::Failed(error),
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
    places.map(|policy| TrialRecord { policy, kind: TrialKind::Shadow, counted: Ok(None) })
}

fn plan<'a>(matching: &'a Matching<'_>, counted: &QuotaStates) -> Vec<PlannedTrial<'a>> {
    let is_of_fallback = counted.decided().is_some_and(|state| state.source() == Source::Fallback);
    let Some(matched) = matching.counting().filter(|_| !is_of_fallback) else { return Vec::new() };
    let denied_by_another = |trial: &matched::Trial<'_>| {
        let charged = matched.enforced().zip(counted);
        let mut denying = charged.filter(|(_, state)| !state.has_room());
        denying.any(|(charge, _)| charge.counter().quota().policy() != trial.policy().name())
    };
    let plan = |trial: matched::Trial<'a>| {
        let charges: Charges<'_> = trial.charges().collect();
        // An overdraft is charged for every request. All quotas of a policy have the same setting.
        let mut overdrafts =
            charges.iter().filter(|charge| charge.counter().quota().count_denied() == CountDenied::Overdraft);
        let takes = counted.is_admitted() || overdrafts.next().is_some() || !denied_by_another(&trial);
        PlannedTrial { charges, trial, takes }
    };
    matched.trials().map(plan).collect()
}
