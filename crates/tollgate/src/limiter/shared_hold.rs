//! A hold over any store, and its guard.

use std::fmt;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::charges;
use super::hold_limits::HoldLimits;
use crate::{
    Answer, AnyStore, Charge, Counter, HoldAdjustment, HoldAnswer, HoldEnding, HoldId, HoldLength, HoldPlace,
    HoldStates, HoldStep, HoldTerms, InFlightCharge, KeeperFuture, KeptHold, Key, QuotaState, ReceiptItem,
    RenewableHold, Source, Step, Store, StoreError,
};

/// Units in flight and charges to quotas that belong to this guard, over a store that many processes may share.
///
/// The keeper renews it. Dropped, it frees its units in flight without waiting, and what the quotas were charged stays
/// charged, unless the limiter [gives it back](crate::HoldLimiter::release_on_drop). Forgotten, as by
/// [`std::mem::forget`], it is renewed for ever.
///
/// # Examples
///
/// Work that stops if its hold is lost:
///
/// ```
/// use tollgate::SharedHold;
///
/// async fn work(hold: &SharedHold) -> Option<&'static str> {
///     tokio::select! {
///         () = hold.lost() => None,
///         done = async { "done" } => Some(done),
///     }
/// }
/// # let _ = work;
/// ```
#[must_use = "dropped, it frees its units"]
pub struct SharedHold {
    kept: KeptHold,
    id: HoldId,
    place: HoldPlace,
}

/// A hold as the store is asked for it.
pub(super) struct HoldParts {
    id: HoldId,
    store: AnyStore,
    limits: Arc<HoldLimits>,
    key: Key<'static>,
    units: u32,
    cost: u32,
    length: HoldLength,
    /// Where it is counted, and what the quotas were charged, once it is known.
    admitted: OnceLock<(HoldPlace, Box<[ReceiptItem]>)>,
}

/// A step on a hold, without its terms.
enum PartsStep {
    Reserve,
    Look,
    Renew,
    Settle(SmallVec<[HoldAdjustment; 2]>),
}

impl SharedHold {
    pub(super) const fn new(kept: KeptHold, id: HoldId, place: HoldPlace) -> Self {
        Self { kept, id, place }
    }

    /// Returns the id.
    #[must_use]
    pub const fn id(&self) -> HoldId {
        self.id
    }

    /// Returns where the hold is counted.
    #[must_use]
    pub const fn place(&self) -> HoldPlace {
        self.place
    }

    /// Returns whether the hold is lost: a renewal said so, or none was confirmed for the length of the hold, counted by
    /// this process's monotonic clock from before the last confirmed call was sent. From then on, others may have the
    /// units, and the work should stop. What is lost stays lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.kept.is_lost()
    }

    /// Waits until the hold is [lost](Self::is_lost). The keeper's task wakes it.
    pub async fn lost(&self) {
        self.kept.lost().await;
    }

    /// Frees the units in flight, and settles what the quotas were charged at the actual cost: units above it are given
    /// back, and missing ones are charged without asking for room.
    ///
    /// The answer is [`Settled`](HoldAnswer::Settled), with a state for each quota that was adjusted;
    /// [`Expired`](HoldAnswer::Expired), if the store does not know the hold any more, and changed nothing; or
    /// [`Gone`](HoldAnswer::Gone), if nothing had counted it.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step. The keeper then tries again, up to the length of the hold; the store
    /// settles once.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper settles the hold at this cost.
    pub async fn settle(self, cost: u32) -> Result<HoldAnswer, StoreError> {
        self.kept.end(HoldEnding::Settle(cost)).await
    }

    /// Frees the units in flight, and gives back all that the quotas were charged. The answers are those of
    /// [`settle`](Self::settle).
    ///
    /// # Errors
    ///
    /// The same as [`settle`](Self::settle).
    ///
    /// # Cancel safety
    ///
    /// The same as [`settle`](Self::settle).
    pub async fn release(self) -> Result<HoldAnswer, StoreError> {
        self.kept.end(HoldEnding::GiveBack).await
    }

    /// Sets how the hold ends when it is dropped, instead of what the limiter has set.
    pub fn on_drop(&mut self, ending: HoldEnding) {
        self.kept.on_drop(ending);
    }
}

impl HoldParts {
    pub(super) fn new(
        id: HoldId,
        store: AnyStore,
        limits: Arc<HoldLimits>,
        key: Key<'static>,
        [units, cost]: [u32; 2],
        length: HoldLength,
    ) -> Self {
        Self { id, store, limits, key, units, cost, length, admitted: OnceLock::new() }
    }

    pub(super) const fn id(&self) -> HoldId {
        self.id
    }

