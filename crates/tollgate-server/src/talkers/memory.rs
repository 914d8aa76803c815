//! The memory of all talkers, which has a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that all talkers use together.
#[derive(Debug, Default)]
pub(super) struct Memory {
    used: AtomicUsize,
}

/// A part of it, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ReservedBytes {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Memory {
    /// The most bytes of all.
    pub(super) const MAX_BYTES: usize = 16 << 20;

    /// Reserves so many bytes; `None` if there are not enough.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<ReservedBytes> {
        let with = |used: usize| Some(used + bytes).filter(|used| *used <= Self::MAX_BYTES);
        // Relaxed: the number guards no other memory.
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).ok()?;
        Some(ReservedBytes { memory: Arc::clone(self), bytes })
    }

    /// Returns whether more than half is in use. From then on, policies get fewer rows.
    pub(super) fn is_scarce(&self) -> bool {
        self.used.load(Ordering::Relaxed) > Self::MAX_BYTES / 2
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
