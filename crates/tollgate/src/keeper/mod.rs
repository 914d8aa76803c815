//! Keeping holds alive: one task of the process renews all of them, and ends those whose guards were dropped.
//!
//! ```text
//! limiter ──▶ HoldKeeper ──▶ schedule ──▶ task ──▶ store
//!             KeptHold       what is due  renews or ends,
//!             a guard        and when     many at once
//! ```
//!
//! A guard that is dropped cannot wait for a store, so it leaves the end of its hold to the task. No runtime is needed:
//! the task is a future, and its timer is the caller's.

mod kept_hold;
mod life;
mod schedule;
mod task;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use self::kept_hold::KeptHold;
use self::schedule::Schedule;
use crate::clock::{Clock, SystemClock};
use crate::{Answer, HoldAnswer, StoreError};

/// The keeper of a process's holds: its task renews them as long as their guards live, and ends them after that.
///
/// Clones are one keeper. One is enough for a process, whatever the number of limiters over a store; give each shared
/// store its own. It needs its task: while nobody polls that, no hold is renewed, and a dropped guard frees its units
/// only when the hold expires. A store that answers immediately, as one in memory does, frees them at once.
///
/// A hold is renewed after a third of its length at the latest, together with others that are due. If a renewal fails,
/// it is tried again, up to the end of the length. The task waits for up to 64 answers at a time, so a store that may
/// have to wait needs a deadline. If all of them wait for one store that hangs, the holds of another store wait
/// behind them, and may be lost.
///
/// # Examples
///
/// ```
/// use tollgate::{HoldKeeper, Limiter, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
/// tokio::spawn(task);
///
/// // The store can be shared with other processes.
/// let builder = Limiter::builder("reports");
/// let reports = builder.build_shared_in_flight("2~in_flight:30s".parse()?, MemoryStore::new(), &keeper)?;
/// let hold = reports.hold("alice").await?.into_hold();
/// assert!(hold.is_some());
/// # Ok(())
/// # }
/// ```
///
/// Without a runtime, a thread runs the task:
///
/// ```
/// use tollgate::{HoldKeeper, blocking};
///
/// let (keeper, task) = HoldKeeper::new(blocking::sleep);
/// std::thread::spawn(|| blocking::block_on(task));
/// # drop(keeper);
/// ```
#[derive(Clone)]
pub struct HoldKeeper {
    schedule: Arc<OpenSchedule>,
}

/// The schedule as limiters and guards have it: the task ends once the last of them is gone.
struct OpenSchedule(Arc<Schedule>);

/// A hold that a [`HoldKeeper`] can renew and end.
///
/// Implement it to keep other holds than those of a [`HoldLimiter`](crate::HoldLimiter).
pub trait RenewableHold: Send + Sync {
    /// Starts the length of the hold again.
    fn renew(&self) -> Answer<KeeperFuture<'_>>;

    /// Ends the hold. It may be called again after an error.
    fn end(&self, ending: HoldEnding) -> Answer<KeeperFuture<'_>>;
}

/// The future of a store's answer on a hold.
pub type KeeperFuture<'a> = Pin<Box<dyn Future<Output = Result<HoldAnswer, StoreError>> + Send + 'a>>;

/// What becomes of the units that a hold has charged to quotas when it ends. Its units in flight are free in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEnding {
    /// They stay charged.
    Keep,
    /// They are given back, as for a hold that is settled at a cost of 0.
    GiveBack,
    /// They are adjusted to this cost.
    Settle(u32),
}

impl HoldEnding {
    /// Returns how the hold ends after this answer to its end; `None` if it has ended, or can never end.
    ///
    /// After trouble, in the same way. A store that has no room for units that the estimate lacked frees the others.
    const fn after(self, answer: &Result<HoldAnswer, StoreError>) -> Option<Self> {
        match (answer, self) {
            (Ok(_), _) => None,
            (Err(StoreError::Trouble { .. }), _) => Some(self),
            (Err(_), Self::Keep) => None,
            (Err(_), _) => Some(Self::Keep),
        }
    }
}

impl HoldKeeper {
    /// How many dropped holds may wait for their end by default.
    const MAX_ENDING: usize = 10_000;

    /// Creates a keeper and its task, which you spawn. `sleep` returns a future that is done no sooner than the given
    /// time: pass `tokio::time::sleep`, for example.
    ///
    /// The task ends when no keeper, limiter and guard is left.
    pub fn new<T, F>(sleep: T) -> (Self, impl Future<Output = ()> + Send + use<T, F>)
    where
        T: Fn(Duration) -> F + Send,
        F: Future<Output = ()> + Send,
    {
        Self::with_clock(SystemClock, sleep)
    }

    /// Creates a keeper that measures the lengths of holds by this clock's [steady time](Clock::steady_now), for tests.
    pub fn with_clock<C, T, F>(clock: C, sleep: T) -> (Self, impl Future<Output = ()> + Send + use<C, T, F>)
    where
        C: Clock + 'static,
        T: Fn(Duration) -> F + Send,
        F: Future<Output = ()> + Send,
    {
        let schedule = Arc::new(Schedule::new(Arc::new(clock), Self::MAX_ENDING));
        let task = task::run(Arc::clone(&schedule), sleep);
        (Self { schedule: Arc::new(OpenSchedule(schedule)) }, task)
    }

    /// Lets at most this many dropped holds wait for their end: 10,000 by default. Others are left to expire.
    #[must_use]
    pub fn max_ending(self, max_ending: usize) -> Self {
        self.schedule.0.set_max_ending(max_ending);
        self
    }

    /// Returns how many holds it has, dropped ones that wait for their end included.
    #[must_use]
    pub fn holds(&self) -> usize {
        self.schedule.0.holds()
    }

    /// Returns the guard of a hold that is about to be asked for. Once it is [admitted](KeptHold::admitted), it is
    /// renewed.
    ///
    /// If the guard is dropped before, the outcome of the request is unknown to its owner, so the hold is ended as well.
    pub fn keep(&self, hold: Arc<dyn RenewableHold>, on_drop: HoldEnding) -> KeptHold {
        KeptHold::new(self.clone(), hold, on_drop)
    }

    fn schedule(&self) -> &Arc<Schedule> {
        &self.schedule.0
    }
}

impl Drop for OpenSchedule {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Debug for HoldKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldKeeper").field("holds", &self.holds()).finish_non_exhaustive()
    }
}
