//! One look at a file: its text, and what shows whether it has changed by the next look.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};
use tollgate_policy::{Config, ConfigError};

/// What the file held, or why it cannot be read.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) text: Result<String, ConfigError>,
    /// None if it cannot be opened.
    stamp: Option<Stamp>,
}

/// What shows whether a file was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    /// Where the file lies, with links followed.
    target: PathBuf,
}

impl Look {
    /// Reads the file now. It never waits for somebody who may write it: what is not a regular file, such as a pipe, is
    /// refused.
    pub(crate) fn at(path: &Path) -> Self {
        let name = path.display().to_string();
        match open(path) {
            Ok((file, stamp)) => Self { text: Config::read_from(&name, file), stamp: Some(stamp) },
            Err(source) => {
                Self { text: Err(ConfigError::Unreadable { file: name.into(), source }), stamp: None }
            }
        }
    }

    /// Whether nothing was written between the two looks, as far as anybody can tell.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.stamp == other.stamp && self.text.as_ref().ok() == other.text.as_ref().ok()
    }

    /// Where the file lies, with links followed, if it can be opened.
    pub(crate) fn target(&self) -> Option<&Path> {
        self.stamp.as_ref().map(|stamp| stamp.target.as_path())
    }
}

/// Opens the file without waiting for somebody who may write it. The stamp is taken before anything is read: what is
/// written in between shows in the next look.
pub(crate) fn open(path: &Path) -> io::Result<(File, Stamp)> {
    let open = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let file = File::from(open);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let stamp = Stamp { modified: metadata.modified()?, target: fs::canonicalize(path)? };
    Ok((file, stamp))
}
