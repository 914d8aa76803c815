//! Limiters: quotas over a store, the type that most programs use.
//!
//! A [`Limiter`] counts in memory and never waits; a [`SharedLimiter`] counts in any store. Both have the same steps.

mod builder;
mod hold_limiter;
mod hold_limits;
mod in_flight;
mod quota_view;
mod reservation;
mod shared;
mod shared_hold;

use std::sync::Arc;
use std::{fmt, mem};

use smallvec::SmallVec;

pub use self::builder::LimiterBuilder;
pub use self::hold_limiter::{HoldLimiter, SharedHoldDecision};
pub use self::in_flight::{Hold, HoldDecision, InFlightLimiter};
pub use self::quota_view::QuotaView;
pub use self::reservation::Reservation;
pub use self::shared::SharedLimiter;
pub use self::shared_hold::SharedHold;
use crate::clock::{Clock, SystemClock};
use crate::decision::CounterList;
use crate::memory::ChargeAttempt;
use crate::{
    Charge, Counter, Decision, Full, Key, MemoryStore, PolicyQuota, Quota, QuotaState, QuotaStates, Receipt,
    ReceiptItem, Step, Timestamp,
};

/// One or several quotas over counters in memory, applied to a key all or nothing.
///
/// No step waits, and the only error is that the memory is [`Full`]. To share counters between processes, use a
/// [`SharedLimiter`].
///
/// Clones share the counters. Two limiters over one store share a counter if the policy's name, the key, and the kind,
/// window and anchor of the quota are the same: see [`PolicyQuota`].
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
/// # Ok::<(), tollgate::Full>(())
/// ```
pub struct Limiter<C = SystemClock> {
    store: MemoryStore<C>,
    quotas: Arc<[PolicyQuota]>,
}

impl Limiter {
    /// Creates a limiter with its own memory store.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self::with_store(quota, MemoryStore::new())
    }

    /// Builds a limiter with several quotas, a policy name, or denials that count.
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
        LimiterBuilder::new(policy)
    }
}

impl<C> Limiter<C> {
    /// Creates a limiter over this store, with the policy name `default`.
    #[must_use]
    pub fn with_store(quota: Quota, store: MemoryStore<C>) -> Self {
        Self { store, quotas: default_quotas(quota) }
    }

    /// Returns the store.
    #[must_use]
    pub const fn store(&self) -> &MemoryStore<C> {
        &self.store
    }

    /// Returns the quotas, in the order in which a [`Decision`] lists them.
    #[must_use]
    pub const fn quotas(&self) -> &Arc<[PolicyQuota]> {
        &self.quotas
    }
}

impl<C: Clock> Limiter<C> {
    /// Charges one unit to the key, if every quota has room.
    ///
    /// # Errors
    ///
    /// If the memory is full. This is not a denial; the caller chooses what it means.
    #[inline]
    pub fn check<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, Full> {
        self.check_cost(key, 1)
    }

    /// Charges `cost` units to the key, if every quota has room for all of them. Cost 0 only peeks.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
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
    /// # Ok::<(), tollgate::Full>(())
    /// ```
    #[inline]
    pub fn check_cost<'a>(&'a self, key: impl Into<Key<'a>>, cost: u32) -> Result<Decision<'a>, Full> {
        charge(&self.store, &self.quotas, key.into(), cost)
    }

    /// Returns the limiter with this quota instead of its own, for limits that differ between calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, PolicyQuota, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_day(1));
    /// let plan = |limit| PolicyQuota::new("plan", Quota::per_day(limit));
    /// assert_eq!(limiter.under(&plan(10)).check("alice")?.remaining(), 9);
    /// assert_eq!(limiter.under(&plan(20)).check("alice")?.remaining(), 18);
    /// # Ok::<(), tollgate::Full>(())
    /// ```
    pub const fn under<'a>(&'a self, quota: &'a PolicyQuota) -> QuotaView<'a, Self> {
        QuotaView { limiter: self, quota }
    }

