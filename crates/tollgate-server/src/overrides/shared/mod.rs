//! Overrides that are kept in a shared store: changes go to the store, and come back from it like those of others.

mod follower;
mod freshness;
mod progress;
mod whole_load;

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock as _, StoreError};
use tollgate_policy::{OverrideRecord, OverridesVersion, PolicyLimiter};
use tollgate_redis::{ChangeAnswer, RecordChange, RecordsVersion, SharedRecords};

use self::follower::Follower;
use super::change::{OverrideChange, OverridesError, WantedChange, WantedKind};
use super::status::OverridesStatus;
use super::store_clock::StoreClock;
use super::text::{RecordText, read_record};
use crate::store::ServedStore;

/// How long a change may take.
const CHANGE: Duration = Duration::from_secs(1);

/// How long the start waits for the overrides. It is long enough for a million overrides over a slow
/// link: a service that started without them would admit the customers whom they deny. If the store cannot be reached,
/// the wait is over much sooner, with an error.
const FIRST_READ: Duration = Duration::from_secs(10);

/// Changes overrides in the store, and follows them.
pub(super) struct SharedKeeper {
    follower: Follower,
    clock: Arc<StoreClock>,
    max_overrides: u64,
}

impl SharedKeeper {
    /// The limiter has no overrides yet, and estimates the store's time by this clock.
    pub(super) fn new(
        records: SharedRecords,
        limiter: Arc<PolicyLimiter<ServedStore>>,
        clock: Arc<StoreClock>,
        max_overrides: u64,
    ) -> Self {
        Self { follower: Follower::new(records, limiter, Arc::clone(&clock)), clock, max_overrides }
    }

    /// Makes a change: once this returns, it is live in this process.
    pub(super) async fn change(&self, wanted: WantedChange) -> Result<OverrideChange, OverridesError> {
        let WantedChange { kind, matching } = wanted;
        let id = kind.name().to_string();
        let (set, text) = match kind {
            WantedKind::Set(set) => {
                let end = set.end;
                let record = set.into_record(None, self.clock.now(), 0);
                let text = RecordText::of(&record).to_json();
                (Some((record, end)), text)
            }
            WantedKind::Delete(_) => (None, String::new()),
        };
        let change = match &set {
            Some((_, end)) => RecordChange::Set { name: &id, text: &text, end: *end },
            None => RecordChange::Delete { name: &id },
        };
        let answer = self.follower.records().change(change, matching, self.max_overrides, CHANGE).await;
        let (version, until, existed) = match answer.map_err(of_store)? {
            ChangeAnswer::Made { version, until, existed, .. } => (version, until, existed),
            ChangeAnswer::Mismatch { current, version } => {
                let current = current.and_then(|record| read_record(record).ok());
                let version = of_records(version);
                return Err(OverridesError::Mismatch { current: current.map(Box::new), version });
            }
            ChangeAnswer::TooMany => return Err(OverridesError::TooMany(self.max_overrides)),
            ChangeAnswer::EndPassed { now } => return Err(OverridesError::EndPassed { now }),
        };
        if !self.follower.catch_up(CHANGE).await {
            return Err(OverridesError::NotLive);
        }
        let record = set.map(|(record, _)| OverrideRecord { until, version: version.number, ..record });
        Ok(OverrideChange { version: of_records(version), record, existed })
    }

    /// Waits until the overrides are live, or until they cannot be read, for ten seconds at most.
    pub(super) async fn first_read(&self) {
        self.follower.progress.first(FIRST_READ).await;
    }

    /// Follows the store until it is dropped.
    pub(super) async fn follow(&self) {
        tokio::join!(self.follower.follow(), self.follower.keep_sweeping());
    }

    pub(super) fn status(&self, version: Option<OverridesVersion>) -> OverridesStatus {
        self.follower.freshness.status(version)
    }

    /// Returns how often all overrides were loaded.
    pub(super) fn loads(&self) -> u64 {
        self.follower.loads()
    }
}

fn of_records(version: RecordsVersion) -> OverridesVersion {
    OverridesVersion { epoch: version.epoch, number: version.number }
}

fn of_store(error: StoreError) -> OverridesError {
    let may_be_made = error.may_have_charged();
    OverridesError::Store { error, may_be_made }
}
