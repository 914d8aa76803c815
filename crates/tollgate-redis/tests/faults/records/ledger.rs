//! What is known of changes and copies, and what must be so.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate_redis::{LoggedChange, ReadState, Record, RecordsVersion};

/// A copy: each record by its name.
pub(super) type Copies = BTreeMap<String, Record>;

/// A change: a name, and a text that no other change has, or none.
pub(super) type MadeChange = (String, Option<String>);

#[derive(Debug, Default)]
pub(super) struct RecordLedger {
    /// Changes whose callers were told that they have made this version.
    made: HashMap<(u64, u64), Vec<MadeChange>>,
    /// How many changes have an unknown outcome.
    pub(super) unknown: u64,
    /// Changes that readers have followed.
    followed: HashMap<(u64, u64), Vec<MadeChange>>,
    /// A hash of the copy in each state that a reader was in.
    states: HashMap<ReadState, u64>,
    violations: Vec<String>,
}

impl RecordLedger {
    pub(super) fn note_made(&mut self, RecordsVersion { epoch, number }: RecordsVersion, change: MadeChange) {
        self.made.entry((epoch, number)).or_default().push(change);
    }

    pub(super) fn note_followed(&mut self, epoch: u64, change: &LoggedChange) {
        let (number, change) = match change {
            LoggedChange::Set(record) => {
                (record.version, (record.name.to_string(), Some(record.text.to_string())))
            }
            LoggedChange::Deleted { name, number } => (*number, (name.to_string(), None)),
        };
        let known = self.followed.entry((epoch, number)).or_default();
        if !known.contains(&change) {
            known.push(change);
        }
    }

    /// Notes that a reader is in this state with this copy. All readers that were must have had the same.
    pub(super) fn note_state(&mut self, state: ReadState, copy: &Copies) {
        let mut hasher = DefaultHasher::new();
        for (name, record) in copy {
            (name, &record.text, record.version).hash(&mut hasher);
        }
        let hash = hasher.finish();
        if *self.states.entry(state).or_insert(hash) != hash {
            self.violations.push(format!("two copies of {:?} differ", state.version()));
        }
    }

    /// Judges what was noted, of a server that has lost nothing.
    pub(super) fn judge_kept(&mut self, last: RecordsVersion) {
        for (version, changes) in &self.made {
            if changes.len() > 1 {
                self.violations.push(format!("{} changes were told version {version:?}", changes.len()));
            }
        }
        for (version, changes) in &self.followed {
            let made = self.made.get(version);
            let is_made = made.map_or(self.unknown > 0, |made| made == changes);
            if !is_made || changes.len() > 1 {
                self.violations.push(format!("at {version:?}: {changes:?} followed, {made:?} made"));
            }
        }
        let made = self.made.len() as u64;
        if !(made..=made + self.unknown).contains(&last.number) {
            let unknown = self.unknown;
            self.violations
                .push(format!("{made} changes made, {unknown} perhaps, and the version is {last:?}"));
        }
    }

    /// Judges what was noted, of a server that may have lost changes and made others of the same numbers.
    pub(super) fn judge_lost(&mut self) {
        for (version, changes) in &self.followed {
            let made = self.made.get(version).map_or(&[][..], Vec::as_slice);
            if self.unknown == 0 && changes.iter().any(|change| !made.contains(change)) {
                self.violations.push(format!("at {version:?}: {changes:?} followed, {made:?} made"));
            }
        }
    }

    pub(super) fn expect(&mut self, holds: bool, broken: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(broken());
        }
    }

    pub(super) fn take_violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }
}
