//! Async steps for threads without a runtime.
//!
//! [`block_on`] runs any future of this crate on the current thread, which is parked while the future waits. [`sleep`] is
//! a timer for futures that run in it.
//!
//! A store may need more: one of `tollgate-redis` needs its Tokio runtime, so
//! [enter](https://docs.rs/tokio/latest/tokio/runtime/struct.Handle.html#method.enter) the runtime on the thread first.
//! Never block a thread that runs a runtime's tasks.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use tollgate::{Limiter, MemoryStore, Quota, SharedLimiter, blocking};
//!
//! let limiter = SharedLimiter::new(Quota::per_day(5), MemoryStore::new());
//! let decision = blocking::block_on(limiter.check("alice"))?;
//! assert!(decision.is_allowed());
//! blocking::block_on(blocking::sleep(Duration::from_millis(1)));
//! # Ok::<(), tollgate::StoreError>(())
//! ```

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::Timestamp;
use crate::clock::{Clock, SystemClock};

thread_local! {
    /// When the future that runs on this thread wants to be polled again.
    static ALARM: Cell<Option<Timestamp>> = const { Cell::new(None) };
}

/// Runs the future on this thread until it is done.
///
/// A future that waits for something of a runtime needs that runtime: see the [module](self).
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let unpark = Arc::new(UnparkWaker { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    // Another future may run on this thread, around this one.
    let outer = ALARM.take();
    let output = loop {
        ALARM.set(None);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            break output;
        }
        // A future that ran inside this one may have been unparked in its place. Acquire, with the release of the waker.
        if unpark.is_woken.swap(false, Ordering::Acquire) {
            continue;
        }
        match ALARM.get() {
            // Rounded up, because the clock has whole milliseconds.
            Some(end) => thread::park_timeout(end.since(SystemClock.steady_now()) + Duration::from_millis(1)),
            None => thread::park(),
        }
    };
    ALARM.set(outer);
    output
}

/// Returns a future that is done after this time. It wakes only within [`block_on`], on the same thread.
pub fn sleep(length: Duration) -> impl Future<Output = ()> + Send {
    // The clock shows the last whole millisecond, and a sleep must not be short.
    let end = SystemClock.steady_now() + length.saturating_add(Duration::from_millis(1));
    poll_fn(move |_| {
        if SystemClock.steady_now() >= end {
            return Poll::Ready(());
        }
        let earliest = ALARM.get().map_or(end, |other| other.min(end));
        ALARM.set(Some(earliest));
        Poll::Pending
    })
}

struct UnparkWaker {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_not_short_and_one_inside_another_wakes_both() {
        let start = SystemClock.steady_now();
        let length = Duration::from_millis(20);
        block_on(async {
            // Real time: both sleep on this thread.
            let mut first = pin!(sleep(length));
            poll_fn(|context| {
                let polled = first.as_mut().poll(context);
                // Real time: as above.
                block_on(sleep(length / 4));
                polled
            })
            .await;
        });
        assert!(SystemClock.steady_now().since(start) >= length);
    }
}
