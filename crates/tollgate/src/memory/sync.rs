//! The atomics of the table and the locks of the logs: those of the standard library, or loom's or shuttle's when they
//! run the tests.

#[cfg(not(all(test, any(tollgate_loom, tollgate_shuttle))))]
pub(super) use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(all(test, any(tollgate_loom, tollgate_shuttle))))]
pub(super) use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, tollgate_loom))]
pub(super) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(all(test, tollgate_loom))]
pub(super) use loom::sync::{Mutex, MutexGuard};

#[cfg(all(test, tollgate_shuttle))]
pub(super) use shuttle::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(all(test, tollgate_shuttle))]
pub(super) use shuttle::sync::{Mutex, MutexGuard};

/// Whether loom or shuttle schedules the threads: then each run needs the same keys.
pub(super) const MODELLED: bool = cfg!(all(test, any(tollgate_loom, tollgate_shuttle)));

/// Waits briefly for a few instructions of another thread: first with pauses of the processor, twice as many each time,
/// then by yielding, because the other thread may not be running.
#[derive(Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) fn wait(&mut self) {
        #[cfg(all(test, tollgate_loom))]
        loom::thread::yield_now();
        #[cfg(all(test, tollgate_shuttle))]
        shuttle::thread::yield_now();
        #[cfg(not(all(test, any(tollgate_loom, tollgate_shuttle))))]
        if self.0 < 8 {
            (0..1 << self.0).for_each(|_| std::hint::spin_loop());
        } else {
            std::thread::yield_now();
        }
        self.0 += 1;
    }
}
