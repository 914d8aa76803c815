//! The atomics of the table: those of the standard library, or loom's when its models are run.

#[cfg(not(all(test, tollgate_loom)))]
pub(super) use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(all(test, tollgate_loom))]
pub(super) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Whether loom runs the code: in the models, which need tables of a few slots and the same keys in each run.
pub(super) const MODELLED: bool = cfg!(all(test, tollgate_loom));

/// Waits a little for another thread's few instructions: a processor's pause at first, then the rest of the
/// time slice, because the other thread may not be running.
#[derive(Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) fn wait(&mut self) {
        #[cfg(all(test, tollgate_loom))]
        loom::thread::yield_now();
        #[cfg(not(all(test, tollgate_loom)))]
        if self.0 < 64 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        self.0 += 1;
    }
}
