//! The judge: replays what a client was answered against the books, and against the client's own counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use crate::attributes::Attributes;
use crate::books::{Books, Entry};
use crate::change::Target;
use crate::client::{Act, Answer, AnsweredQuota, Observation};
use crate::expected::{Expectation, ExpectedQuota, Times, UnknownChange, expect, targets};
use crate::found::Found;
use crate::versions::Era;
use crate::world::Circumstances;

/// How far a service's estimate of the store's time may be off, besides the time that the request took.
const OFF: i64 = 20;

/// A counter: policy, key and series.
type CounterName = (&'static str, Vec<(&'static str, String)>, &'static str);

/// The judge of one client.
pub(crate) struct Judge<'b> {
    books: &'b Books,
    circumstances: &'b Circumstances,
    used: HashMap<CounterName, u64>,
    /// Users whose counts are unknown.
    unsure: HashSet<String>,
    found: Found,
}

/// Why an answer does not agree with an expectation.
type Disagreement = String;

impl<'b> Judge<'b> {
    pub(crate) fn new(books: &'b Books, circumstances: &'b Circumstances) -> Self {
        Self { books, circumstances, used: HashMap::new(), unsure: HashSet::new(), found: Found::default() }
    }

    pub(crate) fn judge(mut self, observed: &[Observation]) -> Found {
        for observation in observed {
            let user = &observation.attributes.user;
            let loses = self.circumstances.outages.iter().filter(|outage| outage.loses_counts);
            if loses.into_iter().any(|it| it.meets(observation.sent, observation.received, Duration::ZERO)) {
                self.unsure.insert(user.clone());
            }
            match &observation.answer {
                None => _ = self.unsure.insert(user.clone()),
                Some(answer) => self.judge_answer(observation, answer),
            }
        }
        self.found
    }

