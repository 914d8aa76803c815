//! Reads all tallies once a second, and keeps what is new.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tollgate::Timestamp;

use super::counts::{PolicyCounts, SeriesPoint};
use super::event::{Event, EventKind, EventLog};
use super::policy_series::PolicySeries;
use super::recorded_time::{MINUTE, Points, RecordedTime, Tier};
use crate::live::record::{ReloadOutcome, ReloadRecord};
use crate::metrics::ProcessCounts;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Recorder {
    time: RecordedTime,
    policies: HashMap<Box<str>, PolicySeries>,
    total: PolicySeries,
    /// The last readings, and the one before the minute.
    readings: VecDeque<(u64, ProcessCounts)>,
    events: EventLog,
    states: ProcessStates,
    store_down_since: Option<Timestamp>,
}

/// The states of the process whose changes are events.
#[derive(Debug, Default)]
pub(crate) struct ProcessStates {
    /// Whether the shared store answers, if there is one.
    pub(crate) is_store_up: Option<bool>,
    pub(crate) is_leaving: bool,
    pub(crate) are_overrides_stale: bool,
    /// The last reloads, the latest one first.
    pub(crate) reloads: Vec<Arc<ReloadRecord>>,
}

impl Recorder {
    pub(crate) fn new(started: Timestamp) -> Self {
        Self {
            time: RecordedTime::new(started),
            policies: HashMap::new(),
            total: PolicySeries::default(),
            readings: VecDeque::from([(0, ProcessCounts::default())]),
            events: EventLog::default(),
            states: ProcessStates::default(),
            store_down_since: None,
        }
    }

    /// Records the figures of all live policies, unless this second was recorded already.
    pub(crate) fn tick<'a>(
        &mut self,
        now: Timestamp,
        policies: impl Iterator<Item = (&'a str, PolicyCounts)>,
        process: ProcessCounts,
        states: ProcessStates,
    ) {
        let Some(second) = self.time.number_at(now) else { return };
        self.time.advance(second);
        let (mut new, mut live) = (PolicyCounts::default(), 0);
        for (name, counts) in policies {
            live += 1;
            let series = match self.policies.get_mut(name) {
                Some(series) => series,
                None => self.policies.entry(name.into()).or_default(),
            };
            new = new.plus(&series.read(second, &counts));
        }
        if self.policies.len() > live {
            self.policies.retain(|_, series| series.seen == second);
        }
        self.total.add(second, &new);
        self.readings.push_back((second, process));
        while self.readings.get(1).is_some_and(|(number, _)| number + MINUTE as u64 <= second) {
            self.readings.pop_front();
        }
        self.note(now, states);
    }

    fn note(&mut self, now: Timestamp, states: ProcessStates) {
        let last = self.states.reloads.first();
        let is_known = |record: &&Arc<ReloadRecord>| last.is_some_and(|last| Arc::ptr_eq(last, record));
        let new = states.reloads.iter().take_while(|record| !is_known(record));
        for record in new.collect::<Vec<_>>().into_iter().rev() {
            let version = record.version;
            match &record.outcome {
                ReloadOutcome::Replaced(changes) => {
                    let text = format!("version {version}: {}", changes.joined("; "));
                    self.events.add(record.at, EventKind::Reload, text);
                }
                ReloadOutcome::Failed(failure) => {
                    let failure = failure.to_string();
                    let first = failure.lines().next().unwrap_or_default();
                    let text = format!("version {version} stays: {first}");
                    self.events.add(record.at, EventKind::ReloadFailed, text);
                }
                ReloadOutcome::Unchanged => {}
            }
        }
        let was_up = self.states.is_store_up.unwrap_or(true);
        match states.is_store_up.unwrap_or(true) {
            false if was_up => {
                self.store_down_since = Some(now);
                self.events.add(now, EventKind::StoreDown, "the store does not answer");
            }
            true if !was_up => {
                self.store_down_since = None;
                self.events.add(now, EventKind::StoreUp, "the store answers again");
            }
            _ => {}
        }
        match (self.states.are_overrides_stale, states.are_overrides_stale) {
            (false, true) => {
                self.events.add(now, EventKind::OverridesStale, "the overrides cannot be read");
            }
            (true, false) => {
                self.events.add(now, EventKind::OverridesFresh, "the overrides are read again");
            }
            _ => {}
        }
        if states.is_leaving && !self.states.is_leaving {
            self.events.add(now, EventKind::Draining, "the service is about to stop");
        }
        self.states = states;
    }

    pub(crate) fn started(&self) -> Timestamp {
        self.time.started()
    }

    /// Returns the last recorded second, counted from the start.
    pub(crate) fn second(&self) -> u64 {
        self.time.last()
    }

    /// Returns since when the store has not answered, if so.
    pub(crate) fn store_down_since(&self) -> Option<Timestamp> {
        self.store_down_since
    }

    /// Returns the last events, the latest one first.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Returns the series of all policies together.
    pub(crate) fn total(&self) -> &PolicySeries {
        &self.total
    }

    /// Returns the series of a live policy, if it was there at the last tick.
    pub(crate) fn policy(&self, name: &str) -> Option<&PolicySeries> {
        self.policies.get(name)
    }

    /// Returns the figures of the process over the last minute, and its seconds. There are fewer after the start, and
    /// more if the process stood still.
    pub(crate) fn minute(&self) -> (u64, ProcessCounts) {
        let (Some((first, before)), Some((last, now))) = (self.readings.front(), self.readings.back()) else {
            return Default::default();
        };
        (last - first, now.since(before))
    }

    /// Returns how many checks a second there were since the last tick but one.
    pub(crate) fn checks_now(&self) -> u64 {
        let mut readings = self.readings.iter().rev();
        let (Some((last, now)), Some((first, before))) = (readings.next(), readings.next()) else { return 0 };
        now.since(before).checks() / (last - first).max(1)
    }

    /// Returns the points that end after this second; all of them if it is not one of this process.
    pub(crate) fn points(&self, tier: Tier, since: Option<u64>) -> Points {
        self.time.points(tier, since)
    }

    /// Returns when a point begins, in Unix seconds.
    pub(crate) fn begin(&self, tier: Tier, number: u64) -> i64 {
        self.time.begin(tier, number)
    }

    /// Returns a point of a series; `None` if nothing was recorded then.
    pub(crate) fn point(&self, series: &PolicySeries, tier: Tier, number: u64) -> Option<SeriesPoint> {
        self.time.has_data(tier, number).then(|| series.point(tier, number))
    }

    /// Returns how many a series allowed and denied in each second of the last minute, the oldest one first. Those before
    /// the start have no data.
    pub(crate) fn last_minute(&self, series: &PolicySeries) -> [Option<(u32, u32)>; MINUTE] {
        let mut decided = [None; MINUTE];
        let seconds = self.time.last_minute().zip(series.decided());
        for (place, (has_data, counts)) in decided.iter_mut().zip(seconds) {
            *place = has_data.then_some(counts);
        }
        decided
    }
}
