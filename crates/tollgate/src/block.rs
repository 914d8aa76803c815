//! Blocks: for a time after its limit was exceeded, a key counts nothing.

use std::time::Duration;

use crate::quota::QuotaErrorKind;
use crate::{Anchor, Charge, Counter, Key, PolicyQuota, Quota, QuotaError, QuotaKind};

/// A quota of fixed windows, and how long a key is blocked that has exceeded it.
///
/// A block begins with the charge that exceeds the limit, and lives for exactly its length by the store's clock. While
/// it lives, nothing is counted. It keeps the units that were used when it began, and replaces the counter: once it has
/// ended, the key is counted from 0 again.
///
/// A block belongs to the counter, never to the limit or to its length. If a charge names another length, the block lives
/// on, but no longer than that length from then on. A charge of cost 0 only says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockQuota {
    quota: PolicyQuota,
    block: PolicyQuota,
}

/// A charge of a quota that blocks its key: units for one key.
#[derive(Debug, Clone, Copy)]
pub struct BlockCharge<'a> {
    charge: Charge<'a>,
    block: Counter<'a>,
}

impl BlockQuota {
    /// Blocks keys for this long after they have exceeded the quota.
    ///
    /// # Errors
    ///
    /// If the quota does not count in fixed windows, or the length is none of a [window](Quota::new).
    pub fn new(quota: PolicyQuota, length: Duration) -> Result<Self, QuotaError> {
        if quota.quota().kind() != QuotaKind::Window {
            return Err(QuotaErrorKind::BlockKind.into());
        }
        let block = Quota::new(Quota::MAX_LIMIT, length)?.with_anchor(Anchor::FirstHit)?;
        Ok(Self { block: quota.blocked_by(block), quota })
    }

    /// Returns the quota that is counted.
    #[must_use]
    pub const fn quota(&self) -> &PolicyQuota {
        &self.quota
    }

    /// Returns the quota that counts the blocks: a window that begins with its first unit, of their length.
    #[must_use]
    pub const fn block(&self) -> &PolicyQuota {
        &self.block
    }
}

impl<'a> BlockCharge<'a> {
    /// Creates a charge of `cost` units under the quota for the key. Cost 0 charges nothing and begins no block.
    #[must_use]
    pub const fn new(quota: &'a BlockQuota, key: &'a Key<'a>, cost: u32) -> Self {
        Self { charge: Charge::new(&quota.quota, key, cost), block: Counter::new(&quota.block, key) }
    }

    /// As [`new`](Self::new), from its parts.
    pub(crate) const fn of(charge: Charge<'a>, block: Counter<'a>) -> Self {
        Self { charge, block }
    }

    /// Returns the charge.
    #[must_use]
    pub const fn charge(&self) -> Charge<'a> {
        self.charge
    }

    /// Returns the counter of the block.
    #[must_use]
    pub const fn block(&self) -> Counter<'a> {
        self.block
    }

    /// Returns the charge, and one of the block without units.
    #[must_use]
    pub const fn charges(&self) -> [Charge<'a>; 2] {
        [self.charge, self.block.charge(0)]
    }
}
