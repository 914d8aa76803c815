//! The places of logs.

mod compression;
mod elements;
mod files;

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;

pub(crate) use self::files::{FIRST_LINES, Log, Stream, expand, read_error};

/// A place with logs.
pub enum Input {
    /// A file, a folder whose files are all read (those of its folders as well), or a pattern such as `access.log*`. It
    /// is a pattern only if no file has this name.
    Path(PathBuf),
    /// The standard input, which is named `-`.
    Stdin,
    /// Something else that can be read, and its name.
    Read(String, Box<dyn Read + Send>),
}

/// `-` is the standard input, everything else a path.
impl<T: AsRef<OsStr>> From<T> for Input {
    fn from(name: T) -> Self {
        match name.as_ref() {
            name if name == "-" => Self::Stdin,
            name => Self::Path(name.into()),
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stdin => f.write_str("Stdin"),
            Self::Read(name, _) => f.debug_tuple("Read").field(name).finish_non_exhaustive(),
        }
    }
}
