//! The steps of a limiter over any store.

use super::{Limiter, last_end};
use crate::store::{PerQuota, Refunded, Store, StoreError};
use crate::{Charge, Decision, Key, QuotaState, Timestamp};

impl<S: Store> Limiter<S> {
    /// As [`check`](Self::check), over any store.
    ///
    /// # Errors
    ///
    /// If the store could not take the step: that is no denial, and the caller chooses what it means.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is done, the units may or may not have been taken. So it is with every `_async` step
    /// that changes a counter.
    pub async fn check_async(&self, key: impl Into<Key<'_>>) -> Result<Decision, StoreError> {
        self.check_cost_async(key, 1).await
    }

    /// As [`check_cost`](Self::check_cost), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async).
    pub async fn check_cost_async(&self, key: impl Into<Key<'_>>, cost: u32) -> Result<Decision, StoreError> {
        let key = key.into();
        self.check_all_async(&self.charges(&key, cost)).await
    }

    /// As [`check_cost`](Self::check_cost), over any store that never waits; `None` over any other, and then nothing
    /// was taken. See [`Store::charge_now`].
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_day(1));
    /// assert!(limiter.check_cost_now("alice", 1).is_some_and(|answer| answer.unwrap().is_allowed()));
    /// assert!(limiter.check_cost_now("alice", 1).is_some_and(|answer| !answer.unwrap().is_allowed()));
    /// ```
    #[inline]
    pub fn check_cost_now<'k>(
        &self,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Option<Result<Decision, StoreError>> {
        let key = key.into();
        match self.quotas() {
            // The usual case, without a list.
            [quota] => self.store.charge_now(&[Charge::new(quota, &key, cost)], Decision::new),
            _ => self.store.charge_now(&self.charges(&key, cost), Decision::new),
        }
    }

    /// As [`check_all`](Self::check_all), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async).
    pub async fn check_all_async(&self, charges: &[Charge<'_>]) -> Result<Decision, StoreError> {
        Ok(Decision::new(self.store.charge(charges).await?))
    }

    /// As [`peek`](Self::peek), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async).
    pub async fn peek_async(&self, key: impl Into<Key<'_>>) -> Result<Decision, StoreError> {
        let key = key.into();
        let charges = self.charges(&key, 0);
        Ok(Decision::new(self.store.peek(&charges).await?))
    }

    /// As [`refund`](Self::refund), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async); quotas before the one that failed were given back.
    pub async fn refund_async(
        &self,
        key: impl Into<Key<'_>>,
        cost: u32,
        decision: &Decision,
    ) -> Result<PerQuota<Refunded>, StoreError> {
        let key = key.into();
        self.refund_all_async(&self.charges(&key, cost), decision).await
    }

    /// As [`refund_all`](Self::refund_all), over any store.
    ///
    /// # Errors
    ///
    /// As [`refund_async`](Self::refund_async).
    pub async fn refund_all_async(
        &self,
        charges: &[Charge<'_>],
        decision: &Decision,
    ) -> Result<PerQuota<Refunded>, StoreError> {
        let steps = decision
            .refunds(charges)
            .map(|(charge, start)| async move { self.store.refund(&charge, start).await });
        one_by_one(steps).await
    }

    /// As [`reset`](Self::reset), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async); quotas before the one that failed were reset.
    pub async fn reset_async(&self, key: impl Into<Key<'_>>) -> Result<(), StoreError> {
        let key = key.into();
        let steps = self.counters(&key).map(|counter| async move { self.store.reset(&counter).await });
        one_by_one(steps).await.map(drop)
    }

    /// As [`set`](Self::set), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async); quotas before the one that failed were set.
    pub async fn set_async(
        &self,
        key: impl Into<Key<'_>>,
        used: u64,
    ) -> Result<PerQuota<QuotaState>, StoreError> {
        let key = key.into();
        let steps = self.counters(&key).map(|counter| async move { self.store.set(&counter, used).await });
        one_by_one(steps).await
    }

    /// As [`record`](Self::record), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async); quotas before the one that failed were charged.
    pub async fn record_async(
        &self,
        key: impl Into<Key<'_>>,
        cost: u32,
    ) -> Result<PerQuota<QuotaState>, StoreError> {
        let key = key.into();
        let steps = self
            .charges(&key, cost)
            .into_iter()
            .map(|charge| async move { self.store.record(&charge).await });
        one_by_one(steps).await
    }

    /// As [`window_end`](Self::window_end), over any store.
    ///
    /// # Errors
    ///
    /// As [`check_async`](Self::check_async).
    pub async fn window_end_async(&self, key: impl Into<Key<'_>>) -> Result<Option<Timestamp>, StoreError> {
        let key = key.into();
        Ok(last_end(&self.store.peek(&self.charges(&key, 0)).await?))
    }
}

/// Takes steps one after another, up to the first that fails.
async fn one_by_one<T>(
    steps: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>,
) -> Result<PerQuota<T>, StoreError> {
    let mut answers = Vec::new();
    for step in steps {
        answers.push(step.await?);
    }
    Ok(answers.into_iter().collect())
}
