//! Waiting until a limiter allows.
//!
//! [`Waiters`] asks a limiter, sleeps for the `retry_after` of a denial, and asks again. It reads no clock: the store's
//! answers contain the time, and the caller's timer sleeps. The order of waiters is kept in `queue.rs`, for tasks and
//! threads alike. [`HoldWaiters`] do the same for units in flight, for which no answer has a time to wait.

mod blocking;
mod holds;
mod jitter;
mod queue;
mod source;

use std::fmt;
use std::time::Duration;

use thiserror::Error;

pub use self::blocking::BlockingTimer;
pub use self::holds::HoldWaiters;
use self::jitter::Jitter;
use self::queue::{Overdue, Queue};
pub use self::source::HoldSource;
use self::source::never_charged;
use crate::decision::CounterList;
use crate::{Decision, Key, QuotaStates, SharedLimiter, Store, StoreError, Timestamp};

/// A limiter whose callers wait until they are allowed.
///
/// A denied check waits for the `retry_after` of the denial, plus a little [jitter](Self::max_jitter), and asks again.
/// If several quotas deny, it waits for the longest of their waits. A cost above a limit can never be admitted, so its
/// denial is returned at once.
///
/// The timer is the caller's, so no particular runtime is needed: pass `tokio::time::sleep`, for example. Threads wait
/// with [`Waiters::blocking`].
///
/// Share it by reference or in an [`Arc`](std::sync::Arc): the waiters of one `Waiters` are one queue.
///
/// # Fairness
///
/// A call joins the queue of its key if others wait for that key already, or else once it is denied. Waiters of one key
/// are served in the order in which they joined: none overtakes another, even with a smaller cost that would fit. Other
/// keys are not delayed.
///
/// Only the first waiter of a key asks the store for units. A crowd of waiters costs one step for each that is admitted
/// and one denial for each window, and over a shared store they are admitted one round trip after another. A call with
/// a deadline that joins a queue also peeks once, to read the store's time.
///
/// The order holds among the calls on one `Waiters`. Other processes, and checks made with the limiter itself, do not
/// queue. Units that are refunded while the first waiter sleeps are used once it wakes.
///
/// A waiter only makes progress while its future is polled. A future that is kept but not polled holds up the waiters
/// of the same key behind it: those with a deadline until it passes, the others for as long as the future is kept.
///
/// # Cancel safety
///
/// Dropping a future removes its waiter from the queue, and the next one takes its place. A waiter that is dropped
/// while it queues or sleeps has been charged nothing. One that is dropped while a shared store is being asked may have
/// been charged, like any step of a [`SharedLimiter`]; over a store in memory that cannot happen.
///
/// If [denied requests are charged](crate::CountDenied), every denial on the way is charged as well.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Waiters};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::WaitError> {
/// let limiter = Limiter::new("2/50ms".parse().expect("a valid quota"));
/// let waiters = Waiters::new(limiter, tokio::time::sleep).max_waiters(1_000);
/// for _ in 0..5 {
///     // The third call and the fifth wait for the next window.
///     assert!(waiters.until_allowed("alice").await?.is_allowed());
/// }
///
/// // A caller that has only a second does not wait for the next day.
/// let limiter = Limiter::new("1/1d@first_hit".parse().expect("a valid quota"));
/// let waiters = Waiters::new(limiter, tokio::time::sleep);
/// assert!(waiters.until_allowed("alice").await?.is_allowed());
/// let denied = waiters.until_allowed_within(Duration::from_secs(1), "alice", 1).await?;
/// assert!(!denied.is_allowed());
/// # Ok(())
/// # }
/// ```
pub struct Waiters<S, T> {
    limiter: SharedLimiter<S>,
    sleep: T,
    max_jitter: Duration,
    jitter: Jitter,
    queue: Queue<QuotaStates>,
}

/// Why a wait ended without a decision.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The store could not execute a step. Earlier steps of the same wait were denied; this one [may have
    /// charged](StoreError::may_have_charged). Waiters behind this one ask the store themselves.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The call would have to wait, and the [maximum number](Waiters::max_waiters) of callers wait already. It was
    /// charged nothing, unless [denied requests are charged](crate::CountDenied). A retry helps once others have been
    /// served.
    #[error("too many callers are waiting already")]
    TooManyWaiters,
}

impl<S, T, F> Waiters<S, T>
where
    T: Fn(Duration) -> F,
    F: Future<Output = ()>,
{
    /// Waits for this limiter with this timer: at most 10,000 waiters, with up to 100 ms of jitter.
    ///
    /// The limiter is a [`Limiter`](crate::Limiter) or a [`SharedLimiter`]. The timer returns a future that is done no
    /// sooner than the given time. If it is, the store is asked once more and the rest is slept.
    #[must_use]
    pub fn new(limiter: impl Into<SharedLimiter<S>>, sleep: T) -> Self {
        Self::with_timer(limiter.into(), sleep)
    }
}

