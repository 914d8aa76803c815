//! Values in the store that no change has written.

use thiserror::Error;

/// The shared records cannot be read or changed, because a key of the server holds something else.
///
/// Another program has written there, or the server has evicted one of the keys. It is the source of a
/// [`StoreError`](tollgate::StoreError). Nothing was changed. A retry does not help: an operator has to delete the keys
/// of these records, and the records are written again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the key {key} does not hold {expected}: delete all keys that begin with {beginning}, and write the records again"
)]
pub struct DamagedRecords {
    pub(super) key: Box<str>,
    pub(super) expected: &'static str,
    pub(super) beginning: Box<str>,
}

/// A record whose value no change has written. It can be replaced and deleted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the field {name} of the key {key} does not hold a record")]
pub struct DamagedRecord {
    /// The name of the record; bytes that are no text are replaced.
    pub name: Box<str>,
    pub(super) key: Box<str>,
}
