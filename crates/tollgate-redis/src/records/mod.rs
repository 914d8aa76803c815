//! Shared records: a small map in the store, of which every process has a copy.
//!
//! All of it is in one slot, and has one version. A change is one step of a [script](call): it checks what must be so,
//! writes the record, raises the version by one and adds itself to a [log]. A process [loads](load) all records once,
//! and then follows the log. Texts mean nothing here.
//!
//! No count depends on records: their calls wait in no lane, and go over the same connections.

mod call;
mod change;
mod damage;
mod keys;
mod load;
mod loaded;
mod loaded_names;
mod log;
mod record;
mod state;

use std::sync::Arc;
use std::time::Duration;

use tollgate::{StoreError, Timestamp};

use self::call::ScriptReply;
pub use self::change::{ChangeAnswer, RecordChange, RecordMatch};
pub use self::damage::{DamagedRecord, DamagedRecords};
use self::keys::RecordKeys;
pub use self::load::{RecordsLoad, RecordsPage, WholeRecords};
pub use self::loaded::LoadedRecords;
pub use self::log::LoggedChange;
use self::log::{FollowedLog, follow};
use self::record::StoredRecord;
pub use self::record::{Record, RecordEnd};
pub use self::state::{ReadState, RecordsVersion};
use crate::calls::Calls;
use crate::error::RedisError;
use crate::node::Node;
use crate::settings::LONGEST;
use crate::store::RedisStore;
use crate::time::{Instant, instant};
use crate::topology::{Divisible, ServerReply};

/// A map of names to short texts, shared by all processes that use the store. Clones share it.
///
/// Reads and changes are calls of their own: unlike charges, they wait for no batch, and their deadline is the
/// caller's. Each function takes it as a time from now on, at most a day.
///
/// # Errors
///
/// All functions fail with a [`StoreError`] whose source is a [`RedisError`](crate::RedisError): with
/// [`AccessDenied`](crate::RedisError::AccessDenied) if the user lacks the
/// [rights](crate::StoreServer::RECORDS_RIGHTS) for records, which counting does not need. Or it is
/// [`DamagedRecords`].
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use tollgate_redis::{ChangeAnswer, RecordChange, RecordEnd, RecordMatch, RecordsUpdate, RedisStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::builder("redis://127.0.0.1".parse()?).build()?;
/// let (records, time) = (store.records("notes"), Duration::from_secs(1));
/// let loaded = records.load(time).await?;
/// let state = loaded.state();
///
/// let change = RecordChange::Set { name: "a", text: "first", end: RecordEnd::Never };
/// let answer = records.change(change, RecordMatch::Absent, 1_000, time).await?;
/// assert!(matches!(answer, ChangeAnswer::Made { existed: false, .. }));
/// let again = records.change(change, RecordMatch::Absent, 1_000, time).await?;
/// assert!(matches!(again, ChangeAnswer::Mismatch { .. }));
///
/// match records.read(Some(&state), time).await? {
///     RecordsUpdate::Changes { changes, .. } => assert_eq!(changes[0].name(), "a"),
///     RecordsUpdate::Reload { .. } => println!("load all of them again"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SharedRecords {
    store: RedisStore,
    keys: Arc<RecordKeys>,
}

/// What has happened since a read.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordsUpdate {
    /// These changes, in their order; often none.
    Changes {
        /// The state after them.
        state: ReadState,
        /// The changes.
        changes: Vec<LoggedChange>,
        /// Whether there are more, for another read.
        is_more: bool,
        /// The store's time.
        now: Timestamp,
    },
    /// Nobody knows: the log does not reach back, or the history is another one after a loss of data. Load all records.
    Reload {
        /// The store's time.
        now: Timestamp,
    },
}

/// What a sweep did.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweptRecords {
    /// How many records were deleted.
    pub deleted: u64,
    /// Whether there may be more.
    pub is_more: bool,
}

impl RedisStore {
    /// Returns the shared records of this name. All users of the same server, prefix and name share them.
    #[must_use]
    pub fn records(&self, name: &str) -> SharedRecords {
        let keys = RecordKeys::new(self.names(), name, self.topology().is_cluster());
        SharedRecords { store: self.clone(), keys: Arc::new(keys) }
    }
}

impl SharedRecords {
    /// The most records that one [sweep](Self::sweep) deletes.
    pub const MOST_SWEPT: u64 = 1_000;

