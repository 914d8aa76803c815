//! A limiter over some store, without the store's type: so that no type of the middleware has it.

use std::future::Future;
use std::pin::Pin;

use tollgate::{
    Charge, Decision, Key, Limiter, PerQuota, PolicyQuota, QuotaState, Refunded, Store, StoreError,
};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The steps of a [`Limiter`] that the middleware takes.
pub(crate) trait Engine: Send + Sync {
    /// See [`Limiter::check_cost_now`].
    fn check_now(&self, key: &Key<'_>, cost: u32) -> Option<Result<Decision, StoreError>>;

    /// See [`Limiter::check_cost_async`].
    fn check<'a>(&'a self, key: &'a Key<'a>, cost: u32) -> BoxFuture<'a, Result<Decision, StoreError>>;

    /// See [`Limiter::refund_async`].
    fn refund<'a>(
        &'a self,
        key: &'a Key<'a>,
        cost: u32,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<PerQuota<Refunded>, StoreError>>;

    /// See [`Limiter::record_async`].
    fn record<'a>(
        &'a self,
        key: &'a Key<'a>,
        cost: u32,
    ) -> BoxFuture<'a, Result<PerQuota<QuotaState>, StoreError>>;

    /// See [`Limiter::quotas`].
    fn quotas(&self) -> &[PolicyQuota];
}

impl<S: Store> Engine for Limiter<S> {
    fn check_now(&self, key: &Key<'_>, cost: u32) -> Option<Result<Decision, StoreError>> {
        match self.quotas() {
            // The key is not moved, which it would be as a `Key` of the limiter's own.
            [quota] => self.store().charge_now(&[Charge::new(quota, key, cost)], Decision::new),
            _ => self.check_cost_now(key, cost),
        }
    }

    fn check<'a>(&'a self, key: &'a Key<'a>, cost: u32) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.check_cost_async(key, cost))
    }

    fn refund<'a>(
        &'a self,
        key: &'a Key<'a>,
        cost: u32,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<PerQuota<Refunded>, StoreError>> {
        Box::pin(self.refund_async(key, cost, decision))
    }

    fn record<'a>(
        &'a self,
        key: &'a Key<'a>,
        cost: u32,
    ) -> BoxFuture<'a, Result<PerQuota<QuotaState>, StoreError>> {
        Box::pin(self.record_async(key, cost))
    }

    fn quotas(&self) -> &[PolicyQuota] {
        Limiter::quotas(self)
    }
}
