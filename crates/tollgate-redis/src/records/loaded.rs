//! All records in memory.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::{StoreError, Timestamp};

use super::load::{RecordsPage, WholeRecords};
use super::log::LoggedChange;
use super::record::Record;
use super::state::ReadState;
use super::{DamagedRecord, SharedRecords, deadline};

/// All records, in no order.
#[derive(Debug)]
pub struct LoadedRecords {
    whole: WholeRecords,
    records: HashMap<Box<str>, Record>,
}

impl LoadedRecords {
    /// Returns the state from which to read on.
    #[must_use]
    pub const fn state(&self) -> ReadState {
        self.whole.state
    }

    /// Returns the store's time after all was read.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.whole.now
    }

    /// Returns the fields that hold no record. They count as records until they are replaced or deleted.
    #[must_use]
    pub fn damaged(&self) -> &[DamagedRecord] {
        &self.whole.damaged
    }

    /// Returns how many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the records one after another.
    pub fn into_records(self) -> impl Iterator<Item = Record> {
        self.records.into_values()
    }
}

impl SharedRecords {
    /// Returns all records, as they were after the change that the [state](LoadedRecords::state) names. Of many, it takes
    /// less memory to read them [page by page](Self::loading).
    ///
    /// # Errors
    ///
    /// If not all of them come in time, or the state never held still for long enough. Values that are no records are no
    /// error: they are [listed](LoadedRecords::damaged), and all others are there.
    pub async fn load(&self, within: Duration) -> Result<LoadedRecords, StoreError> {
        let (mut loading, until) = (self.loading(), deadline(within));
        let mut records = HashMap::new();
        loop {
            match loading.next_until(until).await? {
                RecordsPage::Records(page) => {
                    records.extend(page.into_iter().map(|record| (record.name.clone(), record)));
                }
                RecordsPage::Changes(changes) => {
                    for change in changes {
                        match change {
                            LoggedChange::Set(record) => _ = records.insert(record.name.clone(), record),
                            LoggedChange::Deleted { name, .. } => _ = records.remove(&name),
                        }
                    }
                }
                RecordsPage::Again => records.clear(),
                RecordsPage::End(whole) => return Ok(LoadedRecords { whole, records }),
            }
        }
    }
}
