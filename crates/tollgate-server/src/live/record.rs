//! What reloads did: values for the log, for metrics and for the operations that report it.

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tollgate::{Clock, SystemClock, Timestamp};

use super::cause::Cause;
use crate::observe::stopwatch::Stopwatch;

/// The number of reloads that are kept.
const MAX_RECORDS: usize = 10;

/// What `/readyz` answers of a source that is not live, for programs that look for it.
pub(crate) const UNUSABLE: &str = "cannot be used";

/// What `/readyz` says of a service that has never received limits.
pub(crate) const NO_LIMITS: &str = "every request is admitted";

/// The outcomes of reloads so far.
#[derive(Debug)]
pub(crate) struct ReloadState {
    /// Runs since the source last matched the live content.
    in_step: Mutex<Stopwatch>,
    replaced: AtomicU64,
    unchanged: AtomicU64,
    failed: AtomicU64,
    /// The last reloads, the latest one last.
    records: Mutex<VecDeque<Arc<ReloadRecord>>>,
}

/// One reload.
#[derive(Debug)]
pub(crate) struct ReloadRecord {
    pub(crate) at: Timestamp,
    pub(crate) cause: Cause,
    /// The version that is live since then.
    pub(crate) version: u64,
    pub(crate) outcome: ReloadOutcome,
}

/// How a reload ended.
#[derive(Debug, Clone)]
pub(crate) enum ReloadOutcome {
    /// New content is live.
    Replaced(Changes),
    /// The source matches the live content.
    Unchanged,
    /// Nothing has changed.
    Failed(Arc<ReloadFailure>),
}

/// What a reload changed: the first changes in words, and the number of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    first: Box<[String]>,
    more: usize,
}

/// Why new content did not become live.
#[derive(Debug)]
pub(crate) struct ReloadFailure {
    text: String,
}

/// Why the reload failed.
#[derive(Debug, Clone, Error)]
#[error("{0}")]
pub(crate) struct ReloadError(pub(super) Arc<ReloadFailure>);

impl Changes {
    /// Returns these changes; `None` if there are none.
    pub(crate) fn of(changes: impl IntoIterator<Item = String>) -> Option<Self> {
        const MAX_SHOWN: usize = 20;
        let mut changes = changes.into_iter();
        let first: Box<[String]> = changes.by_ref().take(MAX_SHOWN).collect();
        (!first.is_empty()).then(|| Self { first, more: changes.count() })
    }

    /// Returns the first changes.
    pub(crate) fn first(&self) -> &[String] {
        &self.first
    }

    /// Returns the number of the others.
    pub(crate) fn more(&self) -> usize {
        self.more
    }

    /// Returns the text with this between two changes. A log line has no room for thousands.
    pub(crate) fn joined(&self, separator: &str) -> String {
        let Self { first, more } = self;
        let text = first.join(separator);
        if *more == 0 { text } else { format!("{text}{separator}and {more} more") }
    }
}

impl ReloadState {
    /// Creates the state of content that has just become live.
    pub(super) fn new() -> Self {
        let (replaced, unchanged, failed, records) = Default::default();
        Self { in_step: Mutex::new(Stopwatch::start()), replaced, unchanged, failed, records }
    }

    /// Adds a reload to those that are kept.
    pub(super) fn add(&self, cause: Cause, version: u64, outcome: ReloadOutcome) -> Arc<ReloadRecord> {
        let (counter, is_in_step) = match &outcome {
            ReloadOutcome::Replaced(_) => (&self.replaced, true),
            ReloadOutcome::Unchanged => (&self.unchanged, true),
            ReloadOutcome::Failed(_) => (&self.failed, false),
        };
        let record = Arc::new(ReloadRecord { at: SystemClock.now(), cause, version, outcome });
        // Stored before it is counted, so that a reader of the count finds the failure.
        let mut records = lock(&self.records);
        if records.len() == MAX_RECORDS {
            records.pop_front();
        }
        records.push_back(Arc::clone(&record));
        drop(records);
        // Relaxed: the counts are independent and guard no other memory.
        counter.fetch_add(1, Ordering::Relaxed);
        if is_in_step {
            *lock(&self.in_step) = Stopwatch::start();
        }
        record
    }

    /// Notes that the source is as it was read last. Unless that was invalid, it matches the live content.
    pub(crate) fn found_in_step(&self) {
        if self.failure().is_none() {
            *lock(&self.in_step) = Stopwatch::start();
        }
    }

    /// Returns the last reloads, the latest one first.
    pub(crate) fn records(&self) -> Vec<Arc<ReloadRecord>> {
        lock(&self.records).iter().rev().cloned().collect()
    }

    /// Returns the time since the source last matched the live content: at most half a minute, unless it cannot be read
    /// or is not valid.
    pub(crate) fn age(&self) -> Duration {
        lock(&self.in_step).elapsed()
    }

    /// Returns why the last version of the source is not live, if so.
    pub(crate) fn failure(&self) -> Option<Arc<ReloadFailure>> {
        self.failed().map(|(_, failure)| failure)
    }

    /// Returns why the last version of the source is not live, and since when.
    pub(crate) fn failed(&self) -> Option<(Timestamp, Arc<ReloadFailure>)> {
        let records = lock(&self.records);
        let last = records.back()?;
        match &last.outcome {
            ReloadOutcome::Failed(failure) => Some((last.at, Arc::clone(failure))),
            ReloadOutcome::Replaced(_) | ReloadOutcome::Unchanged => None,
        }
    }

    /// Returns the number of reloads by outcome.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("replaced", count(&self.replaced)),
            ("unchanged", count(&self.unchanged)),
            ("failed", count(&self.failed)),
        ]
    }
}

impl ReloadFailure {
    pub(super) fn new(text: String) -> Self {
        Self { text }
    }
}

/// Prints every problem of the source, or the reason why it cannot be read.
impl Display for ReloadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Nothing under these locks leaves a half-made change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_first_of_many_changes_and_the_number_of_the_rest() {
        let text =
            |count: usize| Changes::of((0..count).map(|number| number.to_string())).unwrap().joined("; ");
        assert_eq!(text(2), "0; 1");
        assert!(text(20).ends_with("; 19"));
        assert!(text(22).ends_with("; 19; and 2 more"));
        assert_eq!(Changes::of([]), None);
    }

    #[test]
    fn the_last_ten_reloads_are_kept() {
        let state = ReloadState::new();
        for version in 2..=13 {
            let changes = Changes::of([format!("change {version}")]).unwrap();
            state.add(Cause::Watch, version, ReloadOutcome::Replaced(changes));
        }
        let failure = Arc::new(ReloadFailure::new("it is not valid".to_owned()));
        state.add(Cause::Signal, 13, ReloadOutcome::Failed(failure));
        let records = state.records();
        assert_eq!(records.len(), 10);
        assert!(matches!(records[0].outcome, ReloadOutcome::Failed(_)) && records[0].cause == Cause::Signal);
        assert!(
            matches!(&records[9].outcome, ReloadOutcome::Replaced(changes) if changes.joined("") == "change 5")
        );
        assert_eq!(state.failure().unwrap().to_string(), "it is not valid");
        assert_eq!(state.counts(), [("replaced", 12), ("unchanged", 0), ("failed", 1)]);
    }
}
