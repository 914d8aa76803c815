//! For tests of your own: a limiter whose time stands still, a store that denies nobody, and assertions that say what
//! was decided.
//!
//! ```
//! use std::time::Duration;
//!
//! use tollgate::Quota;
//! use tollgate::testing::{assert_allowed, assert_denied, limiter};
//!
//! let (limiter, clock) = limiter(Quota::per_minute(1));
//! assert_allowed(&limiter.check("alice")?);
//! assert_eq!(assert_denied(&limiter.check("alice")?).retry_after(), Some(Duration::from_secs(60)));
//!
//! clock.advance(Duration::from_secs(60));
//! assert_allowed(&limiter.check("alice")?);
//! # Ok::<(), tollgate::StoreError>(())
//! ```

use crate::store::{Counted, Refunded, StoreError, SyncStore};
use crate::{Charge, Counter, Decision, Limiter, ManualClock, MemoryStore, Quota, QuotaState, Timestamp};

/// A limiter in memory, and the clock that its time goes by: it stands at the start of a minute until it is moved.
///
/// Days begin at midnight UTC and the clock shows 22:14; for windows from their beginning, use `@first_hit` or
/// [set](ManualClock::set) it.
#[must_use]
pub fn limiter(quota: Quota) -> (Limiter<MemoryStore<ManualClock>>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Limiter::with_store(quota, store), clock)
}

/// A store that counts and denies nobody: for tests that are not about limits, and would otherwise run into them.
///
/// What was counted can be looked at: `used` passes the limit, and `remaining` stays 0 then. Trouble of the store
/// below is given on.
///
/// # Examples
///
/// ```
/// use tollgate::testing::CountingStore;
/// use tollgate::{Limiter, Quota};
///
/// let limiter = Limiter::with_store(Quota::per_day(1), CountingStore::default());
/// for used in 1..=3 {
///     let decision = limiter.check("alice")?;
///     assert!(decision.is_allowed());
///     assert_eq!(decision.used(), used);
/// }
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CountingStore<S = MemoryStore> {
    store: S,
}

impl<S> CountingStore<S> {
    /// Counts in this store.
    pub const fn new(store: S) -> Self {
        Self { store }
    }
}

/// Counts in a memory of its own.
impl Default for CountingStore {
    fn default() -> Self {
        Self::new(MemoryStore::new())
    }
}

impl<S: SyncStore> SyncStore for CountingStore<S> {
    fn charge(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        charges
            .iter()
            .map(|charge| match charge.cost() {
                // As cost 1 would be answered, with nothing taken.
                0 => SyncStore::peek(&self.store, &[*charge]).and_then(only),
                _ => self.store.record(charge),
            })
            .map(|state| state.map(|state| state.with_reason(None)))
            .collect()
    }

    fn peek(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        let counted = self.store.peek(charges)?;
        Ok(counted.iter().map(|state| state.with_reason(None)).collect())
    }

    fn record(&self, charge: &Charge<'_>) -> Result<QuotaState, StoreError> {
        self.store.record(charge)
    }

    fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError> {
        self.store.refund(charge, start)
    }

    fn reset(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError> {
        self.store.reset(counter)
    }

    fn set(&self, counter: &Counter<'_>, used: u64) -> Result<QuotaState, StoreError> {
        self.store.set(counter, used)
    }
}

fn only(counted: Counted) -> Result<QuotaState, StoreError> {
    counted.first().copied().ok_or(StoreError::BadReply)
}

/// The decision, if it allows.
///
/// # Panics
///
/// If it denies; the message says why.
#[track_caller]
pub fn assert_allowed(decision: &Decision) -> &Decision {
    assert!(decision.is_allowed(), "expected the request to be allowed, and {}", said(decision));
    decision
}

/// The decision, if it denies.
///
/// # Panics
///
/// If it allows; the message says what is left.
#[track_caller]
pub fn assert_denied(decision: &Decision) -> &Decision {
    assert!(!decision.is_allowed(), "expected the request to be denied, and {}", said(decision));
    decision
}

/// The decision, if so much is left.
///
/// # Panics
///
/// If it is another number.
#[track_caller]
pub fn assert_remaining(decision: &Decision, remaining: u64) -> &Decision {
    assert!(decision.remaining() == remaining, "expected {remaining} to remain, and {}", said(decision));
    decision
}

fn said(decision: &Decision) -> String {
    let verdict = if decision.is_allowed() { "it is allowed" } else { "it is denied" };
    match decision.quota() {
        Some(quota) => {
            let (used, limit, reset) = (quota.used(), quota.limit(), quota.reset_after());
            format!("{verdict}: {used} of {limit} used, the next window starts in {reset:?}")
        }
        None => format!("{verdict}: nothing was charged"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counting_store_counts_all_and_denies_nobody() {
        let limiter = Limiter::builder("test")
            .quota(Quota::per_minute(1))
            .quota(Quota::per_day(3))
            .build(CountingStore::default())
            .unwrap();
        for used in [2, 4] {
            let decision = limiter.check_cost("alice", 2).unwrap();
            assert_allowed(&decision);
            assert_eq!(decision.quotas().iter().map(QuotaState::used).collect::<Vec<_>>(), [used, used]);
        }
        assert_remaining(assert_allowed(&limiter.check_cost("alice", 0).unwrap()), 0);
        let peeked = limiter.peek("alice").unwrap();
        assert_eq!(assert_allowed(&peeked).used(), 4);
        limiter.refund("alice", 1, &peeked).unwrap();
        assert_eq!(limiter.peek("alice").unwrap().used(), 3);
    }

    #[test]
    #[should_panic(expected = "expected the request to be denied, and it is allowed: 1 of 2 used")]
    fn says_what_was_decided() {
        assert_denied(&limiter(Quota::per_minute(2)).0.check("alice").unwrap());
    }

    #[test]
    #[should_panic(expected = "expected the request to be allowed, and it is denied: 0 of 0 used")]
    fn says_why_not() {
        assert_allowed(&limiter(Quota::per_minute(0)).0.check("alice").unwrap());
    }

    #[test]
    #[should_panic(expected = "expected 2 to remain, and it is allowed: 1 of 2 used")]
    fn says_what_remains() {
        assert_remaining(&limiter(Quota::per_minute(2)).0.check("alice").unwrap(), 2);
    }
}
