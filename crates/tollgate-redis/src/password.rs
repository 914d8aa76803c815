//! A secret that cannot be printed.

use std::path::Path;
use std::{env, io};

use thiserror::Error;

use crate::small_file::SmallFile;

/// A password. It has neither `Debug` nor `Display`, so it cannot appear in a log or an error.
#[derive(Clone)]
pub struct Password {
    text: Box<str>,
    /// The file from which it is read again.
    file: Option<Box<Path>>,
}

/// The password is not where it should be. The fault of the configuration; a retry helps after it is fixed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// The environment variable is not set, or is not UTF-8.
    #[error("no password in the environment variable {variable}")]
    Variable {
        /// The variable's name.
        variable: Box<str>,
        /// The cause.
        source: env::VarError,
    },
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file's name.
        path: Box<Path>,
        /// The system's error.
        source: io::Error,
    },
    /// The file is empty.
    #[error("the file {path}, which should hold a password, is empty")]
    Empty {
        /// The file's name.
        path: Box<Path>,
    },
}

impl Password {
    /// Creates a password from this text.
    #[must_use]
    pub fn new(password: &str) -> Self {
        Self { text: password.into(), file: None }
    }

    /// Reads the password from an environment variable.
    ///
    /// # Errors
    ///
    /// If it is not set, or is not UTF-8.
    pub fn from_env(variable: &str) -> Result<Self, PasswordError> {
        match env::var(variable) {
            Ok(password) => Ok(Self::new(&password)),
            // The error of a value that is not UTF-8 contains the value, so it is dropped here.
            Err(_) if env::var_os(variable).is_some() => {
                Err(PasswordError::Variable { variable: variable.into(), source: env::VarError::NotPresent })
            }
            Err(source) => Err(PasswordError::Variable { variable: variable.into(), source }),
        }
    }

    /// Reads the password from a file, without a line break at its end. Each new connection reads the file again, so
    /// that the password can be changed while the store is used. While the file cannot be read, its last contents are
    /// used.
    ///
    /// # Errors
    ///
    /// If it [cannot be read](SmallFile::read), is not UTF-8, or is empty.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, PasswordError> {
        let path = path.as_ref();
        let text = SmallFile::read(path, SmallFile::MOST_SECRET_BYTES).and_then(|file| {
            // The error of bytes that are not UTF-8 contains them.
            String::from_utf8(file.bytes)
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
        });
        let text = text.map_err(|source| PasswordError::File { path: path.into(), source })?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let password = line.strip_suffix('\r').unwrap_or(line);
        if password.is_empty() {
            Err(PasswordError::Empty { path: path.into() })
        } else {
            Ok(Self { file: Some(path.into()), ..Self::new(password) })
        }
    }

    /// Returns whether it is in a file.
    pub(crate) const fn is_in_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the password that its file contains now, or the same one if it has no file.
    ///
    /// # Errors
    ///
    /// The same as [`from_file`](Self::from_file).
    pub(crate) fn read_again(&self) -> Result<Self, PasswordError> {
        self.file.as_ref().map_or_else(|| Ok(self.clone()), Self::from_file)
    }

    /// The text itself, for the one place that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn is_read_from_a_file_without_its_line_break() {
        for (text, password) in
            [("s3cret", "s3cret"), ("s3cret\n", "s3cret"), ("s3cret\r\n", "s3cret"), (" a b \n\n", " a b \n")]
        {
            assert_eq!(read_from(text).unwrap().reveal(), password);
        }
    }

    /// An empty password would be sent and refused, and the file would not be suspected.
    #[test]
    fn an_empty_file_is_no_password() {
        for text in ["", "\n", "\r\n"] {
            assert!(matches!(read_from(text), Err(PasswordError::Empty { .. })));
        }
    }

    fn read_from(text: &str) -> Result<Password, PasswordError> {
        let name = format!("tollgate-password-{:?}", std::thread::current().id());
        let path = env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        let read = Password::from_file(&path);
        fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn says_where_it_was_missed() {
        let Err(error) = Password::from_file("/nowhere/password") else { panic!("there is such a file") };
        assert_eq!(error.to_string(), "cannot read /nowhere/password");
        let Err(error) = Password::from_env("TOLLGATE_NO_SUCH") else { panic!("there is such a variable") };
        assert_eq!(error.to_string(), "no password in the environment variable TOLLGATE_NO_SUCH");
    }
}
