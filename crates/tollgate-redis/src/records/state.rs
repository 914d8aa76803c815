//! The version of shared records, and how far a reader has come.

/// The version of all records: one more with each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecordsVersion {
    /// Which history it is: a random number, drawn by the first change of an empty state. 0 before that.
    pub epoch: u64,
    /// How many changes there were. 0 if nothing was ever written.
    pub number: u64,
}

/// How far a reader has come: all changes up to this one, and no other.
///
/// A failover may lose the last changes, and others then get their numbers. So each change has a random mark, by which
/// the reader finds out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReadState {
    pub(super) version: RecordsVersion,
    pub(super) mark: u64,
}

impl ReadState {
    /// Returns the version that was read.
    #[must_use]
    pub const fn version(&self) -> RecordsVersion {
        self.version
    }
}
