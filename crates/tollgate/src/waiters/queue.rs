//! The waiters of each key, in the order in which they joined.
//!
//! Only keys with waiters are here. A waiter holds a [`Place`], and leaves when that is dropped, whatever the reason.
//! The first of a line is the only one that asks the store; the others wait until it has left, or their time is up.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::WaitError;
use crate::{Key, Timestamp};

/// The lines of all keys. `D` is a denial, which is told to waiters whose time is up.
pub(super) struct Queue<D> {
    /// Each line has at least one waiter.
    lines: Mutex<HashMap<Key<'static>, Line<D>>>,
    /// Changed under the lock only. Read without it, so that calls take no lock while nobody waits.
    waiting: AtomicUsize,
    max_waiters: usize,
}

struct Line<D> {
    /// By number, and so in the order in which they came.
    waiters: BTreeMap<u64, Waiter>,
    /// The last denial of a first waiter.
    denial: D,
    /// When the first asks again, once that is known.
    asks_at: Option<Timestamp>,
}

#[derive(Default)]
struct Waiter {
    deadline: Option<Timestamp>,
    /// `None` until it waits for its turn.
    waker: Option<Waker>,
}

/// A place in the line of a key.
pub(super) struct Place<'q, D> {
    queue: &'q Queue<D>,
    key: Key<'static>,
    number: u64,
}

/// What a waiter is told whose time is up.
pub(super) struct Overdue<D> {
    /// The last denial of the first waiter.
    pub(super) denial: D,
    /// The waiter's deadline, if that has passed already.
    pub(super) passed: Option<Timestamp>,
}

impl<D: Clone> Queue<D> {
    pub(super) fn new(max_waiters: usize) -> Self {
        Self { lines: Mutex::default(), waiting: AtomicUsize::new(0), max_waiters }
    }

