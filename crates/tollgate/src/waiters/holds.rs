//! Waiting for units in flight.

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::WaitError;
use super::jitter::Jitter;
use super::queue::{Place, Queue};
use super::source::{HoldSource, WaitStanding};
use crate::{HoldStates, Key, QuotaState, Timestamp};

/// A limiter of units in flight whose callers wait until they hold some.
///
/// The limiter is an [`InFlightLimiter`](crate::InFlightLimiter) or a [`HoldLimiter`](crate::HoldLimiter). A hold of this
/// process that ends wakes the first waiter of its key at once. Nobody reports units that other processes free, or that
/// expire, so the first waiter also asks again after a pause, which grows from 50 milliseconds to a
/// [bound](Self::max_pause), and is shortened by a random part, so that processes do not ask all at the same time. If
/// quotas deny it, it waits for their `retry_after`. What can never pass is denied at once.
///
/// Over a shared store, each process asks for each key that is waited for, whatever the number of waiters: first after 25
/// to 50 milliseconds, and one to two times a second once the first waiter has waited for some seconds. If that is too
/// much for many keys, set a longer bound; units that other processes free are then found later.
///
/// The timer is the caller's: pass `tokio::time::sleep`, for example. Threads pass
/// [`blocking::sleep`](crate::blocking::sleep), and wait in [`blocking::block_on`](crate::blocking::block_on).
///
/// Share it by reference or in an [`Arc`](std::sync::Arc): the waiters of one `HoldWaiters` are one queue.
///
/// # Fairness
///
/// Waiters of one key are served in the order in which they joined. None overtakes another, even if it needs fewer units,
/// so one that needs many is not starved. Other keys are not delayed. The order holds among the calls on one
/// `HoldWaiters`: other processes, and holds taken from the limiter itself, do not queue.
///
/// A waiter only makes progress while its future is polled. A future that is kept but not polled holds up the waiters of
/// the same key behind it.
///
/// # Cancel safety
///
/// Dropping a future removes its waiter from the queue, and the next one takes its place. If a shared store was being
/// asked, the keeper ends the hold that it may have.
///
/// If [denied requests are charged](crate::CountDenied), every denial on the way is charged as well.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{HoldWaiters, InFlightLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let reports = HoldWaiters::new(InFlightLimiter::new("1~in_flight".parse()?), tokio::time::sleep);
/// let first = reports.until_held("alice").await?.into_hold();
///
/// // Nobody ends the first, so there is no room in time.
/// let denied = reports.until_held_within(Duration::from_millis(20), "alice", 1, 1).await?;
/// assert!(!denied.is_allowed());
///
/// // The second call waits for the end of the first.
/// let (second, ()) = tokio::join!(reports.until_held("alice"), async { drop(first) });
/// assert!(second?.is_allowed());
/// # Ok(())
/// # }
/// ```
pub struct HoldWaiters<L, T> {
    limiter: L,
    sleep: T,
    max_pause: Duration,
    jitter: Jitter,
    queue: Queue<HoldStates>,
}

/// The first pause before the store is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

