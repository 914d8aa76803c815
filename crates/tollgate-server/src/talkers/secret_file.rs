//! The file with the secret of ids.

use std::path::Path;

use thiserror::Error;
use tollgate_redis::SmallFile;

use super::TalkerSecret;
use crate::observe::secret_file::public_mode;

/// The reason why there is no secret. The fault of the file's author.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TalkersSecretError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file's name.
        path: Box<Path>,
        /// The system's error.
        source: std::io::Error,
    },
    /// Every user of this machine can read it, and find out whose an id is.
    #[error("every user of this machine can read {path}: `chmod 600` prevents that")]
    Public {
        /// The file's name.
        path: Box<Path>,
    },
    /// It is not a secret of this form.
    #[error("{path} does not consist of 64 hexadecimal digits: `openssl rand -hex 32` creates a secret")]
    Form {
        /// The file's name.
        path: Box<Path>,
    },
}

impl TalkerSecret {
    /// Reads 32 bytes as hexadecimal digits, without surrounding white space.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, if everybody can read it, or if it has another content.
    pub(crate) fn from_file(path: &Path) -> Result<Self, TalkersSecretError> {
        let file = SmallFile::read(path, SmallFile::MOST_SECRET_BYTES)
            .map_err(|source| TalkersSecretError::File { path: path.into(), source })?;
        if public_mode(&file.metadata).is_some() {
            return Err(TalkersSecretError::Public { path: path.into() });
        }
        let secret = bytes(file.bytes.trim_ascii());
        secret.map(|secret| Self::new(&secret)).ok_or(TalkersSecretError::Form { path: path.into() })
    }
}

/// Returns the bytes of hexadecimal digits, if they are as many as a secret has.
fn bytes(digits: &[u8]) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    let digits: Option<Vec<u8>> =
        digits.iter().map(|digit| char::from(*digit).to_digit(16).map(|value| value as u8)).collect();
    let digits = digits.filter(|digits| digits.len() == 2 * secret.len())?;
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().fold(0, |high, low| high << 4 | low);
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_64_hexadecimal_digits() {
        let digits = "00ff".repeat(16);
        assert_eq!(bytes(digits.as_bytes()).map(|bytes| bytes[..4].to_vec()), Some(vec![0, 255, 0, 255]));
        for wrong in [&digits[1..], &format!("{digits}0"), "", &digits.replace('f', "g")] {
            assert_eq!(bytes(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
