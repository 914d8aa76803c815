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
        loop {
            match records.read(self.state.as_ref(), TIME).await.unwrap() {
                RecordsUpdate::Reload { .. } => {
                    let loaded = records.load(TIME).await.unwrap();
                    self.loads += 1;
                    self.state = Some(loaded.state());
                    let named = |record: Record| (record.name.to_string(), record);
                    self.records = loaded.into_records().map(named).collect();
                }
                RecordsUpdate::Changes { state, changes, is_more, .. } => {
                    self.pages += 1;
                    changes.into_iter().for_each(|change| self.apply(change));
                    self.state = Some(state);
                    if !is_more {
                        return;
                    }
                }
            }
        }
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
