//! The stamp of a file, which shows whether it was written since.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tollgate_redis::SmallFile;

/// The data that shows whether a file was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: SystemTime,
    /// The path of the file, with links resolved.
    target: PathBuf,
}

impl FileStamp {
    /// Opens the file without waiting for a writer. It takes the stamp before anything is read, so that the next
    /// reading shows any write in between.
    pub(crate) fn open(path: &Path) -> io::Result<(File, Self)> {
        let file = SmallFile::open(path)?;
        let stamp = Self { modified: file.metadata()?.modified()?, target: fs::canonicalize(path)? };
        Ok((file, stamp))
    }

    /// The path of the file, with links resolved.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }
}
