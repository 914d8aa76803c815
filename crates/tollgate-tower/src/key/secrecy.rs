//! Hashes of values that may be secret, for keys.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use tollgate::Key;

use super::{ExtractedIdentity, InvalidIdentity, MissingIdentity};

/// How a value becomes a key.
#[derive(Clone)]
pub(super) enum Secrecy {
    /// As it is.
    Plain,
    /// Its SHA-256.
    Hashed,
    /// Its HMAC-SHA-256, with a prepared key.
    Keyed(Hmac<Sha256>),
}

impl Secrecy {
    pub(super) fn keyed(key: &[u8]) -> Self {
        // Keys of any length are taken; longer ones than a block are hashed first (RFC 2104).
        Hmac::new_from_slice(key).map_or(Self::Hashed, Self::Keyed)
    }

    /// Returns the identity with this value, which is called `what`.
    pub(super) fn identity<'r>(&self, value: Option<&'r [u8]>, what: &'r str) -> ExtractedIdentity<'r> {
        match value {
            Some(value) => Ok(self.key(value, what)?.into()),
            None => Ok(MissingIdentity::by_caller(what).into()),
        }
    }

    /// Returns the key of this value, which is called `what`.
    pub(super) fn key<'r>(&self, value: &'r [u8], what: &str) -> Result<Key<'r>, InvalidIdentity> {
        match self.hash(value) {
            Some(hash) => Ok(Key::from(&hash).into_owned()),
            None => Ok(Key::from(text(value, what)?)),
        }
    }

    /// The value, or its hash in hex.
    #[cfg(feature = "policy")]
    pub(super) fn text<'r>(
        &self,
        value: &'r [u8],
        what: &str,
    ) -> Result<std::borrow::Cow<'r, str>, InvalidIdentity> {
        match self.hash(value) {
            Some(hash) => Ok(hash.map(|byte| format!("{byte:02x}")).concat().into()),
            None => Ok(text(value, what)?.into()),
        }
    }

    /// `None` if it is plain.
    fn hash(&self, value: &[u8]) -> Option<[u8; 32]> {
        match self {
            Self::Plain => None,
            Self::Hashed => Some(Sha256::digest(value).into()),
            Self::Keyed(mac) => Some(mac.clone().chain_update(value).finalize().into_bytes().into()),
        }
    }
}

/// Plain values are texts, as in policies; other encodings are invalid.
pub(super) fn text<'r>(value: &'r [u8], what: &str) -> Result<&'r str, InvalidIdentity> {
    std::str::from_utf8(value).map_err(|_| InvalidIdentity::malformed(format!("{what} is not UTF-8 text")))
}

/// Returns the value that all of these share, without surrounding space; `None` if all are empty.
///
/// # Errors
///
/// If they differ, because other readers might use another one.
pub(super) fn sole<'r>(
    values: impl IntoIterator<Item = &'r [u8]>,
    what: &str,
) -> Result<Option<&'r [u8]>, InvalidIdentity> {
    let mut values = values.into_iter().map(<[u8]>::trim_ascii);
    let Some(first) = values.next() else { return Ok(None) };
    if values.any(|other| other != first) {
        return Err(given_twice(what));
    }
    Ok((!first.is_empty()).then_some(first))
}

#[cold]
pub(super) fn given_twice(what: &str) -> InvalidIdentity {
    InvalidIdentity::malformed(format!("{what} is given more than once"))
}

/// Only the kind, never the key.
impl fmt::Debug for Secrecy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Hashed => "Hashed",
            Self::Keyed(_) => "Keyed",
        })
    }
}
