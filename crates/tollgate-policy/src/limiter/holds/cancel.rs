//! The end of a hold that no caller has got.

use tollgate::{Clock, HoldAdjustment, StepDeadline, Store, StoreError};

use super::{PolicyHold, SettleAnswer};
use crate::limiter::PolicyLimiter;

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Ends a hold whose request was refused in spite of it: frees its units in flight, and gives back all that quotas
    /// were charged, also where policies set the cost. It may be repeated. A hold that has ended before stays as it is. In
    /// the [tally](crate::HoldTally), it counts as settled.
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
    ) -> Result<SettleAnswer, StoreError> {
        let adjustments: Vec<HoldAdjustment> = hold.parts().iter().map(|part| part.cancellation()).collect();
        self.adjust_and_end(deadline, hold, &adjustments).await
    }
}
