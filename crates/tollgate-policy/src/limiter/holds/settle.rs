//! The end of a hold, at its actual cost.

use tollgate::{
    AnswerError, Clock, HoldAdjustment, HoldAnswer, HoldStep, QuotaState, StepDeadline, Store, StoreError,
};

use super::{HoldPart, HoldSettlement, PolicyHold, SettleAnswer};
use crate::limiter::PolicyLimiter;

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Ends a hold at its actual cost: frees its units in flight, gives unused units back to the windows that were charged,
    /// and charges missing ones as the policy's [overrun](crate::Policy::overrun) says. A cost of 0 gives back everything
    /// whose cost came from the caller.
    ///
    /// It may be repeated with the same cost. It does not matter which policies are live.
    ///
    /// # Errors
    ///
    /// If the store could not answer: the hold may or may not have ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the hold may or may not have ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{HoldId, MemoryStore, Quota};
    /// use tollgate_policy::{
    ///     AskedHold, Attributes, Policies, Policy, PolicyLimiter, ReserveAnswer, SettleAnswer,
    /// };
    ///
    /// let tokens = Policy::builder("tokens").quota(Quota::per_day(1_000)).in_flight("2~in_flight".parse()?).build()?;
    /// let limiter = PolicyLimiter::new(MemoryStore::new(), Policies::of([tokens])?, "code");
    /// # tollgate_testkit::block_on(async {
    /// let nobody = Attributes::default();
    /// // At most 800 tokens; it turns out to be 300.
    /// let reserved = limiter.reserve(&nobody, AskedHold::new(HoldId::random(), 800)).await?;
    /// let ReserveAnswer::Decided { hold: Some(hold), .. } = reserved else { panic!("there is room") };
    /// let SettleAnswer::Settled(settled) = limiter.settle_until(None, &hold, 300).await? else { panic!() };
    /// assert_eq!((settled[0].given, settled[0].state.used()), (500, 300));
    ///
    /// // With 700 left, there is no room for 800.
    /// let denied = limiter.reserve(&nobody, AskedHold::new(HoldId::random(), 800)).await?;
    /// assert!(matches!(denied, ReserveAnswer::Decided { hold: None, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn settle_until(
        &self,
        deadline: Option<StepDeadline>,
        hold: &PolicyHold,
        cost: u32,
    ) -> Result<SettleAnswer, StoreError> {
        let adjustments: Vec<HoldAdjustment> =
            hold.parts().iter().map(|part| part.adjustment(cost)).collect();
        self.adjust_and_end(deadline, hold, &adjustments).await
    }

    /// Ends a hold, with an adjustment for each of its charges.
    pub(super) async fn adjust_and_end(
        &self,
        deadline: Option<StepDeadline>,
        hold: &PolicyHold,
        adjustments: &[HoldAdjustment],
    ) -> Result<SettleAnswer, StoreError> {
        let charges = hold.charges();
        let step = HoldStep::Settle(charges.terms(), adjustments);
        let answer = match self.step_on(hold, step, deadline).await? {
            HoldAnswer::Settled(answer) => answer,
            HoldAnswer::Expired => {
                self.live.load().note_holds(hold.policies(), |counters| counters.expired());
                return Ok(SettleAnswer::Expired);
            }
            HoldAnswer::Conflict => return Ok(SettleAnswer::Conflict),
            HoldAnswer::Gone => return Ok(SettleAnswer::Gone),
            _ => return Err(AnswerError::Nonsense.into()),
        };
        let adjusted = hold.parts().iter().zip(adjustments);
        let adjusted: Vec<_> =
            adjusted.filter(|(_, adjustment)| **adjustment != HoldAdjustment::Keep).collect();
        let is_possible = adjusted.len() == answer.len()
            && adjusted
                .iter()
                .zip(answer.iter())
                .all(|((_, made), state)| state.units() <= most_units(**made));
        if !is_possible {
            return Err(AnswerError::Nonsense.into());
        }
        let settled: Vec<HoldSettlement> = adjusted
            .into_iter()
            .zip(answer.iter())
            .map(|((part, adjustment), state)| settlement(part, *adjustment, state))
            .collect();
        if answer.is_repeated() {
            return Ok(SettleAnswer::Settled(settled));
        }
        let live = self.live.load();
        live.note_holds(hold.policies(), |counters| counters.settled());
        for one in &settled {
            let policy = std::iter::once(one.quota.policy());
            live.note_holds(policy, |counters| counters.overran(one.charged, one.forgiven));
        }
        Ok(SettleAnswer::Settled(settled))
    }
}

/// Returns the most units that an adjustment gives back or charges.
const fn most_units(adjustment: HoldAdjustment) -> u32 {
    match adjustment {
        HoldAdjustment::Keep => 0,
        HoldAdjustment::GiveBack { units, .. }
        | HoldAdjustment::Charge(units)
        | HoldAdjustment::ChargeUpTo(units) => units,
    }
}

/// Returns what an adjustment came to.
fn settlement(part: &HoldPart, adjustment: HoldAdjustment, state: &QuotaState) -> HoldSettlement {
    let units = state.units();
    let (given, charged, forgiven) = match adjustment {
        HoldAdjustment::GiveBack { .. } => (units, 0, 0),
        HoldAdjustment::ChargeUpTo(missing) => (0, units, missing.saturating_sub(units)),
        HoldAdjustment::Charge(_) | HoldAdjustment::Keep => (0, units, 0),
    };
    HoldSettlement { quota: part.quota.clone(), given, charged, forgiven, state: *state }
}
