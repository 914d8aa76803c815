//! A journal that cannot be read or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::folder::StateFolderError;
use super::line::{FORM, LineFault};

/// A journal that cannot be used. The fault of the operator, of the disk, or of whoever changed the file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The folder, or the file itself, cannot be opened.
    #[error(transparent)]
    Folder(#[from] StateFolderError),
    /// A call of the system failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Another version has written it.
    #[error("{} has form {form}, and this version of tollgate reads form {FORM}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: u32,
    },
    /// A part of it is not as it was written.
    #[error(
        "{} is damaged: {first}{}; `--recover` starts with the overrides that can be read",
        path.display(),
        more(*.further)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first damage.
        first: JournalDamage,
        /// How many more there are.
        further: usize,
    },
}

/// A place in a journal that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} (byte {offset}): {reason}")]
pub struct JournalDamage {
    /// The line, from 1.
    pub(super) line: u64,
    /// The bytes before it.
    pub(super) offset: u64,
    pub(super) reason: DamageReason,
}

/// See [`JournalDamage`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum DamageReason {
    #[error("{0}")]
    Line(#[from] LineFault),
    #[error("it is longer than any line of a journal")]
    TooLong,
    #[error("it was erased: there are zero bytes")]
    Erased,
    #[error("the file ends in it")]
    Cut,
    #[error("{0}")]
    Content(Box<str>),
    #[error("its form is {0}")]
    Form(u32),
    #[error("change {found} follows change {last}")]
    Order { last: u64, found: u64 },
    #[error("{found} records are listed, and there were {expected}")]
    Count { expected: u64, found: u64 },
}

fn more(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " and 1 more place".to_owned(),
        count => format!(" and {count} more places"),
    }
}
