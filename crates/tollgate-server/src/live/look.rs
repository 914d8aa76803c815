//! One look at files: their texts, and the stamps that show whether they have changed by the next look.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tollgate_policy::{ConfigError, Sources};
use tollgate_redis::SmallFile;

/// The files that are read together.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    /// One file.
    One(PathBuf),
    /// Policy files, and folders of them.
    Policies(Vec<PathBuf>),
}

/// The texts of files, or the reason why one of them cannot be read.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) sources: Result<Sources, ConfigError>,
    /// One for each file that can be opened.
    stamps: Vec<Stamp>,
}

/// The data that shows whether a file was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    /// The path of the file, with links resolved.
    target: PathBuf,
}

impl Files {
    /// The files and folders as the user named them.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Policies(paths) => paths,
        }
    }
}

impl Look {
    /// Reads the files now. It never waits for a writer: anything but a regular file, such as a pipe, is refused.
    pub(crate) fn at(files: &Files) -> Self {
        let mut stamps = Vec::new();
        let mut open = |path: &Path| {
            let (file, stamp) = open(path)?;
            stamps.push(stamp);
            Ok(file)
        };
        let sources = match files {
            Files::One(path) => {
                let name = path.display().to_string();
                let file = open(path)
                    .map_err(|source| ConfigError::Unreadable { file: name.as_str().into(), source });
                file.and_then(|file| Ok(Sources::of(&name, Sources::text_of(&name, file)?)))
            }
            Files::Policies(paths) => Sources::read_by(paths, open),
        };
        Self { sources, stamps }
    }

    /// Returns whether nothing was written between the two looks, as far as the stamps show.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.stamps == other.stamps && self.sources.as_ref().ok() == other.sources.as_ref().ok()
    }

    /// Returns the paths of the files that can be opened, with links resolved.
    pub(crate) fn targets(&self) -> Vec<PathBuf> {
        self.stamps.iter().map(|stamp| stamp.target.clone()).collect()
    }
}

/// Opens the file without waiting for a writer. It takes the stamp before anything is read, so that the next look shows
/// any write in between.
pub(crate) fn open(path: &Path) -> io::Result<(File, Stamp)> {
    let file = SmallFile::open(path)?;
    let stamp = Stamp { modified: file.metadata()?.modified()?, target: fs::canonicalize(path)? };
    Ok((file, stamp))
}
