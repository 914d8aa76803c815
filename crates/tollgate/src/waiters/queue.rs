//! The waiters of each key, in the order in which they joined.
//!
//! Only keys with waiters are here. A waiter holds a [`Place`], and leaves when that is dropped, whatever the reason.
//! The first of a line is the only one that asks the store and sleeps; the others wait until it has left.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::WaitError;
use crate::{Counted, Key, Timestamp};

pub(super) struct Queue {
    lines: Mutex<Lines>,
    /// Changed under the lock only. Read without it, so that a call need not take it while nobody waits.
    waiting: AtomicUsize,
    max_waiters: usize,
}

#[derive(Default)]
struct Lines {
    /// Each has at least one waiter.
    of: HashMap<Key<'static>, Line>,
    next_number: u64,
}

#[derive(Default)]
struct Line {
    /// By number, and so in the order in which they came.
    waiters: BTreeMap<u64, Waiter>,
    /// The denial of the first waiter, and when that asks again. It stays while the first asks, because its end has passed.
    pause: Option<Pause>,
}

#[derive(Default)]
struct Waiter {
    deadline: Option<Timestamp>,
    /// `None` until it waits for its turn.
    waker: Option<Waker>,
}

struct Pause {
    denial: Counted,
    end: Timestamp,
}

/// A place in the line of a key.
pub(super) struct Place<'q> {
    queue: &'q Queue,
    key: Key<'static>,
    number: u64,
}

impl Queue {
    pub(super) fn new(max_waiters: usize) -> Self {
        Self { lines: Mutex::default(), waiting: AtomicUsize::new(0), max_waiters }
    }

    pub(super) fn waiting(&self) -> usize {
        // Relaxed: whoever learned of a waiter in another way sees it here too, and nobody else relies on it.
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn has_waiters(&self, key: &Key<'_>) -> bool {
        if self.waiting() == 0 {
            return false;
        }
        let lines = self.lock();
        // Seen with the shorter lifetime, a borrowed key can be looked up.
        let of: &HashMap<Key<'_>, Line> = &lines.of;
        of.contains_key(key)
    }

    /// A place at the end of the key's line.
    pub(super) fn enter(&self, key: &Key<'_>) -> Result<Place<'_>, WaitError> {
        let key = key.clone().into_owned();
        let mut lines = self.lock();
        if self.waiting() >= self.max_waiters {
            return Err(WaitError::TooManyWaiters);
        }
        let number = lines.next_number;
        lines.next_number += 1;
        lines.of.entry(key.clone()).or_default().waiters.insert(number, Waiter::default());
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(Place { queue: self, key, number })
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        // Nothing panics under the lock.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    pub(super) fn is_first(&self) -> bool {
        self.queue.lock().of.get(&self.key).is_some_and(|line| line.first() == Some(self.number))
    }

    /// Waits until this is the first of its line.
    ///
    /// # Errors
    ///
    /// The denial of the first, if that sleeps beyond the deadline.
    pub(super) async fn turn(&self, deadline: Option<Timestamp>) -> Result<(), Counted> {
        poll_fn(|context| {
            let waiter = Waiter { deadline, waker: Some(context.waker().clone()) };
            let mut lines = self.queue.lock();
            let Some(line) = lines.of.get_mut(&self.key).filter(|line| line.first() != Some(self.number))
            else {
                return Poll::Ready(Ok(()));
            };
            if let Some(pause) = line.pause.as_ref().filter(|pause| pause.outlasts(deadline)) {
                return Poll::Ready(Err(pause.denial.clone()));
            }
            let before = line.waiters.insert(self.number, waiter);
            drop(lines);
            // After the lock, because to drop a waker may be to drop a task that has a place.
            drop(before);
            Poll::Pending
        })
        .await
    }

    /// Says that this, the first of its line, was denied and sleeps until `end`.
    pub(super) fn pauses(&self, denial: Counted, end: Timestamp) {
        let pause = Pause { denial, end };
        let mut late = Vec::new();
        if let Some(line) = self.queue.lock().of.get_mut(&self.key) {
            let waiters = line.waiters.values_mut().filter(|waiter| pause.outlasts(waiter.deadline));
            late.extend(waiters.filter_map(|waiter| waiter.waker.take()));
            line.pause = Some(pause);
        }
        late.into_iter().for_each(Waker::wake);
    }
}

/// Leaves the line. If it was the first, the next one is.
impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.queue.lock();
        let Some(line) = lines.of.get_mut(&self.key) else { return };
        let was_first = line.first() == Some(self.number);
        let left = line.waiters.remove(&self.number);
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut next = None;
        if was_first {
            line.pause = None;
            next = line.waiters.first_entry().and_then(|mut first| first.get_mut().waker.take());
        }
        if line.waiters.is_empty() {
            lines.of.remove(&self.key);
        }
        drop(lines);
        drop(left);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl Line {
    fn first(&self) -> Option<u64> {
        self.waiters.first_key_value().map(|(number, _)| *number)
    }
}

impl Pause {
    fn outlasts(&self, deadline: Option<Timestamp>) -> bool {
        deadline.is_some_and(|deadline| deadline < self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_nothing_of_keys_without_waiters() {
        let queue = Queue::new(10);
        for key in ["alice", "bob"] {
            let key = Key::from(key);
            let places: Vec<_> = (0..3).map(|_| queue.enter(&key).unwrap()).collect();
            assert_eq!((queue.waiting(), queue.lock().of.len()), (3, 1));
            assert!(queue.has_waiters(&key) && !queue.has_waiters(&Key::from("carol")));
            drop(places);
            assert_eq!((queue.waiting(), queue.lock().of.len()), (0, 0));
            assert!(!queue.has_waiters(&key));
        }
    }
}
