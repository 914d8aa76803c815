//! The form of a key in the name of a counter.

use std::fmt;
use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::Path;

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::hmac;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tollgate::Key;

use crate::small_file::SmallFile;

/// The form of a key in the name of a counter. Another choice or another secret starts new counters.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum KeyIdentity {
    /// As 22 characters of base64url: the first 128 bits of the SHA-256 of the key's [canonical
    /// bytes](Key::canonical_bytes); the length is always the same. The store does not show the keys, but a guess can
    /// be checked, and anyone who can try a few billion keys finds every one: all IPv4 addresses take minutes.
    #[default]
    Digest,
    /// As a digest of the same form, with this secret as its key: HMAC-SHA-256 instead of SHA-256. Nobody can check a
    /// guess without the secret. All processes that count together need the same one.
    Keyed(IdentitySecret),
    /// Readable, for examining the store. Letters, digits and `-._~/@+` are unchanged, every other byte of a text is
    /// written as `%` and two hexadecimal digits, and the empty text as `'`. A number begins with `#`, bytes are `$`
    /// and hexadecimal digits, an address begins with `=`, and parts are `(one,after,another)`.
    Plain,
}

/// A secret for the digests of keys. Its `Debug` does not show it.
///
/// # Examples
///
/// ```
/// use tollgate::Key;
/// use tollgate_redis::{IdentitySecret, KeyIdentity};
///
/// let secret = IdentitySecret::new(b"made by `openssl rand -base64 32`")?;
/// let key = Key::from("alice");
/// assert_ne!(KeyIdentity::Keyed(secret).digest_of(&key), KeyIdentity::Digest.digest_of(&key));
/// # Ok::<(), tollgate_redis::IdentitySecretError>(())
/// ```
#[derive(Clone)]
pub struct IdentitySecret(hmac::Key);

impl fmt::Debug for IdentitySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentitySecret(..)")
    }
}

/// The reason why there is no secret. The fault of its author, or of the setting that names its file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentitySecretError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file's name.
        path: Box<Path>,
        /// The system's error.
        source: io::Error,
    },
    /// Every user of the machine may read or write the file.
    #[error(
        "every user of this machine can access the secret in the file {path} (its mode is {mode:o}): run `chmod o= {path}`"
    )]
    Exposed {
        /// The file's name.
        path: Box<Path>,
        /// The file's mode, as the system reports it.
        mode: u32,
    },
    /// It could be guessed.
    #[error(
        "the secret{} has {bytes} bytes, and needs at least {}: `openssl rand -base64 32` creates one",
        .path.as_ref().map(|path| format!(" in the file {}", path.display())).unwrap_or_default(),
        IdentitySecret::LEAST_BYTES
    )]
    Short {
        /// The file's name, if it is from one.
        path: Option<Box<Path>>,
        /// The number of its bytes.
        bytes: usize,
    },
    /// It is some other file.
    #[error("the file {path} has more than {} bytes, too many for a secret", IdentitySecret::MOST_BYTES)]
    Long {
        /// The file's name.
        path: Box<Path>,
    },
}

impl KeyIdentity {
    /// Returns the digest of the key, for logs, which must not contain keys: with the secret if there is one.
    #[must_use]
    pub fn digest_of(&self, key: &Key<'_>) -> String {
        String::from_utf8_lossy(&digest_text(self.digest_bits(key))).into_owned()
    }

    /// Returns the bits of the same digest, the first byte highest: for tables by key that hold no keys.
    /// [`Plain`](Self::Plain) has the bits of [`Digest`](Self::Digest).
    #[must_use]
    pub fn digest_bits(&self, key: &Key<'_>) -> u128 {
        let mut digest = [0; 16];
        match self {
            Self::Digest | Self::Plain => {
                let mut sha256 = Sha256::new();
                key.hash(&mut CanonicalBytes(|bytes: &[u8]| sha256.update(bytes)));
                digest.copy_from_slice(&sha256.finalize()[..16]);
            }
            Self::Keyed(IdentitySecret(secret)) => {
                let mut hmac = hmac::Context::with_key(secret);
                key.hash(&mut CanonicalBytes(|bytes: &[u8]| hmac.update(bytes)));
                digest.copy_from_slice(&hmac.sign().as_ref()[..16]);
            }
        }
        u128::from_be_bytes(digest)
    }
}

/// Returns a digest as base64url.
pub(crate) fn digest_text(bits: u128) -> [u8; 22] {
    let mut text = [0; 22];
    // There is room for 16 bytes, so this cannot fail.
    let _ = Base64UrlUnpadded::encode(&bits.to_be_bytes(), &mut text);
    text
}

