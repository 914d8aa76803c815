//! A request of a sample.

use tollgate::Timestamp;

/// A request that a policy counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampledRequest {
    /// A keyed hash of its key.
    pub(crate) key: u64,
    /// When it was counted.
    pub(crate) at: Timestamp,
    /// Its cost in units.
    pub(crate) cost: u32,
    /// Whether the policy denied it.
    pub(crate) is_denied: bool,
    /// Whether another policy denied it.
    pub(crate) is_denied_elsewhere: bool,
    /// Whether an override had other limits for it, or lifted them.
    pub(crate) is_overridden: bool,
}

const _: () = assert!(size_of::<SampledRequest>() == 24, "the memory of samples is for requests of 24 bytes");

/// The bits of a hash before those that choose. Talkers place rows by the first ones.
const OTHER_BITS: u32 = 8;

/// Returns whether a key with this hash is one of the sampled ones, if one in 2^`rarity` is. A key that is sampled is
/// also sampled where less are rare.
pub(crate) const fn is_sampled(key: u64, rarity: u8) -> bool {
    (key >> OTHER_BITS).trailing_zeros() >= rarity as u32
}
