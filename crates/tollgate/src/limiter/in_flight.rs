//! Limits on what is in flight: how many pieces of work of a key run at once.

use std::fmt;
use std::time::Duration;

use super::{Limiter, charges, refund, settle};
use crate::decision::CounterList;
use crate::freed::FreedListener;
use crate::memory::{HeldUnits, LiveCharge};
use crate::{
    Clock, Decision, Full, HoldStates, InFlight, InFlightState, Key, MemoryStore, PerQuota, PolicyInFlight,
    QuotaStates, Reason, Receipt, SystemClock,
};

/// A limit on how much of a key is in flight at once, and quotas that are charged with it.
///
/// Each admitted request gets a [`Hold`]. Its units are free again when it is dropped: at the end of the work, when the
/// work fails or panics, or when its future is cancelled. So none can leak, and none needs a time after which it ends.
///
/// The units are in the memory of this process: two processes do not share them.
///
/// # Examples
///
/// ```
/// use tollgate::{InFlight, InFlightLimiter, Reason};
///
/// let limiter = InFlightLimiter::new(InFlight::new(2)?);
/// let first = limiter.hold("alice")?.into_hold();
/// let second = limiter.hold("alice")?.into_hold();
/// assert!(first.is_some() && second.is_some());
///
/// let third = limiter.hold("alice")?;
/// assert_eq!(third.reason(), Some(Reason::InFlightExceeded));
/// assert_eq!(third.retry_after(), None);
/// assert!(limiter.hold("bob")?.is_allowed());
///
/// drop(first);
/// assert!(limiter.hold("alice")?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With quotas, all have room or none is charged:
///
/// ```
/// use tollgate::{Limiter, MemoryStore, Quota};
///
/// let words = Limiter::builder("words").quota(Quota::per_day(1_000));
/// let words = words.build_in_flight("2~in_flight".parse()?, MemoryStore::new())?;
///
/// // At most 800 words; it turns out to be 120.
/// if let Some(hold) = words.hold_cost("alice", 800)?.into_hold() {
///     hold.settle(120)?;
/// }
/// assert_eq!(words.limiter().peek("alice")?.remaining(), 880);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InFlightLimiter<C = SystemClock> {
    in_flight: PolicyInFlight,
    /// Its store, and the quotas, of which there may be none.
    limiter: Limiter<C>,
}

/// The answer to a request for a [`Hold`].
#[must_use = "a request that is denied must not go on, and dropping the answer frees what it holds"]
pub struct HoldDecision<'a, C: Clock = SystemClock> {
    policy: &'a PolicyInFlight,
    state: InFlightState,
    /// `None` if there are no quotas.
    quotas: Option<Decision<'a>>,
    /// Units that each quota was asked for.
    cost: u32,
    held: Option<HeldUnits<C>>,
}

/// Units in flight, which are free again when this is dropped.
///
/// Forgotten, as by [`std::mem::forget`], they stay live until the key is [reset](InFlightLimiter::reset).
#[must_use = "dropped, it frees its units"]
pub struct Hold<C: Clock = SystemClock> {
    units: HeldUnits<C>,
    receipt: Receipt,
}

impl InFlightLimiter {
    /// Creates a limiter with its own memory store and the policy name `default`.
    #[must_use]
    pub fn new(in_flight: InFlight) -> Self {
        Self::with_store(in_flight, MemoryStore::new())
    }
}

impl<C> InFlightLimiter<C> {
    /// Creates a limiter over this store. An [`InFlight`] alone has the policy name `default`.
    #[must_use]
    pub fn with_store(in_flight: impl Into<PolicyInFlight>, store: MemoryStore<C>) -> Self {
        Self::over(in_flight.into(), Limiter { store, quotas: [].into() })
    }

    pub(super) const fn over(in_flight: PolicyInFlight, limiter: Limiter<C>) -> Self {
        Self { in_flight, limiter }
    }

    /// Returns the limit.
    #[must_use]
    pub const fn in_flight(&self) -> &PolicyInFlight {
        &self.in_flight
    }

    /// Returns the limiter with the quotas that are charged. It may have none, and then has no decisions.
    #[must_use]
    pub const fn limiter(&self) -> &Limiter<C> {
        &self.limiter
    }
}