impl<L, T, F> HoldWaiters<L, T>
where
    L: HoldSource,
    T: Fn(Duration) -> F,
    F: Future<Output = ()>,
{
    /// Waits for this limiter with this timer: at most 10,000 waiters, which ask at least once a second.
    ///
    /// The timer returns a future that is done no sooner than the given time.
    #[must_use]
    pub fn new(limiter: L, sleep: T) -> Self {
        Self {
            limiter,
            sleep,
            max_pause: Duration::from_secs(1),
            jitter: Jitter::default(),
            queue: Queue::new(10_000),
        }
    }

    /// Lets at most this many callers wait at the same time, for all keys together. The next one that would have to
    /// wait gets [`WaitError::TooManyWaiters`]; those that need not wait are still served.
    #[must_use]
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        Self { queue: Queue::new(max_waiters), ..self }
    }

    /// Sets the longest pause after which the first waiter of a key asks again.
    #[must_use]
    pub fn max_pause(self, max_pause: Duration) -> Self {
        Self { max_pause, ..self }
    }

    /// Waits until one unit in flight is held, and one unit is charged to each quota.
    ///
    /// The decision allows the request, unless it can never be allowed.
    ///
    /// # Errors
    ///
    /// If the store could not execute a step, or too many callers wait.
    pub async fn until_held<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<L::Decision<'a>, WaitError> {
        self.wait(key.into(), [1, 1], None).await
    }

    /// Waits until `units` in flight are held, and `cost` units are charged to each quota. More units than the limit are
    /// denied at once.
    ///
    /// # Errors
    ///
    /// The same as [`until_held`](Self::until_held).
    pub async fn until_held_units<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        units: u32,
        cost: u32,
    ) -> Result<L::Decision<'a>, WaitError> {
        self.wait(key.into(), [units, cost], None).await
    }

    /// Waits for at most `longest` until `units` in flight are held, and `cost` units are charged to each quota.
    ///
    /// At the deadline, the last denial is returned: the waiter's own or, if it never was the first of its key, that of
    /// the first. The first of its key gets it at once if quotas will not have room in time, by the store's time since it
    /// was first answered. The deadline does not bound how long the store takes to answer.
    ///
    /// # Errors
    ///
    /// The same as [`until_held`](Self::until_held).
    pub async fn until_held_within<'a>(
        &'a self,
        longest: Duration,
        key: impl Into<Key<'a>>,
        units: u32,
        cost: u32,
    ) -> Result<L::Decision<'a>, WaitError> {
        self.wait(key.into(), [units, cost], Some(longest)).await
    }

    async fn wait<'a>(
        &'a self,
        key: Key<'a>,
        units: [u32; 2],
        longest: Option<Duration>,
    ) -> Result<L::Decision<'a>, WaitError> {
        let ask = || self.limiter.ask(key.clone(), units);
        let joined = if self.limiter.never_passes(units) { None } else { self.queue.join(&key)? };
        let (place, mut asked);
        match joined {
            Some(joined) => (place, asked) = (joined, None),
            None => {
                let listener = self.limiter.asks_once().then(|| self.limiter.listen(&key));
                let decision = ask().await?;
                let WaitStanding::Waits(wait) = L::standing(&decision) else { return Ok(decision) };
                place = self.queue.enter(&key, &L::states(&decision))?;
                // It is outdated if others joined meanwhile, or if units may have been freed that nobody listened for.
                let is_current = place.is_first() && (wait.is_some() || listener.is_some());
                asked = is_current.then_some((decision, listener));
            }
        }
        let mut deadline = pin!(async {
            match longest {
                Some(longest) => (self.sleep)(longest).await,
                None => pending().await,
            }
        });
        if before(turn(&place), deadline.as_mut()).await.is_none() {
            // A line has a denial as long as it has a waiter.
            return match place.denial() {
                Some(denial) => Ok(self.limiter.denied(key, units, denial)),
                None => Ok(ask().await?),
            };
        }
        let mut pause = FIRST_PAUSE.min(self.max_pause);
        // When this waiter was first answered.
        let mut arrived = None;
        loop {
            let (decision, listener) = match asked.take() {
                Some(asked) => asked,
                None => {
                    // Before the question, so that nothing is missed that is freed meanwhile.
                    let listener = self.limiter.listen(&key);
                    (ask().await?, Some(listener))
                }
            };
            let WaitStanding::Waits(wait) = L::standing(&decision) else { return Ok(decision) };
            let states = L::states(&decision);
            let now = states.charged().decided().map(QuotaState::now);
            arrived = arrived.or(now);
            let waited = now.zip(arrived).map_or(Duration::ZERO, |(now, arrived)| now.since(arrived));
            if wait.zip(longest).is_some_and(|(wait, longest)| wait > longest.saturating_sub(waited)) {
                return Ok(decision);
            }
            place.pauses(states, Timestamp::EPOCH);
            let have_quotas_room = AtomicBool::new(false);
            let length = wait.unwrap_or_else(|| pause - self.jitter.up_to(pause / 2));
            let again = pin!(async {
                (self.sleep)(length).await;
                if wait.is_some() {
                    have_quotas_room.store(true, Ordering::Relaxed);
                    (self.sleep)(self.jitter.up_to((length / 10).min(LONGEST_JITTER))).await;
                }
            });
            let freed = async {
                match (wait, listener) {
                    (None, Some(listener)) => listener.freed().await,
                    _ => pending().await,
                }
            };
            if before(before(freed, again), deadline.as_mut()).await.is_none() {
                // The deadline cuts the jitter off, not the answer.
                return if have_quotas_room.load(Ordering::Relaxed) {
                    Ok(ask().await?)
                } else {
                    Ok(decision)
                };
            }
            pause = (pause * 2).min(self.max_pause);
        }
    }
}

/// The most that is added to the wait for a quota.
const LONGEST_JITTER: Duration = Duration::from_millis(100);

impl<L, T> HoldWaiters<L, T> {
    /// Returns the limiter.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Returns the number of callers that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }
}

/// Waits until this is the first of its line.
async fn turn<D: Clone>(place: &Place<'_, D>) {
    let _ = place.turn(None, || None::<std::future::Ready<()>>).await;
}

/// Returns the output of the first future, or `None` if the second is done before it.
async fn before<T>(
    first: impl Future<Output = T>,
    mut second: Pin<&mut impl Future<Output = ()>>,
) -> Option<T> {
    let mut first = pin!(first);
    poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => second.as_mut().poll(context).map(|()| None),
    })
    .await
}

impl<L: fmt::Debug, T> fmt::Debug for HoldWaiters<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldWaiters")
            .field("limiter", &self.limiter)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
