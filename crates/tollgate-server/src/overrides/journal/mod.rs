//! Overrides in a file, if counters are in memory.
//!
//! The file is a list of changes. A change is on the disk before it is answered, and before it is live. When many lines
//! no longer hold, a new file takes its place.

mod change;
mod error;
mod folder;
mod journal_file;
mod line;
mod lines;
mod named_lines;
mod opening;
mod opening_note;
mod snapshot;
mod survey;

pub(crate) use self::change::{JournalChange, JournalRecord};
pub use self::error::{JournalDamage, JournalError};
pub use self::folder::StateFolderError;
pub(crate) use self::journal_file::{JournalFailure, JournalFile, SnapshotStart, line_length};
pub(crate) use self::opening::{OnDamage, OpenJournal, read};
pub(crate) use self::snapshot::JournalSnapshot;

#[cfg(test)]
mod tests;
