//! A limiter over any store.

use std::fmt;
use std::sync::Arc;

use super::{Limiter, QuotaView, charges, default_quotas, last_end};
use crate::{
    Answer, AnswerError, AnyStore, Charge, Counter, Decision, Key, MemoryStore, PolicyQuota, Quota,
    QuotaStates, Receipt, ReceiptError, Step, Store, StoreError, Timestamp,
};

/// One or several quotas over any [`Store`], applied to a key all or nothing.
///
/// It has the steps of a [`Limiter`](crate::Limiter), as async functions, and needs no particular runtime. For counters
/// in memory, use [`Limiter`](crate::Limiter). [`Limiter::builder`](crate::Limiter::builder) makes one with several
/// quotas.
///
/// Clones share the counters if the store's clones do; all stores here do.
///
/// # Cancel safety
///
/// A step whose future is dropped before it completes may or may not have been executed.
///
/// # Examples
///
/// ```
/// use tollgate::{SharedLimiter, Store, StoreError};
///
/// async fn greet<S: Store>(limiter: &SharedLimiter<S>, user: &str) -> Result<String, StoreError> {
///     let decision = limiter.check(user).await?;
///     Ok(if decision.is_allowed() { format!("hello {user}") } else { "later".to_owned() })
/// }
/// # let limiter = SharedLimiter::new(tollgate::Quota::per_day(1), tollgate::MemoryStore::new());
/// # assert_eq!(tollgate_testkit::block_on(greet(&limiter, "alice"))?, "hello alice");
/// # assert_eq!(tollgate_testkit::block_on(greet(&limiter, "alice"))?, "later");
/// # Ok::<(), StoreError>(())
/// ```
#[derive(Clone)]
pub struct SharedLimiter<S> {
    pub(super) store: S,
    pub(super) quotas: Arc<[PolicyQuota]>,
}

impl<S> SharedLimiter<S> {
    /// Creates a limiter over this store, with the policy name `default`.
    #[must_use]
    pub fn new(quota: Quota, store: S) -> Self {
        Self { store, quotas: default_quotas(quota) }
    }

    /// Returns the store.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Returns the quotas, in the order in which a [`Decision`] lists them.
    #[must_use]
    pub const fn quotas(&self) -> &Arc<[PolicyQuota]> {
        &self.quotas
    }
}

impl<S: Store + 'static> SharedLimiter<S> {
    /// Returns the same limiter with a type that does not depend on the store.
    #[must_use]
    pub fn into_any(self) -> SharedLimiter<AnyStore> {
        SharedLimiter { store: AnyStore::new(self.store), quotas: self.quotas }
    }
}

/// Returns a limiter with the same quotas and counters.
impl<C> From<Limiter<C>> for SharedLimiter<MemoryStore<C>> {
    fn from(Limiter { store, quotas }: Limiter<C>) -> Self {
        Self { store, quotas }
    }
}

impl<S: Store> SharedLimiter<S> {
    /// Charges one unit to the key, if every quota has room.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step. This is not a denial; the caller chooses what it means.
    pub async fn check<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, StoreError> {
        self.check_cost(key, 1).await
    }