    fn judge_answer(&mut self, observation: &Observation, answer: &Answer) {
        self.found.figures.decisions += 1;
        let mut disagreements = Vec::new();
        for era in eras_of(observation, &self.circumstances.eras) {
            for times in possible_times(observation, answer, self.books, era) {
                match self.agrees(observation, answer, era, times) {
                    Ok(Ok(charged)) => return self.charge(observation, answer, charged),
                    Ok(Err(disagreement)) => disagreements.push(format!("{times:?}: {disagreement}")),
                    Err(UnknownChange) => {
                        self.found.figures.unsure += 1;
                        self.unsure.insert(observation.attributes.user.clone());
                        return;
                    }
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
            Expectation::Counted(quotas) => self.counted(observation, answer, &quotas).map(|()| quotas),
        })
    }

    fn counted(
        &self,
        Observation { act, attributes, cost, .. }: &Observation,
        answer: &Answer,
        quotas: &[ExpectedQuota],
    ) -> Result<(), Disagreement> {
        let used =
            |quota: &ExpectedQuota| self.used.get(&counter(quota, attributes)).copied().unwrap_or_default();
        let has_room = quotas.iter().all(|quota| used(quota) + cost <= quota.limit);
        let is_charged = has_room && *act != Act::Peek;
        let expected: BTreeMap<(String, String), AnsweredQuota> = quotas
            .iter()
            .map(|quota| {
                let used = used(quota) + if is_charged { *cost } else { 0 };
                let state = AnsweredQuota { limit: quota.limit, used, by_override: quota.by_override };
                ((quota.policy.to_owned(), quota.series.to_owned()), state)
            })
            .collect();
        let is_unsure = self.unsure.contains(&attributes.user);
        let mut said = answer.quotas.clone();
        for (name, quota) in &mut said {
            let Some(expected) = expected.get(name) else { continue };
            // A denial that a process remembers may be older than the last charge through the other one.
            if is_unsure || answer.is_local && quota.used <= expected.used {
                quota.used = expected.used;
            }
        }
        if said != expected {
            return Err(format!("expected {expected:?}"));
        }
        let ends = quotas.iter().any(|quota| quota.by_override.is_some_and(|until| until.is_some()));
        if answer.is_local && (answer.is_allowed || ends) {
            return Err("only a denial without an end is remembered".to_owned());
        }
        if !is_unsure && answer.is_allowed != has_room {
            return Err(format!("expected allowed: {has_room}"));
        }
        let status = if answer.is_allowed || *act == Act::Peek { 200 } else { 429 };
        let ground = quotas.is_empty().then_some("unlimited");
        if (answer.status, answer.ground.as_deref()) != (status, ground) {
            return Err(format!("expected {status} {ground:?}"));
        }
        Ok(())
    }

    fn charge(&mut self, observation: &Observation, answer: &Answer, quotas: Vec<ExpectedQuota>) {
        let Observation { act, attributes, cost, .. } = observation;
        let figures = &mut self.found.figures;
        let by_override = quotas.iter().any(|quota| quota.by_override.is_some());
        figures.overridden += u64::from(by_override || answer.by_override.is_some());
        figures.unsure += u64::from(self.unsure.contains(&attributes.user));
        let is_near = |until: i64| answer.steps.iter().any(|step| (until - 2..=until + 2).contains(step));
        let number = answer.version.map_or(0, |version| version.number);
        let era = eras_of(observation, &self.circumstances.eras)[0];
        figures.edges += u64::from(ends_of(self.books, era, number, attributes).into_iter().any(is_near));
        if answer.is_allowed && *act != Act::Peek {
            for quota in quotas {
                *self.used.entry(counter(&quota, attributes)).or_default() += cost;
            }
        }
    }
}

fn counter(quota: &ExpectedQuota, attributes: &Attributes) -> CounterName {
    (quota.policy, attributes.key(quota.policy), quota.series)
}

fn denied(
    observation: &Observation,
    answer: &Answer,
    policy: &str,
    until: Option<i64>,
) -> Result<(), Disagreement> {
    let status = if observation.act == Act::Peek { 200 } else { 403 };
    let said = (answer.status, answer.is_allowed, answer.reason.as_deref(), answer.policy.as_deref());
    let expected = (status, false, Some("denied_by_override"), Some(policy));
    if said != expected || answer.by_override != Some(until) || answer.has_wait || !answer.quotas.is_empty() {
        return Err(format!("expected {expected:?} until {until:?} without a wait"));
    }
    Ok(())
}

/// The eras in which the answer may have been made.
fn eras_of(observation: &Observation, eras: &[Era]) -> Vec<usize> {
    let is_possible = |number: &usize| {
        let next = eras.get(number + 1);
        observation.received >= eras[*number].begun
            && next.is_none_or(|next| observation.sent <= next.settled)
    };
    (0..eras.len()).filter(is_possible).collect()
}

/// The times by which the service may have judged ends: those of the step, and all that its estimate may have been at which
/// something changes.
fn possible_times(observation: &Observation, answer: &Answer, books: &Books, era: usize) -> Vec<Times> {
    let (from, to) = (observation.sent.millis() - OFF, observation.received.millis() + OFF);
    let number = answer.version.map_or(0, |version| version.number);
    let ends = ends_of(books, era, number, &observation.attributes);
    let near = ends.into_iter().filter(|end| (from..=to).contains(end)).flat_map(|end| [end - 1, end]);
    let mut estimates: Vec<i64> = near.chain([from, to]).collect();
    estimates.sort_unstable();
    estimates.dedup();
    let steps: Vec<Option<i64>> = match answer.steps.len() {
        0 => vec![None],
        // An answer that is remembered says no time of a step.
        _ if answer.is_local => vec![None],
        _ => answer.steps.iter().copied().map(Some).collect(),
    };
    let times = |step: Option<i64>| estimates.iter().map(move |estimate| Times { step, estimate: *estimate });
    steps.into_iter().flat_map(times).collect()
}

/// The ends of all overrides that meet the request.
fn ends_of(books: &Books, era: usize, number: u64, attributes: &Attributes) -> Vec<i64> {
    let end = |target: &Target| match books.entry(era, number, target) {
        Entry::Override(said) => said.until,
        _ => None,
    };
    targets(attributes).iter().filter_map(end).collect()
}