impl<C: Clock> InFlightLimiter<C> {
    /// Holds one unit in flight of the key, and charges one unit to each quota, if all have room.
    ///
    /// # Errors
    ///
    /// If the memory is full. This is not a denial; the caller chooses what it means.
    pub fn hold<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<HoldDecision<'a, C>, Full> {
        self.hold_cost(key, 1)
    }

    /// Holds one unit in flight of the key, and charges `cost` units to each quota, if all have room.
    ///
    /// # Errors
    ///
    /// The same as [`hold`](Self::hold).
    pub fn hold_cost<'a>(&'a self, key: impl Into<Key<'a>>, cost: u32) -> Result<HoldDecision<'a, C>, Full> {
        self.hold_units(key, 1, cost)
    }

    /// Holds `units` in flight of the key, at most [`InFlight::MAX_UNITS`], and charges `cost` units to each quota, if all
    /// have room. For 0 units, it answers as for one at this cost, but holds and charges nothing.
    ///
    /// # Errors
    ///
    /// The same as [`hold`](Self::hold).
    pub fn hold_units<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        units: u32,
        cost: u32,
    ) -> Result<HoldDecision<'a, C>, Full> {
        let (Self { in_flight, limiter }, key) = (self, key.into());
        let asked = LiveCharge { in_flight, key: &key, units };
        let answer = limiter.store.hold(&asked, &charges(&limiter.quotas, &key, cost))?;
        let quotas = (!limiter.quotas.is_empty())
            .then(|| Decision::of(CounterList::OfKey(&limiter.quotas, key), answer.charged));
        Ok(HoldDecision { policy: in_flight, state: answer.state, quotas, cost, held: answer.held })
    }

    /// Returns the units of the key that are in flight, and takes none.
    pub fn peek<'k>(&self, key: impl Into<Key<'k>>) -> InFlightState {
        self.limiter.store.live(&self.in_flight, &key.into())
    }

    /// Listens for units of the key that are freed.
    pub(crate) fn listen(&self, key: &Key<'_>) -> FreedListener {
        self.limiter.store.listen(&self.in_flight, key)
    }

    /// Returns a denial that another caller of the key got.
    pub(crate) fn denied<'a>(&'a self, key: Key<'a>, cost: u32, states: &HoldStates) -> HoldDecision<'a, C> {
        let state = states.in_flight().first().copied();
        let state = state.unwrap_or_else(|| InFlightState::decide(self.in_flight.in_flight(), 0, 0));
        let quotas = &*self.limiter.quotas;
        let counters = CounterList::OfKey(quotas, key);
        let quotas = (!quotas.is_empty()).then(|| Decision::of(counters, states.charged().clone()));
        HoldDecision { policy: &self.in_flight, state, quotas, cost, held: None }
    }

    /// Forgets all units in flight of the key, so that others have room. Their holds are [lost](Hold::is_lost): they free
    /// nothing any more. Quotas keep what was charged.
    pub fn reset<'k>(&self, key: impl Into<Key<'k>>) {
        self.limiter.store.forget_live(&self.in_flight, &key.into());
    }
}

impl<'a, C: Clock> HoldDecision<'a, C> {
    /// Returns whether the request is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.reason().is_none()
    }

    /// Returns why the request is denied: what the quotas say, if they deny it, or else the limit in flight. If it asks for
    /// more units than can ever be in flight, that comes first.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        let in_flight = self.state.reason();
        let never = in_flight.filter(|reason| *reason == Reason::CostExceedsLimit);
        never.or_else(|| self.quotas.as_ref().and_then(Decision::reason)).or(in_flight)
    }

    /// Returns the time to wait before the quotas have room; `None` if they do not deny the request. A unit in flight may
    /// be free at any time, so a request that only the limit in flight denies has none.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let waits = self.reason() == Some(Reason::QuotaExceeded);
        self.quotas.as_ref().filter(|_| waits).and_then(Decision::retry_after)
    }

    /// Returns the name of the policy.
    #[must_use]
    pub fn policy(&self) -> &'a str {
        self.policy.policy()
    }

    /// Returns the units in flight of the key.
    #[must_use]
    pub const fn in_flight(&self) -> InFlightState {
        self.state
    }

    /// Returns the decision of the quotas; `None` if there are none. If only the limit in flight denied the request, it is
    /// allowed here, and charged nothing, but for [overdrafts](crate::CountDenied::Overdraft).
    #[must_use]
    pub const fn quotas(&self) -> Option<&Decision<'a>> {
        self.quotas.as_ref()
    }

    /// Returns the states of all parts.
    pub(crate) fn states(&self) -> HoldStates {
        let charged = self.quotas.as_ref().map(|decision| decision.quotas().clone());
        HoldStates::new(PerQuota::one(self.state), charged.unwrap_or_else(|| [].into_iter().collect()))
    }

    /// Returns the hold, if the request is allowed and asked for units.
    pub fn into_hold(self) -> Option<Hold<C>> {
        let Self { quotas, cost, held, .. } = self;
        let receipt = quotas.map(|decision| decision.into_receipt_at(cost)).unwrap_or_default();
        held.map(|units| Hold { units, receipt })
    }
}

impl<C: Clock> Hold<C> {
    /// Returns the receipt of the units that quotas were charged.
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Returns whether the key was [reset](InFlightLimiter::reset), so that the units are not live any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        !self.units.are_live()
    }

    /// [Settles](Limiter::settle) what the quotas were charged at the actual cost, and frees the units in flight.
    ///
    /// # Errors
    ///
    /// If missing units need a new counter and the memory is full. These units are not charged; all other quotas are
    /// settled, and the units in flight are free.
    pub fn settle(mut self, cost: u32) -> Result<QuotaStates, Full> {
        settle(self.units.store(), &mut self.receipt, cost)
    }

    /// Gives back all that the quotas were charged, and frees the units in flight.
    pub fn release(mut self) -> QuotaStates {
        refund(self.units.store(), &mut self.receipt)
    }
}

impl<C> Clone for InFlightLimiter<C> {
    fn clone(&self) -> Self {
        Self { in_flight: self.in_flight.clone(), limiter: self.limiter.clone() }
    }
}

impl<C> fmt::Debug for InFlightLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightLimiter")
            .field("in_flight", &self.in_flight)
            .field("quotas", &self.limiter.quotas)
            .finish_non_exhaustive()
    }
}

/// Without the key, which may identify a person.
impl<C: Clock> fmt::Debug for HoldDecision<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldDecision")
            .field("in_flight", &self.state)
            .field("quotas", &self.quotas)
            .finish_non_exhaustive()
    }
}

impl<C: Clock> fmt::Debug for Hold<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("receipt", &self.receipt).finish_non_exhaustive()
    }
}
