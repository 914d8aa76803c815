//! Quotas over a store: what most users hold.
//!
//! How a limiter is put together is here; its steps are in `steps`, over a store in this process, and in
//! `async_steps`, over any store.

mod async_steps;
mod steps;

use std::fmt;

use smallvec::SmallVec;

use crate::quota::QuotaErrorKind;
use crate::{
    Charge, CountDenied, Counter, Key, MemoryStore, PolicyQuota, Quota, QuotaError, QuotaState, Timestamp,
};

/// One or several quotas over a store, applied to a key all or nothing.
///
/// Every step comes twice: by its plain name over a store in this process ([`SyncStore`](crate::SyncStore)),
/// and with `_async` over any [`Store`](crate::Store). Both do the same, and what is said of the one holds for
/// the other.
///
/// Clones share the counters if the store's clones do, as those of [`MemoryStore`] do. Two limiters over one
/// store share a counter where policy name, window and anchor are the same: see [`PolicyQuota`].
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_day(5));
/// for _ in 0..5 {
///     assert!(limiter.check("alice")?.is_allowed());
/// }
/// let denied = limiter.check("alice")?;
/// assert!(!denied.is_allowed());
/// assert!(denied.retry_after().is_some());
/// assert!(limiter.check("bob")?.is_allowed());
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[derive(Clone)]
pub struct Limiter<S = MemoryStore> {
    store: S,
    quotas: SmallVec<[PolicyQuota; 1]>,
}

/// What a limiter is made of: see [`Limiter::builder`].
#[derive(Debug, Clone)]
pub struct LimiterBuilder {
    policy: Box<str>,
    quotas: Vec<Quota>,
    count_denied: CountDenied,
}

impl Limiter {
    /// A limiter with a memory store of its own.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self::with_store(quota, MemoryStore::new())
    }

    /// Several quotas, a policy name, or denials that count.
    ///
    /// ```
    /// use tollgate::{Limiter, MemoryStore, Quota};
    ///
    /// let limiter = Limiter::builder("search")
    ///     .quota(Quota::per_second(10))
    ///     .quota(Quota::per_day(1_000))
    ///     .build(MemoryStore::new())?;
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn builder(policy: &str) -> LimiterBuilder {
        LimiterBuilder { policy: policy.into(), quotas: Vec::new(), count_denied: CountDenied::No }
    }
}

impl<S> Limiter<S> {
    /// A limiter over this store, under the policy name `default`.
    #[must_use]
    pub fn with_store(quota: Quota, store: S) -> Self {
        Self { store, quotas: SmallVec::from_buf([PolicyQuota::new("default", quota)]) }
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The quotas, in the order in which a [`Decision`](crate::Decision) lists them.
    #[must_use]
    pub fn quotas(&self) -> &[PolicyQuota] {
        &self.quotas
    }

    fn charges<'a>(&'a self, key: &'a Key<'a>, cost: u32) -> SmallVec<[Charge<'a>; 1]> {
        self.quotas.iter().map(|quota| Charge::new(quota, key, cost)).collect()
    }

    fn counters<'a>(&'a self, key: &'a Key<'a>) -> impl Iterator<Item = Counter<'a>> {
        self.quotas.iter().map(move |quota| Counter::new(quota, key))
    }
}

/// When nothing that was counted counts any more.
fn last_end(quotas: &[QuotaState]) -> Option<Timestamp> {
    quotas.iter().filter(|quota| quota.used() > 0).map(|quota| quota.window().end()).max()
}

impl LimiterBuilder {
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

    /// The limiter.
    ///
    /// # Errors
    ///
    /// If there is no quota, or two have the same window, anchor and zone, and so would count everything
    /// twice.
    pub fn build<S>(self, store: S) -> Result<Limiter<S>, QuotaError> {
        if self.quotas.is_empty() {
            return Err(QuotaErrorKind::NoQuota.into());
        }
        let mut quotas = SmallVec::<[PolicyQuota; 1]>::new();
        for quota in self.quotas {
            let quota = PolicyQuota::new(&self.policy, quota).with_count_denied(self.count_denied);
            if let Some(other) = quotas.iter().find(|other| other.shares_counters_with(&quota)) {
                return Err(QuotaError::same_window(other.quota(), quota.quota()));
            }
            quotas.push(quota);
        }
        Ok(Limiter { store, quotas })
    }
}

impl<S> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}
