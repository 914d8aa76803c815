//! Files that cannot be used.

use std::{fmt, io};

use thiserror::Error;

use crate::printable::Printable;
use crate::problem::Problem;

/// The file cannot be used: it cannot be read, or it is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", Printable(file))]
    Unreadable {
        /// The file.
        file: Box<str>,
        /// Why not.
        source: io::Error,
    },
    /// The file is larger than [`Sources::MAX_BYTES`](crate::Sources::MAX_BYTES).
    #[error("{} is larger than 16 MiB, too large for a policy file", Printable(file))]
    TooLarge {
        /// The file.
        file: Box<str>,
    },
    /// A folder has no file that is read.
    #[error("{} contains no file that ends in .yaml or .yml", Printable(folder))]
    NoFile {
        /// The folder.
        folder: Box<str>,
    },
    /// There are more files than [`Sources::MAX_FILES`](crate::Sources::MAX_FILES).
    #[error("{} is one file too many: at most 1000 can be read together", Printable(file))]
    TooMany {
        /// The first file that is one too many.
        file: Box<str>,
    },
    /// The files together are larger than [`Sources::MAX_BYTES`](crate::Sources::MAX_BYTES).
    #[error("with {}, the files together are larger than 16 MiB", Printable(file))]
    TooLargeTogether {
        /// The file with which they become larger.
        file: Box<str>,
    },
    /// Every problem of the files, one a line.
    #[error("{}", ProblemLines(files, problems))]
    Invalid {
        /// The files that were read together.
        files: Box<[Box<str>]>,
        /// Their problems, in the order of the files and their lines.
        problems: Box<[Problem]>,
    },
}

impl ConfigError {
    /// Returns a file with these problems.
    #[must_use]
    pub fn invalid(file: &str, problems: impl Into<Box<[Problem]>>) -> Self {
        Self::Invalid { files: [file.into()].into(), problems: problems.into() }
    }

    /// Returns a file that cannot be read.
    #[must_use]
    pub fn unreadable(file: &str, source: io::Error) -> Self {
        Self::Unreadable { file: file.into(), source }
    }
}

/// Each problem under its file's name, as compilers do it.
struct ProblemLines<'a>(&'a [Box<str>], &'a [Problem]);

impl fmt::Display for ProblemLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(files, problems) = self;
        for (index, problem) in problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            let file = files.get(problem.at().file as usize).map_or("", AsRef::as_ref);
            write!(f, "{separator}{}:{problem}", Printable(file))?;
        }
        Ok(())
    }
}
