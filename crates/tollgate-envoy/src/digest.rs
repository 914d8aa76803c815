//! What stands for long values in keys.

use sha2::{Digest, Sha256};

/// Returns what stands for a long value in the key of a counter. It has 256 bits, so that nobody finds two values with
/// one counter.
///
/// ```
/// let empty = "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(tollgate_envoy::digest(""), empty);
/// ```
#[must_use]
pub fn digest(value: &str) -> String {
    Sha256::digest(value).iter().fold("sha256-".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
