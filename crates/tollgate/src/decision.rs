//! The answer: what a store counted, said as a verdict with its reasons.
//!
//! A pure function of the charges and the counts; it reads no clock and asks no store.

use std::cmp::Ordering;
use std::time::Duration;

use crate::store::{Counted, PerQuota};
use crate::{Charge, Window};

/// The answer to a request: may it go on now, what is left, and how long to wait if not.
///
/// Where several quotas were charged, the single figures are those of the quota that [decided](Self::deciding):
/// the one that denied (the longest wait, if several did), else the one with the least remaining share.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, MemoryStore, Quota, Reason};
///
/// let clock = ManualClock::default();
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::with_store(Quota::per_minute(1), store);
///
/// let first = limiter.check("alice")?;
/// assert!(first.is_allowed());
/// assert_eq!((first.used(), first.remaining()), (1, 0));
///
/// clock.advance(Duration::from_secs(18));
/// let second = limiter.check("alice")?;
/// assert!(!second.is_allowed());
/// assert_eq!(second.retry_after(), Some(Duration::from_secs(42)));
/// assert_eq!(second.reason(), Some(Reason::QuotaExceeded));
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a request that is denied must not go on"]
pub struct Decision {
    verdict: Verdict,
    deciding: usize,
    quotas: PerQuota<QuotaState>,
    source: Source,
}

/// May the request go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every quota had room.
    Allowed,
    /// At least one quota had no room.
    Denied,
}

/// Why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// What is left of the window is less than the cost; it passes in a later window.
    QuotaExceeded,
    /// The cost is above the limit; it can never pass.
    CostExceedsLimit,
}

/// Where a decision came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store that holds the counters.
    Store,
    /// What this process remembers of the store's counters.
    Local,
    /// The policy for a store in trouble.
    Fallback,
}

/// Where one quota stands after a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaState {
    limit: u64,
    used: u64,
    window: Window,
    reset_after: Duration,
    verdict: Result<(), Denial>,
}

/// Why and for how long one quota had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Denial {
    reason: Reason,
    retry_after: Option<Duration>,
}

impl Decision {
    /// What a store counted for these charges, as an answer.
    ///
    /// `counted` must hold one count for each charge, in their order; without any charge it is allowed.
    pub fn new(charges: &[Charge<'_>], counted: &Counted, source: Source) -> Self {
        let quotas: PerQuota<QuotaState> = charges
            .iter()
            .zip(&counted.counts)
            .map(|(charge, count)| {
                let reset_after = count.window.end().since(counted.now);
                let verdict = if count.fits {
                    Ok(())
                } else if charge.asked_in(charges) > charge.limit() {
                    Err(Denial { reason: Reason::CostExceedsLimit, retry_after: None })
                } else {
                    let retry_after = Some(reset_after + counted.resolution);
                    Err(Denial { reason: Reason::QuotaExceeded, retry_after })
                };
                QuotaState {
                    limit: charge.limit(),
                    used: count.used,
                    window: count.window,
                    reset_after,
                    verdict,
                }
            })
            .collect();
        let verdict = if counted.is_admitted() { Verdict::Allowed } else { Verdict::Denied };
        let deciding = deciding(&quotas);
        Self { verdict, deciding, quotas, source }
    }

    /// Whether the request may go on.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    /// Whether the request may go on, as a value to match on.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Which of [`quotas`](Self::quotas) decided, counted from 0.
    #[must_use]
    pub const fn deciding(&self) -> usize {
        self.deciding
    }

    /// Where every quota stands, in the order they were charged.
    #[must_use]
    pub fn quotas(&self) -> &[QuotaState] {
        &self.quotas
    }

    /// Where the quota that decided stands; `None` only if nothing was charged.
    #[must_use]
    pub fn quota(&self) -> Option<&QuotaState> {
        self.quotas.get(self.deciding)
    }

    /// Units used in the window, this request's included if it was allowed.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.quota().map_or(0, QuotaState::used)
    }

    /// Units left in the window; never negative.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.quota().map_or(u64::MAX, QuotaState::remaining)
    }

    /// Time until the window ends and the count starts anew.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.quota().map_or(Duration::ZERO, QuotaState::reset_after)
    }

    /// Time to wait before the same request is worth another try; `None` if it was allowed, or if its cost can
    /// never pass. Whoever waits as long is not denied for having come too early.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.quota().and_then(QuotaState::retry_after)
    }

    /// Why the request is denied.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.quota().and_then(QuotaState::reason)
    }

    /// Where the decision came from.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }
}

impl QuotaState {
    /// Units allowed in a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Units used in the window.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Units left in the window; never negative.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// The window that was counted.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Time until the window ends.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.reset_after
    }

    /// Time to wait, if this quota had no room and a later window can have it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.verdict.err().and_then(|denial| denial.retry_after)
    }

    /// Why this quota had no room; `None` if it had.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.verdict.err().map(|denial| denial.reason)
    }

    /// Which of two quotas decides: the greater one.
    fn compare(&self, other: &Self) -> Ordering {
        match (self.verdict, other.verdict) {
            // The smaller share of the limit is left where remaining / limit is less; multiplied out, because
            // the products of two values below 2^40 are exact.
            (Ok(()), Ok(())) => {
                let product = |remaining, limit| u128::from(remaining) * u128::from(limit);
                product(other.remaining(), self.limit).cmp(&product(self.remaining(), other.limit))
            }
            (Ok(()), Err(_)) => Ordering::Less,
            (Err(_), Ok(())) => Ordering::Greater,
            // No wait at all is the longest.
            (Err(denial), Err(other)) => {
                let wait = |denial: Denial| denial.retry_after.unwrap_or(Duration::MAX);
                wait(denial).cmp(&wait(other))
            }
        }
    }
}

fn deciding(quotas: &[QuotaState]) -> usize {
    if quotas.len() <= 1 {
        return 0;
    }
    // From the back, because of equals `max_by` takes the last it sees and the first quota is to decide.
    let heaviest = quotas.iter().enumerate().rev().max_by(|(_, a), (_, b)| a.compare(b));
    heaviest.map_or(0, |(index, _)| index)
}

/// Whole seconds for a wire, rounded up and at least 1, so that nobody is told to come back too early.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(tollgate::whole_seconds(Duration::from_millis(34_001)), 35);
/// assert_eq!(tollgate::whole_seconds(Duration::ZERO), 1);
/// ```
#[must_use]
pub fn whole_seconds(duration: Duration) -> u64 {
    let up = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(up).max(1)
}
