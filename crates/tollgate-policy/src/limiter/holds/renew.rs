//! Renewals, and where later steps on a hold are made.

use tollgate::{AnswerError, Clock, HoldAnswer, HoldStep, StepDeadline, Store, StoreError};

use super::{PolicyHold, RenewAnswer};
use crate::limiter::PolicyLimiter;

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Starts the length of a hold again. It may be repeated.
    ///
    /// # Errors
    ///
    /// If the store could not answer: the hold may or may not be renewed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the hold may or may not be renewed.
    pub async fn renew_until(
        &self,
        deadline: Option<StepDeadline>,
        hold: &PolicyHold,
    ) -> Result<RenewAnswer, StoreError> {
        let charges = hold.charges();
        let answer = match self.step_on(hold, HoldStep::Renew(charges.terms()), deadline).await? {
            HoldAnswer::Renewed { left } => RenewAnswer::Renewed { left },
            HoldAnswer::Lost => RenewAnswer::Lost,
            HoldAnswer::Expired => RenewAnswer::Expired,
            HoldAnswer::Ended => RenewAnswer::Ended,
            HoldAnswer::Conflict => RenewAnswer::Conflict,
            HoldAnswer::Gone => RenewAnswer::Gone,
            _ => return Err(AnswerError::Nonsense.into()),
        };
        self.live.load().note_holds(hold.policies(), |counters| match answer {
            RenewAnswer::Lost => counters.lost(),
            RenewAnswer::Expired => counters.expired(),
            _ => {}
        });
        Ok(answer)
    }

    /// Takes a step where the hold is counted.
    pub(super) async fn step_on(
        &self,
        hold: &PolicyHold,
        step: HoldStep<'_>,
        deadline: Option<StepDeadline>,
    ) -> Result<HoldAnswer, StoreError> {
        self.store.hold_in(hold.place(), step, deadline).await
    }
}