    pub(super) const fn key(&self) -> &Key<'static> {
        &self.key
    }

    /// Returns how long it lives: the shortest of the lengths.
    pub(super) fn length(&self) -> HoldLength {
        self.with_terms(&PartsStep::Renew, |step| step.terms().map_or(self.length, HoldTerms::length))
    }

    /// Asks for it, and remembers what was charged.
    pub(super) async fn reserve(&self) -> Result<HoldAnswer, StoreError> {
        let answer = self.step(PartsStep::Reserve).await?;
        if let HoldAnswer::Decided(states) = &answer {
            self.remember(states);
        }
        Ok(answer)
    }

    /// Asks what a reservation would get.
    pub(super) async fn look(&self) -> Result<HoldAnswer, StoreError> {
        self.step(PartsStep::Look).await
    }

    fn remember(&self, states: &HoldStates) {
        let quotas = self.limits.quotas.iter().zip(states.charged());
        let item = |(quota, state): (_, &QuotaState)| {
            // A receipt has nothing of a fallback, but the hold is settled where it is counted.
            let state = state.with_source(Source::Store);
            ReceiptItem::of(Counter::new(quota, &self.key), &state).with_cost(self.cost)
        };
        let charged = quotas.map(item).collect();
        let _ = self.admitted.set((states.place(), charged));
    }

    /// Takes a step. Of a store that answers later, nothing happens until the answer is polled.
    fn step(&self, step: PartsStep) -> Answer<KeeperFuture<'_>> {
        let at_once = self.with_terms(&step, |step| match self.store.hold_in(self.place(), step, None) {
            Answer::Now(answer) => Some(answer),
            Answer::Later(_) => None,
        });
        // The terms borrow from each other, so an answer that comes later needs its own.
        match at_once {
            Some(answer) => Answer::Now(answer),
            None => Answer::Later(Box::pin(self.step_later(step))),
        }
    }

    async fn step_later(&self, step: PartsStep) -> Result<HoldAnswer, StoreError> {
        let (in_flight, charges) = (self.in_flight(), self.charges());
        let terms = HoldTerms::new(self.id, &in_flight, &charges, self.length);
        self.store.hold_in(self.place(), step.on(terms), None).await
    }

    /// Returns where it is counted: in the store, as far as nothing else is known.
    fn place(&self) -> HoldPlace {
        self.admitted.get().map_or(HoldPlace::Store, |(place, _)| *place)
    }

    fn with_terms<T>(&self, step: &PartsStep, take: impl FnOnce(HoldStep<'_>) -> T) -> T {
        let (in_flight, charges) = (self.in_flight(), self.charges());
        take(step.on(HoldTerms::new(self.id, &in_flight, &charges, self.length)))
    }

    fn in_flight(&self) -> SmallVec<[InFlightCharge<'_>; 1]> {
        let in_flight = self.limits.in_flight.iter();
        in_flight.map(|in_flight| InFlightCharge::new(in_flight, &self.key, self.units)).collect()
    }

    fn charges(&self) -> SmallVec<[Charge<'_>; 2]> {
        charges(&self.limits.quotas, &self.key, self.cost)
    }

    /// Ends a hold whose answer was lost. Reserving again with the id gets it, or takes what is ended at once.
    async fn end_unknown(&self, ending: HoldEnding) -> Result<HoldAnswer, StoreError> {
        self.reserve().await?;
        self.ended(self.step(PartsStep::Settle(self.adjustments(ending))).await)
    }

    /// Tells waiters that units are free.
    fn ended(&self, answer: Result<HoldAnswer, StoreError>) -> Result<HoldAnswer, StoreError> {
        if answer.is_ok() {
            self.limits.tell_freed(&self.key);
        }
        answer
    }

    /// Returns what the end of the hold does to each charge.
    fn adjustments(&self, ending: HoldEnding) -> SmallVec<[HoldAdjustment; 2]> {
        let Some((_, charged)) = self.admitted.get() else {
            // Nobody knows what was charged, so nothing can be given back.
            return self.limits.quotas.iter().map(|_| HoldAdjustment::Keep).collect();
        };
        let adjust = |item: &ReceiptItem| {
            let step = match ending {
                HoldEnding::Keep => None,
                HoldEnding::GiveBack => item.refund(),
                HoldEnding::Settle(cost) => item.settle(cost),
            };
            match step {
                Some(Step::Refund { charge, mark }) => {
                    HoldAdjustment::GiveBack { units: charge.cost(), mark }
                }
                Some(Step::Record(charge)) => HoldAdjustment::Charge(charge.cost()),
                _ => HoldAdjustment::Keep,
            }
        };
        charged.iter().map(adjust).collect()
    }
}

impl RenewableHold for HoldParts {
    fn renew(&self) -> Answer<KeeperFuture<'_>> {
        self.step(PartsStep::Renew)
    }

    fn end(&self, ending: HoldEnding) -> Answer<KeeperFuture<'_>> {
        let is_unknown = self.admitted.get().is_none() && !self.limits.quotas.is_empty();
        if ending != HoldEnding::Keep && is_unknown {
            return Answer::Later(Box::pin(self.end_unknown(ending)));
        }
        match self.step(PartsStep::Settle(self.adjustments(ending))) {
            Answer::Now(answer) => Answer::Now(self.ended(answer)),
            Answer::Later(later) => Answer::Later(Box::pin(async move { self.ended(later.await) })),
        }
    }
}

impl PartsStep {
    fn on<'a>(&'a self, terms: HoldTerms<'a>) -> HoldStep<'a> {
        match self {
            Self::Reserve => HoldStep::Reserve(terms),
            Self::Look => HoldStep::Look(terms),
            Self::Renew => HoldStep::Renew(terms),
            Self::Settle(adjustments) => HoldStep::Settle(terms, adjustments),
        }
    }
}

impl fmt::Debug for SharedHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHold").field("place", &self.place).finish_non_exhaustive()
    }
}
