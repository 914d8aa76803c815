//! `tollgate token new`: a token, and the line for the file of `serve --tokens`.
//!
//! Both are printed, or written to files. A file of a token is never overwritten, and a file of principals only grows.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde_json::{Map, Value};
use thiserror::Error;
use tollgate_policy::{ConfigError, Sources};

pub use crate::access::principals::NoRandomness;
use crate::access::principals::{self, PrincipalLine};
use crate::args::NewTokenArgs;
use crate::locked_file::LockedFile;
use crate::observe::with_sources::WithSources;

/// Only the owner may read and write.
const MODE: u32 = 0o600;

/// The reason why there is no token. Nothing is left behind.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NewTokenError {
    /// The system returned no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The file of the token exists or cannot be written.
    #[error("`--token-file`: cannot create {}", path.display())]
    TokenFile {
        /// The path of the file.
        path: Box<Path>,
        /// The error of the system.
        source: io::Error,
    },
    /// The file of principals cannot be written.
    #[error("`--tokens`: cannot write {}", path.display())]
    Tokens {
        /// The path of the file.
        path: Box<Path>,
        /// The error of the system.
        source: io::Error,
    },
    /// A principal of the file has the name.
    #[error(
        "`--tokens`: {}:{line}: the name `{name}` is taken: choose another name; or, to replace its token, run the \
         command without `--tokens`, with the flags that line {line} was created with, and replace that line with \
         the one that it prints",
        path.display()
    )]
    NameTaken {
        /// The path of the file.
        path: Box<Path>,
        /// The line of the principal.
        line: usize,
        /// Its name.
        name: Box<str>,
    },
    /// The file of principals cannot be read, or would not be valid with the new line.
    #[error("`--tokens`: {}", WithSources(.0))]
    Invalid(ConfigError),
}

/// Creates a token, and writes it and its line to the files that are named. Returns the text to print.
///
/// # Errors
///
/// If the system returns no random bytes, the file of the token exists, or a file cannot be written. Also if the name
/// is taken, or the file of principals is invalid.
pub fn run(args: &NewTokenArgs) -> Result<String, NewTokenError> {
    let token = principals::generate()?;
    let policies = (!args.policies.is_empty()).then_some(&args.policies[..]);
    let line = PrincipalLine::of_token(&token, &args.name, &args.scopes, policies, args.expires);
    // This cannot fail: all keys are texts.
    let line = serde_json::to_string(&line).unwrap_or_default();
    write(args, &token, &line)?;
    Ok(if args.json { json(args, token, line) } else { readable(args, &token, &line) })
}

fn json(args: &NewTokenArgs, token: String, line: String) -> String {
    let token = args.token_file.is_none().then(|| ("token".to_owned(), Value::from(token)));
    let printed: Map<String, Value> = token.into_iter().chain([("line".to_owned(), line.into())]).collect();
    format!("{}\n", Value::from(printed))
}

fn readable(args: &NewTokenArgs, token: &str, line: &str) -> String {
    let token = match &args.token_file {
        None => format!("The token, which is only shown this once:\n{token}\n"),
        Some(path) => format!("The token is in {}, which only you can read.\n", path.display()),
    };
    let line = match &args.tokens {
        None => format!("The line for the file of --tokens:\n{line}\n"),
        Some(path) => format!("Its line is in {}.\n", path.display()),
    };
    format!("{token}\n{line}")
}

/// Writes both files, or neither.
fn write(args: &NewTokenArgs, token: &str, line: &str) -> Result<(), NewTokenError> {
    // Opened first, so that one path for both files is refused, however it is spelled.
    let tokens = args.tokens.as_deref().map(|path| Tokens::open(path, &args.name, line)).transpose()?;
    let token_file = args.token_file.as_deref().map(|path| created(path, token).map(|()| path)).transpose();
    match (tokens, token_file) {
        (None, token_file) => token_file.map(drop),
        (Some(tokens), Err(error)) => {
            tokens.discard();
            Err(error)
        }
        (Some(tokens), Ok(token_file)) => tokens.append().inspect_err(|_| {
            let _ = token_file.map(fs::remove_file);
        }),
    }
}

fn created(path: &Path, token: &str) -> Result<(), NewTokenError> {
    let fails = |source| NewTokenError::TokenFile { path: path.into(), source };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path).map_err(fails)?;
    writeln!(file, "{token}").map_err(|source| {
        let _ = fs::remove_file(path);
        fails(source)
    })
}

/// The file of principals, open and locked, and the line to add to it.
struct Tokens<'a> {
    path: &'a Path,
    file: LockedFile,
    /// Its length before the addition.
    length: u64,
    /// Whether this process has created it.
    is_new: bool,
    addition: String,
}

impl<'a> Tokens<'a> {
    fn open(path: &'a Path, principal: &str, line: &str) -> Result<Self, NewTokenError> {
        let fails = |source| NewTokenError::Tokens { path: path.into(), source };
        let (file, is_new) = locked(path).map_err(fails)?;
        let metadata = file.metadata().map_err(fails)?;
        if !metadata.is_file() {
            // It would wait for the writer of a pipe, which is this process.
            return Err(fails(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")));
        }
        let length = metadata.len();
        let name = path.display().to_string();
        let text = Sources::text_of(&name, &*file).map_err(NewTokenError::Invalid)?;
        if let Some(line) = principals::line_of(principal, &text) {
            return Err(NewTokenError::NameTaken { path: path.into(), line, name: principal.into() });
        }
        let addition = principals::addition(&name, &text, line).map_err(NewTokenError::Invalid)?;
        Ok(Self { path, file, length, is_new, addition })
    }

    /// Adds the line in one write, so that a service that reads the file meanwhile finds the whole line or none of it.
    fn append(self) -> Result<(), NewTokenError> {
        let written = (&*self.file).write_all(self.addition.as_bytes());
        written.map_err(|source| {
            let path = self.path.into();
            self.discard();
            NewTokenError::Tokens { path, source }
        })
    }

    /// Leaves the file as it was. A part of the line may have been written to a full disk.
    fn discard(self) {
        // Another process may have added a line between the creation and the lock.
        if self.is_new && self.length == 0 {
            let _ = fs::remove_file(self.path);
        } else {
            let _ = self.file.set_len(self.length);
        }
    }
}

/// Opens the file for one process at a time, so that no two of them add the same name. Returns also whether this
/// process has created it.
fn locked(path: &Path) -> io::Result<(LockedFile, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(MODE);
    loop {
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (options.open(path)?, false),
            Err(error) => return Err(error),
        };
        file.lock()?;
        // The process that had the lock before may have removed its file.
        if file.metadata()?.nlink() > 0 {
            return Ok((LockedFile::new(file), is_new));
        }
    }
}
