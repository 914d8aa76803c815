//! How long a hold lives, as its owner knows it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::Timestamp;

/// How long a hold lives, by the owner's clock. The keeper and the guard share it.
pub(super) struct HoldLife {
    /// The end of the length, counted from before the last confirmed call was sent, in milliseconds.
    ends_at: AtomicI64,
    is_lost: AtomicBool,
    /// Those that wait until it is lost.
    waiting: Mutex<Vec<Waker>>,
}

impl HoldLife {
    /// A life that has no end yet.
    pub(super) const fn new() -> Self {
        Self {
            ends_at: AtomicI64::new(i64::MAX),
            is_lost: AtomicBool::new(false),
            waiting: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.ends_at.load(Ordering::Relaxed))
    }

    /// Relaxed: a thread that reads the earlier end takes the hold for lost too soon, which is safe.
    pub(super) fn confirm(&self, ends_at: Timestamp) {
        self.ends_at.store(ends_at.as_unix_millis(), Ordering::Relaxed);
    }

    /// Returns whether it is lost at this time. What is lost stays lost.
    pub(super) fn is_lost_at(&self, now: Timestamp) -> bool {
        if self.is_lost.load(Ordering::Acquire) {
            return true;
        }
        let is_over = self.ends_at() <= now;
        if is_over {
            self.lose();
        }
        is_over
    }

    /// Wakes those that wait for it.
    pub(super) fn lose(&self) {
        // Release, with the acquire above: who sees the loss sees what the keeper did before it.
        self.is_lost.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut *self.waiting());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Wakes this one when it is lost. Check afterwards whether it is lost already.
    pub(super) fn wake_when_lost(&self, waker: &Waker) {
        let mut waiting = self.waiting();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        // Nothing panics under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