    /// Applies these charges on the limiter's store, all or nothing. Each may have its own quota and key.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    ///
    /// # Panics
    ///
    /// If there are no charges, because then no quota decides.
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
    /// assert_eq!((decision.policy(), decision.quotas()[1].remaining()), ("user", 99));
    /// # Ok::<(), tollgate::Full>(())
    /// ```
    #[inline]
    pub fn check_all<'a>(&self, charges: &'a [Charge<'a>]) -> Result<Decision<'a>, Full> {
        assert!(!charges.is_empty(), "there are no charges to decide on");
        Ok(Decision::of(CounterList::OfCharges(charges), self.store.charge(charges).finish()?))
    }

    /// Holds the units that a check charged until the actual cost is known. Units that are not
    /// [committed](Reservation::commit) when the reservation is dropped are given back.
    ///
    /// A [`SharedLimiter`] has no reservations, because a drop cannot wait for a store. There,
    /// [`settle`](SharedLimiter::settle) the receipt.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    ///
    /// let words = Limiter::new(Quota::per_day(1_000));
    /// let decision = words.check_cost("alice", 800)?;
    /// if decision.is_allowed() {
    ///     let reservation = words.reserve(decision.into_receipt());
    ///     reservation.commit(120)?;
    /// }
    /// assert_eq!(words.peek("alice")?.remaining(), 880);
    ///
    /// // A request that fails gives everything back.
    /// drop(words.reserve(words.check_cost("alice", 800)?.into_receipt()));
    /// assert_eq!(words.peek("alice")?.remaining(), 880);
    /// # Ok::<(), tollgate::Full>(())
    /// ```
    pub const fn reserve(&self, receipt: Receipt) -> Reservation<'_, C> {
        Reservation::new(self, receipt)
    }

    /// Answers as [`check`](Self::check) would, but charges nothing.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub fn peek<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<Decision<'a>, Full> {
        peek(&self.store, &self.quotas, key.into())
    }

    /// Gives back the units that a check charged, to the windows that were charged: at most the units used there, and
    /// none if the window has closed. Of other kinds, it gives back what has not come back by itself. For each quota
    /// that was charged, a state has the [units](QuotaState::units) that were given back.
    ///
    /// Empties the receipt.
    pub fn refund(&self, receipt: &mut Receipt) -> QuotaStates {
        refund(&self.store, receipt)
    }

    /// Like [`refund`](Self::refund), but gives back at most `units` of each quota, and nothing where a policy
    /// [fixes](ReceiptItem::fixed) the cost. The rest stays in the receipt.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_day(10));
    /// let mut receipt = limiter.check_cost("alice", 8)?.into_receipt();
    /// let refunded = limiter.refund_units(&mut receipt, 5);
    /// assert_eq!(refunded[0].units(), 5);
    /// assert_eq!(limiter.peek("alice")?.remaining(), 7);
    /// assert_eq!(receipt.items()[0].units(), 3);
    /// # Ok::<(), tollgate::Full>(())
    /// ```
    pub fn refund_units(&self, receipt: &mut Receipt, units: u32) -> QuotaStates {
        give_back(&self.store, &receipt.split_off(units))
    }

    /// Settles a check at its actual cost. Units above the cost are given back. Missing units are charged without
    /// asking for room, in the windows that are open now. If nothing was charged, nothing happens.
    ///
    /// If the work may fail, use [`reserve`](Self::reserve), which then gives everything back.
    ///
    /// # Errors
    ///
    /// If missing units need a new counter and the memory is full. The receipt keeps these quotas; all others are
    /// settled.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Quota};
    ///
    /// let words = Limiter::new(Quota::per_day(1_000));
    /// let mut receipt = words.check_cost("alice", 800)?.into_receipt();
    /// words.settle(&mut receipt, 120)?;
    /// assert_eq!(words.peek("alice")?.remaining(), 880);
    /// # Ok::<(), tollgate::Full>(())
    /// ```
    pub fn settle(&self, receipt: &mut Receipt, cost: u32) -> Result<QuotaStates, Full> {
        settle(&self.store, receipt, cost)
    }

    /// Resets the key's usage of every quota.
    pub fn reset<'k>(&self, key: impl Into<Key<'k>>) {
        let key = key.into();
        for quota in &*self.quotas {
            let _ = self.store.reset(&Counter::new(quota, &key));
        }
    }

    /// Sets the key's usage of every quota; it may be above the limit.
    ///
    /// # Errors
    ///
    /// If the memory is full and a quota needs a new counter; all others are set.
    pub fn set<'k>(&self, key: impl Into<Key<'k>>, used: u64) -> Result<QuotaStates, Full> {
        let key = key.into();
        each(self.quotas.iter().map(|quota| self.store.set(&Counter::new(quota, &key), used)))
    }

    /// Charges without asking for room, and returns the new states.
    ///
    /// # Errors
    ///
    /// If the memory is full and a quota needs a new counter; all others are charged.
    pub fn record<'k>(&self, key: impl Into<Key<'k>>, cost: u32) -> Result<QuotaStates, Full> {
        let key = key.into();
        each(self.quotas.iter().map(|quota| self.store.record(&Charge::new(quota, &key, cost))))
    }

    /// Returns the latest end among windows in which the key has used something; `None` if it has used nothing.
    pub fn window_end<'k>(&self, key: impl Into<Key<'k>>) -> Option<Timestamp> {
        let key = key.into();
        // One peek for each quota: a full store refuses to peek at a counter that it does not have; then nothing is
        // used.
        let looks = charges(&self.quotas, &key, 0);
        last_end(looks.chunks(1).filter_map(|look| self.store.peek(look).ok()))
    }
}

