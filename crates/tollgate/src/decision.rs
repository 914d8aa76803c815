//! The decision: a verdict with its reasons, computed from a store's counts.
//!
//! It is a pure function of the charges and the counts: it reads no clock and calls no store.

use std::fmt;
use std::time::Duration;

use crate::receipt::ReceiptItem;
use crate::{Charge, Counter, Key, PolicyQuota, Quota, QuotaState, QuotaStates, Reason, Receipt};

/// The answer to a request: whether it is allowed, the remaining units, and how long to wait.
///
/// It has at least one quota. If it has several, the single figures are those of the quota that
/// [decided](Self::deciding): the one that denied (the longest wait, if several did), else the one with the least
/// remaining share.
///
/// It borrows its quotas and its key, so making it is free. To keep it, call [`into_owned`](Self::into_owned). It
/// cannot be cloned, so that its units can be refunded only once.
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
/// assert_eq!((second.policy(), second.quota().to_string().as_str()), ("default", "1/1m"));
/// # Ok::<(), tollgate::Full>(())
/// ```
#[must_use = "a request that is denied must not go on"]
pub struct Decision<'a> {
    counters: CounterList<'a>,
    /// At least one, and one for each counter.
    counted: QuotaStates,
}

/// The quotas and keys of a request.
pub(crate) enum CounterList<'a> {
    /// Several quotas of one key.
    OfKey(&'a [PolicyQuota], Key<'a>),
    /// A counter for each charge.
    OfCharges(&'a [Charge<'a>]),
    Owned(Box<[(PolicyQuota, Key<'static>)]>),
}

/// Whether a request is allowed.
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
    /// This process's memory of an earlier answer of the store.
    Local,
    /// The policy for a failing store.
    Fallback,
}

impl<'a> Decision<'a> {
    /// Creates a decision from a store's counts for these quotas and this key. Returns `None` unless there is one state
    /// for each quota, and at least one.
    #[must_use]
    pub fn new(quotas: &'a [PolicyQuota], key: Key<'a>, counted: QuotaStates) -> Option<Self> {
        let is_possible = counted.len() == quotas.len() && !counted.is_empty();
        is_possible.then(|| Self::of(CounterList::OfKey(quotas, key), counted))
    }

    /// Creates a decision from a store's counts for these charges. Returns `None` unless there is one state for each
    /// charge, and at least one.
    #[must_use]
    pub fn of_charges(charges: &'a [Charge<'a>], counted: QuotaStates) -> Option<Self> {
        let is_possible = counted.len() == charges.len() && !counted.is_empty();
        is_possible.then(|| Self::of(CounterList::OfCharges(charges), counted))
    }

    /// There is one state for each counter, and at least one.
    #[inline(always)]
    pub(crate) fn of(counters: CounterList<'a>, counted: QuotaStates) -> Self {
        Self { counters, counted }
    }

    /// Returns the same decision with owned quotas and keys.
    pub fn into_owned(self) -> Decision<'static> {
        let owned = match self.counters {
            CounterList::Owned(owned) => owned,
            counters => (0..self.counted.len())
                .filter_map(|index| counters.get(index))
                .map(|(quota, key)| (quota.clone(), key.clone().into_owned()))
                .collect(),
        };
        Decision { counters: CounterList::Owned(owned), counted: self.counted }
    }

    /// The states of all quotas.
    pub(crate) fn into_counted(self) -> QuotaStates {
        self.counted
    }

    /// Returns the receipt for the units that the check charged, for a later refund.
    pub fn into_receipt(self) -> Receipt {
        self.items().collect()
    }

    /// Returns the receipt of a check at this cost, which settling starts from even if it charged nothing.
    pub(crate) fn into_receipt_at(self, cost: u32) -> Receipt {
        self.items().map(|item| item.with_cost(cost)).collect()
    }

    fn items(&self) -> impl Iterator<Item = ReceiptItem> {
        let counters = (0..self.counted.len()).filter_map(|index| self.counters.get(index));
        counters
            .zip(&self.counted)
            .map(|((quota, key), state)| ReceiptItem::of(Counter::new(quota, key), state))
    }
}

impl Decision<'_> {
    /// Returns whether the request is allowed.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.counted.is_admitted()
    }

    /// Returns the verdict, to match on.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.is_allowed() { Verdict::Allowed } else { Verdict::Denied }
    }

    /// Returns which of [`quotas`](Self::quotas) decided, counted from 0.
    #[must_use]
    #[inline]
    pub fn deciding(&self) -> usize {
        self.counted.deciding()
    }

    /// Returns the states of all quotas, in the order in which they were charged.
    #[must_use]
    pub const fn quotas(&self) -> &QuotaStates {
        &self.counted
    }

    /// Returns the state of the quota that decided.
    #[must_use]
    #[inline]
    pub fn state(&self) -> &QuotaState {
        &self.counted[self.deciding()]
    }

    /// Returns the quota that decided, as requested. If a fallback answered for the store, the [state](Self::state) may
    /// have another limit.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        self.policy_quota().quota()
    }

    /// Returns the name of the policy that decided.
    #[must_use]
    pub fn policy(&self) -> &str {
        self.policy_quota().policy()
    }

    /// Returns the quota that decided, with its policy.
    #[must_use]
    pub fn policy_quota(&self) -> &PolicyQuota {
        match &self.counters {
            CounterList::OfKey(quotas, _) => &quotas[self.deciding()],
            CounterList::OfCharges(charges) => charges[self.deciding()].counter().quota(),
            CounterList::Owned(owned) => &owned[self.deciding()].0,
        }
    }

    /// Returns the units that count now, including this request's if it was allowed.
    #[must_use]
    #[inline]
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Returns units left; never negative.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.state().remaining()
    }

    /// Returns time until nothing is used if no units are charged until then: for fixed windows, until the window ends.
    #[must_use]
    #[inline]
    pub fn reset_after(&self) -> Duration {
        self.state().reset_after()
    }

    /// Returns time to wait before the same request can succeed; `None` if it was allowed, or if its cost can never
    /// pass. Clients that wait that long are never denied for returning too early.
    #[must_use]
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        self.state().retry_after()
    }

    /// Returns why the request is denied.
    #[must_use]
    #[inline]
    pub fn reason(&self) -> Option<Reason> {
        self.state().reason()
    }

    /// Returns where the decision came from: the source of the quota that [decided](Self::deciding).
    #[must_use]
    #[inline]
    pub fn source(&self) -> Source {
        self.state().source()
    }
}

impl CounterList<'_> {
    fn get(&self, index: usize) -> Option<(&PolicyQuota, &Key<'_>)> {
        match self {
            Self::OfKey(quotas, key) => quotas.get(index).map(|quota| (quota, key)),
            Self::OfCharges(charges) => {
                charges.get(index).map(|charge| (charge.counter().quota(), charge.counter().key()))
            }
            Self::Owned(owned) => owned.get(index).map(|(quota, key)| (quota, key)),
        }
    }
}

/// Without the key, which may identify a person.
impl fmt::Debug for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("verdict", &self.verdict())
            .field("decided_by", self.policy_quota())
            .field("quotas", &self.counted)
            .finish()
    }
}

/// Returns whole seconds for a header, rounded up and at least 1, so that no client returns too early.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Larger ones are moved by calls of `memcpy`, which would slow every decision.
    #[test]
    fn a_decision_fits_into_two_cache_lines() {
        assert!(size_of::<Result<Decision<'_>, crate::Full>>() <= 128);
    }
}
