//! A limiter of holds over any store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::hold_limits::HoldLimits;
use super::shared_hold::{HoldParts, SharedHold};
use crate::decision::CounterList;
use crate::freed::FreedListener;
use crate::{
    AnswerError, AnyStore, Decision, HoldAnswer, HoldEnding, HoldId, HoldKeeper, HoldLength, HoldPlace,
    HoldStates, HoldStep, InFlightCharge, InFlightState, Key, PolicyInFlight, PolicyQuota, QuotaState,
    Reason, Store, StoreError,
};

/// A limit on how much of a key is in flight at once, quotas that are charged with it, or both, over a store that many
/// processes may share.
///
/// Each admitted request gets a [`SharedHold`], a guard. The store knows it by a random id, and a
/// [`HoldKeeper`] renews it as long as the guard lives. If a process dies, its units are free after the
/// [length](Self::expires_after) of its holds. If all that share the limit are in one process, an
/// [`InFlightLimiter`](crate::InFlightLimiter) costs less.
///
/// To build one, see [`build_shared_in_flight`](crate::LimiterBuilder::build_shared_in_flight) and
/// [`build_reserving`](crate::LimiterBuilder::build_reserving). Clones share everything.
///
/// # Examples
///
/// ```
/// use tollgate::{HoldKeeper, Limiter, MemoryStore, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
/// tokio::spawn(task);
/// let words = Limiter::builder("words").quota(Quota::per_day(1_000));
/// let words = words.build_shared_in_flight("1~in_flight".parse()?, MemoryStore::new(), &keeper)?;
///
/// // At most 800 words; it turns out to be 120.
/// let hold = words.hold_cost("alice", 800).await?.into_hold().expect("there is room");
/// assert!(!words.hold("alice").await?.is_allowed());
/// hold.settle(120).await?;
/// let next = words.hold_cost("alice", 0).await?;
/// assert_eq!(next.quotas().map(|quotas| quotas.remaining()), Some(880));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HoldLimiter {
    limits: Arc<HoldLimits>,
    store: AnyStore,
    keeper: HoldKeeper,
    length: HoldLength,
    on_drop: HoldEnding,
}

/// The answer to a request for a [`SharedHold`].
#[must_use = "a request that is denied must not go on, and dropping the answer ends its hold"]
pub struct SharedHoldDecision<'a> {
    states: HoldStates,
    /// `None` if there are no quotas.
    quotas: Option<Decision<'a>>,
    hold: Option<SharedHold>,
}

impl HoldLimiter {
    pub(super) fn new(
        in_flight: Option<PolicyInFlight>,
        quotas: Arc<[PolicyQuota]>,
        store: AnyStore,
        keeper: &HoldKeeper,
    ) -> Self {
        Self {
            limits: Arc::new(HoldLimits::new(in_flight, quotas)),
            store,
            keeper: keeper.clone(),
            length: HoldLength::default(),
            on_drop: HoldEnding::Keep,
        }
    }

    /// Sets how long a hold lives from its last renewal, if the limit in flight has no shorter length: a minute by
    /// default.
    #[must_use]
    pub fn expires_after(self, length: HoldLength) -> Self {
        Self { length, ..self }
    }

    /// Gives back what quotas were charged if a hold is dropped without being settled. By default, it stays charged, so
    /// that nobody avoids a charge by leaving.
    #[must_use]
    pub fn release_on_drop(self) -> Self {
        Self { on_drop: HoldEnding::GiveBack, ..self }
    }

    /// Returns the limit in flight, if there is one.
    #[must_use]
    pub fn in_flight(&self) -> Option<&PolicyInFlight> {
        self.limits.in_flight.as_ref()
    }

    /// Returns the quotas that are charged. There may be none.
    #[must_use]
    pub fn quotas(&self) -> &Arc<[PolicyQuota]> {
        &self.limits.quotas
    }

