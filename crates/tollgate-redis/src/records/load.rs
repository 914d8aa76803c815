//! All records, page by page.
//!
//! While they are read, others change them. A page shows a record as it was before or after a change that was made
//! meanwhile. So the log of those changes is read afterwards, and the last of each record counts. Three checks find what
//! a page may have missed, or what a server that starts again has lost: all pages must come from one server, the change
//! that wrote a record must be in the log unless it was made before the first page, and in the end there must be as many
//! records as the head says. Otherwise it starts again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{StoreError, Timestamp};

use super::loaded_names::LoadedNames;
use super::log::{FollowedLog, LoggedChange, follow};
use super::record::{Record, StoredRecord};
use super::state::ReadState;
use super::{DamagedRecord, PageRead, SharedRecords, deadline};
use crate::calls::Calls;
use crate::error::RedisError;
use crate::node::Node;
use crate::resp::{RespValue, command};
use crate::time::Instant;

/// How many records a page has, or a few more: little enough that requests behind it wait for less than a millisecond.
const PAGE: &str = "1000";

/// How often it starts again. Each time, something happened that should be rare.
const TRIES: u32 = 5;

/// A load of all records: see [`SharedRecords::loading`].
pub struct RecordsLoad<'a> {
    records: &'a SharedRecords,
    /// How often it has started.
    tries: u32,
    step: LoadStep,
    names: LoadedNames,
    /// The names of records that were written after the first page was begun.
    newer: Vec<Box<str>>,
    damaged: Vec<DamagedRecord>,
}

/// A part of a load.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordsPage {
    /// Some of the records. A later page may have one of them again.
    Records(Vec<Record>),
    /// Changes that were made after the pages of records were begun, in their order.
    Changes(Vec<LoggedChange>),
    /// The load starts again: what pages have brought until now does not count.
    Again,
    /// Everything is there.
    End(WholeRecords),
}

/// What is known about all records, once they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeRecords {
    /// The state from which to read on. The records are as they were after the change that it names.
    pub state: ReadState,
    /// The store's time after all was read.
    pub now: Timestamp,
    /// How many there are.
    pub records: usize,
    /// The fields that hold no record. They count as records until they are replaced or deleted.
    pub damaged: Vec<DamagedRecord>,
}

/// How far a load has come.
enum LoadStep {
    Start,
    Scan {
        /// The state before the first page.
        head: ReadState,
        /// The server that has all pages.
        server: Arc<Node>,
        cursor: Vec<u8>,
    },
    Log {
        known: ReadState,
    },
    End {
        state: ReadState,
        now: Timestamp,
    },
}

impl SharedRecords {
    /// Begins to read all records. The pages of the load apply one after another: of what they bring about a name, the
    /// last counts.
    #[must_use]
    pub fn loading(&self) -> RecordsLoad<'_> {
        let (names, newer, damaged) = (LoadedNames::default(), Vec::new(), Vec::new());
        RecordsLoad { records: self, tries: 0, step: LoadStep::Start, names, newer, damaged }
    }
}

