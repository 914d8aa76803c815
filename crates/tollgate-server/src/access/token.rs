//! Tokens and their digests. Only digests are stored.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::hint::black_box;

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

/// The prefix of our tokens, by which people and secret scanners recognize them.
const PREFIX: &str = "tg_";

/// Too many to guess, even from the digest.
const RANDOM_BYTES: usize = 32;

/// The SHA-256 of a token. `Debug` hides it, because it identifies the token.
#[derive(Clone, Copy)]
pub(crate) struct Digest([u8; SHA256_OUTPUT_LEN]);

/// The system returned no random bytes. A retry may help.
#[derive(Debug, Error)]
#[error("the system provides no random bytes")]
pub struct NoRandomness;

impl Digest {
    pub(crate) const HEX_DIGITS: usize = 2 * SHA256_OUTPUT_LEN;

    pub(crate) fn of(token: &[u8]) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, token).as_ref());
        Self(bytes)
    }

    /// Parses hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        if text.len() != Self::HEX_DIGITS {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }

    pub(crate) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Compares all bytes, wherever they differ first.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && black_box(differences) == 0
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        is_equal(&self.0, &other.0)
    }
}

impl Eq for Digest {}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

/// Returns a new token of 256 random bits.
///
/// # Errors
///
/// If the system returns no random bytes.
pub(crate) fn generate() -> Result<String, NoRandomness> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    // Short enough to be hashed as one block.
    Ok(format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_sha256sum() {
        // printf %s abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(Digest::parse(abc) == Some(Digest::of(b"abc")));
        assert!(Digest::parse(&abc.to_uppercase()) == Some(Digest::of(b"abc")));
        assert_eq!(Digest::of(b"abc").to_hex(), abc);
        for text in
            ["", "ba78", &abc[1..], &format!("{abc}0"), &abc.replace('b', "g"), &abc.replace("ba", "ä")]
        {
            assert!(Digest::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn digests_differ_wherever_one_bit_does() {
        let digest = Digest::of(b"abc");
        for bit in 0..8 * SHA256_OUTPUT_LEN {
            let mut other = digest;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert!(other != digest, "bit {bit}");
        }
    }

    #[test]
    fn every_token_is_another() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with(PREFIX) && one.len() == PREFIX.len() + 43, "{one}");
    }
}
