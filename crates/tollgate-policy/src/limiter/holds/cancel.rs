//! The end of a hold that no caller has got.

use tollgate::{AnswerError, Clock, HoldAdjustment, HoldAnswer, HoldStep, StepDeadline, Store, StoreError};

use super::PolicyHold;
use crate::limiter::PolicyLimiter;

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Ends a hold whose request was refused in spite of it: frees its units in flight, and gives back all that quotas
    /// were charged, also where policies set the cost. It may be repeated. A hold that has ended before stays as it is.
    ///
    /// # Errors
    ///
    /// If the store could not answer: the hold may or may not have ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the hold may or may not have ended.
    pub async fn cancel_until(
        &self,
        deadline: Option<StepDeadline>,
        hold: &PolicyHold,
    ) -> Result<(), StoreError> {
        let adjustments: Vec<HoldAdjustment> = hold.parts().iter().map(|part| part.cancellation()).collect();
        let charges = hold.charges();
        match self.step_on(hold, HoldStep::Settle(charges.terms(), &adjustments), deadline).await? {
            HoldAnswer::Settled(_) | HoldAnswer::Expired | HoldAnswer::Conflict | HoldAnswer::Gone => Ok(()),
            _ => Err(AnswerError::Nonsense.into()),
        }
    }
}
