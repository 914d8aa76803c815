//! The memory of all slots.
//!
//! Every shard can grow to [`ROWS`] rows of [`ROW`] slots. The first rows of all shards lie next to each other,
//! then the second rows, and so on:
//!
//! ```text
//!  row 0 of shard 0 │ row 0 of shard 1 │ … │ row 1 of shard 0 │ row 1 of shard 1 │ …
//! ```
//!
//! Shards grow at about the same pace, because hashing spreads counters evenly. So the front of the memory is in use
//! and the rest has never been touched: it is reserved zeroed, and the operating system backs it page by page as shards
//! grow into it. Growth moves only the counters of one shard.

use super::slot::Words;

/// Slots by which a shard grows. Few in tests, so that counters collide.
pub(super) const ROW: usize = if LOOM {
    2
} else if cfg!(test) {
    4
} else {
    64
};

/// Rows a shard can have: with [`ROW`], 1,024 slots.
pub(super) const ROWS: usize = if LOOM {
    2
} else if cfg!(test) {
    8
} else {
    16
};

/// Loom tries all orders of all steps, so there must be few.
const LOOM: bool = cfg!(all(test, tollgate_loom));

/// The memory that a shard's slots can take, in bytes.
pub(super) const SHARD_BYTES: usize = ROW * ROWS * size_of::<Words>();

/// See the [module](self).
pub(super) struct Slots {
    words: Box<[Words]>,
    shards: usize,
}

impl Slots {
    /// `None` if there is no address space for this many shards.
    pub(super) fn new(shards: usize) -> Option<Self> {
        Some(Self { words: zeroed(shards.checked_mul(ROWS * ROW)?)?, shards })
    }

    /// A row of a shard.
    #[inline(always)]
    pub(super) fn row(&self, shard: usize, row: usize) -> &[Words] {
        let start = (row * self.shards + shard) * ROW;
        &self.words[start..start + ROW]
    }
}

/// The allocator gets zeroed memory from the operating system, so it need not touch it.
#[cfg(not(all(test, any(tollgate_loom, tollgate_shuttle))))]
fn zeroed(slots: usize) -> Option<Box<[Words]>> {
    bytemuck::try_zeroed_slice_box(slots).ok()
}

#[cfg(all(test, any(tollgate_loom, tollgate_shuttle)))]
fn zeroed(slots: usize) -> Option<Box<[Words]>> {
    Some((0..slots).map(|_| std::array::from_fn(|_| super::sync::AtomicU64::new(0))).collect())
}
