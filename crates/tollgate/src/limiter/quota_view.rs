//! A limiter with another quota.

use std::fmt;
use std::slice;

use super::{Limiter, SharedLimiter, shared};
use crate::charge::{Charge, Counter, PolicyQuota};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::Key;
use crate::quota_state::QuotaState;
use crate::store::{Full, Step, Store, StoreError, only};

/// A limiter with this quota instead of its own: see [`Limiter::under`] and [`SharedLimiter::under`].
///
/// Its steps are those of the limiter, and fail as they do.
pub struct QuotaView<'a, L> {
    pub(super) limiter: &'a L,
    pub(super) quota: &'a PolicyQuota,
}

impl<'a, C: Clock> QuotaView<'a, Limiter<C>> {
    /// Charges one unit to the key, if the quota has room.
    ///
    /// # Errors
    ///
    /// If the memory is full.
    pub fn check(self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, Full> {
        self.check_cost(key, 1)
    }

    /// Charges `cost` units to the key, if the quota has room for all of them.
    ///
    /// # Errors
    ///
    /// If the memory is full.
    pub fn check_cost(self, key: impl Into<Key<'a>>, cost: u32) -> Result<Decision<'a>, Full> {
        super::charge(&self.limiter.store, slice::from_ref(self.quota), key.into(), cost)
    }

    /// Answers as [`check`](Self::check) would, but charges nothing.
    ///
    /// # Errors
    ///
    /// If the memory is full.
    pub fn peek(self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, Full> {
        super::peek(&self.limiter.store, slice::from_ref(self.quota), key.into())
    }

    /// Sets the key's usage; it may be above the limit.
    ///
    /// # Errors
    ///
    /// If the memory is full.
    pub fn set<'k>(self, key: impl Into<Key<'k>>, used: u64) -> Result<QuotaState, Full> {
        self.limiter.store.set(&Counter::new(self.quota, &key.into()), used)
    }

    /// Charges without asking for room, and returns the new state.
    ///
    /// # Errors
    ///
    /// If the memory is full.
    pub fn record<'k>(self, key: impl Into<Key<'k>>, cost: u32) -> Result<QuotaState, Full> {
        self.limiter.store.record(&Charge::new(self.quota, &key.into(), cost))
    }
}

impl<'a, S: Store> QuotaView<'a, SharedLimiter<S>> {
    /// Charges one unit to the key, if the quota has room.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step.
    pub async fn check(self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, StoreError> {
        self.check_cost(key, 1).await
    }

    /// Charges `cost` units to the key, if the quota has room for all of them.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step.
    pub async fn check_cost(self, key: impl Into<Key<'a>>, cost: u32) -> Result<Decision<'a>, StoreError> {
        shared::charge(&self.limiter.store, slice::from_ref(self.quota), key.into(), cost).await
    }

    /// Answers as [`check`](Self::check) would, but charges nothing.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step.
    pub async fn peek(self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, StoreError> {
        shared::peek(&self.limiter.store, slice::from_ref(self.quota), key.into()).await
    }

    /// Sets the key's usage; it may be above the limit.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step.
    pub async fn set(self, key: impl Into<Key<'_>>, used: u64) -> Result<QuotaState, StoreError> {
        let key = key.into();
        only(self.limiter.store.step(Step::Set { counter: Counter::new(self.quota, &key), used }).await)
    }

    /// Charges without asking for room, and returns the new state.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step.
    pub async fn record(self, key: impl Into<Key<'_>>, cost: u32) -> Result<QuotaState, StoreError> {
        let key = key.into();
        only(self.limiter.store.step(Step::Record(Charge::new(self.quota, &key, cost))).await)
    }
}

impl<L> Clone for QuotaView<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for QuotaView<'_, L> {}

impl<L> fmt::Debug for QuotaView<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaView").field("quota", &self.quota).finish_non_exhaustive()
    }
}
