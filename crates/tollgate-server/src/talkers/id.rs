//! Ids of talkers: what a page shows instead of a key.

use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::str::FromStr;
use std::sync::Arc;

use ring::hmac;
use siphasher::sip::SipHasher13;
use thiserror::Error;
use tollgate::Key;

/// The secret of all ids. Without it, nobody can tell whose id it is: a plain hash of an address is found by trying all
/// addresses.
#[derive(Debug, Clone)]
pub(crate) struct TalkerSecret(Arc<hmac::Key>);

/// The id of a key under one policy, as it is shown: `k_` and ten hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TalkerId(u64);

/// The text is not the id of a talker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected the id of a talker: `k_` and ten hexadecimal digits")]
pub(crate) struct TalkerIdError;

/// Makes the ids of one policy or rule. The same key has other ids under others.
#[derive(Clone)]
pub(super) struct IdMaker(SipHasher13);

impl TalkerSecret {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    pub(super) fn ids_of(&self, subject: &str) -> IdMaker {
        let tag = hmac::sign(&self.0, format!("talkers of {subject}").as_bytes());
        let key = tag.as_ref().first_chunk::<16>().copied().unwrap_or_default();
        IdMaker(SipHasher13::new_with_key(&key))
    }
}

impl IdMaker {
    pub(super) fn id(&self, key: &Key<'_>) -> u64 {
        let mut hasher = self.0;
        key.hash(&mut hasher);
        hasher.finish()
    }
}

/// Without the secret.
impl fmt::Debug for IdMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdMaker")
    }
}

impl TalkerId {
    const DIGITS: usize = 10;

    /// The id with this hash. The table of a summary uses other bits of it.
    pub(super) const fn of(hash: u64) -> Self {
        Self(hash >> (64 - 4 * Self::DIGITS))
    }
}

impl fmt::Display for TalkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k_{:010x}", self.0)
    }
}

impl FromStr for TalkerId {
    type Err = TalkerIdError;

    fn from_str(text: &str) -> Result<Self, TalkerIdError> {
        let digits =
            text.strip_prefix("k_").filter(|digits| digits.len() == Self::DIGITS).ok_or(TalkerIdError)?;
        // `from_str_radix` would accept a sign, and an id is written in one way.
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let number = digits.bytes().all(is_digit).then(|| u64::from_str_radix(digits, 16).ok());
        number.flatten().map(Self).ok_or(TalkerIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_the_secret_the_policy_and_the_key() {
        let id = |secret: &[u8], policy, key: &str| {
            TalkerId::of(TalkerSecret::new(secret).ids_of(policy).id(&key.into()))
        };
        let first = id(&[7; 32], "search", "alice");
        assert_eq!(first, id(&[7; 32], "search", "alice"));
        for other in
            [id(&[8; 32], "search", "alice"), id(&[7; 32], "login", "alice"), id(&[7; 32], "search", "bob")]
        {
            assert_ne!(first, other);
        }
        // Equal across a fleet, so it never changes.
        assert_eq!(first.to_string(), "k_cceae4f048");
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = TalkerId::of(0x0123_4567_89ab_cdef);
        assert_eq!((id.to_string().as_str(), "k_0123456789".parse()), ("k_0123456789", Ok(id)));
        for wrong in [
            "",
            "k_",
            "k_012345678",
            "k_01234567890",
            "k_+123456789",
            "k_ABCDEF0123",
            "K_0123456789",
            "k_é23456789",
        ] {
            assert_eq!(wrong.parse::<TalkerId>(), Err(TalkerIdError), "{wrong}");
        }
    }
}
