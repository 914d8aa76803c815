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
const CHARACTERS: usize = 22;

/// The bits of each character; [`NO_BITS`] of a byte that is none.
const BITS: [u8; 256] = {
    let mut bits = [NO_BITS; 256];
    let mut place = 0;
    while place < ALPHABET.len() {
        bits[ALPHABET[place] as usize] = place as u8;
        place += 1;
    }
    bits
};

const NO_BITS: u8 = u8::MAX;

impl fmt::Display for OverrideKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'A'; CHARACTERS];
        for (place, character) in (0_u32..).zip(&mut text) {
            let bits = match 122_u32.checked_sub(place * 6) {
                Some(shift) => self.0 >> shift,
                None => self.0 << 4,
            };
            *character = ALPHABET.get((bits & 63) as usize).copied().unwrap_or(b'A');
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl FromStr for OverrideKey {
    type Err = OverrideNameError;

    fn from_str(text: &str) -> Result<Self, OverrideNameError> {
        let Some((last, first)) = text.as_bytes().split_last().filter(|_| text.len() == CHARACTERS) else {
            return Err(OverrideNameError);
        };
        let bits = |byte: u8| match BITS.get(usize::from(byte)) {
            Some(&NO_BITS) | None => Err(OverrideNameError),
            Some(bits) => Ok(u128::from(*bits)),
        };
        let digest = first.iter().try_fold(0_u128, |digest, byte| Ok(digest << 6 | bits(*byte)?))?;
        let last = bits(*last)?;
        // Another text would be the same key.
        if last & 15 != 0 { Err(OverrideNameError) } else { Ok(Self(digest << 2 | last >> 4)) }
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
