//! Changes of overrides that are kept in a file: one thread makes them one after another.
//!
//! Changes that come at the same time are written together, with one wait for the disk.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time;
use tollgate::Clock;
use tollgate_policy::{OverrideName, OverrideRecord, OverridesVersion, PolicyLimiter};
use tollgate_redis::{RecordEnd, RecordMatch};
use tracing::warn;

use super::change::{OverrideChange, OverridesError, WantedChange, WantedKind};
use super::journal::{
    JournalChange, JournalFailure, JournalFile, JournalRecord, JournalSnapshot, OpenJournal, SnapshotStart,
    line_length,
};
use crate::store::ServedStore;

/// How many changes may wait, and how many are written together at most.
const WAITING: usize = 1024;

/// The time between two looks for overrides that have ended.
const SWEEP_GAP: Duration = Duration::from_secs(10);

/// How many overrides one look passes.
const SWEEP_STEP: usize = 20_000;

/// How many it deletes at most.
const SWEPT: usize = 1_000;

/// Time is in whole milliseconds.
const ALMOST_A_MILLISECOND: Duration = Duration::from_nanos(999_999);

/// How long an override is kept after its end. The clock may step back a little.
const KEPT: Duration = Duration::from_secs(10);

/// Sends changes to the thread that makes them. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct JournalKeeper {
    requests: mpsc::Sender<JournalRequest>,
}

type Answer = oneshot::Sender<Result<OverrideChange, OverridesError>>;

#[derive(Debug)]
enum JournalRequest {
    Change(WantedChange, Answer),
    Sweep,
    /// A new file was written.
    Written(SnapshotStart, io::Result<JournalSnapshot>),
}

/// What the thread has.
struct JournalWriter {
    file: JournalFile,
    limiter: Arc<PolicyLimiter<ServedStore>>,
    clock: Arc<dyn Clock>,
    max_overrides: u64,
    /// By which it gets what other threads have done. It does not keep the thread running.
    requests: mpsc::WeakSender<JournalRequest>,
    /// The last override that a sweep has passed.
    swept: Option<OverrideName>,
    is_writing_anew: bool,
    /// How long the journal has to be before a new one is tried again, after one has failed.
    tried_at: u64,
}

/// Changes that are about to be written together.
#[derive(Default)]
struct ChangeGroup {
    /// The overrides that they set or delete, as they will be.
    pending: HashMap<OverrideName, Option<OverrideRecord>>,
    changes: Vec<JournalChange>,
    /// The bytes of the lines that do not hold after them.
    freed: u64,
    /// How many overrides there will be more, or less.
    growth: i64,
    answers: Vec<(Answer, Result<OverrideChange, OverridesError>)>,
}

impl JournalKeeper {
    /// Makes the overrides of the file live, and starts the thread.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub(super) fn start(
        journal: OpenJournal,
        limiter: Arc<PolicyLimiter<ServedStore>>,
        clock: Arc<dyn Clock>,
        max_overrides: u64,
    ) -> io::Result<Self> {
        journal.log();
        let (file, records) = journal.into_records()?;
        put_live(&limiter, records, file.version())?;
        let (requests, mut incoming) = mpsc::channel(WAITING);
        let mut writer = JournalWriter {
            file,
            limiter,
            clock,
            max_overrides,
            requests: requests.downgrade(),
            swept: None,
            is_writing_anew: false,
            tried_at: 0,
        };
        thread::Builder::new().name("overrides".into()).spawn(move || {
            let mut group = Vec::new();
            while let Some(request) = incoming.blocking_recv() {
                group.push(request);
                while group.len() < WAITING
                    && let Ok(request) = incoming.try_recv()
                {
                    group.push(request);
                }
                writer.handle(group.drain(..));
            }
        })?;
        Ok(Self { requests })
    }

    /// Makes a change: once this returns, it is on the disk and live.
    pub(super) async fn change(&self, wanted: WantedChange) -> Result<OverrideChange, OverridesError> {
        let (answer, answered) = oneshot::channel();
        let stopped = || OverridesError::Journal {
            error: "the thread that writes changes has stopped".into(),
            may_be_made: true,
        };
        self.requests.send(JournalRequest::Change(wanted, answer)).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    /// Deletes overrides that have ended, now and then.
    pub(super) async fn keep_sweeping(&self) {
        loop {
            time::sleep(SWEEP_GAP).await;
            self.sweep().await;
        }
    }

    /// Has the next overrides looked at, and those deleted that ended a while ago.
    pub(super) async fn sweep(&self) {
        // Without a receiver, the thread has stopped, and changes are errors that say so.
        let _ = self.requests.send(JournalRequest::Sweep).await;
    }
}

