//! The journal while the process runs: takes changes to the disk, and moves to a new file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use thiserror::Error;
use tollgate_policy::OverridesVersion;

use super::change::{JournalChange, JournalHead, JournalRecord};
use super::folder::{JOURNAL, StateFolder};
use super::line::{self, LinePlace};
use super::snapshot::JournalSnapshot;

/// A smaller journal stays as it is, whatever it holds.
const SMALL: u64 = 1 << 20;

/// The journal of a process.
#[derive(Debug)]
pub(crate) struct JournalFile {
    folder: Arc<StateFolder>,
    /// `None` if the disk is read-only.
    file: Option<File>,
    /// The version after the last change.
    version: OverridesVersion,
    /// The bytes that are on the disk and count.
    length: u64,
    /// The bytes of the records there are.
    live_bytes: u64,
    /// Whether the disk may have something behind these bytes.
    may_have_more: bool,
    /// Whether the disk may have another file under its name.
    may_be_another: bool,
}

/// A change that was not taken to the disk.
#[derive(Debug, Error)]
#[error("{error}")]
pub(crate) struct JournalFailure {
    pub(crate) error: io::Error,
    /// Whether it may be there after a crash all the same.
    pub(crate) may_be_made: bool,
}

impl JournalFile {
    /// A file with this many good bytes, and bytes of records there are.
    pub(super) fn new(
        folder: Arc<StateFolder>,
        file: Option<File>,
        head: JournalHead,
        (length, live_bytes): (u64, u64),
    ) -> Self {
        let version = OverridesVersion { epoch: head.epoch, number: head.number };
        let (may_have_more, may_be_another) = (false, false);
        Self { folder, file, version, length, live_bytes, may_have_more, may_be_another }
    }

    /// A new file, which has its name.
    pub(super) fn of_snapshot(folder: Arc<StateFolder>, snapshot: JournalSnapshot) -> Self {
        let JournalSnapshot { file, head, length, live_bytes } = snapshot;
        Self::new(folder, Some(file), head, (length, live_bytes))
    }

    /// Returns the version after the last change.
    pub(crate) const fn version(&self) -> OverridesVersion {
        self.version
    }

    /// Returns the file, to be read from its start.
    pub(super) fn reader(&self) -> io::Result<File> {
        let file = self.folder.open_file(JOURNAL, OpenOptions::new().read(true)).map_err(io::Error::other)?;
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Takes changes to the disk, in one write. Their numbers follow the version. `freed` is the length of the lines of
    /// the records that they replace or delete.
    pub(crate) fn append(&mut self, changes: &[JournalChange], freed: u64) -> Result<(), JournalFailure> {
        let (mut lines, mut set_bytes) = (Vec::new(), 0);
        for (place, change) in changes.iter().enumerate() {
            let before = lines.len();
            let place = if place == 0 { LinePlace::First } else { LinePlace::Later };
            line::write(&mut lines, place, &change.to_json());
            if matches!(change, JournalChange::Set(_)) {
                set_bytes += (lines.len() - before) as u64;
            }
        }
        let not_made = |error| JournalFailure { error, may_be_made: false };
        self.settle().map_err(not_made)?;
        let file = self.file.as_ref().ok_or_else(|| not_made(io::ErrorKind::ReadOnlyFilesystem.into()))?;
        self.may_have_more = true;
        let written = file.write_all_at(&lines, self.length).and_then(|()| file.sync_data());
        if let Err(error) = written {
            let may_be_made = self.settle().is_err();
            return Err(JournalFailure { error, may_be_made });
        }
        self.may_have_more = false;
        self.length += lines.len() as u64;
        self.live_bytes = (self.live_bytes + set_bytes).saturating_sub(freed);
        self.version.number += changes.len() as u64;
        Ok(())
    }

    /// Removes what a failed write has left, and brings the name of the file to the disk.
    fn settle(&mut self) -> io::Result<()> {
        if self.may_be_another {
            self.folder.sync()?;
            self.may_be_another = false;
        }
        if self.may_have_more
            && let Some(file) = &self.file
        {
            file.set_len(self.length)?;
            file.sync_data()?;
            self.may_have_more = false;
        }
        Ok(())
    }

    /// Returns whether a new file would be less than half as long.
    /// After one was tried in vain at some length, the journal has to grow by half for another.
    pub(crate) fn is_long(&self, tried_at: u64) -> bool {
        let dead_bytes = self.length.saturating_sub(self.live_bytes);
        self.length > SMALL.max(tried_at / 2 * 3) && dead_bytes > self.live_bytes
    }

    /// Returns its length in bytes.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// Returns a writer of a new journal with this many records, as they are now.
    pub(crate) fn begin_snapshot(&self, records: u64) -> SnapshotStart {
        let OverridesVersion { epoch, number } = self.version;
        let head = JournalHead { epoch, number, records };
        SnapshotStart { folder: Arc::clone(&self.folder), head, from: self.length }
    }

    /// Moves to a new file, after the changes since its start are in it as well.
    pub(crate) fn adopt(&mut self, start: &SnapshotStart, mut snapshot: JournalSnapshot) -> io::Result<()> {
        self.settle()?;
        let since = usize::try_from(self.length - start.from).map_err(io::Error::other)?;
        let mut lines = vec![0; since];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut lines, start.from)?;
        }
        snapshot.append(&lines)?;
        snapshot.publish(&self.folder)?;
        self.may_be_another = true;
        self.length = snapshot.length;
        self.file = Some(snapshot.file);
        self.settle()
    }
}

