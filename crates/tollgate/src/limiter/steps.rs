//! The steps of a limiter over a store in this process.

use super::{Limiter, last_end};
use crate::store::{PerQuota, Refunded, StoreError, SyncStore};
use crate::{Charge, Decision, Key, QuotaState, Timestamp};

impl<S: SyncStore> Limiter<S> {
    /// Takes one unit for the key, if every quota has room.
    ///
    /// # Errors
    ///
    /// If the store could not take the step: that is no denial, and the caller chooses what it means.
    pub fn check<'k>(&self, key: impl Into<Key<'k>>) -> Result<Decision, StoreError> {
        self.check_cost(key, 1)
    }

    /// Takes `cost` units for the key, if every quota has room for all of them. Cost 0 only peeks.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, Reason};
    ///
    /// let limiter = Limiter::new(Quota::per_day(10));
    /// assert_eq!(limiter.check_cost("alice", 8)?.remaining(), 2);
    /// assert!(!limiter.check_cost("alice", 3)?.is_allowed());
    /// assert_eq!(limiter.check_cost("alice", 2)?.remaining(), 0);
    /// assert_eq!(limiter.check_cost("bob", 11)?.reason(), Some(Reason::CostExceedsLimit));
    /// # Ok::<(), tollgate::StoreError>(())
    /// ```
    pub fn check_cost<'k>(&self, key: impl Into<Key<'k>>, cost: u32) -> Result<Decision, StoreError> {
        let key = key.into();
        match self.quotas() {
            // The usual case, without a list.
            [quota] => self.check_all(&[Charge::new(quota, &key, cost)]),
            _ => self.check_all(&self.charges(&key, cost)),
        }
    }

    /// Takes these charges on the limiter's store, all or nothing: several quotas, each for a key of its own.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Charge, Key, Limiter, PolicyQuota, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_day(5));
    /// let per_user = PolicyQuota::new("user", Quota::per_day(5));
    /// let everybody = PolicyQuota::new("everybody", Quota::per_day(100));
    ///
    /// let (alice, all) = (Key::from("alice"), Key::from("all"));
    /// let charges = [Charge::new(&per_user, &alice, 1), Charge::new(&everybody, &all, 1)];
    /// let decision = limiter.check_all(&charges)?;
    /// assert!(decision.is_allowed());
    /// assert_eq!(decision.quotas()[1].remaining(), 99);
    /// # Ok::<(), tollgate::StoreError>(())
    /// ```
    #[inline(always)]
    pub fn check_all(&self, charges: &[Charge<'_>]) -> Result<Decision, StoreError> {
        self.store.charge_then(charges, Decision::new)
    }

    /// Answers as [`check`](Self::check) would, and takes nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn peek<'k>(&self, key: impl Into<Key<'k>>) -> Result<Decision, StoreError> {
        let key = key.into();
        let charges = self.charges(&key, 0);
        Ok(Decision::new(self.store.peek(&charges)?))
    }

    /// Gives back `cost` units of what a decision of this limiter took for this key, in the windows it was counted
    /// in: at most what is used there, and nothing where the window has closed. What came of it is said for each
    /// quota.
    ///
    /// A denial took nothing, so nothing is given back for it, except where it was
    /// [counted](crate::CountDenied::Yes). A decision does not know its cost: to give back no more than it took,
    /// and nothing for a look, is up to the caller. What [`check_all`](Self::check_all) took is given back by
    /// [`refund_all`](Self::refund_all).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); quotas before the one that failed were given back.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_day(10));
    /// let decision = limiter.check_cost("alice", 8)?;
    /// let refunded = limiter.refund("alice", 5, &decision)?;
    /// assert_eq!(refunded[0].given(), 5);
    /// assert_eq!(limiter.peek("alice")?.remaining(), 7);
    /// # Ok::<(), tollgate::StoreError>(())
    /// ```
    pub fn refund<'k>(
        &self,
        key: impl Into<Key<'k>>,
        cost: u32,
        decision: &Decision,
    ) -> Result<PerQuota<Refunded>, StoreError> {
        let key = key.into();
        self.refund_all(&self.charges(&key, cost), decision)
    }

    /// As [`refund`](Self::refund), for what a decision took of these charges: of each its cost.
    ///
    /// The charges are those that were decided on, in their order, at the costs to give back. If their number is
    /// another than that of the decision's quotas, they cannot be: nothing is given back, and the answer is empty.
    ///
    /// # Errors
    ///
    /// As [`refund`](Self::refund).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Charge, Key, Limiter, PolicyQuota, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_day(5));
    /// let per_user = PolicyQuota::new("user", Quota::per_day(5));
    /// let everybody = PolicyQuota::new("everybody", Quota::per_day(7));
    /// let (alice, bob, all) = (Key::from("alice"), Key::from("bob"), Key::from("all"));
    ///
    /// let alices = [Charge::new(&per_user, &alice, 5), Charge::new(&everybody, &all, 5)];
    /// let bobs = [Charge::new(&per_user, &bob, 5), Charge::new(&everybody, &all, 5)];
    /// let (allowed, denied) = (limiter.check_all(&alices)?, limiter.check_all(&bobs)?);
    /// assert!(allowed.is_allowed() && !denied.is_allowed());
    ///
    /// // Nothing was taken for bob, so nothing is given back, also where others have used units.
    /// assert!(limiter.refund_all(&bobs, &denied)?.iter().all(|quota| quota.given() == 0));
    /// assert!(limiter.refund_all(&alices, &allowed)?.iter().all(|quota| quota.given() == 5));
    /// assert!(limiter.refund_all(&alices[..1], &allowed)?.is_empty());
    /// # Ok::<(), tollgate::StoreError>(())
    /// ```
    pub fn refund_all(
        &self,
        charges: &[Charge<'_>],
        decision: &Decision,
    ) -> Result<PerQuota<Refunded>, StoreError> {
        decision.refunds(charges).map(|(charge, start)| self.store.refund(&charge, start)).collect()
    }

    /// Forgets what the key has used in every quota.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); quotas before the one that failed were reset.
    pub fn reset<'k>(&self, key: impl Into<Key<'k>>) -> Result<(), StoreError> {
        let key = key.into();
        self.counters(&key).try_for_each(|counter| self.store.reset(&counter).map(drop))
    }

    /// Sets what the key has used in the current window of every quota; it may be above the limit.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); quotas before the one that failed were set.
    pub fn set<'k>(&self, key: impl Into<Key<'k>>, used: u64) -> Result<PerQuota<QuotaState>, StoreError> {
        let key = key.into();
        self.counters(&key).map(|counter| self.store.set(&counter, used)).collect()
    }

    /// Charges without asking whether there is room, and says what is used then.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); quotas before the one that failed were charged.
    pub fn record<'k>(&self, key: impl Into<Key<'k>>, cost: u32) -> Result<PerQuota<QuotaState>, StoreError> {
        let key = key.into();
        self.charges(&key, cost).iter().map(|charge| self.store.record(charge)).collect()
    }

    /// When nothing that the key has used counts any more; `None` if nothing counts now.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn window_end<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Timestamp>, StoreError> {
        let key = key.into();
        Ok(last_end(&self.store.peek(&self.charges(&key, 0))?))
    }
}
