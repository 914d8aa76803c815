//! The guard of a hold.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::life::HoldLife;
use super::{HoldEnding, HoldKeeper, RenewableHold};
use crate::{Answer, HoldAnswer, HoldLength, StoreError, Timestamp};

/// The guard of a hold that a [`HoldKeeper`] renews. Dropped, it ends the hold without waiting.
#[must_use = "dropped, it ends the hold"]
pub struct KeptHold {
    keeper: HoldKeeper,
    hold: Arc<dyn RenewableHold>,
    life: Arc<HoldLife>,
    number: u64,
    asked_at: Timestamp,
    /// How long the keeper tries to end it.
    length: Duration,
    /// `None` once it has ended.
    on_drop: Option<HoldEnding>,
}

impl KeptHold {
    pub(super) fn new(keeper: HoldKeeper, hold: Arc<dyn RenewableHold>, on_drop: HoldEnding) -> Self {
        let life = Arc::new(HoldLife::new());
        let schedule = keeper.schedule();
        let (number, asked_at) = (schedule.add(Arc::clone(&hold), Arc::clone(&life)), schedule.now());
        let length = HoldLength::default().duration();
        Self { keeper, hold, life, number, asked_at, length, on_drop: Some(on_drop) }
    }

    /// The request was admitted: the hold lives so long, from when the guard was made, unless it is renewed.
    pub fn admitted(&mut self, length: HoldLength) {
        self.length = length.duration();
        self.keeper.schedule().renew(self.number, self.asked_at, self.length);
    }

    /// The request was admitted without being counted: there is nothing to renew or to end.
    pub fn uncounted(&mut self) {
        self.on_drop = None;
        self.keeper.schedule().forget(self.number);
    }

    /// The request took nothing: there is nothing to end.
    pub fn denied(mut self) {
        self.uncounted();
    }

    /// Sets how the hold ends when the guard is dropped.
    pub fn on_drop(&mut self, ending: HoldEnding) {
        self.on_drop = self.on_drop.is_some().then_some(ending);
    }

    /// Returns whether the hold is lost: a renewal said so, or none was confirmed for the length of the hold, counted by
    /// this process's monotonic clock from before the last confirmed call was sent. From then on, others may have the
    /// units, and the work should stop. What is lost stays lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.life.is_lost_at(self.keeper.schedule().now())
    }

    /// Waits until the hold is [lost](Self::is_lost). The keeper's task wakes it.
    pub async fn lost(&self) {
        let mut listener = self.life.listen();
        poll_fn(|context| {
            // First the waker, then the flag: a loss in between wakes it.
            listener.wake_when_lost(context.waker());
            if self.is_lost() {
                return Poll::Ready(());
            }
            self.keeper.schedule().watch(self.number);
            Poll::Pending
        })
        .await;
    }

    /// Ends the hold, and returns the store's answer.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step. The keeper then tries again, up to the length of the hold. If the store
    /// has no room for units that the estimate lacked, the rest of the hold ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper ends the hold in the same way.
    pub async fn end(mut self, ending: HoldEnding) -> Result<HoldAnswer, StoreError> {
        if self.on_drop.is_none() {
            return Ok(HoldAnswer::Gone);
        }
        self.on_drop = Some(ending);
        let answer = self.hold.end(ending).await;
        // The guard is dropped here, which ends the rest.
        match ending.after(&answer) {
            None => self.uncounted(),
            next => self.on_drop = next,
        }
        answer
    }
}

impl Drop for KeptHold {
    fn drop(&mut self) {
        let Some(mut ending) = self.on_drop.take() else { return };
        let schedule = self.keeper.schedule();
        // A store that answers immediately ends it here. If the answer comes later, nothing has happened.
        while let Answer::Now(answer) = self.hold.end(ending) {
            match ending.after(&answer) {
                None => return schedule.forget(self.number),
                Some(next) if next == ending => break,
                Some(next) => ending = next,
            }
        }
        schedule.end(self.number, ending, self.length);
    }
}

impl fmt::Debug for KeptHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptHold").field("on_drop", &self.on_drop).finish_non_exhaustive()
    }
}