impl RecordsLoad<'_> {
    /// Returns the next page.
    ///
    /// # Errors
    ///
    /// If it does not come in time, or the state never held still for long enough. Values that are no records are no error:
    /// they are [listed](WholeRecords::damaged), and all others are there. After an error, begin another load.
    pub async fn next(&mut self, within: Duration) -> Result<RecordsPage, StoreError> {
        self.next_until(deadline(within)).await
    }

    pub(super) async fn next_until(&mut self, until: Instant) -> Result<RecordsPage, StoreError> {
        loop {
            let page = self.step(until).await.map_err(StoreError::with_nothing_charged)?;
            if let Some(page) = page {
                return Ok(page);
            }
        }
    }

    /// Takes one step. Not each has a page.
    async fn step(&mut self, until: Instant) -> Result<Option<RecordsPage>, StoreError> {
        match &self.step {
            LoadStep::Start => self.start(until).await.map(|()| None),
            LoadStep::Scan { head, server, cursor } => {
                let (head, server, cursor) = (*head, Arc::clone(server), cursor.clone());
                self.scan(head, &server, &cursor, until).await.map(Some)
            }
            LoadStep::Log { known } => self.follow(*known, until).await.map(Some),
            LoadStep::End { state, now } => {
                let (state, now, records) = (*state, *now, self.names.len());
                let damaged = self.damaged.clone();
                Ok(Some(RecordsPage::End(WholeRecords { state, now, records, damaged })))
            }
        }
    }

    async fn start(&mut self, until: Instant) -> Result<(), StoreError> {
        let PageRead { head, count, server, .. } = self.records.read_page(None, until).await?;
        // Not more than a server can claim for nothing.
        self.names.reserve(usize::try_from(count).unwrap_or(0).min(1 << 20));
        self.step = match count {
            0 => LoadStep::Log { known: head },
            _ => LoadStep::Scan { head, server, cursor: b"0".to_vec() },
        };
        Ok(())
    }

    /// Reads a page of records.
    async fn scan(
        &mut self,
        head: ReadState,
        first: &Node,
        cursor: &[u8],
        until: Instant,
    ) -> Result<RecordsPage, StoreError> {
        let next = command("HSCAN").arg(self.records.keys.records()).arg(cursor).arg("COUNT").arg(PAGE);
        let (reply, server) = self.records.ask(&Calls::of(&next), until).await?;
        // Pages of another server are others.
        if server.address() != first.address() {
            return self.again();
        }
        let nonsense = || StoreError::from(RedisError::BadReply).at(self.records.store.place());
        let (cursor, fields) = page_of(reply).ok_or_else(nonsense)?;
        let mut records = Vec::with_capacity(fields.len() / 2);
        let mut fields = fields.into_iter();
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            let (RespValue::Bulk(name), RespValue::Bulk(value)) = (name, value) else {
                return Err(nonsense());
            };
            match record_of(&name, &value) {
                Some(record) => {
                    self.names.add(&record.name);
                    if record.version > head.version().number {
                        self.newer.push(record.name.clone());
                    }
                    records.push(record);
                }
                None => self.damaged.push(self.records.keys.damaged_record(&name)),
            }
        }
        self.step = if cursor == b"0" {
            self.names.end_scan();
            self.damaged.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            self.damaged.dedup();
            LoadStep::Log { known: head }
        } else {
            LoadStep::Scan { head, server, cursor }
        };
        Ok(RecordsPage::Records(records))
    }

    /// Reads a page of the changes that were made meanwhile.
    async fn follow(&mut self, known: ReadState, until: Instant) -> Result<RecordsPage, StoreError> {
        let PageRead { now, head, count, page, .. } = self.records.read_page(Some(known), until).await?;
        let Some(FollowedLog { state, changes, is_more }) = follow(known, head, &page) else {
            return self.again();
        };
        for change in &changes {
            self.names.change(change.name(), matches!(change, LoggedChange::Set(_)));
        }
        self.damaged.retain(|record| !self.names.has_change(&record.name));
        if is_more {
            self.step = LoadStep::Log { known: state };
            return Ok(RecordsPage::Changes(changes));
        }
        let found = self.names.len() + self.damaged.len();
        let is_whole = u64::try_from(found) == Ok(count);
        let mut newer = self.newer.iter();
        if !is_whole || newer.any(|name| !self.names.has_change(name)) {
            return self.again();
        }
        self.step = LoadStep::End { state, now };
        Ok(RecordsPage::Changes(changes))
    }

    fn again(&mut self) -> Result<RecordsPage, StoreError> {
        self.tries += 1;
        if self.tries == TRIES {
            return Err(StoreError::from(RedisError::NotReady).at(self.records.store.place()));
        }
        (self.step, self.names) = (LoadStep::Start, LoadedNames::default());
        self.newer.clear();
        self.damaged.clear();
        Ok(RecordsPage::Again)
    }
}

/// Without the names, which may be many.
impl fmt::Debug for RecordsLoad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordsLoad").field("tries", &self.tries).finish_non_exhaustive()
    }
}

/// Reads a reply to `HSCAN`: the cursor of the next page, and an even number of names and values.
fn page_of(reply: RespValue) -> Option<(Vec<u8>, Vec<RespValue>)> {
    let RespValue::Array(parts) = reply else { return None };
    let [RespValue::Bulk(cursor), RespValue::Array(fields)] = <[RespValue; 2]>::try_from(parts).ok()? else {
        return None;
    };
    let is_cursor = !cursor.is_empty() && cursor.iter().all(u8::is_ascii_digit);
    (is_cursor && fields.len() % 2 == 0).then_some((cursor, fields))
}

/// `None` if it is no record.
fn record_of(name: &[u8], value: &[u8]) -> Option<Record> {
    let (name, value) = (str::from_utf8(name).ok()?, str::from_utf8(value).ok()?);
    StoredRecord::read(value).map(|record| record.named(name))
}