impl<S: Store, T, F> Waiters<S, T>
where
    T: Fn(Duration) -> F,
    F: Future<Output = ()>,
{
    /// Waits until one unit is charged to the key.
    ///
    /// The decision allows the request, unless a quota allows nothing at all.
    ///
    /// # Errors
    ///
    /// If the store could not execute a step, or too many callers wait.
    pub async fn until_allowed<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, WaitError> {
        self.wait(key.into(), 1, None, &self.sleep, &self.sleep).await
    }

    /// Waits until `cost` units are charged to the key.
    ///
    /// A cost above a limit can never be admitted: its denial, which has no [`retry_after`](Decision::retry_after), is
    /// returned at once.
    ///
    /// # Errors
    ///
    /// The same as [`until_allowed`](Self::until_allowed).
    pub async fn until_allowed_cost<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        cost: u32,
    ) -> Result<Decision<'a>, WaitError> {
        self.wait(key.into(), cost, None, &self.sleep, &self.sleep).await
    }

    /// Waits for at most `longest` until `cost` units are charged to the key.
    ///
    /// The denial is returned as soon as it is known that there will be no room in time, usually at once; nothing is
    /// charged then. If a waiter in front sleeps for longer, or is not served by the deadline, the denial is that
    /// waiter's.
    ///
    /// The deadline bounds how long the call waits for room, by the store's time, and how long it queues behind others,
    /// by the timer. It does not bound how long the store takes to answer this call.
    ///
    /// # Errors
    ///
    /// The same as [`until_allowed`](Self::until_allowed).
    pub async fn until_allowed_within<'a>(
        &'a self,
        longest: Duration,
        key: impl Into<Key<'a>>,
        cost: u32,
    ) -> Result<Decision<'a>, WaitError> {
        self.wait(key.into(), cost, Some(longest), &self.sleep, &self.sleep).await
    }
}

impl<S, T> Waiters<S, T> {
    fn with_timer(limiter: SharedLimiter<S>, sleep: T) -> Self {
        Self {
            limiter,
            sleep,
            max_jitter: Duration::from_millis(100),
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

    /// Adds a random time to each wait: up to a tenth of the wait, and no more than this. It keeps processes and keys
    /// that wait for the same instant from asking all at the same time. A wait never ends early because of it, and
    /// never passes its deadline.
    #[must_use]
    pub fn max_jitter(self, max_jitter: Duration) -> Self {
        Self { max_jitter, ..self }
    }

    /// Returns the limiter.
    #[must_use]
    pub const fn limiter(&self) -> &SharedLimiter<S> {
        &self.limiter
    }

    /// Returns the number of callers that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }
}

impl<S: Store, T> Waiters<S, T> {
    /// `sleep` is for the first waiter of a key, and `alarm` ends the queueing of others.
    async fn wait<'a, F: Future<Output = ()>, A: Future<Output = ()>>(
        &'a self,
        key: Key<'a>,
        cost: u32,
        longest: Option<Duration>,
        sleep: impl Fn(Duration) -> F,
        alarm: impl Fn(Duration) -> A,
    ) -> Result<Decision<'a>, WaitError> {
        let deadline = |arrived: Timestamp| longest.map(|longest| arrived + longest);
        // When the store first answered. Only a deadline needs it.
        let mut arrived = Timestamp::EPOCH;
        let (place, mut denial);
        // A cost that can never pass does not queue.
        let joined = if never_charged(self.limiter.quotas(), cost) { None } else { self.queue.join(&key)? };
        if let Some(joined) = joined {
            // Join the queue before the peek, so that nobody gets in front meanwhile.
            place = joined;
            denial = None;
            if longest.is_some() {
                let counted = self.limiter.peek(&key).await?.into_counted();
                arrived = now(&counted);
                if !counted.is_admitted() && self.pause(&counted, deadline(arrived)).is_none() {
                    return Ok(self.decision(key, counted));
                }
            }
        } else {
            let counted = self.limiter.check_cost(&key, cost).await?.into_counted();
            arrived = now(&counted);
            if self.pause(&counted, deadline(arrived)).is_none() {
                return Ok(self.decision(key, counted));
            }
            place = self.queue.enter(&key, &counted)?;
            // If others joined meanwhile, the answer is outdated when its turn comes.
            denial = place.is_first().then_some(counted);
        }
        let deadline = deadline(arrived);
        loop {
            let counted = match denial.take() {
                Some(counted) => counted,
                None => {
                    if let Err(Overdue { denial, passed }) =
                        place.turn(deadline, || longest.map(&alarm)).await
                    {
                        let now = passed.unwrap_or(arrived);
                        let denial = denial.iter().map(|state| state.for_another(now)).collect();
                        return Ok(self.decision(key, denial));
                    }
                    self.limiter.check_cost(&key, cost).await?.into_counted()
                }
            };
            let Some(pause) = self.pause(&counted, deadline) else {
                return Ok(self.decision(key, counted));
            };
            let asks_at = now(&counted) + pause;
            place.pauses(counted, asks_at);
            sleep(pause).await;
        }
    }

    /// Returns how long to sleep after this answer. `None` if there is nothing to wait for: it allows, it can never
    /// pass, or not before the deadline.
    fn pause(&self, counted: &QuotaStates, deadline: Option<Timestamp>) -> Option<Duration> {
        let state = counted.decided()?;
        let wait = state.retry_after()?;
        let longest = deadline.map_or(Duration::MAX, |deadline| deadline.since(state.now()));
        (wait <= longest)
            .then(|| wait.saturating_add(self.jitter.up_to(self.max_jitter.min(wait / 10))).min(longest))
    }

    fn decision<'a>(&'a self, key: Key<'a>, counted: QuotaStates) -> Decision<'a> {
        Decision::of(CounterList::OfKey(self.limiter.quotas(), key), counted)
    }
}

/// The store's time at this answer.
fn now(counted: &QuotaStates) -> Timestamp {
    counted.decided().map_or(Timestamp::EPOCH, crate::QuotaState::now)
}

impl<S, T> fmt::Debug for Waiters<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters")
            .field("limiter", &self.limiter)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
