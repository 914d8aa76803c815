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

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::Timestamp;
use crate::clock::{Clock, SystemClock};

thread_local! {
    /// Whom to wake on this thread, by time and the number of the sleep.
    static ALARMS: RefCell<BTreeMap<(Timestamp, u64), Waker>> = const { RefCell::new(BTreeMap::new()) };
}

/// Runs the future on this thread until it is done.
///
/// A future that waits for something of a runtime needs that runtime: see the [module](self).
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_parked(future, || {
        let first_end = ALARMS.with_borrow(|alarms| alarms.first_key_value().map(|((end, _), _)| *end));
        match first_end {
            // Rounded up, because the clock has whole milliseconds.
            Some(end) => thread::park_timeout(end.since(SystemClock.steady_now()) + Duration::from_millis(1)),
            None => thread::park(),
        }
    })
}

/// Runs the future on this thread, which `park` parks while the future waits.
pub(crate) fn block_parked<F: Future>(future: F, park: impl Fn()) -> F::Output {
    let mut future = pin!(future);
    // A future that does not wait allocates no waker.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let unpark = Arc::new(UnparkWaker { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    loop {
        wake_sleepers();
        // What woke it before now is seen by the poll. Acquire, with the release of the waker.
        unpark.is_woken.swap(false, Ordering::Acquire);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        // A future that ran inside this one may have been unparked in its place.
        if !unpark.is_woken.load(Ordering::Acquire) {
            park();
        }
    }
}

/// Wakes those whose sleep is over.
fn wake_sleepers() {
    let now = SystemClock.steady_now();
    let next = || {
        ALARMS.with_borrow_mut(|alarms| {
            let first = alarms.first_entry().filter(|first| first.key().0 <= now);
            first.map(|first| first.remove())
        })
    };
    // One at a time, because a waker may drop another sleep.
    while let Some(waker) = next() {
        waker.wake();
    }
}

/// Returns a future that is done after this time. It wakes only within [`block_on`], on the same thread.
pub fn sleep(length: Duration) -> impl Future<Output = ()> + Send {
    static SLEEPS: AtomicU64 = AtomicU64::new(0);
    // The clock shows the last whole millisecond, and a sleep must not be short.
    let end = SystemClock.steady_now() + length.saturating_add(Duration::from_millis(1));
    // Relaxed: all that matters is that no two sleeps get the same number.
    ThreadSleep { end, number: SLEEPS.fetch_add(1, Ordering::Relaxed) }
}

/// A sleep in [`block_on`].
struct ThreadSleep {
    end: Timestamp,
    number: u64,
}

impl ThreadSleep {
    /// Replaces whom to wake on this thread. The other one is dropped after the alarms are free again, because that may
    /// drop a task with a sleep.
    fn set_alarm(&self, waker: Option<&Waker>) {
        let place = (self.end, self.number);
        // Not at the end of the thread, when nothing sleeps any more.
        let before = ALARMS.try_with(|alarms| match waker {
            Some(waker) => alarms.borrow_mut().insert(place, waker.clone()),
            None => alarms.borrow_mut().remove(&place),
        });
        drop(before);
    }
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if SystemClock.steady_now() >= self.end {
            return Poll::Ready(());
        }
        self.set_alarm(Some(context.waker()));
        Poll::Pending
    }
}

impl Drop for ThreadSleep {
    fn drop(&mut self) {
        self.set_alarm(None);
    }
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
    use std::future::poll_fn;

    use super::*;

    /// Wakes the task around it.
    struct PartOfTask {
        is_woken: AtomicBool,
        whole: Waker,
    }

    impl Wake for PartOfTask {
        fn wake(self: Arc<Self>) {
            self.is_woken.store(true, Ordering::Relaxed);
            self.whole.wake_by_ref();
        }
    }

    /// As in a set of futures, which polls those that were woken.
    #[test]
    fn a_sleep_wakes_its_own_waker() {
        let start = SystemClock.steady_now();
        let lengths = [20, 5].map(Duration::from_millis);
        block_on(async {
            // Real time: both sleep on this thread.
            let mut sleeps = lengths.map(|length| (Some(Box::pin(sleep(length))), None::<Arc<PartOfTask>>));
            poll_fn(|context| {
                for (sleep, part) in &mut sleeps {
                    let whole = || PartOfTask { is_woken: true.into(), whole: context.waker().clone() };
                    let part = part.get_or_insert_with(|| Arc::new(whole()));
                    let Some(running) = sleep else { continue };
                    let is_done = part.is_woken.swap(false, Ordering::Relaxed) && {
                        let waker = Waker::from(Arc::clone(part));
                        running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
                    };
                    if is_done {
                        *sleep = None;
                    }
                }
                if sleeps.iter().all(|(sleep, _)| sleep.is_none()) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
        assert!(SystemClock.steady_now().since(start) >= lengths[0]);
        ALARMS.with_borrow(|alarms| assert!(alarms.is_empty(), "a sleep that is dropped leaves no alarm"));
    }

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
