//! Several steps at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tollgate::{AnswerError, QuotaStates, Step, StepDeadline, StoreError};

use super::StoreInner;
use super::across::in_turns;
use super::charge::{BegunCharge, PreparedCharge};
use crate::batch::Company;
use crate::denials::Id;
use crate::named_charges::{CounterOperation, NamedCharges};
use crate::time::CallTime;

impl StoreInner {
    pub(super) async fn step_each<'a>(
        self: &'a Arc<Self>,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Vec<Result<QuotaStates, StoreError>> {
        let call = CallTime::begins(deadline);
        // All charges are prepared before the first one is sent, and sent before the first answer is awaited.
        let prepared: Vec<Option<PreparedCharge<'_>>> = steps
            .iter()
            .map(|step| match step {
                Step::Charge(charges) => Some(self.prepare(charges)),
                Step::ChargeBefore { charges, .. } => Some(self.prepare_unknown(charges)),
                _ => None,
            })
            .collect();
        let mut answers: Vec<Option<Result<QuotaStates, StoreError>>> = steps.iter().map(|_| None).collect();
        // Steps that have no answer yet, with their places.
        let (mut sent, mut across, mut others) = (Vec::new(), Vec::<(usize, Vec<Id>)>::new(), Vec::new());
        for (place, (prepared, step)) in prepared.into_iter().zip(steps).enumerate() {
            match (prepared, step) {
                (Some(PreparedCharge::Known(counted)), _) => answers[place] = Some(Ok(counted)),
                (Some(PreparedCharge::Named(named)), Step::ChargeBefore { end, .. }) => {
                    let (asked, time) = (CounterOperation::ChargeBefore(*end), CallTime::begins(deadline));
                    let pending = self.send(&named, asked, time, Company::Others);
                    sent.push((place, named, pending));
                }
                (Some(PreparedCharge::Named(named)), _) => {
                    match self.begin(&named, deadline, Company::Others) {
                        BegunCharge::Known(counted) => answers[place] = Some(Ok(counted)),
                        BegunCharge::Asked(pending) => sent.push((place, named, pending)),
                    }
                }
                (
                    Some(PreparedCharge::Across),
                    Step::Charge(charges) | Step::ChargeBefore { charges, .. },
                ) => {
                    across.push((place, NamedCharges::new(charges, &self.names).ids().collect()));
                }
                _ => others.push(vec![place]),
            }
        }
        let sent = async {
            let mut counted = Vec::with_capacity(sent.len());
            for (place, named, mut pending) in sent {
                counted.push((place, self.counted(&named, &mut pending).await));
            }
            counted
        };
        let in_turn = async |places: &Vec<usize>| {
            let mut taken = Vec::with_capacity(places.len());
            for place in places {
                taken.push((*place, self.step(steps[*place], call).await));
            }
            taken
        };
        // Side by side, so that a server that hangs holds up no step on another.
        let (sent, others) = tokio::join!(sent, all(others.iter().map(in_turn)));
        // Only once nothing else is in flight: no charge across slots is denied because of what another gives back.
        let across = in_turns(across);
        let across = all(across.iter().map(in_turn)).await;
        for (place, answer) in sent.into_iter().chain(others.into_iter().chain(across).flatten()) {
            answers[place] = Some(answer);
        }
        // Every place has its answer: it was known, or its step was taken. If one were missing, the answers after it
        // must not move to other steps.
        let missing = || Err(AnswerError::Nonsense.into());
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }
}

/// Awaits the futures side by side, and returns their outputs in order.
pub(super) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(context)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
