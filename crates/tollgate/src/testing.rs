//! Helpers for your own tests: a limiter with a clock that stands still, a store that never denies, and assertions with
//! clear messages.
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
//! # Ok::<(), tollgate::Full>(())
//! ```

use std::slice;

use crate::store::{Answer, AnswerError, QuotaStates, Step, StepDeadline, Store, StoreError};
use crate::{Charge, Decision, Limiter, ManualClock, MemoryStore, Quota};

/// Returns a limiter in memory and its clock, which stands at the start of a minute until it is moved.
///
/// Days begin at midnight UTC and the clock shows 22:14; for windows from their beginning, use `@first_hit` or
/// [set](ManualClock::set) it.
#[must_use]
pub fn limiter(quota: Quota) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Limiter::with_store(quota, store), clock)
}

/// A store that counts but never denies, for tests that are not about limits.
///
/// `used` may pass the limit, and then `remaining` is 0. Errors of the store below are returned. It has no holds.
///
/// Put it above a [`FallbackStore`](crate::FallbackStore), not below: a `FallbackStore` treats an admission above the
/// limit as nonsense from a broken store. A limiter of policies has a `FallbackStore` inside, so give it policies with
/// high limits instead.
///
/// # Examples
///
/// ```
/// use tollgate::testing::CountingStore;
/// use tollgate::{Quota, SharedLimiter};
///
/// # tollgate_testkit::block_on(async {
/// let limiter = SharedLimiter::new(Quota::per_day(1), CountingStore::default());
/// for used in 1..=3 {
///     let decision = limiter.check("alice").await?;
///     assert!(decision.is_allowed());
///     assert_eq!(decision.used(), used);
/// }
/// # Ok::<(), tollgate::StoreError>(())
/// # })?;
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

/// Counts in its own memory.
impl Default for CountingStore {
    fn default() -> Self {
        Self::new(MemoryStore::new())
    }
}

impl<S: Store> CountingStore<S> {
    async fn count(&self, step: Step<'_>, deadline: Option<StepDeadline>) -> Result<QuotaStates, StoreError> {
        let counted = match step {
            Step::Charge(charges) => {
                let count = |charge| match Charge::cost(charge) {
                    // Answered as cost 1, with nothing taken.
                    0 => Step::Peek(slice::from_ref(charge)),
                    _ => Step::Record(*charge),
                };
                let steps: Vec<Step<'_>> = charges.iter().map(count).collect();
                let answers = self.store.step_each_until(&steps, deadline).await;
                if answers.len() != charges.len() {
                    return Err(AnswerError::Nonsense.into());
                }
                QuotaStates::of_each(answers)?
            }
            Step::ChargeBefore { charges, end } => {
                // Charges of nothing compare the end, which records do not.
                let nothing: Vec<Charge<'_>> =
                    charges.iter().map(|charge| charge.counter().charge(0)).collect();
                let step = Step::ChargeBefore { charges: &nothing, end };
                self.store.step_until(step, deadline).await?;
                return Box::pin(self.count(Step::Charge(charges), deadline)).await;
            }
            step => self.store.step_until(step, deadline).await?,
        };
        Ok(counted.iter().map(|state| state.with_reason(None)).collect())
    }
}

impl<S: Store> Store for CountingStore<S> {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        Answer::Later(self.count(step, deadline))
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        Answer::Later(async move {
            let mut answers = Vec::with_capacity(steps.len());
            for step in steps {
                answers.push(self.count(*step, deadline).await);
            }
            answers
        })
    }
}

/// Returns the decision, if it allows.
///
/// # Panics
///
/// If it denies; the message gives the reason.
#[track_caller]
pub fn assert_allowed<'d, 'a>(decision: &'d Decision<'a>) -> &'d Decision<'a> {
    assert!(decision.is_allowed(), "expected the request to be allowed, and {}", said(decision));
    decision
}

/// Returns the decision, if it denies.
///
/// # Panics
///
/// If it allows; the message shows the remaining units.
#[track_caller]
pub fn assert_denied<'d, 'a>(decision: &'d Decision<'a>) -> &'d Decision<'a> {
    assert!(!decision.is_allowed(), "expected the request to be denied, and {}", said(decision));
    decision
}

/// Returns the decision, if so much is left.
///
/// # Panics
///
/// If it is another number.
#[track_caller]
pub fn assert_remaining<'d, 'a>(decision: &'d Decision<'a>, remaining: u64) -> &'d Decision<'a> {
    assert!(decision.remaining() == remaining, "expected {remaining} to remain, and {}", said(decision));
    decision
}

fn said(decision: &Decision<'_>) -> String {
    let verdict = if decision.is_allowed() { "it is allowed" } else { "it is denied" };
    let state = decision.state();
    let (used, limit, reset) = (state.used(), state.limit(), state.reset_after());
    format!("{verdict}: {used} of {limit} used, the next window starts in {reset:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Key, PolicyQuota, QuotaState};

    #[test]
    fn a_counting_store_counts_all_and_denies_nobody() {
        let limiter = Limiter::builder("test")
            .quota(Quota::per_minute(1))
            .quota(Quota::per_day(3))
            .build_shared(CountingStore::default())
            .unwrap();
        tollgate_testkit::block_on(async {
            for used in [2, 4] {
                let decision = limiter.check_cost("alice", 2).await.unwrap();
                assert_allowed(&decision);
                assert_eq!(decision.quotas().iter().map(QuotaState::used).collect::<Vec<_>>(), [used, used]);
            }
            let looked = limiter.check_cost("alice", 0).await.unwrap();
            assert_remaining(assert_allowed(&looked), 0);
            let taken = limiter.check_cost("alice", 1).await.unwrap();
            assert_eq!(assert_allowed(&limiter.peek("alice").await.unwrap()).used(), 5);
            limiter.refund(&mut taken.into_receipt()).await.unwrap();
            assert_eq!(limiter.peek("alice").await.unwrap().used(), 4);
        });
    }

    #[test]
    fn a_counting_store_counts_nothing_at_an_end() {
        let clock = ManualClock::default();
        let store = CountingStore::new(MemoryStore::builder().clock(clock.clone()).build());
        let (quota, key, now) =
            (PolicyQuota::new("test", Quota::per_minute(1)), Key::from("alice"), clock.now());
        let charges = [Charge::new(&quota, &key, 2)];
        tollgate_testkit::block_on(async {
            let late = store.step(Step::ChargeBefore { charges: &charges, end: now }).await;
            assert!(matches!(late, Err(StoreError::Ended { .. })), "{late:?}");
            let end = now + std::time::Duration::from_millis(1);
            let counted = store.step(Step::ChargeBefore { charges: &charges, end }).await.unwrap();
            assert_eq!((counted.is_admitted(), counted[0].used()), (true, 2));
        });
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