/// Where a new journal begins.
#[derive(Debug)]
pub(crate) struct SnapshotStart {
    folder: Arc<StateFolder>,
    head: JournalHead,
    /// The length of the journal then.
    from: u64,
}

impl SnapshotStart {
    /// Writes these records, as many as were there.
    pub(crate) fn write(
        &self,
        records: impl Iterator<Item = io::Result<JournalRecord>>,
    ) -> io::Result<JournalSnapshot> {
        JournalSnapshot::write(&self.folder, self.head, records)
    }
}

/// Returns the length of the line that lists a record.
pub(crate) fn line_length(record: &JournalRecord) -> u64 {
    line::length(record.to_json().len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tollgate::Timestamp;

    use super::super::opening::{OnDamage, OpenJournal};
    use super::*;
    use crate::overrides::text::{LimitsText, LimitsWord, RecordText};

    fn set(version: u64) -> JournalChange {
        let limits = LimitsText::Word(LimitsWord::Unlimited);
        let text = RecordText { key: "global".into(), limits, label: None, note: None, by: None, at: 0 };
        let until = Some(Timestamp::EPOCH);
        JournalChange::Set(JournalRecord { name: "a:b=c".into(), version, until, text })
    }

    /// A disk that refuses writes: the file is open for reading alone.
    #[test]
    fn a_change_that_cannot_be_written_is_not_there_and_the_next_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL);
        let (mut file, _) =
            OpenJournal::open(folder.path(), OnDamage::Refuse).unwrap().into_records().unwrap();
        file.append(&[set(1)], 0).unwrap();
        let (version, bytes) = (file.version(), fs::read(&path).unwrap());

        let writable = file.file.replace(File::open(&path).unwrap());
        let failure = file.append(&[set(2)], 0).unwrap_err();
        assert!(failure.may_be_made, "what is on the disk cannot be cut off either");
        assert!(file.append(&[set(2)], 0).is_err_and(|failure| !failure.may_be_made), "nothing was written");
        assert_eq!((file.version(), fs::read(&path).unwrap()), (version, bytes.clone()));

        // A part of the write has arrived.
        file.file = writable;
        file.file.as_ref().unwrap().write_all_at(b"> 5f1c", file.length).unwrap();
        file.append(&[set(2)], 0).unwrap();
        let after = fs::read(&path).unwrap();
        assert!(after.starts_with(&bytes) && after.len() as u64 == file.length);
        drop(file);
        let (file, records) =
            OpenJournal::open(folder.path(), OnDamage::Refuse).unwrap().into_records().unwrap();
        assert_eq!((file.version().number, records.count()), (2, 1));
    }

    #[test]
    fn a_journal_is_long_if_more_than_half_of_it_is_dead() {
        let folder = Arc::new(StateFolder::open(tempfile::tempdir().unwrap().path()).unwrap());
        let head = JournalHead { epoch: 1, number: 1, records: 0 };
        let file = |length, live| JournalFile::new(Arc::clone(&folder), None, head, (length, live));
        assert!(!file(SMALL, 0).is_long(0));
        assert!(file(SMALL + 1, 0).is_long(0));
        assert!(!file(4 * SMALL, 2 * SMALL).is_long(0));
        assert!(file(4 * SMALL, 2 * SMALL - 1).is_long(0));
        assert!(!file(4 * SMALL, 0).is_long(3 * SMALL));
    }
}
