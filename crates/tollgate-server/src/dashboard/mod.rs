//! The live page and its data: what an operator sees of this process while it runs.
//!
//! `page` has the files of the page. They hold no data: the page reads all of it from the operations in
//! [`http::dashboard`](crate::http). `series` has figures over time, `trial_book` those of trials since they began,
//! `override_counts` how many overrides apply, and `viewers` bounds how often they are asked for.
//! Nothing here is on the way of a check.

mod override_counts;
pub(crate) mod page;
mod policy_texts;
pub(crate) mod series;
mod shared_answer;
mod trial_book;
mod viewers;
pub(crate) mod what_if;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::{Clock, SystemClock, Timestamp};
use tollgate_policy::PolicySet;

pub(crate) use self::override_counts::OverrideCounts;
use self::page::PageFiles;
pub(crate) use self::policy_texts::{PolicyText, PolicyTexts};
use self::series::{PolicyCounts, ProcessStates, Recorder};
pub(crate) use self::shared_answer::SharedAnswer;
pub(crate) use self::trial_book::{RunningTrial, TrialBook};
pub(crate) use self::viewers::Viewers;
use self::what_if::WhatIf;
use crate::metrics::{MetricSources, Snapshot};
use crate::net::drain::Phase;
use crate::observe::live_warnings::LiveWarnings;
use crate::talkers::Talkers;
/// The page, and the data that only it needs.
pub(crate) struct Dashboard {
    pub(crate) page: PageFiles,
    /// The name of this machine.
    pub(crate) host: Box<str>,
    /// The kind of the shared store, if there is one.
    pub(crate) store_kind: Option<&'static str>,
    pub(crate) warnings: LiveWarnings,
    /// The answer that all viewers share for a second.
    pub(crate) live: SharedAnswer,
    pub(crate) viewers: Viewers,
    pub(crate) what_if: WhatIf,
    figures: Arc<MetricSources>,
    phase: Phase,
    recorder: Mutex<Recorder>,
    trials: Mutex<TrialBook>,
    overrides: Mutex<OverrideCounts>,
    texts: Mutex<PolicyTexts>,
    /// `None` if none are counted.
    pub(crate) talkers: Option<Arc<Talkers>>,
}

impl Dashboard {
    pub(crate) fn new(
        figures: Arc<MetricSources>,
        phase: Phase,
        warnings: LiveWarnings,
        store_kind: Option<&'static str>,
    ) -> Self {
        Self {
            page: PageFiles::new(),
            host: host(),
            store_kind,
            warnings,
            live: SharedAnswer::default(),
            viewers: Viewers::default(),
            what_if: WhatIf::default(),
            figures,
            phase,
            recorder: Mutex::new(Recorder::new(SystemClock.now())),
            trials: Mutex::default(),
            overrides: Mutex::default(),
            texts: Mutex::default(),
            talkers: None,
        }
    }

    pub(crate) fn with_talkers(self, talkers: Option<Arc<Talkers>>) -> Self {
        Self { talkers, ..self }
    }

    /// Returns the figures of metrics as they are now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.figures.snapshot()
    }

    /// Returns the figures over time.
    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        // Nothing under this lock leaves a half-made change.
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the figures of trials.
    pub(crate) fn trials(&self) -> MutexGuard<'_, TrialBook> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many overrides apply to these policies now.
    pub(crate) fn override_counts(&self, live: &PolicySet) -> MutexGuard<'_, OverrideCounts> {
        let mut counts = self.overrides.lock().unwrap_or_else(PoisonError::into_inner);
        counts.renew(live);
        counts
    }

    /// Returns what is written about policies.
    pub(crate) fn texts(&self) -> MutexGuard<'_, PolicyTexts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the figures at the end of each second.
    pub(crate) async fn keep_recording(&self) {
        const SECOND: Duration = Duration::from_secs(1);
        let started = self.recorder().started();
        loop {
            let elapsed = SystemClock.now().since(started);
            // By the clock of the series, so that the two never drift apart.
            tokio::time::sleep(SECOND - Duration::from_nanos(elapsed.subsec_nanos().into())).await;
            self.record(SystemClock.now());
        }
    }

    fn record(&self, now: Timestamp) {
        self.talkers.iter().for_each(|talkers| talkers.keep_samples(now));
        let snapshot = self.snapshot();
        let states = ProcessStates {
            is_store_up: snapshot.shared.as_ref().map(|(shared, _)| shared.is_up()),
            is_leaving: self.phase.is_leaving(),
            are_overrides_stale: snapshot.overrides.as_ref().is_some_and(|figures| figures.is_stale),
            reloads: snapshot.policies.reloads.as_ref().map(|state| state.records()).unwrap_or_default(),
        };
        let process = snapshot.process_counts();
        let mut recorder = self.recorder();
        match &snapshot.envoy {
            None => {
                self.trials().look(now, &snapshot.policies.live);
                let tallies = snapshot.policies.live.tally();
                let counts = tallies.map(|(policy, tally)| (policy.name(), PolicyCounts::of(&tally)));
                recorder.tick(now, counts, process, states);
            }
            Some(envoy) => {
                let verdicts = envoy.live.verdicts();
                let counts = verdicts.map(|(domain, verdicts)| {
                    (domain, PolicyCounts::of_verdicts(verdicts.allowed, verdicts.denied))
                });
                recorder.tick(now, counts, process, states);
            }
        }
    }
}

/// Returns the name of this machine, or of the container; empty if the system does not tell it in a file.
fn host() -> Box<str> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().into()
}
