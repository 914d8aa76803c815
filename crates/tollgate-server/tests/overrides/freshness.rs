//! Whether versions come in time, and never go back.

use std::collections::HashMap;
use std::time::Duration;

use crate::books::MadeChange;
use crate::found::Found;
use crate::moment::Moment;
use crate::observation::{Observation, Observed};
use crate::versions::Process;
use crate::world::Circumstances;

/// How soon a change is live in the other process, as long as the store answers.
const SOON: Duration = Duration::from_secs(1);

/// How long after an outage a process may need to reach the store again.
const RECOVERY: Duration = Duration::from_secs(3);

/// The changes of one era, in the order of their numbers.
struct ChangesInOrder<'m> {
    /// Each with when it or a later one was answered first.
    all: Vec<(&'m MadeChange, Moment)>,
}

impl<'m> ChangesInOrder<'m> {
    fn new(made: &'m [MadeChange], is_meant: impl Fn(&MadeChange) -> bool) -> Self {
        let mut changes: Vec<&MadeChange> = made.iter().filter(|change| is_meant(change)).collect();
        changes.sort_by_key(|change| change.version.number);
        let mut all: Vec<(&MadeChange, Moment)> = Vec::with_capacity(changes.len());
        for change in changes.into_iter().rev() {
            let first = all.last().map_or(change.answered, |(_, first)| change.answered.min(*first));
            all.push((change, first));
        }
        all.reverse();
        Self { all }
    }

    /// When a change that this number lacks was answered first.
    fn first_lacking(&self, number: u64) -> Option<Moment> {
        let place = self.all.partition_point(|(change, _)| change.version.number <= number);
        self.all.get(place).map(|(_, first)| *first)
    }
}

/// Judges the versions of all clients' answers. `bound` is what may be added to a second on a busy machine.
pub(crate) fn judge(
    made: &[MadeChange],
    observed: &[Vec<Observed>],
    circumstances: &Circumstances,
    bound: Duration,
) -> Found {
    let mut found = Found::default();
    let mut own = HashMap::<(usize, Process), ChangesInOrder<'_>>::new();
    let all: Vec<ChangesInOrder<'_>> = (0..circumstances.eras.len())
        .map(|era| ChangesInOrder::new(made, |change| change.era == era))
        .collect();
    for observed in observed {
        let mut seen = HashMap::<(usize, Process), u64>::new();
        for observation in observed.iter().filter_map(Observed::decision) {
            let Some(answer) = observation.answer() else { continue };
            let Some(era) = era_of(observation, circumstances) else { continue };
            let (by, number) = (observation.by, answer.version.map_or(0, |version| version.number));
            let last = seen.entry((era, by)).or_default();
            found.expect(*last <= number, || format!("{by:?} goes back from {last} to {number}"));
            *last = (*last).max(number);
            let own = own
                .entry((era, by))
                .or_insert_with(|| ChangesInOrder::new(made, |change| change.era == era && change.by == by));
            let is_late = own.first_lacking(number).is_some_and(|answered| answered < observation.sent);
            found.expect(!is_late, || {
                format!("{by:?} decides by {number} after it has answered a later change: {}", answer.body)
            });
            let Some(answered) = all[era].first_lacking(number) else { continue };
            let lag = observation.sent.since(answered);
            let is_disturbed =
                circumstances.outages.iter().any(|it| it.meets(answered, observation.sent, RECOVERY));
            if !is_disturbed {
                found.figures.lag = found.figures.lag.max(lag);
                let late = SOON + bound + pauses(circumstances, answered, observation.sent);
                found.expect(lag <= late, || {
                    format!("{by:?} decides by {number}, {lag:?} after a later change")
                });
            }
        }
    }
    found
}

/// The era of an answer, if it is certain.
fn era_of(observation: &Observation, circumstances: &Circumstances) -> Option<usize> {
    let eras = &circumstances.eras;
    let era = eras.iter().rposition(|era| era.settled <= observation.sent)?;
    eras.get(era + 1).is_none_or(|next| observation.received < next.begun).then_some(era)
}

/// How long this machine did not run this process in that time.
fn pauses(circumstances: &Circumstances, from: Moment, to: Moment) -> Duration {
    let meeting = circumstances.pauses.iter().filter(|(begun, ended)| *begun <= to && from <= *ended);
    meeting.map(|(begun, ended)| ended.since(*begun)).sum()
}
