//! How a quota counts: its kind.
//!
//! Every kind answers the same questions of a counter at one time: how many units are [`used`](Standing::used), what
//! follows when units are [added](Standing::add) or [given back](Standing::give_back), and [when](Standing::when) usage
//! will have fallen to a target. Decisions, waits and merged charges need only these. All are pure functions in
//! integers; stores keep the states and know the time.
//!
//! | kind | written | a unit is free again |
//! |---|---|---|
//! | window | `100/1m` | when its window ends |
//! | [burst](BurstStanding) | `100/1m~burst:20` | evenly, at the limit's rate |
//! | [sliding](SlidingStanding) | `100/1m~sliding` | gradually, in the window after its own |
//! | [log](LogStanding) | `100/1m~log`, `100/1m~log:1s` | a window's length after it was charged |

mod burst;
mod log;
mod mark;
mod sliding;
mod window;

pub(crate) use self::burst::BucketError;
pub use self::burst::{Bucket, BurstStanding, ExactInstant};
pub use self::log::{LogEntries, LogStanding};
pub(crate) use self::log::{fitting_step, max_entries};
pub use self::mark::Mark;
pub(crate) use self::sliding::MAX_COUNT;
pub use self::sliding::{SlidingStanding, SlidingState};
pub use self::window::WindowStanding;
use crate::{Key, Quota, QuotaKind, Timestamp, Window};

/// How far a clock may step back without a counter leaving its window (rule 12), in milliseconds.
pub(crate) const STEP: u64 = 1_000;

/// A counter at one time, by the kind of its quota.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// A fixed window.
    Window(WindowStanding),
    /// A bucket.
    Burst(BurstStanding),
    /// A sliding window.
    Sliding(SlidingStanding),
    /// A log. In a box, because it is larger than the others.
    Log(Box<LogStanding>),
}

impl Standing {
    /// Returns a fixed window in which this many units are used.
    #[must_use]
    #[inline(always)]
    pub const fn in_window(used: u64, window: Window) -> Self {
        Self::Window(WindowStanding::new(used, window))
    }

    /// Returns the counter of this quota and key at a later time, if nothing is charged until then. A fixed window stays
    /// the same until its end.
    #[must_use]
    pub fn later(self, quota: &Quota, key: &Key<'_>, now: Timestamp) -> Self {
        match self {
            Self::Window(_) => self,
            Self::Burst(bucket) => Self::Burst(bucket.later(now)),
            Self::Sliding(sliding) => {
                // A clock that has just stepped back leaves a window that has not begun (rule 12).
                let is_early = (1..=STEP).contains(&sliding.current().start().millis_since(now));
                let current = if is_early { sliding.current() } else { quota.window_at(key, now) };
                Self::Sliding(SlidingStanding::at(Some(sliding.state()), current, now))
            }
            Self::Log(log) => Self::Log(Box::new(log.later(now))),
        }
    }

    /// Returns the units that count, rounded up.
    #[must_use]
    #[inline(always)]
    pub const fn used(&self) -> u64 {
        match self {
            Self::Window(window) => window.used,
            Self::Burst(bucket) => bucket.used(),
            Self::Sliding(sliding) => sliding.used(),
            Self::Log(log) => log.used(),
        }
    }

    /// Returns the counter with this many more units, or as many as it can hold.
    #[must_use]
    #[inline(always)]
    pub fn add(&self, units: u64) -> Self {
        match self {
            Self::Window(window) => Self::Window(window.add(units)),
            Self::Burst(bucket) => Self::Burst(bucket.add(units)),
            Self::Sliding(sliding) => Self::Sliding(sliding.add(units)),
            Self::Log(log) => Self::Log(Box::new(LogStanding::clone(log).add(units))),
        }
    }

