//! Keeps the overrides of a process in step with those of the store.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time;
use tollgate::StoreError;
use tollgate_policy::{OverrideSet, OverridesVersion, PolicyLimiter};
use tollgate_redis::{LoggedChange, ReadState, RecordsUpdate, RecordsVersion, SharedRecords};
use tracing::{debug, info, warn};

use super::freshness::Freshness;
use super::progress::ReadProgress;
use super::whole_load::WholeLoad;
use crate::observe::log_gap::LogGap;
use crate::observe::stopwatch::Stopwatch;
use crate::overrides::applied_change::AppliedChange;
use crate::overrides::store_clock::StoreClock;
use crate::overrides::text::UnknownName;
use crate::store::ServedStore;

/// The time between the beginnings of two reads. It varies by a little, so that processes that started together do not
/// read together.
const GAP: Duration = Duration::from_millis(250);

/// How much shorter a gap may be, in milliseconds.
const JITTER: u64 = 25;

/// How long a read may take. A shared store has its own deadline for decisions, and this is none.
const READ: Duration = Duration::from_millis(500);

/// How long a page of all overrides may take. After each failure, the next try has twice as long, up to the longest: a
/// server that hangs must not hold up the reads that follow, and a slow link may need more.
const LOAD: Duration = Duration::from_secs(5);
const LONGEST_LOAD: Duration = Duration::from_secs(80);

/// The time between two sweeps of a process, at least; the longest is twice as long.
const SWEEP_GAP: Duration = Duration::from_secs(30);

/// How long a sweep may take.
const SWEEP: Duration = Duration::from_secs(1);

/// The pause in the log after a line about another load.
const AGAIN_GAP: Duration = Duration::from_secs(10);

/// The pause in the log after a line about records that are no overrides.
const LOG_GAP: Duration = Duration::from_secs(600);

/// See the [module](self).
pub(in crate::overrides) struct Follower {
    records: SharedRecords,
    limiter: Arc<PolicyLimiter<ServedStore>>,
    clock: Arc<StoreClock>,
    pub(super) freshness: Freshness,
    pub(super) progress: ReadProgress,
    /// Wakes the task before its time.
    wake: Notify,
    loads: AtomicU64,
    again_logged: LogGap,
    foreign_logged: LogGap,
}

/// How far the task has come.
struct Position {
    /// `None` before the first load.
    known: Option<ReadState>,
    /// How long a page of the next load may take.
    load: Duration,
}

impl Follower {
    pub(super) fn new(
        records: SharedRecords,
        limiter: Arc<PolicyLimiter<ServedStore>>,
        clock: Arc<StoreClock>,
    ) -> Self {
        Self {
            records,
            limiter,
            clock,
            freshness: Freshness::default(),
            progress: ReadProgress::default(),
            wake: Notify::new(),
            loads: AtomicU64::new(0),
            again_logged: LogGap::default(),
            foreign_logged: LogGap::default(),
        }
    }

    pub(super) const fn records(&self) -> &SharedRecords {
        &self.records
    }

    /// Returns how often all overrides were loaded.
    pub(super) fn loads(&self) -> u64 {
        // Relaxed: a figure that guards no other memory.
        self.loads.load(Ordering::Relaxed)
    }

    /// Makes what others have changed until now live, as far as this is possible within this time. Returns whether it is.
    pub(super) async fn catch_up(&self, within: Duration) -> bool {
        let live = self.progress.next_live(within);
        self.wake.notify_one();
        live.await
    }

