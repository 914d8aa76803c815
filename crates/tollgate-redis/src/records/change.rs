//! Changes of records, and their answers.

use tollgate::Timestamp;

use super::record::{Record, RecordEnd};
use super::state::RecordsVersion;

/// A change of one record.
#[derive(Debug, Clone, Copy)]
pub enum RecordChange<'a> {
    /// Creates or replaces it.
    Set {
        /// Its name, of 1 to 4,096 bytes.
        name: &'a str,
        /// Its text, of at most 8,192 bytes.
        text: &'a str,
        /// Its end.
        end: RecordEnd,
    },
    /// Deletes it.
    Delete {
        /// Its name.
        name: &'a str,
    },
}

/// What a record must be for its change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordMatch {
    /// Anything. To be deleted, it must exist.
    Any,
    /// Absent.
    Absent,
    /// As this change has written it.
    Version {
        /// The epoch of the change.
        epoch: u64,
        /// Its number.
        number: u64,
    },
}

/// What came of a change.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeAnswer {
    /// It was made.
    Made {
        /// The version that it has made.
        version: RecordsVersion,
        /// The end of the record, if it has one.
        until: Option<Timestamp>,
        /// The store's time of the change.
        now: Timestamp,
        /// Whether the record existed.
        existed: bool,
    },
    /// The record is not what it must be. A record that is to be deleted and is absent is a mismatch, too.
    Mismatch {
        /// The record, if it exists.
        current: Option<Record>,
        /// The version of all records.
        version: RecordsVersion,
    },
    /// There are as many records as there may be.
    TooMany,
    /// Its end is not after the store's time.
    EndPassed {
        /// The store's time.
        now: Timestamp,
    },
}

impl RecordChange<'_> {
    /// Returns the name of the record.
    #[must_use]
    pub const fn name(&self) -> &str {
        match self {
            Self::Set { name, .. } | Self::Delete { name } => name,
        }
    }
}
