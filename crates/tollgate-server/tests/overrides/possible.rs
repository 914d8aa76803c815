//! What may have been when a request was decided: the eras, the times, and the versions.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::answer::Answer;
use crate::attributes::Attributes;
use crate::books::{Books, Entry};
use crate::change::Target;
use crate::expected::{Times, targets};
use crate::observation::{Observation, Observed};
use crate::versions::{Era, Process};

/// How far a service's estimate of the store's time may be off, besides the time that the request took.
const OFF: i64 = 20;

/// The eras in which the answer may have been made.
pub(crate) fn eras_of(observation: &Observation, eras: &[Era]) -> Vec<usize> {
    let is_possible = |number: &usize| {
        let next = eras.get(number + 1);
        observation.received >= eras[*number].begun
            && next.is_none_or(|next| observation.sent <= next.settled)
    };
    (0..eras.len()).filter(is_possible).collect()
}

/// The times by which the service may have judged ends: those of the step, and all that its estimate may have been at which
/// something changes.
pub(crate) fn possible_times(
    observation: &Observation,
    answer: &Answer,
    books: &Books,
    era: usize,
) -> Vec<Times> {
    let number = answer.version.map_or(0, |version| version.number);
    let estimates = estimates(observation, books, era, number);
    let steps: Vec<Option<i64>> = match answer.steps.len() {
        0 => vec![None],
        // An answer that is remembered says no time of a step.
        _ if answer.is_local => vec![None],
        _ => answer.steps.iter().copied().map(Some).collect(),
    };
    let times = |step: Option<i64>| estimates.iter().map(move |estimate| Times { step, estimate: *estimate });
    steps.into_iter().flat_map(times).collect()
}

/// All times that the service's estimate may have been, of those at which something changes under this version.
pub(crate) fn estimates(observation: &Observation, books: &Books, era: usize, number: u64) -> Vec<i64> {
    let (from, to) = (observation.sent.millis() - OFF, observation.received.millis() + OFF);
    let ends = ends_of(books, era, number, &observation.attributes);
    let near = ends.into_iter().filter(|end| (from..=to).contains(end)).flat_map(|end| [end - 1, end]);
    let mut estimates: Vec<i64> = near.chain([from, to]).collect();
    estimates.sort_unstable();
    estimates.dedup();
    estimates
}

/// The ends of all overrides that meet the request.
pub(crate) fn ends_of(books: &Books, era: usize, number: u64, attributes: &Attributes) -> Vec<i64> {
    let end = |target: &Target| match books.entry(era, number, target) {
        Entry::Override(said) => said.until,
        _ => None,
    };
    targets(attributes).iter().filter_map(end).collect()
}

/// For each request of a client, the versions that its process may have had: from what it has answered this client before,
/// up to what it answers next. For refusals that name none.
pub(crate) fn possible_versions(
    observed: &[Observed],
    eras: &[Era],
    last: impl Fn(usize) -> u64,
) -> HashMap<usize, (usize, RangeInclusive<u64>)> {
    let mut seen = HashMap::<(usize, Process), u64>::new();
    let mut open = HashMap::<(usize, Process), Vec<(usize, u64)>>::new();
    let mut possible = HashMap::new();
    for (place, observation) in observed.iter().enumerate() {
        let Some(observation) = observation.decision() else { continue };
        let &[era] = &eras_of(observation, eras)[..] else { continue };
        let of = (era, observation.by);
        let Some(answer) = observation.answer() else {
            open.entry(of).or_default().push((place, seen.get(&of).copied().unwrap_or(0)));
            continue;
        };
        // Requests without a policy that has overrides name no version.
        let Some(version) = answer.version else { continue };
        seen.insert(of, version.number);
        for (place, from) in open.remove(&of).into_iter().flatten() {
            possible.insert(place, (era, from..=version.number));
        }
    }
    for ((era, _), open) in open {
        // Services delete overrides that have ended, which raises the version too.
        possible.extend(open.into_iter().map(|(place, from)| (place, (era, from..=last(era).max(from)))));
    }
    possible
}