    /// Returns the counter with exactly this many units, or as many as it can hold.
    #[must_use]
    pub fn set(self, units: u64) -> Self {
        match self {
            Self::Window(window) => Self::Window(window.set(units)),
            Self::Burst(bucket) => Self::Burst(bucket.set(units)),
            Self::Sliding(sliding) => Self::Sliding(sliding.set(units)),
            Self::Log(log) => Self::Log(Box::new(log.set(units))),
        }
    }

    /// Returns what a refund of at most `units` of the marked charge gives back, and the counter after it.
    #[must_use]
    pub fn give_back(self, units: u64, mark: Mark) -> (u64, Self) {
        match self {
            Self::Window(window) => {
                let (given, after) = window.give_back(units, mark);
                (given, Self::Window(after))
            }
            Self::Burst(bucket) => {
                let (given, after) = bucket.give_back(units, mark);
                (given, Self::Burst(after))
            }
            Self::Sliding(sliding) => {
                let (given, after) = sliding.give_back(units, mark);
                (given, Self::Sliding(after))
            }
            Self::Log(log) => {
                let (given, after) = log.give_back(units, mark);
                (given, Self::Log(Box::new(after)))
            }
        }
    }

    /// Returns the first millisecond at which no more than `target` units count, if none are charged until then. Call
    /// it only with a target below what is [used](Self::used).
    #[must_use]
    #[inline(always)]
    pub fn when(&self, target: u64) -> Timestamp {
        match self {
            Self::Window(window) => window.window.end(),
            Self::Burst(bucket) => bucket.when(target),
            Self::Sliding(sliding) => sliding.when(target),
            Self::Log(log) => log.when(target),
        }
    }

    /// Returns the time at which usage is back at zero if no units are charged until then. For a fixed window, this is
    /// its end, even if nothing is used.
    #[must_use]
    #[inline(always)]
    pub fn reset_at(&self) -> Timestamp {
        match self {
            Self::Window(window) => window.window.end(),
            Self::Burst(bucket) => bucket.when(0),
            Self::Sliding(sliding) => sliding.reset_at(),
            Self::Log(log) => log.reset_at(),
        }
    }

    /// Returns the mark of a charge that led here.
    #[must_use]
    #[inline(always)]
    pub const fn mark(&self) -> Mark {
        match self {
            Self::Window(window) => Mark::at(window.window.start()),
            Self::Burst(bucket) => bucket.mark(),
            Self::Sliding(sliding) => sliding.mark(),
            Self::Log(log) => log.mark(),
        }
    }
}

/// What decisions ask of a counter at one time. The fast path of a store is compiled for one kind; all other paths ask a
/// [`Standing`], which may be of any.
pub(crate) trait KindStanding: Sized {
    fn kind(&self) -> QuotaKind;
    fn used(&self) -> u64;
    fn add(&self, units: u64) -> Self;
    /// Returns when one more unit is free, and when so many are that `needed` fit under the limit.
    fn next_and_retry(&self, limit: u64, needed: u64) -> (Timestamp, Timestamp);
    fn reset_at(&self) -> Timestamp;
    fn mark(&self) -> Mark;
    /// The window in which units are counted, if there is one.
    fn window(&self) -> Option<Window>;
}

impl KindStanding for WindowStanding {
    #[inline(always)]
    fn kind(&self) -> QuotaKind {
        QuotaKind::Window
    }

    #[inline(always)]
    fn used(&self) -> u64 {
        self.used
    }

    #[inline(always)]
    fn add(&self, units: u64) -> Self {
        self.add(units)
    }

    #[inline(always)]
    fn next_and_retry(&self, _: u64, _: u64) -> (Timestamp, Timestamp) {
        (self.window.end(), self.window.end())
    }

    #[inline(always)]
    fn reset_at(&self) -> Timestamp {
        self.window.end()
    }

    #[inline(always)]
    fn mark(&self) -> Mark {
        Mark::at(self.window.start())
    }

    #[inline(always)]
    fn window(&self) -> Option<Window> {
        Some(self.window)
    }
}

