//! The limiters that holds can be waited for.

use std::time::Duration;

use crate::freed::FreedListener;
use crate::{
    Clock, CountDenied, HoldDecision, HoldLimiter, HoldStates, InFlight, InFlightLimiter, Key,
    PolicyInFlight, PolicyQuota, Reason, SharedHoldDecision, StoreError,
};

/// A limiter of units in flight that [`HoldWaiters`](crate::HoldWaiters) can wait for: an [`InFlightLimiter`] or a
/// [`HoldLimiter`].
pub trait HoldSource: private::WaitSource {}

impl<S: private::WaitSource> HoldSource for S {}

/// What a decision means to a waiter.
#[derive(Debug, Clone, Copy)]
pub enum WaitStanding {
    /// It is allowed, or can never be.
    Decided,
    /// It waits: so long for quotas, or until units in flight are free.
    Waits(Option<Duration>),
}

pub(super) mod private {
    use super::*;

    /// What waiters need of a limiter. Units are those in flight and the cost.
    pub trait WaitSource: Sync {
        /// The answer.
        type Decision<'a>
        where
            Self: 'a;

        fn ask<'a>(
            &'a self,
            key: Key<'a>,
            units: [u32; 2],
        ) -> impl Future<Output = Result<Self::Decision<'a>, StoreError>> + Send;

        /// Listens for units of this key that are freed.
        fn listen(&self, key: &Key<'_>) -> FreedListener;

        /// Returns whether a question costs more than listening before it: it leaves the process, or may charge a denial.
        fn asks_once(&self) -> bool;

        fn never_passes(&self, units: [u32; 2]) -> bool;

        fn standing(decision: &Self::Decision<'_>) -> WaitStanding;

        fn states(decision: &Self::Decision<'_>) -> HoldStates;

        /// Returns a denial that another caller got.
        fn denied<'a>(&'a self, key: Key<'a>, units: [u32; 2], states: HoldStates) -> Self::Decision<'a>;
    }
}

impl<C: Clock> private::WaitSource for InFlightLimiter<C> {
    type Decision<'a>
        = HoldDecision<'a, C>
    where
        C: 'a;

    async fn ask<'a>(
        &'a self,
        key: Key<'a>,
        [units, cost]: [u32; 2],
    ) -> Result<HoldDecision<'a, C>, StoreError> {
        Ok(self.hold_units(key, units, cost)?)
    }

    fn listen(&self, key: &Key<'_>) -> FreedListener {
        self.listen(key)
    }

    fn asks_once(&self) -> bool {
        self.limiter().quotas().iter().any(|quota| quota.count_denied() != CountDenied::No)
    }

    fn never_passes(&self, [units, cost]: [u32; 2]) -> bool {
        never_fits(units, Some(self.in_flight()), self.limiter().quotas(), cost)
    }

    fn standing(decision: &HoldDecision<'_, C>) -> WaitStanding {
        standing(decision.reason(), decision.retry_after())
    }

    fn states(decision: &HoldDecision<'_, C>) -> HoldStates {
        decision.states()
    }

    fn denied<'a>(&'a self, key: Key<'a>, [_, cost]: [u32; 2], states: HoldStates) -> HoldDecision<'a, C> {
        self.denied(key, cost, &states)
    }
}

impl private::WaitSource for HoldLimiter {
    type Decision<'a> = SharedHoldDecision<'a>;

    async fn ask<'a>(
        &'a self,
        key: Key<'a>,
        [units, cost]: [u32; 2],
    ) -> Result<SharedHoldDecision<'a>, StoreError> {
        self.hold_units(key, units, cost).await
    }

    fn listen(&self, key: &Key<'_>) -> FreedListener {
        self.listen(key)
    }

    fn asks_once(&self) -> bool {
        true
    }

    fn never_passes(&self, [units, cost]: [u32; 2]) -> bool {
        never_fits(units, self.in_flight(), self.quotas(), cost)
    }

    fn standing(decision: &SharedHoldDecision<'_>) -> WaitStanding {
        standing(decision.reason(), decision.retry_after())
    }

    fn states(decision: &SharedHoldDecision<'_>) -> HoldStates {
        decision.states().clone()
    }

    fn denied<'a>(&'a self, key: Key<'a>, _: [u32; 2], states: HoldStates) -> SharedHoldDecision<'a> {
        self.denied(key, states)
    }
}

fn standing(reason: Option<Reason>, retry_after: Option<Duration>) -> WaitStanding {
    match reason {
        None | Some(Reason::CostExceedsLimit | Reason::CostExceedsShare) => WaitStanding::Decided,
        Some(Reason::QuotaExceeded | Reason::InFlightExceeded) => WaitStanding::Waits(retry_after),
    }
}

fn never_fits(units: u32, in_flight: Option<&PolicyInFlight>, quotas: &[PolicyQuota], cost: u32) -> bool {
    let most = |in_flight: &PolicyInFlight| in_flight.in_flight().limit().min(InFlight::MAX_UNITS);
    in_flight.is_some_and(|in_flight| units.max(1) > most(in_flight)) || never_charged(quotas, cost)
}

/// Returns whether a cost can never be charged.
pub(super) fn never_charged(quotas: &[PolicyQuota], cost: u32) -> bool {
    quotas.iter().any(|quota| u64::from(cost.max(1)) > quota.quota().limit())
}
