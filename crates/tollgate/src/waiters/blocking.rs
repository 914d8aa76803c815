//! Threads that wait: the same future, run on the spot.

use std::cell::Cell;
use std::fmt;
use std::future::{poll_fn, ready};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use super::{WaitError, Waiters};
use crate::blocking::block_parked;
use crate::{Clock, Decision, Key, Limiter, MemoryStore};

/// The timer of [`Waiters`] that block their threads.
pub struct BlockingTimer<B>(B);

impl<C: Clock, B: Fn(Duration)> Waiters<MemoryStore<C>, BlockingTimer<B>> {
    /// Waits for this limiter by blocking threads: pass `std::thread::sleep`. Threads that queue behind others are
    /// parked instead.
    ///
    /// Its methods are those of other waiters, without the `await`. The limiter counts in memory; over a shared store,
    /// wait in async code.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Waiters};
    ///
    /// let limiter = Limiter::new("2/50ms".parse().expect("a valid quota"));
    /// let waiters = Waiters::blocking(limiter, std::thread::sleep);
    /// for _ in 0..3 {
    ///     assert!(waiters.until_allowed("alice")?.is_allowed());
    /// }
    /// let denied = waiters.until_allowed_cost("alice", 3)?;
    /// assert!(!denied.is_allowed());
    /// # Ok::<(), tollgate::WaitError>(())
    /// ```
    #[must_use]
    pub fn blocking(limiter: Limiter<C>, sleep: B) -> Self {
        Self::with_timer(limiter.into(), BlockingTimer(sleep))
    }

    /// Blocks until one unit is charged to the key.
    ///
    /// The decision allows the request, unless a quota allows nothing at all.
    ///
    /// # Errors
    ///
    /// If the memory is full, or too many callers wait.
    pub fn until_allowed<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, WaitError> {
        self.block(key.into(), 1, None)
    }

    /// Blocks until `cost` units are charged to the key. A cost above a limit is denied at once.
    ///
    /// # Errors
    ///
    /// The same as [`until_allowed`](Self::until_allowed).
    pub fn until_allowed_cost<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        cost: u32,
    ) -> Result<Decision<'a>, WaitError> {
        self.block(key.into(), cost, None)
    }

    /// Blocks for at most `longest` until `cost` units are charged to the key.
    ///
    /// The denial is returned as soon as it is known that there will be no room in time, usually at once; nothing is
    /// charged then. If a waiter in front sleeps for longer, or is not served by the deadline, the denial is that
    /// waiter's.
    ///
    /// # Errors
    ///
    /// The same as [`until_allowed`](Self::until_allowed).
    pub fn until_allowed_within<'a>(
        &'a self,
        longest: Duration,
        key: impl Into<Key<'a>>,
        cost: u32,
    ) -> Result<Decision<'a>, WaitError> {
        self.block(key.into(), cost, Some(longest))
    }

    fn block<'a>(
        &'a self,
        key: Key<'a>,
        cost: u32,
        longest: Option<Duration>,
    ) -> Result<Decision<'a>, WaitError> {
        let now = || self.limiter().store().now();
        // The deadline of a thread that queues.
        let alarm = Cell::new(None);
        let sleep = |pause| {
            (self.sleep.0)(pause);
            ready(())
        };
        let set_alarm = |longest| {
            let end = now() + longest;
            alarm.set(Some(end));
            poll_fn(move |_| if now() < end { Poll::Pending } else { Poll::Ready(()) })
        };
        block_parked(self.wait(key, cost, longest, sleep, set_alarm), || match alarm.get() {
            Some(end) => thread::park_timeout(end.since(now())),
            None => thread::park(),
        })
    }
}

impl<B> fmt::Debug for BlockingTimer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockingTimer(..)")
    }
}