    /// Returns the store.
    #[must_use]
    pub const fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Returns the keeper.
    #[must_use]
    pub const fn keeper(&self) -> &HoldKeeper {
        &self.keeper
    }

    /// Holds one unit in flight of the key, and charges one unit to each quota, if all have room.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step. This is not a denial; the caller chooses what it means. If the outcome
    /// is unknown, the keeper ends the hold that the store may have, and gives back what quotas were charged.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper ends the hold that the store may have; at the latest, it expires.
    pub async fn hold<'a>(&'a self, key: impl Into<Key<'a>>) -> Result<SharedHoldDecision<'a>, StoreError> {
        self.hold_units(key, 1, 1).await
    }

    /// Holds one unit in flight of the key, and charges `cost` units to each quota, if all have room.
    ///
    /// # Errors
    ///
    /// The same as [`hold`](Self::hold).
    ///
    /// # Cancel safety
    ///
    /// The same as [`hold`](Self::hold).
    pub async fn hold_cost<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        cost: u32,
    ) -> Result<SharedHoldDecision<'a>, StoreError> {
        self.hold_units(key, 1, cost).await
    }

    /// Holds `units` in flight of the key, at most [`InFlight::MAX_UNITS`](crate::InFlight::MAX_UNITS), and charges
    /// `cost` units to each quota, if all have room. For 0 units in flight of a limiter that has such a limit, it answers
    /// as [`peek`](Self::peek) does.
    ///
    /// # Errors
    ///
    /// The same as [`hold`](Self::hold).
    ///
    /// # Cancel safety
    ///
    /// The same as [`hold`](Self::hold).
    pub async fn hold_units<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        units: u32,
        cost: u32,
    ) -> Result<SharedHoldDecision<'a>, StoreError> {
        let parts = self.parts(key.into(), units, cost);
        if units == 0 && self.limits.in_flight.is_some() {
            return self.look(parts).await;
        }
        let parts = Arc::new(parts);
        let mut kept = self.keeper.keep(Arc::clone(&parts) as _, self.on_drop);
        // An error whose outcome is unknown drops the guard, and so ends what the store may have. The caller has nothing
        // of it, so nothing of it stays charged.
        let states = match parts.reserve().await {
            Ok(HoldAnswer::Decided(states)) if self.is_whole(&states) => states,
            Ok(_) => {
                kept.on_drop(HoldEnding::GiveBack);
                return Err(AnswerError::Nonsense.into());
            }
            Err(error) if error.may_have_charged() => {
                kept.on_drop(HoldEnding::GiveBack);
                return Err(error);
            }
            Err(error) => {
                kept.denied();
                return Err(error);
            }
        };
        let hold = if states.is_admitted() {
            match states.place() {
                HoldPlace::Nowhere => kept.uncounted(),
                HoldPlace::Store | HoldPlace::Process => kept.admitted(parts.length()),
            }
            Some(SharedHold::new(kept, parts.id(), states.place()))
        } else {
            kept.denied();
            None
        };
        Ok(self.decision(parts.key().clone(), states, hold))
    }

    /// Listens for units of the key that are freed in this process.
    pub(crate) fn listen(&self, key: &Key<'_>) -> FreedListener {
        self.limits.freed.listen(self.limits.number(key))
    }

    /// Returns a denial that another caller of the key got.
    pub(crate) fn denied<'a>(&'a self, key: Key<'a>, states: HoldStates) -> SharedHoldDecision<'a> {
        self.decision(key, states, None)
    }

    /// Answers as [`hold_cost`](Self::hold_cost) would, but takes and charges nothing.
    ///
    /// # Errors
    ///
    /// The same as [`hold`](Self::hold).
    pub async fn peek<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        cost: u32,
    ) -> Result<SharedHoldDecision<'a>, StoreError> {
        self.look(self.parts(key.into(), 1, cost)).await
    }

    /// Forgets all units in flight of the key, so that others have room. Their holds are [lost](SharedHold::is_lost)
    /// with their next renewal. Quotas keep what was charged.
    ///
    /// # Errors
    ///
    /// The same as [`hold`](Self::hold).
    pub async fn reset(&self, key: impl Into<Key<'_>>) -> Result<(), StoreError> {
        let Some(in_flight) = &self.limits.in_flight else { return Ok(()) };
        let key = key.into();
        let step = HoldStep::Reset(InFlightCharge::new(in_flight, &key, 0));
        self.store.hold_until(step, None).await?;
        self.limits.tell_freed(&key);
        Ok(())
    }

    async fn look(&self, parts: HoldParts) -> Result<SharedHoldDecision<'_>, StoreError> {
        match parts.look().await? {
            HoldAnswer::Decided(states) if self.is_whole(&states) => {
                Ok(self.decision(parts.key().clone(), states, None))
            }
            _ => Err(AnswerError::Nonsense.into()),
        }
    }

    fn parts(&self, key: Key<'_>, units: u32, cost: u32) -> HoldParts {
        HoldParts::new(
            HoldId::random(),
            self.store.clone(),
            Arc::clone(&self.limits),
            key.into_owned(),
            [units, cost],
            self.length,
        )
    }

    /// Returns whether these are the states of all parts.
    fn is_whole(&self, states: &HoldStates) -> bool {
        states.in_flight().len() == usize::from(self.limits.in_flight.is_some())
            && states.charged().len() == self.limits.quotas.len()
    }

    fn decision<'a>(
        &'a self,
        key: Key<'a>,
        states: HoldStates,
        hold: Option<SharedHold>,
    ) -> SharedHoldDecision<'a> {
        let quotas = &*self.limits.quotas;
        let counters = CounterList::OfKey(quotas, key);
        let quotas = (!quotas.is_empty()).then(|| Decision::of(counters, states.charged().clone()));
        SharedHoldDecision { states, quotas, hold }
    }
}

