//! The judge: replays what a client was answered against the books, and against the client's own counts.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::agreement::{Disagreement, counted, denied};
use crate::answer::Answer;
use crate::books::{Books, Entry};
use crate::change::Target;
use crate::expected::{Expectation, ExpectedQuota, Times, UnknownChange, expect, targets};
use crate::found::Found;
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::observation::{Act, Observation, Observed, Outcome, Settlement};
use crate::possible::{ends_of, eras_of, estimates, possible_times, possible_versions};
use crate::versions::Process;
use crate::world::Circumstances;

/// The judge of one client.
pub(crate) struct Judge<'b> {
    books: &'b Books,
    circumstances: &'b Circumstances,
    ledger: Ledger,
    /// Users whose counts are unknown.
    unsure: HashSet<String>,
    /// For each user, the last settlement through each process that gave units back.
    given_back: HashMap<String, HashMap<Process, Moment>>,
    found: Found,
}

/// How long a process may deny by what it remembers, before it asks the store again (G9).
const REMEMBERED: Duration = Duration::from_secs(1);

impl<'b> Judge<'b> {
    pub(crate) fn new(books: &'b Books, circumstances: &'b Circumstances) -> Self {
        Self {
            books,
            circumstances,
            ledger: Ledger::default(),
            unsure: HashSet::new(),
            given_back: HashMap::new(),
            found: Found::default(),
        }
    }

    pub(crate) fn judge(mut self, observed: &[Observed]) -> Found {
        let versions = possible_versions(observed, &self.circumstances.eras, |era| self.books.last(era));
        for (place, observed) in observed.iter().enumerate() {
            let (user, (sent, received)) = (observed.user().to_owned(), observed.time());
            let mut loses = self.circumstances.outages.iter().filter(|outage| outage.loses_counts);
            if loses.any(|it| it.meets(sent, received, Duration::ZERO)) {
                self.unsure.insert(user.clone());
            }
            match observed {
                Observed::Settlement(settlement) => self.judge_settlement(settlement),
                Observed::Decision(observation) => match &observation.outcome {
                    Outcome::Unknown => _ = self.unsure.insert(user),
                    Outcome::NeedsHold => self.judge_refusal(observation, versions.get(&place)),
                    Outcome::Decided(answer) => self.judge_answer(place, observation, answer),
                },
            }
        }
        self.found
    }

    fn judge_answer(&mut self, place: usize, observation: &Observation, answer: &Answer) {
        self.found.figures.decisions += 1;
        let mut disagreements = Vec::new();
        for era in eras_of(observation, &self.circumstances.eras) {
            for times in possible_times(observation, answer, self.books, era) {
                match self.agrees(observation, answer, era, times) {
                    Ok(Ok(charged)) => return self.charge(place, observation, answer, charged),
                    Ok(Err(disagreement)) => disagreements.push(format!("{times:?}: {disagreement}")),
                    Err(UnknownChange) => return self.leave(&observation.attributes.user),
                }
            }
        }
        self.unsure.insert(observation.attributes.user.clone());
        disagreements.sort();
        disagreements.dedup();
        let Observation { act, attributes, cost, by, sent, received, .. } = observation;
        let known = self.known_of(observation, answer);
        self.found.violations.push(format!(
            "{act:?} of {cost} by {by:?} in {}..{}, {attributes:?}: {} {}\n  {}\n  the books say {known}",
            sent.millis(),
            received.millis(),
            answer.status,
            answer.body,
            disagreements.join("\n  "),
        ));
    }

    /// Judges a check that was refused because it needs a hold, under one of the versions that its process may have had.
    fn judge_refusal(&mut self, observation: &Observation, versions: Option<&(usize, RangeInclusive<u64>)>) {
        self.found.figures.decisions += 1;
        let attributes = &observation.attributes;
        let Some((era, numbers)) = versions else { return self.leave(&attributes.user) };
        for number in numbers.clone() {
            for estimate in estimates(observation, self.books, *era, number) {
                let times = Times { step: None, estimate };
                match expect(attributes, times, |target| self.books.entry(*era, number, target)) {
                    Ok(Expectation::Counted(quotas)) if quotas.iter().any(ExpectedQuota::is_in_flight) => {
                        self.found.figures.overridden +=
                            u64::from(quotas.iter().any(|quota| quota.by_override.is_some()));
                        return;
                    }
                    Ok(_) => {}
                    Err(UnknownChange) => return self.leave(&attributes.user),
                }
            }
        }
        self.found.violations.push(format!(
            "a check by {:?} with {attributes:?} needs a hold under none of the versions {numbers:?}",
            observation.by
        ));
    }

