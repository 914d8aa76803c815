//! What is counted after the decision, and never touches it.

use tollgate::{Charge, Clock, Counted, Decision, Source, Store, StoreError};

use super::{Charges, PolicyLimiter};
use crate::matched::Applied;
use crate::{Matched, TrialKind, matched};

/// What some quotas would have answered.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) applied: Applied,
    pub(super) kind: TrialKind,
    pub(super) answer: Result<Decision, StoreError>,
}

/// Those of one request.
pub(super) type Trials = Vec<Trial>;

/// A trial that is to be made, and whether it takes units.
struct Planned<'a> {
    trial: matched::Trial<'a>,
    charges: Charges<'a>,
    takes: bool,
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Makes the trials of each request that was decided, all in one step of the store where it can be. The answers
    /// are in the order of the requests.
    pub(super) async fn try_out(&self, decided: &[(&Matched<'_>, &Decision)]) -> Vec<Trials> {
        // Usually there is nothing to try out, and then nothing is allocated.
        if decided.iter().all(|(matched, _)| matched.trials().next().is_none()) {
            return Vec::new();
        }
        // Apart, so that a request that tries out nothing does not carry this along.
        Box::pin(self.make_trials(decided)).await
    }

    async fn make_trials(&self, decided: &[(&Matched<'_>, &Decision)]) -> Vec<Trials> {
        let planned: Vec<Vec<Planned<'_>>> =
            decided.iter().map(|(matched, decision)| plan(matched, decision)).collect();
        let taking: Vec<&[Charge<'_>]> =
            planned.iter().flatten().filter(|plan| plan.takes).map(|plan| plan.charges.as_slice()).collect();
        // The store itself: what its trouble means is said for decisions.
        let store = self.store.store();
        let taken = if taking.is_empty() { Vec::new() } else { store.charge_each(&taking).await };
        let mut taken = taken.into_iter();
        let mut trials = Vec::with_capacity(planned.len());
        for plans in planned {
            let mut of_request = Trials::with_capacity(plans.len());
            for Planned { trial, charges, takes } in plans {
                let counted: Result<Counted, StoreError> = if takes {
                    taken.next().unwrap_or(Err(StoreError::BadReply))
                } else {
                    store.peek(&charges).await
                };
                let (applied, kind, answer) = (trial.applied(), trial.kind(), counted.map(Decision::new));
                of_request.push(Trial { applied, kind, answer });
            }
            trials.push(of_request);
        }
        trials
    }
}

fn plan<'a>(matched: &'a Matched<'_>, decision: &Decision) -> Vec<Planned<'a>> {
    if decision.source() == Source::Fallback {
        return Vec::new();
    }
    let denied_by_another = |trial: &matched::Trial<'_>| {
        let charged = matched.enforced().zip(decision.quotas());
        let mut denying = charged.filter(|(_, state)| !state.has_room());
        denying.any(|(charge, _)| charge.counter().quota().policy() != trial.policy().name())
    };
    let plan = |trial: matched::Trial<'a>| {
        let takes = decision.is_allowed() || !denied_by_another(&trial);
        Planned { charges: trial.charges().collect(), trial, takes }
    };
    matched.trials().map(plan).collect()
}
