//! Stand-ins for values in keys.

use sha2::{Digest, Sha256};

const PREFIX: &str = "sha256-";

/// Returns a digest of 256 bits, so that nobody can find two values with the same counter.
///
/// ```
/// let empty = "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(tollgate_envoy::digest(""), empty);
/// ```
#[must_use]
pub fn digest(value: &str) -> String {
    Sha256::digest(value).iter().fold(PREFIX.to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Returns the digest that replaces a value in the key of a counter; `None` if the key contains the value itself.
///
/// It replaces values of more than `max_bytes` bytes. It also replaces values that are written like a digest: some
/// layouts of keys in Redis write both in the same way, and no value may share the counter of another.
///
/// ```
/// use tollgate_envoy::{digest, stand_in};
///
/// assert_eq!(stand_in("alice", 5), None);
/// assert_eq!(stand_in("alice", 4), Some(digest("alice")));
/// let written = digest("alice");
/// assert_eq!(stand_in(&written, 1_024), Some(digest(&written)));
/// ```
#[must_use]
pub fn stand_in(value: &str, max_bytes: usize) -> Option<String> {
    (value.len() > max_bytes || is_digest(value)).then(|| digest(value))
}

fn is_digest(value: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    value.strip_prefix(PREFIX).is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_hex))
}