    /// Goes on without knowing what the user has used.
    fn leave(&mut self, user: &str) {
        self.found.figures.unsure += 1;
        self.unsure.insert(user.to_owned());
    }

    fn judge_settlement(&mut self, settlement: &Settlement) {
        let Settlement { user, reserved, actual, by, received, changed, .. } = settlement;
        let expected = self.ledger.settle(*reserved, *actual);
        if expected.iter().flatten().any(|quota| quota.given > 0) {
            self.given_back.entry(user.clone()).or_default().insert(*by, *received);
        }
        let Some(changed) = changed else {
            self.unsure.insert(user.clone());
            return;
        };
        if self.unsure.contains(user) {
            return;
        }
        self.found.figures.settled += 1;
        let mut changed = changed.clone();
        if let Ok(changed) = &mut changed {
            changed.sort();
        }
        self.found.expect(changed.as_ref().ok() == expected.as_ref(), || {
            format!("a hold is settled at {actual}: {changed:?}, and not {expected:?}")
        });
    }

    /// What the version of the answer says of the request, for people.
    fn known_of(&self, observation: &Observation, answer: &Answer) -> String {
        let number = answer.version.map_or(0, |version| version.number);
        let eras = eras_of(observation, &self.circumstances.eras);
        let all = targets(&observation.attributes);
        let said = |target: &Target| match self.books.entry(eras[0], number, target) {
            Entry::Override(said) => Some(format!("{target:?}: {said:?}")),
            Entry::Unknown => Some(format!("{target:?}: unknown")),
            Entry::Nothing => None,
        };
        all.iter().filter_map(said).collect::<Vec<_>>().join(", ")
    }

    /// Whether the answer is what these times lead to. Returns the quotas that were counted.
    fn agrees(
        &self,
        observation: &Observation,
        answer: &Answer,
        era: usize,
        times: Times,
    ) -> Result<Result<Vec<ExpectedQuota>, Disagreement>, UnknownChange> {
        let number = match answer.version {
            Some(version) if Some(version.epoch) != self.books.epoch(era) => {
                return Ok(Err("another epoch".to_owned()));
            }
            version => version.map_or(0, |version| version.number),
        };
        let expected =
            expect(&observation.attributes, times, |target| self.books.entry(era, number, target))?;
        Ok(match expected {
            Expectation::Denied { policy, until } => {
                denied(observation, answer, policy, until).map(|()| vec![])
            }
            Expectation::Counted(quotas) => {
                let attributes = &observation.attributes;
                let is_unsure = self.unsure.contains(&attributes.user)
                    || answer.is_local && self.may_remember_more(observation);
                let used =
                    (!is_unsure).then_some(|quota: &ExpectedQuota| self.ledger.used(quota, attributes));
                counted(observation, answer, &quotas, used).map(|()| quotas)
            }
        })
    }

    /// Whether the process of this answer may remember more usage than there is, because another one has given units back.
    fn may_remember_more(&self, observation: &Observation) -> bool {
        let given_back = self.given_back.get(&observation.attributes.user);
        let mut others = given_back.into_iter().flatten().filter(|(process, _)| **process != observation.by);
        others.any(|(_, settled)| observation.sent <= settled.later(REMEMBERED))
    }

    fn charge(
        &mut self,
        place: usize,
        observation: &Observation,
        answer: &Answer,
        quotas: Vec<ExpectedQuota>,
    ) {
        let Observation { act, attributes, cost, .. } = observation;
        let figures = &mut self.found.figures;
        let by_override = quotas.iter().any(|quota| quota.by_override.is_some());
        figures.overridden += u64::from(by_override || answer.by_override.is_some());
        figures.unsure += u64::from(self.unsure.contains(&attributes.user));
        let is_near = |until: i64| answer.steps.iter().any(|step| (until - 2..=until + 2).contains(step));
        let number = answer.version.map_or(0, |version| version.number);
        let era = eras_of(observation, &self.circumstances.eras)[0];
        let is_edge = ends_of(self.books, era, number, attributes).into_iter().any(is_near);
        figures.edges += u64::from(is_edge);
        figures.reserved_edges += u64::from(is_edge && *act == Act::Reserve);
        figures.in_flight += u64::from(quotas.iter().any(ExpectedQuota::is_in_flight));
        if answer.is_allowed && *act != Act::Peek {
            self.ledger.charge(&quotas, attributes, *cost);
            if *act == Act::Reserve {
                self.ledger.hold(place, quotas, attributes, *cost);
            }
        }
    }
}