impl<'a> SharedHoldDecision<'a> {
    /// Returns the states of all parts.
    #[must_use]
    pub const fn states(&self) -> &HoldStates {
        &self.states
    }

    /// Returns whether the request is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.states.is_admitted()
    }

    /// Returns why the request is denied: what the quotas say, if they deny it, or else the limit in flight. If it asks for
    /// more units than can ever be in flight, that comes first.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.states.reason()
    }

    /// Returns the time to wait before the quotas have room; `None` if they do not deny the request. A unit in flight may
    /// be free at any time, so a request that only the limit in flight denies has none.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let waits = self.reason() == Some(Reason::QuotaExceeded);
        self.states.charged().decided().filter(|_| waits).and_then(QuotaState::retry_after)
    }

    /// Returns the units in flight of the key, if they are limited.
    #[must_use]
    pub fn in_flight(&self) -> Option<InFlightState> {
        self.states.in_flight().first().copied()
    }

    /// Returns the decision of the quotas; `None` if there are none. If only the limit in flight denied the request, it is
    /// allowed here, and charged nothing, but for [overdrafts](crate::CountDenied::Overdraft).
    #[must_use]
    pub const fn quotas(&self) -> Option<&Decision<'a>> {
        self.quotas.as_ref()
    }

    /// Returns where the hold is counted.
    #[must_use]
    pub const fn place(&self) -> HoldPlace {
        self.states.place()
    }

    /// Returns the hold, if the request is allowed and was no peek.
    pub fn into_hold(self) -> Option<SharedHold> {
        self.hold
    }
}

impl fmt::Debug for HoldLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldLimiter")
            .field("in_flight", &self.limits.in_flight)
            .field("quotas", &self.limits.quotas)
            .finish_non_exhaustive()
    }
}

/// Without the key, which may identify a person.
impl fmt::Debug for SharedHoldDecision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHoldDecision").field("states", &self.states).finish_non_exhaustive()
    }
}