    /// Charges `cost` units to the key, if every quota has room for all of them. Cost 0 only peeks.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub async fn check_cost<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        cost: u32,
    ) -> Result<Decision<'a>, StoreError> {
        charge(&self.store, &self.quotas, key.into(), cost).await
    }

    /// Returns the limiter with this quota instead of its own, for limits that differ between calls.
    pub const fn under<'a>(&'a self, quota: &'a PolicyQuota) -> QuotaView<'a, Self> {
        QuotaView { limiter: self, quota }
    }

    /// Applies these charges on the limiter's store, all or nothing. Each may have its own quota and key. To avoid a
    /// future if the store answers at once, [match](Answer) on the answer.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    ///
    /// # Panics
    ///
    /// If there are no charges, because then no quota decides.
    pub fn check_all<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
    ) -> Answer<impl Future<Output = Result<Decision<'a>, StoreError>> + Send> {
        assert!(!charges.is_empty(), "there are no charges to decide on");
        self.store.step(Step::Charge(charges)).map(|counted| {
            Decision::of_charges(charges, counted?).ok_or_else(|| AnswerError::Nonsense.into())
        })
    }

    /// Answers as [`check`](Self::check) would, but charges nothing.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub async fn peek<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, StoreError> {
        peek(&self.store, &self.quotas, key.into()).await
    }

    /// Gives back the units that a check charged, to the windows that were charged: at most the units used there, and
    /// none if the window has closed. Of other kinds, it gives back what has not come back by itself. For each quota
    /// that was charged, a state has the [units](crate::QuotaState::units) that were given back.
    ///
    /// Empties the receipt.
    ///
    /// # Errors
    ///
    /// If the store could not take a step: see [`Receipt::refund`]. The receipt keeps the units that were provably not
    /// given back, so the caller can try again.
    ///
    /// # Cancel safety
    ///
    /// As [`Receipt::refund`].
    pub async fn refund(&self, receipt: &mut Receipt) -> Result<QuotaStates, ReceiptError> {
        receipt.refund(&self.store).await
    }

    /// Like [`refund`](Self::refund), but gives back at most `units` of each quota, and nothing where a policy
    /// [fixes](crate::ReceiptItem::fixed) the cost. The rest stays in the receipt.
    ///
    /// # Errors
    ///
    /// The same as [`refund`](Self::refund).
    pub async fn refund_units(&self, receipt: &mut Receipt, units: u32) -> Result<QuotaStates, ReceiptError> {
        receipt.refund_units(&self.store, units).await
    }

    /// Settles a check at its actual cost. Units above the cost are given back. Missing units are charged without
    /// asking for room, in the windows that are open now. If nothing was charged, nothing happens.
    ///
    /// # Errors
    ///
    /// As [`refund`](Self::refund); the receipt keeps the units that were provably not settled.
    pub async fn settle(&self, receipt: &mut Receipt, cost: u32) -> Result<QuotaStates, ReceiptError> {
        receipt.settle(&self.store, cost).await
    }

    /// Resets the key's usage of every quota.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check). If other quotas were reset, the error
    /// [may have charged](StoreError::may_have_charged).
    pub async fn reset(&self, key: impl Into<Key<'_>>) -> Result<(), StoreError> {
        let key = key.into();
        let steps = self.quotas.iter().map(|quota| Step::Reset(Counter::new(quota, &key)));
        self.change(steps).await.map(drop)
    }

    /// Sets the key's usage of every quota; it may be above the limit.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check). If other quotas were set, the error
    /// [may have charged](StoreError::may_have_charged).
    pub async fn set(&self, key: impl Into<Key<'_>>, used: u64) -> Result<QuotaStates, StoreError> {
        let key = key.into();
        let steps = self.quotas.iter().map(|quota| Step::Set { counter: Counter::new(quota, &key), used });
        self.change(steps).await
    }

    /// Charges without asking for room, and returns the new states.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check). If other quotas were charged, the error
    /// [may have charged](StoreError::may_have_charged).
    pub async fn record(&self, key: impl Into<Key<'_>>, cost: u32) -> Result<QuotaStates, StoreError> {
        let key = key.into();
        let steps = self.quotas.iter().map(|quota| Step::Record(Charge::new(quota, &key, cost)));
        self.change(steps).await
    }

    /// Returns the latest end among windows in which the key has used something; `None` if it has used nothing.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub async fn window_end(&self, key: impl Into<Key<'_>>) -> Result<Option<Timestamp>, StoreError> {
        let key = key.into();
        // One peek for each quota: a full store refuses to peek at a counter that it does not have; then nothing is
        // used.
        let looks = charges(&self.quotas, &key, 0);
        let looks: Vec<Step<'_>> = looks.chunks(1).map(Step::Peek).collect();
        let answers = self.store.step_each(&looks).await;
        if answers.len() != looks.len() {
            return Err(AnswerError::Nonsense.into());
        }
        let known = answers.into_iter().filter(|answer| !matches!(answer, Err(StoreError::Full)));
        Ok(last_end(known.collect::<Result<Vec<QuotaStates>, StoreError>>()?.into_iter()))
    }

    /// Takes steps on one counter each, in one call.
    async fn change(&self, steps: impl Iterator<Item = Step<'_>>) -> Result<QuotaStates, StoreError> {
        let steps: Vec<Step<'_>> = steps.collect();
        let answers = self.store.step_each(&steps).await;
        if answers.len() != steps.len() {
            return Err(AnswerError::Nonsense.into());
        }
        QuotaStates::of_each(answers)
    }
}

pub(super) async fn charge<'a>(
    store: &impl Store,
    quotas: &'a [PolicyQuota],
    key: Key<'a>,
    cost: u32,
) -> Result<Decision<'a>, StoreError> {
    let counted = store.step(Step::Charge(&charges(quotas, &key, cost))).await?;
    Decision::new(quotas, key, counted).ok_or_else(|| AnswerError::Nonsense.into())
}

pub(super) async fn peek<'a>(
    store: &impl Store,
    quotas: &'a [PolicyQuota],
    key: Key<'a>,
) -> Result<Decision<'a>, StoreError> {
    let counted = store.step(Step::Peek(&charges(quotas, &key, 0))).await?;
    Decision::new(quotas, key, counted).ok_or_else(|| AnswerError::Nonsense.into())
}

impl<S> fmt::Debug for SharedLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimiter").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}