    /// A place at the end of the key's line; `None` if nobody waits for the key.
    pub(super) fn join(&self, key: &Key<'_>) -> Result<Option<Place<'_, D>>, WaitError> {
        if self.waiting() == 0 {
            return Ok(None);
        }
        let mut lines = self.lock();
        // Seen with the shorter lifetime, a borrowed key can be looked up.
        let borrowed: &HashMap<Key<'_>, Line<D>> = &lines;
        if !borrowed.contains_key(key) {
            return Ok(None);
        }
        let key = key.clone().into_owned();
        lines.get_mut(&key).map(|line| self.place(line, key)).transpose()
    }

    /// A place at the end of the key's line. If there is none, it begins with this denial.
    pub(super) fn enter(&self, key: &Key<'_>, denial: &D) -> Result<Place<'_, D>, WaitError> {
        let key = key.clone().into_owned();
        match self.lock().entry(key.clone()) {
            Entry::Occupied(mut line) => self.place(line.get_mut(), key),
            Entry::Vacant(vacant) => {
                let mut line = Line::new(denial.clone());
                let place = self.place(&mut line, key)?;
                vacant.insert(line);
                Ok(place)
            }
        }
    }

    fn place(&self, line: &mut Line<D>, key: Key<'static>) -> Result<Place<'_, D>, WaitError> {
        if self.waiting() >= self.max_waiters {
            return Err(WaitError::TooManyWaiters);
        }
        let number = line.waiters.last_key_value().map_or(0, |(last, _)| last + 1);
        line.waiters.insert(number, Waiter::default());
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(Place { queue: self, key, number })
    }
}

impl<D> Queue<D> {
    pub(super) fn waiting(&self) -> usize {
        // Relaxed: a thread that learned of a waiter in another way sees it here too, and no other relies on it.
        self.waiting.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key<'static>, Line<D>>> {
        // Nothing panics under the lock.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Clone> Place<'_, D> {
    pub(super) fn is_first(&self) -> bool {
        self.queue.lock().get(&self.key).is_some_and(|line| line.first() == Some(self.number))
    }

    /// Waits until this is the first of its line.
    ///
    /// # Errors
    ///
    /// The last denial of the first waiter, as soon as that waiter's next call is after the deadline, or when `alarm`
    /// is done at the deadline. The alarm is set only if there is something to wait for.
    pub(super) async fn turn<A: Future<Output = ()>>(
        &self,
        deadline: Option<Timestamp>,
        set_alarm: impl Fn() -> Option<A>,
    ) -> Result<(), Overdue<D>> {
        let mut alarm = pin!(None);
        poll_fn(|context| {
            let waiter = Waiter { deadline, waker: Some(context.waker().clone()) };
            let mut lines = self.queue.lock();
            let Some(line) = lines.get_mut(&self.key).filter(|line| line.first() != Some(self.number)) else {
                return Poll::Ready(Ok(()));
            };
            let denial = line.denial.clone();
            if line.asks_at.is_some_and(|asks_at| is_after(asks_at, deadline)) {
                return Poll::Ready(Err(Overdue { denial, passed: None }));
            }
            let before = line.waiters.insert(self.number, waiter);
            drop(lines);
            // After the lock, because dropping a waker may drop a task that has a place.
            drop(before);
            if alarm.is_none() {
                alarm.set(set_alarm());
            }
            let Some(alarm) = alarm.as_mut().as_pin_mut() else { return Poll::Pending };
            alarm.poll(context).map(|()| Err(Overdue { denial, passed: deadline }))
        })
        .await
    }

    /// Returns the last denial of the first waiter.
    pub(super) fn denial(&self) -> Option<D> {
        self.queue.lock().get(&self.key).map(|line| line.denial.clone())
    }

    /// Records that this waiter, the first of its line, was denied and asks again at this time.
    pub(super) fn pauses(&self, denial: D, asks_at: Timestamp) {
        let mut late = Vec::new();
        if let Some(line) = self.queue.lock().get_mut(&self.key) {
            (line.denial, line.asks_at) = (denial, Some(asks_at));
            let waiters = line.waiters.values_mut().filter(|waiter| is_after(asks_at, waiter.deadline));
            late.extend(waiters.filter_map(|waiter| waiter.waker.take()));
        }
        late.into_iter().for_each(Waker::wake);
    }
}

/// Leaves the line. If it was the first, the next one is.
impl<D> Drop for Place<'_, D> {
    fn drop(&mut self) {
        let mut lines = self.queue.lock();
        let Some(line) = lines.get_mut(&self.key) else { return };
        let was_first = line.first() == Some(self.number);
        let left = line.waiters.remove(&self.number);
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut next = None;
        if was_first {
            line.asks_at = None;
            next = line.waiters.first_entry().and_then(|mut first| first.get_mut().waker.take());
        }
        if line.waiters.is_empty() {
            lines.remove(&self.key);
        }
        drop(lines);
        drop(left);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl<D> Line<D> {
    const fn new(denial: D) -> Self {
        Self { waiters: BTreeMap::new(), denial, asks_at: None }
    }

    fn first(&self) -> Option<u64> {
        self.waiters.first_key_value().map(|(number, _)| *number)
    }
}

fn is_after(time: Timestamp, deadline: Option<Timestamp>) -> bool {
    deadline.is_some_and(|deadline| deadline < time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QuotaStates;

    #[test]
    fn keeps_nothing_of_keys_without_waiters() {
        let queue = Queue::new(4);
        let denial: QuotaStates = std::iter::empty().collect();
        for key in ["alice", "bob"] {
            let key = Key::from(key);
            let mut places: Vec<_> = (0..3).map(|_| queue.enter(&key, &denial).unwrap()).collect();
            places.extend(queue.join(&key).unwrap());
            assert_eq!((queue.waiting(), queue.lock().len()), (4, 1));
            let carol = Key::from("carol");
            assert!(queue.join(&carol).unwrap().is_none());
            assert!(queue.join(&key).is_err() && queue.enter(&carol, &denial).is_err());
            assert_eq!((queue.waiting(), queue.lock().len()), (4, 1));
            drop(places);
            assert_eq!((queue.waiting(), queue.lock().len()), (0, 0));
            assert!(queue.join(&key).unwrap().is_none());
        }
    }
}
