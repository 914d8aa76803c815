//! The memory of all slots.
//!
//! Every slice can grow to [`ROWS`] rows of [`ROW`] slots. The first rows of all slices lie next to each other,
//! then the second rows, and so on:
//!
//! ```text
//!  row 0 of slice 0 │ row 0 of slice 1 │ … │ row 1 of slice 0 │ row 1 of slice 1 │ …
//! ```
//!
//! Slices grow at about the same pace, because hashing spreads counters evenly. So what is in use is the front
//! of the memory, and what lies behind has never been touched: it is reserved zeroed, and the operating system
//! backs it with memory page by page as slices grow into it. Nothing is ever moved to another place for growth
//! but the counters of one slice.

use super::slot::Words;

/// Slots by which a slice grows. Few in tests, so that counters are in each other's way.
pub(super) const ROW: usize = if LOOM {
    2
} else if cfg!(test) {
    4
} else {
    64
};

/// Rows a slice can have: with [`ROW`], 1,024 slots.
pub(super) const ROWS: usize = if LOOM {
    2
} else if cfg!(test) {
    8
} else {
    16
};

/// Loom goes through all orders of all steps, so there must not be many.
const LOOM: bool = cfg!(all(test, tollgate_loom));

/// The memory that a slice's slots can take, in bytes.
pub(super) const SLICE_BYTES: usize = ROW * ROWS * size_of::<Words>();

/// See the [module](self).
pub(super) struct Slots {
    words: Box<[Words]>,
    slices: usize,
}

impl Slots {
    pub(super) fn new(slices: usize) -> Self {
        Self { words: zeroed(slices * ROWS * ROW), slices }
    }

    /// A row of a slice.
    #[inline(always)]
    pub(super) fn row(&self, slice: usize, row: usize) -> &[Words] {
        let start = (row * self.slices + slice) * ROW;
        &self.words[start..start + ROW]
    }
}

/// Zeroed by the allocator, which has such memory from the operating system and need not touch it.
#[cfg(not(all(test, any(tollgate_loom, tollgate_shuttle))))]
fn zeroed(slots: usize) -> Box<[Words]> {
    bytemuck::try_zeroed_slice_box(slots).unwrap_or_else(|()| {
        panic!("no address space for the {slots} slots of a memory store: lower its cap")
    })
}

#[cfg(all(test, any(tollgate_loom, tollgate_shuttle)))]
fn zeroed(slots: usize) -> Box<[Words]> {
    (0..slots).map(|_| std::array::from_fn(|_| super::sync::AtomicU64::new(0))).collect()
}
