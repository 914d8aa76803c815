//! A new journal that has only the overrides there are.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;

use super::change::{JournalHead, JournalRecord};
use super::folder::{self, JOURNAL, NEW_JOURNAL, StateFolder, StateFolderError};
use super::line::{self, LinePlace};

/// How much is written at once.
const CHUNK: usize = 1 << 20;

/// A journal without its final name.
#[derive(Debug)]
pub(crate) struct JournalSnapshot {
    pub(super) file: File,
    pub(super) head: JournalHead,
    /// Its bytes.
    pub(super) length: u64,
    /// Those of its records.
    pub(super) live_bytes: u64,
}

impl JournalSnapshot {
    /// Writes these records, as many as `head` says. They are not on the disk yet.
    pub(super) fn write(
        folder: &StateFolder,
        head: JournalHead,
        records: impl Iterator<Item = io::Result<JournalRecord>>,
    ) -> io::Result<Self> {
        let path = folder.file(NEW_JOURNAL);
        // That of a process that was stopped.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let file = folder::open(&path, options.read(true).write(true).create_new(true)).map_err(plain)?;
        let mut writer = BufWriter::with_capacity(CHUNK, file);
        let mut bytes = Vec::new();
        line::write(&mut bytes, LinePlace::First, &head.to_json());
        let (mut length, mut live_bytes, mut listed) = (bytes.len() as u64, 0, 0);
        for record in records {
            writer.write_all(&bytes)?;
            bytes.clear();
            line::write(&mut bytes, LinePlace::Later, &record?.to_json());
            listed += 1;
            live_bytes += bytes.len() as u64;
        }
        writer.write_all(&bytes)?;
        length += live_bytes;
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        if listed != head.records {
            return Err(io::Error::other("the overrides have changed meanwhile"));
        }
        Ok(Self { file, head, length, live_bytes })
    }

    /// Adds lines of another journal.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all_at(lines, self.length)?;
        self.length += lines.len() as u64;
        Ok(())
    }

    /// Brings it to the disk, and gives it its name. From then on it is the journal, but after a crash it may be the one
    /// before, until the folder is on the disk as well.
    pub(super) fn publish(&self, folder: &StateFolder) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(folder.file(NEW_JOURNAL), folder.file(JOURNAL))
    }
}

fn plain(error: StateFolderError) -> io::Error {
    match error {
        StateFolderError::Io { error, .. } => error,
        error => io::Error::other(error),
    }
}
