//! The key of an override, as a digest.

use std::fmt;
use std::str::FromStr;

use tollgate::Key;

use super::OverrideNameError;

/// The key of an override: a digest, because keys may be persons or secrets.
///
/// It is displayed in base64url, as in the names of counters in a shared store.
///
/// # Examples
///
/// ```
/// use tollgate_policy::OverrideKey;
///
/// let key = OverrideKey(0xc57b_d3c6_dd1c_69ad_d1f0_6352_4b6d_ac93);
/// assert_eq!(key.to_string(), "xXvTxt0caa3R8GNSS22skw");
/// assert_eq!(key.to_string().parse(), Ok(key));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OverrideKey(pub u128);

/// Computes the digests by which overrides know keys.
///
/// Different keys have different digests, and a key always has the same one. Every process that shares the overrides
/// needs the same digests.
pub trait OverrideDigest: Send + Sync {
    /// Returns the digest of a key.
    fn digest(&self, key: &Key<'_>) -> u128;
}

impl<F: Fn(&Key<'_>) -> u128 + Send + Sync> OverrideDigest for F {
    fn digest(&self, key: &Key<'_>) -> u128 {
        self(key)
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Characters of a digest: 21 of 6 bits and one of 2, which is filled up with zeros.
const CHARACTERS: u32 = 22;

impl fmt::Display for OverrideKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in 0..CHARACTERS {
            let bits = match 122_u32.checked_sub(place * 6) {
                Some(shift) => self.0 >> shift,
                None => self.0 << 4,
            };
            let character = ALPHABET.get((bits & 63) as usize).copied().unwrap_or(b'A');
            write!(f, "{}", char::from(character))?;
        }
        Ok(())
    }
}

impl FromStr for OverrideKey {
    type Err = OverrideNameError;

    fn from_str(text: &str) -> Result<Self, OverrideNameError> {
        if text.len() != CHARACTERS as usize {
            return Err(OverrideNameError);
        }
        let mut digest = 0_u128;
        for (place, byte) in (0_u32..).zip(text.bytes()) {
            let bits = ALPHABET.iter().position(|known| *known == byte).ok_or(OverrideNameError)? as u128;
            digest |= match 122_u32.checked_sub(place * 6) {
                Some(shift) => bits << shift,
                // Another text would be the same key.
                None if bits & 15 != 0 => return Err(OverrideNameError),
                None => bits >> 4,
            };
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_text() {
        let mut random = fastrand::Rng::with_seed(7);
        for key in [0, 1, u128::MAX, 1 << 127].into_iter().chain((0..1_000).map(|_| random.u128(..))) {
            let text = OverrideKey(key).to_string();
            assert_eq!(text.len(), 22);
            assert_eq!(text.parse(), Ok(OverrideKey(key)), "{text}");
        }
        for text in ["", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAA", "é"] {
            assert_eq!(text.parse::<OverrideKey>(), Err(OverrideNameError), "{text}");
        }
    }
}