    /// Follows the changes until it is dropped.
    pub(in crate::overrides) async fn follow(&self) {
        let mut position = Position { known: None, load: LOAD };
        loop {
            let began = Stopwatch::start();
            self.read_noted(&mut position).await;
            let gap = GAP - Duration::from_millis(fastrand::u64(..=JITTER));
            tokio::select! {
                () = time::sleep(gap.saturating_sub(began.elapsed())) => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// Deletes overrides that have ended, now and then.
    pub(in crate::overrides) async fn keep_sweeping(&self) {
        loop {
            time::sleep(SWEEP_GAP + SWEEP_GAP.mul_f64(fastrand::f64())).await;
            // The next one tries again, and failures of reads are in the log.
            if let Err(error) = self.records.sweep(SWEEP).await {
                debug!(%error, "no sweep of overrides that have ended");
            }
        }
    }

    /// Reads, and notes the result.
    async fn read_noted(&self, position: &mut Position) {
        let number = self.progress.begin();
        let mut reading = pin!(self.read(position));
        let read = loop {
            tokio::select! {
                biased;
                read = &mut reading => break read,
                // To load all of them may take longer.
                () = time::sleep(GAP) => self.tell(),
            }
        };
        match &read {
            Ok(last) => self.freshness.note_read(*last),
            Err(error) => self.freshness.note_failure(error),
        }
        self.tell();
        self.progress.end(number, read.is_ok());
    }

    fn tell(&self) {
        self.freshness.tell(|| self.limiter.live().overrides().version());
    }

    /// Makes all changes until now live. Returns when the last call for them began: to load all may take long before it.
    async fn read(&self, position: &mut Position) -> Result<Stopwatch, StoreError> {
        loop {
            let call = Stopwatch::start();
            match self.records.read(position.known.as_ref(), READ).await? {
                RecordsUpdate::Changes { state, changes, is_more, now } => {
                    self.clock.note(now, call.elapsed());
                    self.apply(changes, state.version());
                    position.known = Some(state);
                    if !is_more {
                        return Ok(call);
                    }
                }
                RecordsUpdate::Reload { now } => {
                    self.clock.note(now, call.elapsed());
                    self.load(position).await?;
                }
            }
        }
    }

    /// Makes a page of changes live, as one set.
    fn apply(&self, changes: Vec<LoggedChange>, version: RecordsVersion) {
        if changes.is_empty() {
            return;
        }
        let known = changes.into_iter().filter_map(|change| match AppliedChange::of(change) {
            Ok(change) => Some(change),
            Err(UnknownName(name)) => {
                self.note_foreign(&name);
                None
            }
        });
        let known: Vec<AppliedChange> = known.collect();
        self.limiter.replace_overrides(|set, policies| {
            let changed = known.into_iter().fold(set.clone(), |set, change| match change {
                AppliedChange::Set(record) => set.with(*record, policies),
                AppliedChange::Delete(name) => set.without(&name),
            });
            at_version(changed, version)
        });
    }

    /// Loads all overrides and makes them live.
    async fn load(&self, position: &mut Position) -> Result<(), StoreError> {
        if position.known.is_some() && self.again_logged.passes(AGAIN_GAP) {
            warn!("all overrides are read again: the store has lost changes, or this process was far behind");
        }
        let (loading, within) = (Stopwatch::start(), position.load);
        position.load = LONGEST_LOAD.min(within * 2);
        let WholeLoad { whole, foreign } = WholeLoad::read(&self.records, &self.limiter, within).await?;
        self.loads.fetch_add(1, Ordering::Relaxed);
        (position.known, position.load) = (Some(whole.state), LOAD);
        for damaged in whole.damaged {
            warn!(%damaged, "an override in the store is damaged and does not apply: set or delete it again");
        }
        foreign.iter().for_each(|UnknownName(name)| self.note_foreign(name));
        let (overrides, elapsed) = (whole.records, loading.elapsed());
        match overrides {
            0 => debug!("there are no overrides"),
            _ => info!(overrides, ?elapsed, "all overrides are read"),
        }
        Ok(())
    }

    /// Notes a record that is no override. Only a later version of this program can have written it.
    fn note_foreign(&self, name: &str) {
        if self.foreign_logged.passes(LOG_GAP) {
            warn!(name, "the store has an override whose name this version cannot read: it does not apply");
        }
    }
}

fn at_version(overrides: OverrideSet, version: RecordsVersion) -> OverrideSet {
    overrides.at_version(OverridesVersion { epoch: version.epoch, number: version.number })
}