impl JournalWriter {
    fn handle(&mut self, requests: impl Iterator<Item = JournalRequest>) {
        let mut group = ChangeGroup::default();
        for request in requests {
            match request {
                JournalRequest::Change(wanted, answer) => {
                    let made = self.add(&mut group, wanted);
                    group.answers.push((answer, made));
                }
                JournalRequest::Sweep => self.sweep(&mut group),
                JournalRequest::Written(start, snapshot) => self.move_to(start, snapshot),
            }
        }
        self.make(group);
        self.write_anew_if_long();
    }

    /// Adds a change to those that are written together, if it can be made.
    fn add(&self, group: &mut ChangeGroup, wanted: WantedChange) -> Result<OverrideChange, OverridesError> {
        let (live, now) = (self.limiter.live(), self.clock.now());
        let WantedChange { kind, matching } = wanted;
        let name = kind.name();
        let current = match group.pending.get(name) {
            Some(pending) => pending.clone(),
            None => live.overrides().get(name).map(|entry| entry.record()),
        };
        let version = group.version(&self.file);
        let is_match = match (matching, &current) {
            (RecordMatch::Any, current) => current.is_some() || matches!(kind, WantedKind::Set(_)),
            (RecordMatch::Absent, current) => current.is_none() && matches!(kind, WantedKind::Set(_)),
            (RecordMatch::Version { epoch, number }, Some(current)) => {
                (epoch, number) == (version.epoch, current.version)
            }
            (RecordMatch::Version { .. }, None) => false,
        };
        if !is_match {
            return Err(OverridesError::Mismatch { current: current.map(Box::new), version });
        }
        let version = OverridesVersion { number: version.number + 1, ..version };
        let existed = current.is_some();
        let record = match kind {
            WantedKind::Delete(name) => {
                group.delete(name, current.as_ref(), version);
                None
            }
            WantedKind::Set(set) => {
                let overrides = (live.overrides().len() as u64).saturating_add_signed(group.growth);
                if !existed && overrides >= self.max_overrides {
                    return Err(OverridesError::TooMany(self.max_overrides));
                }
                let until = match set.end {
                    RecordEnd::Never => None,
                    RecordEnd::At(time) => Some(time),
                    // Rounded up, as a shared store does.
                    RecordEnd::After(length) => Some(now + length.saturating_add(ALMOST_A_MILLISECOND)),
                };
                if until.is_some_and(|until| until <= now) {
                    return Err(OverridesError::EndPassed { now });
                }
                let record = set.into_record(until, now, version.number);
                group.set(record.clone(), current.as_ref());
                Some(record)
            }
        };
        Ok(OverrideChange { version, record, existed })
    }

    /// Takes the changes to the disk, makes them live, and answers.
    fn make(&mut self, group: ChangeGroup) {
        let ChangeGroup { pending, changes, freed, answers, .. } = group;
        if !changes.is_empty() {
            if let Err(failure) = self.file.append(&changes, freed) {
                // Answers about other changes of the group may not be true without those that failed.
                answers.into_iter().for_each(|(answer, _)| drop(answer.send(Err(failed(&failure)))));
                return;
            }
            let version = self.file.version();
            self.limiter.replace_overrides(|set, policies| {
                let changed = pending.into_iter().fold(set.clone(), |set, (name, record)| match record {
                    Some(record) => set.with(record, policies),
                    None => set.without(&name),
                });
                changed.at_version(version)
            });
        }
        // Who has left does not want the answer.
        answers.into_iter().for_each(|(answer, made)| drop(answer.send(made)));
    }