fn settle<C: Clock>(store: &MemoryStore<C>, receipt: &mut Receipt, cost: u32) -> Result<QuotaStates, Full> {
    let (mut states, mut failed) = (Vec::new(), Ok(()));
    receipt.retain(|item| {
        let settled = match item.settle(cost) {
            Some(Step::Refund { charge, mark }) => Ok(store.refund(&charge, mark)),
            Some(Step::Record(charge)) => store.record(&charge),
            _ => return false,
        };
        match settled {
            Ok(state) => states.push(state),
            Err(full) => failed = Err(full),
        }
        settled.is_err()
    });
    failed.map(|()| states.into_iter().collect())
}

/// Gives back all that the receipt has, and empties it.
fn refund<C: Clock>(store: &MemoryStore<C>, receipt: &mut Receipt) -> QuotaStates {
    give_back(store, &mem::take(receipt).take(|item| item.units() > 0))
}

fn give_back<C: Clock>(store: &MemoryStore<C>, receipt: &Receipt) -> QuotaStates {
    let give_back = |item: &ReceiptItem| {
        let charge = Charge::new(item.quota(), item.key(), item.units());
        store.refund(&charge, item.mark())
    };
    receipt.items().iter().map(give_back).collect()
}

#[inline(always)]
fn charge<'a, C: Clock>(
    store: &MemoryStore<C>,
    quotas: &'a [PolicyQuota],
    key: Key<'a>,
    cost: u32,
) -> Result<Decision<'a>, Full> {
    let [quota] = quotas else {
        let counted = charge_several(store, quotas, &key, cost)?;
        return Ok(Decision::of(CounterList::OfKey(quotas, key), counted));
    };
    let counted = match store.charge(&[Charge::new(quota, &key, cost)]) {
        ChargeAttempt::Made(state) => {
            return Ok(Decision::of(CounterList::OfKey(quotas, key), QuotaStates::one(state)));
        }
        ChargeAttempt::Left(left) => left.finish()?,
    };
    Ok(Decision::of(CounterList::OfKey(quotas, key), counted))
}

#[cold]
#[inline(never)]
fn charge_several<C: Clock>(
    store: &MemoryStore<C>,
    quotas: &[PolicyQuota],
    key: &Key<'_>,
    cost: u32,
) -> Result<QuotaStates, Full> {
    store.charge(&charges(quotas, key, cost)).finish()
}

fn peek<'a, C: Clock>(
    store: &MemoryStore<C>,
    quotas: &'a [PolicyQuota],
    key: Key<'a>,
) -> Result<Decision<'a>, Full> {
    let counted = store.peek(&charges(quotas, &key, 0))?;
    Ok(Decision::of(CounterList::OfKey(quotas, key), counted))
}

/// A quota under the policy name `default`.
fn default_quotas(quota: Quota) -> Arc<[PolicyQuota]> {
    Arc::new([PolicyQuota::new("default", quota)])
}

fn charges<'a>(quotas: &'a [PolicyQuota], key: &'a Key<'a>, cost: u32) -> SmallVec<[Charge<'a>; 2]> {
    quotas.iter().map(|quota| Charge::new(quota, key, cost)).collect()
}

/// The states of all steps, or the error of the first that failed. Every step is taken.
fn each(steps: impl Iterator<Item = Result<QuotaState, Full>>) -> Result<QuotaStates, Full> {
    let mut failed = Ok(());
    let states = steps.filter_map(|step| match step {
        Ok(state) => Some(state),
        Err(full) => {
            failed = failed.and(Err(full));
            None
        }
    });
    let states = states.collect();
    failed.map(|()| states)
}

/// The latest end among windows with usage.
fn last_end(looks: impl Iterator<Item = QuotaStates>) -> Option<Timestamp> {
    let ends = |counted: QuotaStates| {
        counted.iter().filter(|state| state.used() > 0).map(QuotaState::reset_at).max()
    };
    looks.filter_map(ends).max()
}

impl<C> Clone for Limiter<C> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), quotas: Arc::clone(&self.quotas) }
    }
}

impl<C> fmt::Debug for Limiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}
