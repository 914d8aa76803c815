//! How long a hold lives, as its owner knows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::Timestamp;

/// How long a hold lives, by the owner's clock. The keeper and the guard share it.
pub(super) struct HoldLife {
    /// The end of the length, counted from before the last confirmed call was sent, in milliseconds.
    ends_at: AtomicI64,
    is_lost: AtomicBool,
    /// Those that wait until it is lost, by number.
    waiting: Mutex<BTreeMap<u64, Waker>>,
}

/// Waits until a hold is lost, and leaves no waker behind.
pub(super) struct LossListener<'l> {
    life: &'l HoldLife,
    /// `None` until it waits.
    number: Option<u64>,
}

impl HoldLife {
    /// A life that has no end yet.
    pub(super) const fn new() -> Self {
        Self {
            ends_at: AtomicI64::new(i64::MAX),
            is_lost: AtomicBool::new(false),
            waiting: Mutex::new(BTreeMap::new()),
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
        waiting.into_values().for_each(Waker::wake);
    }

    /// Listens for its loss.
    pub(super) const fn listen(&self) -> LossListener<'_> {
        LossListener { life: self, number: None }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Waker>> {
        // Nothing panics under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LossListener<'_> {
    /// Wakes this one when the hold is lost. Check afterwards whether it is lost already.
    pub(super) fn wake_when_lost(&mut self, waker: &Waker) {
        let mut waiting = self.life.waiting();
        let next = || waiting.last_key_value().map_or(0, |(last, _)| last + 1);
        let number = *self.number.get_or_insert_with(next);
        let before = waiting.insert(number, waker.clone());
        drop(waiting);
        // After the lock, because dropping a waker may drop a task that waits too.
        drop(before);
    }
}

impl Drop for LossListener<'_> {
    fn drop(&mut self) {
        let left = self.number.and_then(|number| self.life.waiting().remove(&number));
        // After the lock, as above.
        drop(left);
    }
}
