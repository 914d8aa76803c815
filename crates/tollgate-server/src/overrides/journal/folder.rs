//! The folder of `--state-dir`, which belongs to one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use thiserror::Error;

use crate::locked_file::LockedFile;

/// The file that is locked while a process uses the folder.
const LOCK: &str = "overrides.lock";

/// The file of overrides.
pub(super) const JOURNAL: &str = "overrides.journal";

/// One that is being written, to take its place.
pub(super) const NEW_JOURNAL: &str = "overrides.journal.new";

/// The folder, locked until this is dropped. A process that is killed leaves no lock.
#[derive(Debug)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// `None` if the disk is read-only: no process can change it.
    _lock: Option<LockedFile>,
}

/// A folder that cannot be used; the operator's fault.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateFolderError {
    /// A call of the system failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Something else has the name of the folder or of a file in it.
    #[error("{} is not a {wanted}", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it should be.
        wanted: &'static str,
    },
    /// Another user can change what is in it.
    #[error("{} belongs to the user {owner}, and this process runs as the user {user}", path.display())]
    OtherOwner {
        /// The file or folder.
        path: PathBuf,
        /// The number of the owner.
        owner: u32,
        /// The number of the user of this process.
        user: u32,
    },
    /// Other users can change what is in it.
    #[error(
        "other users can write to {} (its mode is {mode:04o}): run `chmod go-w` on it",
        path.display()
    )]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another process has it.
    #[error("{} is in use by {}: each process needs a folder of its own", path.display(), holder(*.process))]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The number of that process, if it has written it.
        process: Option<u32>,
    },
}

impl StateFolder {
    /// Opens the folder, and creates it if its parent is there.
    ///
    /// # Errors
    ///
    /// If another process uses it, if other users can change it, or if a call of the system fails.
    pub(crate) fn open(path: &Path) -> Result<Self, StateFolderError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(path)(error)),
            _ => {}
        }
        let metadata = fs::metadata(path).map_err(failed(path))?;
        if !metadata.is_dir() {
            return Err(StateFolderError::Kind { path: path.into(), wanted: "folder" });
        }
        expect_own(path, &metadata)?;
        let lock = lock(path)?;
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Returns the path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file in it; `None` if there is none.
    pub(super) fn open_file(
        &self,
        name: &str,
        options: &mut OpenOptions,
    ) -> Result<Option<File>, StateFolderError> {
        let path = self.file(name);
        match open(&path, options) {
            Ok(file) => Ok(Some(file)),
            Err(StateFolderError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Brings the names of its files to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Opens a file that is readable by its owner alone, and never waits for a writer of a pipe.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<File, StateFolderError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let options = options.mode(0o600).custom_flags(flags.bits() as i32);
    let file = options.open(path).map_err(failed(path))?;
    let metadata = file.metadata().map_err(failed(path))?;
    if !metadata.is_file() {
        return Err(StateFolderError::Kind { path: path.into(), wanted: "file" });
    }
    expect_own(path, &metadata)?;
    Ok(file)
}

fn lock(folder: &Path) -> Result<Option<LockedFile>, StateFolderError> {
    let path = folder.join(LOCK);
    let mut file = match open(&path, OpenOptions::new().read(true).write(true).create(true)) {
        Err(error) if is_read_only(&error) => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(StateFolderError::InUse { path: folder.into(), process });
        }
        Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
    }
    // For people: the lock holds without the number.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Some(LockedFile::new(file)))
}

/// Returns whether the disk cannot be written.
pub(super) fn is_read_only(error: &StateFolderError) -> bool {
    matches!(error, StateFolderError::Io { error, .. } if error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

fn expect_own(path: &Path, metadata: &fs::Metadata) -> Result<(), StateFolderError> {
    const WRITE_BY_OTHERS: u32 = 0o022;
    let (user, owner, mode) = (geteuid().as_raw(), metadata.uid(), metadata.mode() & 0o7777);
    if owner != user {
        return Err(StateFolderError::OtherOwner { path: path.into(), owner, user });
    }
    if mode & WRITE_BY_OTHERS != 0 {
        return Err(StateFolderError::Writable { path: path.into(), mode });
    }
    Ok(())
}

/// Wraps an error of a call about this path.
pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> StateFolderError {
    let path = path.to_owned();
    move |error| StateFolderError::Io { path: path.clone(), error }
}

fn holder(process: Option<u32>) -> String {
    match process {
        Some(process) => format!("the process {process}"),
        None => "another process".to_owned(),
    }
}
