//! The answer: what a store counted, said as a verdict with its reasons.
//!
//! A pure function of the charges and the counts; it reads no clock and asks no store.

use std::time::Duration;

use crate::{Charge, CountDenied, Counted, Counter, QuotaState, Reason, Timestamp};

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
    quotas: Counted,
}

/// May the request go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every quota had room.
    Allowed,
    /// At least one quota had no room.
    Denied,
}

/// Where an answer came from.
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

impl Decision {
    /// What a store counted, as an answer. Without any charge it is allowed.
    #[inline(always)]
    pub fn new(quotas: Counted) -> Self {
        let deciding = deciding(&quotas);
        let verdict = if quotas.is_admitted() { Verdict::Allowed } else { Verdict::Denied };
        Self { verdict, deciding, quotas }
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

    /// Where the decision came from: the source of the quota that [decided](Self::deciding).
    #[must_use]
    pub fn source(&self) -> Source {
        self.quota().map_or(Source::Store, QuotaState::source)
    }

    /// For each of the charges that were decided on what can be given back, and the start of the window it was
    /// charged in; a charge that took nothing has cost 0. None at all for another number of charges.
    pub fn refunds<'a>(&'a self, charges: &'a [Charge<'a>]) -> impl Iterator<Item = (Charge<'a>, Timestamp)> {
        let charges = if charges.len() == self.quotas.len() { charges } else { &[] };
        charges.iter().zip(&self.quotas).map(|(charge, quota)| {
            let counter = charge.counter();
            let cost = if self.has_charged(counter, charges) { charge.cost() } else { 0 };
            (Charge::new(counter.quota(), counter.key(), cost), quota.window().start())
        })
    }

    /// Whether the step took units of the counter: of all if it was admitted, else where a denial is counted.
    fn has_charged(&self, counter: Counter<'_>, charges: &[Charge<'_>]) -> bool {
        let is_counted_denial = |(charge, quota): (&Charge<'_>, &QuotaState)| {
            charge.counter() == counter
                && charge.counter().quota().count_denied() == CountDenied::Yes
                && quota.reason() == Some(Reason::QuotaExceeded)
        };
        self.source() == Source::Store
            && (self.is_allowed() || charges.iter().zip(&self.quotas).any(is_counted_denial))
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
