//! A secret from a log: without the log, nobody can find out which name a digest stands for.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};
use tollgate::Timestamp;

/// A number that depends on every request, given that of the requests before. What comes out is hashed again before
/// anybody sees it.
pub(crate) fn mix(fingerprint: u128, digest: u128, now: Timestamp) -> u128 {
    // An odd constant with bits all over.
    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let time = u128::from(now.as_unix_millis().cast_unsigned());
    (fingerprint.rotate_left(29) ^ digest ^ time).wrapping_mul(SPREAD)
}

/// Returns the digest that replaces a client's name, under the secret of its log.
pub(crate) fn hidden(fingerprint: u128, name: &str) -> String {
    let mut hasher = SipHasher13::new_with_key(&fingerprint.to_le_bytes());
    hasher.write(name.as_bytes());
    format!("client-{:010x}", hasher.finish128().h1 >> 24)
}
