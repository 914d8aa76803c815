//! All records at once.
//!
//! They are read page by page, while others change them. A page shows a record as it was before or after a change that
//! was made meanwhile. So the log of those changes is read afterwards, and the last of each record counts. Two checks
//! find what a page may have missed: all pages must come from one server, and in the end there must be as many records
//! as the head says. Otherwise it starts again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tollgate::{StoreError, Timestamp};

use super::log::{FollowedLog, LoggedChange, follow};
use super::record::{Record, StoredRecord};
use super::state::ReadState;
use super::{DamagedRecord, PageRead, SharedRecords, deadline};
use crate::calls::Calls;
use crate::error::RedisError;
use crate::resp::{RespValue, command};
use crate::time::Instant;

/// How many records a page has, or a few more: little enough that requests behind it wait for less than a millisecond.
const PAGE: &str = "1000";

/// How often it starts again. Each time, something happened that should be rare.
const TRIES: usize = 5;

/// All records, in no order.
#[derive(Debug)]
pub struct LoadedRecords {
    state: ReadState,
    now: Timestamp,
    records: Vec<RawRecord>,
    damaged: Vec<DamagedRecord>,
}

/// A name and a value that was found to be that of a record. A million of them take the least memory so.
#[derive(Debug, PartialEq, Eq)]
struct RawRecord {
    name: Box<str>,
    value: Box<str>,
}

/// What the pages have brought.
#[derive(Debug, Default)]
struct ScannedRecords {
    records: Vec<RawRecord>,
    damaged: Vec<DamagedRecord>,
}

impl LoadedRecords {
    /// Returns the state from which to read on.
    #[must_use]
    pub const fn state(&self) -> ReadState {
        self.state
    }

    /// Returns the store's time after all was read.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the fields that hold no record. They count as records until they are replaced or deleted.
    #[must_use]
    pub fn damaged(&self) -> &[DamagedRecord] {
        &self.damaged
    }

    /// Returns how many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the records one after another.
    pub fn into_records(self) -> impl Iterator<Item = Record> {
        self.records.into_iter().filter_map(|RawRecord { name, value }| {
            // They were read before.
            let StoredRecord { version, until, text } = StoredRecord::read(&value)?;
            Some(Record { name, version, until, text: text.into() })
        })
    }
}

impl SharedRecords {
    /// Returns all records, as they were after the change that the [state](LoadedRecords::state) names.
    ///
    /// # Errors
    ///
    /// If not all of them come in time, or the state never held still for long enough. Values that are no records are no
    /// error: they are [listed](LoadedRecords::damaged), and all others are there.
    pub async fn load(&self, within: Duration) -> Result<LoadedRecords, StoreError> {
        let until = deadline(within);
        for _ in 0..TRIES {
            let loaded = self.load_once(until).await.map_err(StoreError::with_nothing_charged)?;
            if let Some(loaded) = loaded {
                return Ok(loaded);
            }
        }
        Err(StoreError::from(RedisError::NotReady).at(self.store.place()))
    }

    /// `None` if it has to start again.
    async fn load_once(&self, until: Instant) -> Result<Option<LoadedRecords>, StoreError> {
        let first = self.read_page(None, until).await?;
        let Some(mut scanned) = self.scan(&first, until).await? else { return Ok(None) };
        let (mut known, mut changes) = (first.head, HashMap::new());
        loop {
            let PageRead { now, head, count, page, .. } = self.read_page(Some(known), until).await?;
            let Some(FollowedLog { state, changes: next, is_more }) = follow(known, head, &page) else {
                return Ok(None);
            };
            changes.extend(next.into_iter().map(|change| (Box::<str>::from(change.name()), change)));
            known = state;
            if is_more {
                continue;
            }
            scanned.apply(changes);
            let found = scanned.records.len() + scanned.damaged.len();
            let ScannedRecords { records, damaged } = scanned;
            let is_whole = u64::try_from(found) == Ok(count);
            return Ok(is_whole.then_some(LoadedRecords { state, now, records, damaged }));
        }
    }

    /// Reads all pages. `None` if they come from another server, whose pages are others.
    async fn scan(&self, first: &PageRead, until: Instant) -> Result<Option<ScannedRecords>, StoreError> {
        let mut scanned = ScannedRecords::default();
        if first.count == 0 {
            return Ok(Some(scanned));
        }
        // Not more than a server can claim for nothing.
        scanned.records.reserve(usize::try_from(first.count).unwrap_or(0).min(1 << 20));
        let mut cursor = b"0".to_vec();
        loop {
            let next = command("HSCAN").arg(self.keys.records()).arg(&cursor).arg("COUNT").arg(PAGE);
            let (reply, server) = self.ask(&Calls::of(&next), until).await?;
            if server.address() != first.server.address() {
                return Ok(None);
            }
            let nonsense = || StoreError::from(RedisError::BadReply).at(self.store.place());
            let (at, fields) = page_of(reply).ok_or_else(nonsense)?;
            cursor = at;
            let mut fields = fields.into_iter();
            while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
                let (RespValue::Bulk(name), RespValue::Bulk(value)) = (name, value) else {
                    return Err(nonsense());
                };
                match RawRecord::read(name, value) {
                    Ok(record) => scanned.records.push(record),
                    Err(name) => scanned.damaged.push(self.keys.damaged_record(&name)),
                }
            }
            if cursor == b"0" {
                scanned.forget_repeated();
                return Ok(Some(scanned));
            }
        }
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

impl RawRecord {
    /// Returns the name if it is no record.
    fn read(name: Vec<u8>, value: Vec<u8>) -> Result<Self, Vec<u8>> {
        let name = String::from_utf8(name).map_err(std::string::FromUtf8Error::into_bytes)?;
        match String::from_utf8(value) {
            Ok(value) if StoredRecord::read(&value).is_some() => {
                Ok(Self { name: name.into_boxed_str(), value: value.into_boxed_str() })
            }
            _ => Err(name.into_bytes()),
        }
    }
}

impl ScannedRecords {
    /// Drops what pages have brought twice, as they may. Whichever is dropped: if they differ, a change follows.
    fn forget_repeated(&mut self) {
        // Names are different if their hashes are. That is nearly always enough, and cheaper than to compare names.
        let hasher = RandomState::new();
        let mut hashes: Vec<u64> = self.records.iter().map(|record| hasher.hash_one(&record.name)).collect();
        hashes.sort_unstable();
        if hashes.windows(2).any(|two| two.first() == two.last()) {
            self.records.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            self.records.dedup_by(|one, other| one.name == other.name);
        }
        self.damaged.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.damaged.dedup();
    }

    /// Applies the last change of each of these records.
    fn apply(&mut self, changes: HashMap<Box<str>, LoggedChange>) {
        if changes.is_empty() {
            return;
        }
        self.records.retain(|record| !changes.contains_key(&record.name));
        self.damaged.retain(|record| !changes.contains_key(&record.name));
        let set = changes.into_values().filter_map(|change| match change {
            LoggedChange::Set(record) => Some(RawRecord::of(record)),
            LoggedChange::Deleted { .. } => None,
        });
        self.records.extend(set);
    }
}

impl RawRecord {
    fn of(Record { name, version, until, text }: Record) -> Self {
        let until = until.map_or("-".into(), |until| until.as_unix_millis().to_string());
        Self { name, value: format!("{version} {until} {text}").into() }
    }
}
