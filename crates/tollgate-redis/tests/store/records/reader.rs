//! A process that has a copy of all records.

use std::collections::BTreeMap;

use tollgate_redis::{LoggedChange, ReadState, Record, RecordsUpdate, SharedRecords};

use super::TIME;

/// A copy, and how it came about.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) state: Option<ReadState>,
    pub(crate) records: BTreeMap<String, Record>,
    pub(crate) loads: u64,
    pub(crate) pages: u64,
}

impl Reader {
    /// A reader that has loaded all records.
    pub(crate) async fn of(records: &SharedRecords) -> Self {
        let mut reader = Self::default();
        reader.catch_up(records).await;
        reader
    }

    /// Reads until nothing is new.
    pub(crate) async fn catch_up(&mut self, records: &SharedRecords) {
        while self.step(records).await {}
    }

    /// Reads a page, or all records. Returns whether there may be more.
    pub(crate) async fn step(&mut self, records: &SharedRecords) -> bool {
        match records.read(self.state.as_ref(), TIME).await.unwrap() {
            RecordsUpdate::Reload { .. } => {
                self.load(records).await;
                true
            }
            RecordsUpdate::Changes { state, changes, is_more, .. } => {
                self.pages += 1;
                changes.into_iter().for_each(|change| self.apply(change));
                self.state = Some(state);
                is_more
            }
        }
    }

    pub(crate) async fn load(&mut self, records: &SharedRecords) {
        let loaded = records.load(TIME).await.unwrap();
        assert_eq!(loaded.damaged(), []);
        self.loads += 1;
        self.state = Some(loaded.state());
        self.records = loaded.into_records().map(|record| (record.name.to_string(), record)).collect();
    }

    /// The number of the last change that it knows.
    pub(crate) fn number(&self) -> u64 {
        self.state.map_or(0, |state| state.version().number)
    }

    fn apply(&mut self, change: LoggedChange) {
        match change {
            LoggedChange::Set(record) => _ = self.records.insert(record.name.to_string(), record),
            LoggedChange::Deleted { name, .. } => _ = self.records.remove(&*name),
        }
    }

    pub(crate) fn texts(&self) -> Vec<(&str, &str)> {
        self.records.iter().map(|(name, record)| (&**name, &*record.text)).collect()
    }
}
