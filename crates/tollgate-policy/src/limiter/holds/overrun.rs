//! Overruns of holds that have expired.

use smallvec::SmallVec;
use tollgate::{Charge, Clock, QuotaStates, Step, StepDeadline, Store, StoreError};

use super::PolicyHold;
use crate::Overrun;
use crate::limiter::PolicyLimiter;

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Charges what this cost exceeds the reserved one by, for a hold that [settling](Self::settle_until) has found
    /// expired: the reserved units of such a hold stay charged, but its overrun is not. Nothing is given back, and
    /// policies with [`Overrun::Cap`] charge nothing.
    ///
    /// Each call charges again, because the store no longer knows the id.
    ///
    /// # Errors
    ///
    /// If the store could not answer: the units may or may not be charged.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the units may or may not be charged.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::{HoldId, ManualClock, MemoryStore, Quota};
    /// use tollgate_policy::{
    ///     AskedHold, Attributes, Policies, Policy, PolicyLimiter, ReserveAnswer, SettleAnswer,
    /// };
    ///
    /// let clock = ManualClock::default();
    /// let tokens = Policy::builder("tokens").quota(Quota::per_day(1_000)).build()?;
    /// let store = MemoryStore::builder().clock(clock.clone()).build();
    /// let limiter = PolicyLimiter::new(store, Policies::of([tokens])?, "code");
    /// # tollgate_testkit::block_on(async {
    /// let nobody = Attributes::default();
    /// let reserved = limiter.reserve(&nobody, AskedHold::new(HoldId::random(), 300)).await?;
    /// let ReserveAnswer::Decided { hold: Some(hold), .. } = reserved else { panic!("there is room") };
    ///
    /// // The answer took longer than a minute, and cost more than reserved.
    /// clock.advance(Duration::from_secs(61));
    /// assert_eq!(limiter.settle_until(None, &hold, 500).await?, SettleAnswer::Expired);
    /// limiter.record_overrun_until(None, &hold, 500).await?;
    /// assert_eq!(limiter.peek(&nobody, 1).await?.state().map(|state| state.used()), Some(500));
    ///
    /// // One that cost less gets nothing back.
    /// limiter.record_overrun_until(None, &hold, 200).await?;
    /// assert_eq!(limiter.peek(&nobody, 1).await?.state().map(|state| state.used()), Some(500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn record_overrun_until(
        &self,
        deadline: Option<StepDeadline>,
        hold: &PolicyHold,
        cost: u32,
    ) -> Result<(), StoreError> {
        let settled =
            hold.parts().iter().filter(|part| part.is_asked && matches!(part.overrun, Overrun::Charge));
        let overruns = settled.filter_map(|part| {
            let missing = cost.checked_sub(part.cost).filter(|missing| *missing > 0)?;
            Some((part, Charge::new(&part.quota, &part.key, missing)))
        });
        let (parts, charges): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) = overruns.unzip();
        if charges.is_empty() {
            return Ok(());
        }
        let steps: SmallVec<[Step<'_>; 4]> = charges.iter().copied().map(Step::Record).collect();
        let states = QuotaStates::of_each(self.store.step_each_until(&steps, deadline).await)?;
        let live = self.live.load();
        for (part, state) in parts.iter().zip(&states) {
            let policy = std::iter::once(part.quota.policy());
            live.note_holds(policy, |counters| counters.overran(state.units(), 0));
        }
        Ok(())
    }
}
