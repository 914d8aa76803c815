//! Steps of the store in an order that is fixed for each counter.

use smallvec::SmallVec;
use tollgate::{Key, QuotaStates, Step, Store, StoreError};

use super::deadline::Deadline;

/// Takes steps at once, and those with one key in turn, in the order of the descriptors: a store takes the steps of a
/// call in any order. Usually no key is there twice. Answers that came before the deadline count; the other steps get
/// that of `without_answer`.
pub(super) async fn in_turn<S: Store>(
    store: &S,
    steps: &[Step<'_>],
    deadline: &mut Deadline<'_>,
    without_answer: impl Fn(Step<'_>, StoreError) -> Result<QuotaStates, StoreError>,
) -> Vec<Result<QuotaStates, StoreError>> {
    let turn = |(place, step): (usize, &Step<'_>)| {
        steps.iter().take(place).filter(|earlier| key(earlier) == key(step)).count()
    };
    let turns: SmallVec<[usize; 2]> = steps.iter().enumerate().map(turn).collect();
    let last = turns.iter().max().copied().unwrap_or_default();
    let mut answers: Vec<(usize, Result<QuotaStates, StoreError>)> = Vec::with_capacity(steps.len());
    for turn in 0..=last {
        let now = || steps.iter().zip(&turns).enumerate().filter(|(_, (_, its_turn))| **its_turn == turn);
        let steps: SmallVec<[Step<'_>; 2]> = now().map(|(_, (step, _))| *step).collect();
        let answered = deadline.bound(async |until| store.step_each_until(&steps, until).await).await;
        let answered = answered
            .unwrap_or_else(|late| steps.iter().map(|step| without_answer(*step, late.into())).collect());
        answers.extend(now().map(|(place, _)| place).zip(answered));
    }
    answers.sort_unstable_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn key<'a>(step: &Step<'a>) -> Option<&'a Key<'a>> {
    match *step {
        Step::Charge([charge, ..])
        | Step::ChargeBefore { charges: [charge, ..], .. }
        | Step::Peek([charge, ..]) => Some(charge.counter().key()),
        Step::Record(charge) | Step::Refund { charge, .. } => Some(charge.counter().key()),
        _ => None,
    }
}