impl KindStanding for BurstStanding {
    #[inline(always)]
    fn kind(&self) -> QuotaKind {
        QuotaKind::Burst
    }

    #[inline(always)]
    fn used(&self) -> u64 {
        self.used()
    }

    #[inline(always)]
    fn add(&self, units: u64) -> Self {
        self.add(units)
    }

    #[inline(always)]
    fn next_and_retry(&self, limit: u64, needed: u64) -> (Timestamp, Timestamp) {
        next_and_retry(self.used(), limit, needed, |target| self.when(target))
    }

    #[inline(always)]
    fn reset_at(&self) -> Timestamp {
        self.when(0)
    }

    #[inline(always)]
    fn mark(&self) -> Mark {
        self.mark()
    }

    #[inline(always)]
    fn window(&self) -> Option<Window> {
        None
    }
}

impl KindStanding for SlidingStanding {
    #[inline(always)]
    fn kind(&self) -> QuotaKind {
        QuotaKind::Sliding
    }

    #[inline(always)]
    fn used(&self) -> u64 {
        self.used()
    }

    #[inline(always)]
    fn add(&self, units: u64) -> Self {
        self.add(units)
    }

    #[inline(always)]
    fn next_and_retry(&self, limit: u64, needed: u64) -> (Timestamp, Timestamp) {
        next_and_retry(self.used(), limit, needed, |target| self.when(target))
    }

    #[inline(always)]
    fn reset_at(&self) -> Timestamp {
        self.reset_at()
    }

    #[inline(always)]
    fn mark(&self) -> Mark {
        self.mark()
    }

    #[inline(always)]
    fn window(&self) -> Option<Window> {
        Some(self.current())
    }
}

impl KindStanding for LogStanding {
    fn kind(&self) -> QuotaKind {
        QuotaKind::Log
    }

    fn used(&self) -> u64 {
        self.used()
    }

    fn add(&self, units: u64) -> Self {
        self.clone().add(units)
    }

    fn next_and_retry(&self, limit: u64, needed: u64) -> (Timestamp, Timestamp) {
        next_and_retry(self.used(), limit, needed, |target| self.when(target))
    }

    fn reset_at(&self) -> Timestamp {
        self.reset_at()
    }

    fn mark(&self) -> Mark {
        self.mark()
    }

    fn window(&self) -> Option<Window> {
        None
    }
}

impl KindStanding for Standing {
    #[inline]
    fn kind(&self) -> QuotaKind {
        match self {
            Self::Window(_) => QuotaKind::Window,
            Self::Burst(_) => QuotaKind::Burst,
            Self::Sliding(_) => QuotaKind::Sliding,
            Self::Log(_) => QuotaKind::Log,
        }
    }

    #[inline(always)]
    fn used(&self) -> u64 {
        self.used()
    }

    #[inline(always)]
    fn add(&self, units: u64) -> Self {
        self.add(units)
    }

    #[inline]
    fn next_and_retry(&self, limit: u64, needed: u64) -> (Timestamp, Timestamp) {
        match self {
            Self::Window(window) => window.next_and_retry(limit, needed),
            other => next_and_retry(other.used(), limit, needed, |target| other.when(target)),
        }
    }

    #[inline]
    fn reset_at(&self) -> Timestamp {
        self.reset_at()
    }

    #[inline]
    fn mark(&self) -> Mark {
        self.mark()
    }

    #[inline]
    fn window(&self) -> Option<Window> {
        match self {
            Self::Window(window) => Some(window.window),
            Self::Sliding(sliding) => Some(sliding.current()),
            Self::Burst(_) | Self::Log(_) => None,
        }
    }
}

/// Of units above the limit, one is free once usage is below the limit.
#[inline(always)]
fn next_and_retry(
    used: u64,
    limit: u64,
    needed: u64,
    when: impl Fn(u64) -> Timestamp,
) -> (Timestamp, Timestamp) {
    (when(used.min(limit).saturating_sub(1)), when(limit.saturating_sub(needed)))
}
