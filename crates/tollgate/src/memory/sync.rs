//! The atomics of the table: those of the standard library, or loom's when its models are run.

#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Waits a little for another thread's few instructions: a processor's pause at first, then the rest of the
/// time slice, because the other thread may not be running.
#[derive(Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) fn wait(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        if self.0 < 64 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        self.0 += 1;
    }
}
