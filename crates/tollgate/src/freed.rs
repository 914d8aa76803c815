//! Telling those who wait for units in flight that some are free.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The listeners of each counter. A counter is a number here; if two have one number, listeners ask once too often.
#[derive(Default)]
pub(crate) struct FreedSignal {
    /// Read without the lock, so that units are freed without one while nobody listens.
    listening: AtomicUsize,
    listeners: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    by_counter: HashMap<u64, Vec<Listener>>,
    /// Those that are told next.
    told: Vec<Waker>,
}

struct Listener {
    number: usize,
    is_freed: bool,
    waker: Option<Waker>,
}

/// Listens until it is dropped.
pub struct FreedListener {
    signal: Arc<FreedSignal>,
    counter: u64,
    number: usize,
}

impl FreedSignal {
    /// Listens for units of the counter. Listen first, then ask for units: what is freed in between is not missed.
    pub(crate) fn listen(self: &Arc<Self>, counter: u64) -> FreedListener {
        // SeqCst, as where it is read: either the one that frees sees the listener, or the listener, who asks after this,
        // sees what was freed.
        self.listening.fetch_add(1, Ordering::SeqCst);
        let mut listeners = self.lock();
        let others = listeners.by_counter.entry(counter).or_default();
        let number = others.last().map_or(0, |last| last.number + 1);
        others.push(Listener { number, is_freed: false, waker: None });
        FreedListener { signal: Arc::clone(self), counter, number }
    }

    /// Notes that units of the counter are free. Call it after they are, and [`tell`](Self::tell) without a lock.
    pub(crate) fn freed(&self, counter: u64) {
        if self.listening.load(Ordering::SeqCst) == 0 {
            return;
        }
        let Listeners { by_counter, told } = &mut *self.lock();
        if let Some(listeners) = by_counter.get_mut(&counter) {
            told.extend(listeners.iter_mut().filter_map(Listener::free));
        }
    }

    /// Wakes the listeners of what was freed. A waker may run the task that listens, so the caller has no lock.
    pub(crate) fn tell(&self) {
        if self.listening.load(Ordering::SeqCst) > 0 {
            self.wake_told();
        }
    }

    fn wake_told(&self) {
        let told = std::mem::take(&mut self.lock().told);
        told.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        // A panic under the lock, in an allocation for example, leaves them intact.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    fn free(&mut self) -> Option<Waker> {
        self.is_freed = true;
        self.waker.take()
    }
}

impl FreedListener {
    /// Waits until units were freed after this began to listen.
    pub(crate) async fn freed(&self) {
        poll_fn(|context| {
            let mut listeners = self.signal.lock();
            let mut own = listeners.by_counter.get_mut(&self.counter).into_iter().flatten();
            let Some(own) = own.find(|listener| listener.number == self.number) else {
                return Poll::Pending;
            };
            if own.is_freed {
                return Poll::Ready(());
            }
            let before = own.waker.replace(context.waker().clone());
            drop(listeners);
            // After the lock, because dropping a waker may drop a task that listens.
            drop(before);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for FreedListener {
    fn drop(&mut self) {
        let mut listeners = self.signal.lock();
        let mut left = None;
        if let Some(others) = listeners.by_counter.get_mut(&self.counter) {
            left = others.iter().position(|other| other.number == self.number).map(|at| others.remove(at));
            if others.is_empty() {
                listeners.by_counter.remove(&self.counter);
            }
        }
        drop(listeners);
        // After the lock, because dropping a waker may drop a task that listens.
        drop(left);
        // The last one leaves no waker behind, which would keep a task in memory.
        if self.signal.listening.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.signal.wake_told();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake};

    use super::*;

    /// The waker of a task that listens too.
    struct ListeningTask {
        _listener: FreedListener,
    }

    impl Wake for ListeningTask {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_waker_that_is_replaced_may_drop_a_listener() {
        let signal = Arc::new(FreedSignal::default());
        let listener = signal.listen(1);
        let mut freed = pin!(listener.freed());
        let task = Waker::from(Arc::new(ListeningTask { _listener: signal.listen(1) }));
        assert!(freed.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
        drop(task);
        // Now nothing else has the task.
        assert!(freed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(signal.listening.load(Ordering::SeqCst), 1);
    }
}
