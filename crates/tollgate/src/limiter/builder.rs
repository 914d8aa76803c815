//! The builder of limiters.

use std::sync::Arc;

use super::{HoldLimiter, InFlightLimiter, Limiter, SharedLimiter};
use crate::quota::QuotaErrorKind;
use crate::{
    AnyStore, CountDenied, HoldKeeper, InFlight, MemoryStore, PolicyInFlight, PolicyQuota, Quota, QuotaError,
    Store,
};

/// A builder of limiters: see [`Limiter::builder`].
#[derive(Debug, Clone)]
pub struct LimiterBuilder {
    policy: Box<str>,
    quotas: Vec<Quota>,
    count_denied: CountDenied,
}

impl LimiterBuilder {
    pub(super) fn new(policy: &str) -> Self {
        Self { policy: policy.into(), quotas: Vec::new(), count_denied: CountDenied::No }
    }

    /// Adds a quota. A request needs room in all of them.
    #[must_use]
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// Sets whether denied requests are charged.
    #[must_use]
    pub fn count_denied(self, count_denied: CountDenied) -> Self {
        Self { count_denied, ..self }
    }

    /// Builds a limiter over this memory store.
    ///
    /// # Errors
    ///
    /// If there is no quota, or if two have the same kind, window, anchor and zone and would count everything twice.
    pub fn build<C>(self, store: MemoryStore<C>) -> Result<Limiter<C>, QuotaError> {
        Ok(Limiter { store, quotas: self.quotas()? })
    }

    /// Builds a limiter over any store.
    ///
    /// # Errors
    ///
    /// The same as [`build`](Self::build).
    pub fn build_shared<S>(self, store: S) -> Result<SharedLimiter<S>, QuotaError> {
        Ok(SharedLimiter { store, quotas: self.quotas()? })
    }

    /// Builds a limiter of units in flight over this memory store. The builder needs no quota; if it has some, each
    /// [hold](crate::Hold) charges them.
    ///
    /// # Errors
    ///
    /// If two quotas have the same window, kind, anchor and zone and would count everything twice, or if denied requests are
    /// to be charged and there is no quota.
    pub fn build_in_flight<C>(
        self,
        in_flight: InFlight,
        store: MemoryStore<C>,
    ) -> Result<InFlightLimiter<C>, QuotaError> {
        let in_flight = PolicyInFlight::new(&self.policy, in_flight);
        let quotas = self.quotas_if_any()?;
        Ok(InFlightLimiter::over(in_flight, Limiter { store, quotas }))
    }

    /// Builds a limiter of units in flight over any store, which other processes may share. The builder needs no quota; if
    /// it has some, each [hold](crate::SharedHold) charges them. The keeper renews the holds.
    ///
    /// # Errors
    ///
    /// The same as [`build_in_flight`](Self::build_in_flight).
    pub fn build_shared_in_flight(
        self,
        in_flight: InFlight,
        store: impl Store + 'static,
        keeper: &HoldKeeper,
    ) -> Result<HoldLimiter, QuotaError> {
        let in_flight = PolicyInFlight::new(&self.policy, in_flight);
        let quotas = self.quotas_if_any()?;
        Ok(HoldLimiter::new(Some(in_flight), quotas, AnyStore::new(store), keeper))
    }

    /// Builds a limiter over any store whose holds charge an estimate, which they settle at the actual cost. It limits no
    /// units in flight. The keeper renews the holds.
    ///
    /// # Errors
    ///
    /// The same as [`build`](Self::build).
    pub fn build_reserving(
        self,
        store: impl Store + 'static,
        keeper: &HoldKeeper,
    ) -> Result<HoldLimiter, QuotaError> {
        Ok(HoldLimiter::new(None, self.quotas()?, AnyStore::new(store), keeper))
    }

    /// The quotas, of which there may be none if nothing is charged at all.
    fn quotas_if_any(self) -> Result<Arc<[PolicyQuota]>, QuotaError> {
        if self.quotas.is_empty() && self.count_denied == CountDenied::No {
            return Ok([].into());
        }
        self.quotas()
    }

    fn quotas(self) -> Result<Arc<[PolicyQuota]>, QuotaError> {
        if self.quotas.is_empty() {
            return Err(QuotaErrorKind::NoQuota.into());
        }
        let mut quotas = Vec::<PolicyQuota>::new();
        for quota in self.quotas {
            let quota = PolicyQuota::new(&self.policy, quota).with_count_denied(self.count_denied);
            if let Some(other) = quotas.iter().find(|other| other.shares_counters_with(&quota)) {
                return Err(QuotaError::same_window(other.quota(), quota.quota()));
            }
            quotas.push(quota);
        }
        Ok(quotas.into())
    }
}