    /// Deletes overrides that ended a while ago, of the next ones in their order.
    fn sweep(&mut self, group: &mut ChangeGroup) {
        let (live, last) = (self.limiter.live(), self.clock.now() - KEPT);
        let mut passed = 0;
        let mut at = None;
        for entry in live.overrides().after(self.swept.as_ref(), None).take(SWEEP_STEP) {
            passed += 1;
            let name = entry.name();
            if entry.until().is_some_and(|until| until <= last) && !group.pending.contains_key(&name) {
                let version = group.version(&self.file);
                let version = OverridesVersion { number: version.number + 1, ..version };
                group.delete(name.clone(), Some(&entry.record()), version);
            }
            at = Some(name);
            if group.changes.len() >= SWEPT {
                passed = SWEEP_STEP;
                break;
            }
        }
        // After the last one, it begins again.
        self.swept = at.filter(|_| passed == SWEEP_STEP);
    }

    /// Has a new journal written, if this one has become long. Changes go on meanwhile.
    fn write_anew_if_long(&mut self) {
        let live = self.limiter.live();
        let overrides = live.overrides().len() as u64;
        if self.is_writing_anew || !self.file.is_long(self.tried_at) {
            return;
        }
        let (start, requests) = (self.file.begin_snapshot(overrides), self.requests.clone());
        let writing = thread::Builder::new().name("overrides-anew".into()).spawn(move || {
            let records = live.overrides().after(None, None);
            let written = start.write(records.map(|entry| Ok(JournalRecord::of(&entry.record()))));
            if let Some(requests) = requests.upgrade() {
                // Without a receiver, the process ends.
                drop(requests.blocking_send(JournalRequest::Written(start, written)));
            }
        });
        match writing {
            Ok(_) => self.is_writing_anew = true,
            Err(error) => self.not_anew(&error),
        }
    }

    /// Moves to the new journal.
    fn move_to(&mut self, start: SnapshotStart, snapshot: io::Result<JournalSnapshot>) {
        self.is_writing_anew = false;
        match snapshot.and_then(|snapshot| self.file.adopt(&start, snapshot)) {
            Ok(()) => self.tried_at = 0,
            Err(error) => self.not_anew(&error),
        }
    }

    fn not_anew(&mut self, error: &io::Error) {
        self.tried_at = self.file.length();
        warn!(%error, "the file of overrides cannot be written again from the start, so it grows: is the disk full?");
    }
}

impl ChangeGroup {
    /// Returns the version after the changes so far.
    fn version(&self, file: &JournalFile) -> OverridesVersion {
        let version = file.version();
        OverridesVersion { number: version.number + self.changes.len() as u64, ..version }
    }

    fn set(&mut self, record: OverrideRecord, current: Option<&OverrideRecord>) {
        self.changes.push(JournalChange::Set(JournalRecord::of(&record)));
        self.free(current);
        self.growth += i64::from(current.is_none());
        self.pending.insert(record.name.clone(), Some(record));
    }

    fn delete(&mut self, name: OverrideName, current: Option<&OverrideRecord>, version: OverridesVersion) {
        let id = name.to_string().into();
        self.changes.push(JournalChange::Delete { name: id, version: version.number });
        self.free(current);
        self.growth -= 1;
        self.pending.insert(name, None);
    }

    fn free(&mut self, current: Option<&OverrideRecord>) {
        self.freed += current.map_or(0, |record| line_length(&JournalRecord::of(record)));
    }
}

/// Makes the overrides of a file live.
fn put_live(
    limiter: &PolicyLimiter<ServedStore>,
    records: impl Iterator<Item = io::Result<JournalRecord>>,
    version: OverridesVersion,
) -> io::Result<()> {
    let mut failure = Ok(());
    let records = records.map_while(|record| {
        let record = record.and_then(|record| record.into_record().map_err(io::Error::other));
        record.map_err(|error| failure = Err(error)).ok()
    });
    limiter.replace_overrides(|set, policies| {
        let overrides = set.of_all(records, policies);
        // Without a change, there is no version.
        if version.number == 0 { overrides } else { overrides.at_version(version) }
    });
    failure
}

fn failed(failure: &JournalFailure) -> OverridesError {
    let JournalFailure { error, may_be_made } = failure;
    // Errors of the system cannot be cloned, and each caller gets one.
    OverridesError::Journal { error: error.to_string().into(), may_be_made: *may_be_made }
}