/// Takes the canonical bytes of a key, which hashes them, so that they need no buffer.
struct CanonicalBytes<F>(F);

impl<F: FnMut(&[u8])> Hasher for CanonicalBytes<F> {
    fn write(&mut self, bytes: &[u8]) {
        (self.0)(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl IdentitySecret {
    /// The minimum length of a secret, in bytes.
    pub const LEAST_BYTES: usize = 32;

    /// The maximum size of a file with a secret, in bytes.
    pub const MOST_BYTES: usize = 4096;

    /// These bytes.
    ///
    /// # Errors
    ///
    /// If there are fewer than [`LEAST_BYTES`](Self::LEAST_BYTES).
    pub fn new(secret: &[u8]) -> Result<Self, IdentitySecretError> {
        let bytes = secret.len();
        if bytes < Self::LEAST_BYTES {
            return Err(IdentitySecretError::Short { path: None, bytes });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// Reads the contents of the file, without surrounding white space.
    ///
    /// # Errors
    ///
    /// If it cannot be read, if every user of the machine may read or write it, or if it is too short or too long for a
    /// secret.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, IdentitySecretError> {
        let path = path.as_ref();
        let SmallFile { bytes, metadata } =
            SmallFile::read(path, Self::MOST_BYTES).map_err(|source| match source.kind() {
                io::ErrorKind::FileTooLarge => IdentitySecretError::Long { path: path.into() },
                _ => IdentitySecretError::File { path: path.into(), source },
            })?;
        if let Some(mode) = exposing_mode(&metadata) {
            return Err(IdentitySecretError::Exposed { path: path.into(), mode });
        }
        Self::new(bytes.trim_ascii()).map_err(|error| match error {
            IdentitySecretError::Short { bytes, .. } => {
                IdentitySecretError::Short { path: Some(path.into()), bytes }
            }
            other => other,
        })
    }
}

/// Returns the file's mode, if users other than its owner and its group may read or write it.
#[cfg(unix)]
fn exposing_mode(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let mode = metadata.mode() & 0o777;
    (mode & 0o006 != 0).then_some(mode)
}

/// Other systems have no such mode.
#[cfg(not(unix))]
fn exposing_mode(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    /// Names of live counters, which the next version has to find again. By another program:
    /// `hmac.new(secret, b"\x01\x05alice", "sha256")`, and so on.
    #[test]
    fn keyed_digests_stay_what_they_are() {
        let keyed = KeyIdentity::Keyed(IdentitySecret::new(SECRET).unwrap());
        assert_eq!(keyed.digest_of(&"alice".into()), "zkEp-ll_AWvzt1KHA6QgnQ");
        assert_eq!(format!("{keyed:?}"), "Keyed(IdentitySecret(..))");
    }

    #[test]
    fn another_secret_makes_other_digests() {
        let digest = |secret: &[u8]| {
            KeyIdentity::Keyed(IdentitySecret::new(secret).unwrap()).digest_of(&"alice".into())
        };
        assert_ne!(digest(SECRET), digest(b"another secret of at least 32 bytes"));
        assert_ne!(digest(SECRET), KeyIdentity::Digest.digest_of(&"alice".into()));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_keep_a_secret_is_refused_with_what_to_do() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |text: &[u8], mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            IdentitySecret::from_file(&path).map(KeyIdentity::Keyed)
        };
        let lines = [SECRET, b"\n"].concat();
        for mode in [0o600, 0o400, 0o640, 0o440] {
            let keyed = read(&lines, mode).unwrap();
            assert_eq!(keyed.digest_of(&"alice".into()), "zkEp-ll_AWvzt1KHA6QgnQ");
        }
        let name = path.display();
        for (text, mode, why) in [
            (&lines[..], 0o644, format!("(its mode is 644): run `chmod o= {name}`")),
            (&lines, 0o602, format!("(its mode is 602): run `chmod o= {name}`")),
            (
                b"\n short \n",
                0o600,
                format!("the secret in the file {name} has 5 bytes, and needs at least 32"),
            ),
            (b"", 0o600, format!("{name} has 0 bytes")),
            (&[b'x'; 5000], 0o600, format!("the file {name} has more than 4096 bytes")),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(&why), "{error}");
        }
        let error = IdentitySecret::from_file("/nowhere/secret").unwrap_err().to_string();
        assert_eq!(error, "cannot read /nowhere/secret");
    }
}