    /// Returns the names of its keys. They never expire.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.keys.all()
    }

    /// Makes a change, if the record matches, its end is not over, and there are not more than `max_records` records
    /// then.
    ///
    /// # Errors
    ///
    /// If [`StoreError::may_have_charged`] is true, the change may have been made, or may still be made. It is never
    /// sent again. To repeat it safely, match a [version](RecordMatch::Version). If it is false, nothing was changed.
    pub async fn change(
        &self,
        change: RecordChange<'_>,
        matching: RecordMatch,
        max_records: u64,
        within: Duration,
    ) -> Result<ChangeAnswer, StoreError> {
        let text = if let RecordChange::Set { text, .. } = change { text } else { "" };
        record::check(change.name(), text)?;
        let call = call::change(&self.keys, change, matching, max_records)?;
        match self.call(&call, deadline(within)).await?.0 {
            ScriptReply::Made { now, version, until, existed } => {
                Ok(ChangeAnswer::Made { version, until, now, existed })
            }
            ScriptReply::Mismatch { version, current } => {
                let current = current.map(|value| self.stored(change.name(), &value)).transpose()?;
                Ok(ChangeAnswer::Mismatch { current, version })
            }
            ScriptReply::TooMany => Ok(ChangeAnswer::TooMany),
            ScriptReply::EndPassed { now } => Ok(ChangeAnswer::EndPassed { now }),
            reply => Err(self.failed(&reply)),
        }
    }

    /// Returns what has changed since this read, one page of it. Without one, the answer is to load all records.
    ///
    /// # Errors
    ///
    /// If there is no answer in time, or none that can be understood.
    pub async fn read(
        &self,
        known: Option<&ReadState>,
        within: Duration,
    ) -> Result<RecordsUpdate, StoreError> {
        let read = self.read_page(known.copied(), deadline(within)).await;
        let PageRead { now, head, page, .. } = read.map_err(StoreError::with_nothing_charged)?;
        let followed = known.and_then(|known| follow(*known, head, &page));
        Ok(match followed {
            Some(FollowedLog { state, changes, is_more }) => {
                RecordsUpdate::Changes { state, changes, is_more, now }
            }
            None => RecordsUpdate::Reload { now },
        })
    }

    /// Deletes records that ended at least ten seconds ago, at most [`MOST_SWEPT`](Self::MOST_SWEPT). Each deletion is
    /// a change like any other.
    ///
    /// # Errors
    ///
    /// As of a [change](Self::change).
    pub async fn sweep(&self, within: Duration) -> Result<SweptRecords, StoreError> {
        let until = deadline(within);
        let mut swept = SweptRecords { deleted: 0, is_more: true };
        while swept.is_more && swept.deleted < Self::MOST_SWEPT {
            match self.call(&call::sweep(&self.keys), until).await?.0 {
                ScriptReply::Swept { deleted, considered } => {
                    swept.deleted += deleted;
                    swept.is_more = considered == call::SWEPT;
                }
                reply => return Err(self.failed(&reply)),
            }
        }
        Ok(swept)
    }

    /// Reads the state, and a page of the changes after the known one, if there is one.
    async fn read_page(&self, known: Option<ReadState>, until: Instant) -> Result<PageRead, StoreError> {
        match self.call(&call::read(&self.keys, known), until).await? {
            (ScriptReply::Read { now, head, count, page }, server) => {
                Ok(PageRead { now, head, count, page, server })
            }
            (reply, _) => Err(self.failed(&reply)),
        }
    }

    /// Calls the script.
    async fn call(&self, call: &Calls, until: Instant) -> Result<(ScriptReply, Arc<Node>), StoreError> {
        let (reply, server) = self.ask(call, until).await?;
        let reply = ScriptReply::read(reply).map_err(|error| error.at(self.store.place()))?;
        Ok((reply, server))
    }

    /// Sends a command to the server of the records.
    async fn ask(&self, call: &Calls, until: Instant) -> Result<ServerReply, StoreError> {
        let answer = self.store.topology().call(self.keys.slot(), call, Divisible::No, until).await;
        answer.map_err(|trouble| StoreError::from(trouble).at(self.store.place()))
    }

    /// The error of a reply that is no answer.
    fn failed(&self, reply: &ScriptReply) -> StoreError {
        let error = match reply {
            ScriptReply::NoRight => RedisError::AccessDenied.into(),
            ScriptReply::Damaged { place } => self.keys.damaged(*place).map_or_else(
                || RedisError::BadReply.into(),
                |damage| StoreError::trouble(damage).for_one_key(),
            ),
            _ => RedisError::BadReply.into(),
        };
        error.at(self.store.place())
    }

    /// Reads a record as it is stored.
    fn stored(&self, name: &str, value: &[u8]) -> Result<Record, StoreError> {
        let text = std::str::from_utf8(value).ok();
        let stored = text.and_then(StoredRecord::read).map(|stored| stored.named(name));
        stored.ok_or_else(|| {
            let damage = self.keys.damaged_record(name.as_bytes());
            StoreError::trouble(damage).for_one_key().at(self.store.place())
        })
    }
}

/// The state and a page of changes, and the server that has them.
struct PageRead {
    now: Timestamp,
    head: ReadState,
    count: u64,
    page: Vec<Vec<u8>>,
    server: Arc<Node>,
}

fn deadline(within: Duration) -> Instant {
    instant() + within.min(LONGEST)
}
