//! What a request holds while it is in flight.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate::{Clock, Hold, HoldEnding, KeptHold, SharedHold};

use crate::key::BoxFuture;

/// What a request holds, in its extensions: it is in flight until the body of its response has ended and the last clone of
/// this is dropped.
///
/// If the layer charges quotas, the request was charged an estimate. The code that knows the actual cost
/// [sets](Self::set_cost) it; it is settled when the request ends. Without that, the estimate stays charged.
///
/// # Examples
///
/// ```
/// use tollgate_tower::RequestHold;
///
/// async fn answer(hold: RequestHold) -> String {
///     let answer = "the answer".to_owned();
///     hold.set_cost(answer.len() as u32);
///     answer
/// }
/// ```
#[derive(Clone)]
pub struct RequestHold(Arc<RequestUnits>);

struct RequestUnits {
    /// `None` if nothing counts it, and once it has ended.
    hold: Option<Box<dyn AnyHold>>,
    /// `None` if it ends as if it were dropped.
    ending: Mutex<Option<HoldEnding>>,
    /// That of an outer layer: the extensions have room for only one.
    outer: Option<RequestHold>,
}

/// A hold of any limiter.
pub(crate) trait AnyHold: Send + Sync {
    /// Ends it without waiting.
    fn end(self: Box<Self>, ending: HoldEnding);

    fn is_lost(&self) -> bool;

    /// Waits until it is lost.
    fn lost(&self) -> BoxFuture<'_, ()>;
}

impl RequestHold {
    pub(crate) fn new(hold: impl AnyHold + 'static, outer: Option<Self>) -> Self {
        Self(Arc::new(RequestUnits { hold: Some(Box::new(hold)), ending: Mutex::new(None), outer }))
    }

    /// A hold that nothing counts, as of a request that is admitted although the store could not be asked. If an outer
    /// layer holds units, its hold is left.
    pub(crate) fn uncounted(outer: Option<&Self>) -> Self {
        let nothing = || RequestUnits { hold: None, ending: Mutex::new(None), outer: None };
        outer.cloned().unwrap_or_else(|| Self(Arc::new(nothing())))
    }

    /// Sets the actual cost of the request, which is settled when the request ends: units above it are given back, and
    /// missing ones are charged, whether or not there is room. The last one counts.
    ///
    /// If two layers hold units of the request, it is the cost of both.
    pub fn set_cost(&self, cost: u32) {
        self.end_as(HoldEnding::Settle(cost));
        if let Some(outer) = &self.0.outer {
            outer.set_cost(cost);
        }
    }

    /// Gives back what this layer has charged when the request ends. That of an outer layer stays.
    #[cfg(feature = "policy")]
    pub(crate) fn give_back(&self) {
        self.end_as(HoldEnding::GiveBack);
    }

    fn end_as(&self, ending: HoldEnding) {
        // Nothing panics under the lock.
        *self.0.ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending);
    }

    /// Returns whether the units are lost: they were reset, or a shared store could not be told in time that they are
    /// still held. Others may have them, so the work should stop.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let is_lost = self.0.hold.as_ref().is_some_and(|hold| hold.is_lost());
        is_lost || self.0.outer.as_ref().is_some_and(Self::is_lost)
    }

    /// Waits until the units of this layer are [lost](Self::is_lost). Units that are counted in this process alone are
    /// lost only by a reset, and nothing waits for that.
    pub async fn lost(&self) {
        match &self.0.hold {
            Some(hold) => hold.lost().await,
            None => pending().await,
        }
    }
}

impl Drop for RequestUnits {
    fn drop(&mut self) {
        let ending = self.ending.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Without an ending, dropping it ends it.
        if let (Some(hold), Some(ending)) = (self.hold.take(), ending) {
            hold.end(ending);
        }
    }
}

impl<C: Clock> AnyHold for Hold<C> {
    fn end(self: Box<Self>, ending: HoldEnding) {
        match ending {
            HoldEnding::Keep => {}
            HoldEnding::GiveBack => drop(self.release()),
            // Without room for a counter, missing units are not charged. No caller can get the error.
            HoldEnding::Settle(cost) => drop(self.settle(cost)),
        }
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }
}

impl AnyHold for SharedHold {
    fn end(mut self: Box<Self>, ending: HoldEnding) {
        self.on_drop(ending);
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::lost(self))
    }
}

impl AnyHold for KeptHold {
    fn end(mut self: Box<Self>, ending: HoldEnding) {
        self.on_drop(ending);
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::lost(self))
    }
}

impl fmt::Debug for RequestHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHold").finish_non_exhaustive()
    }
}
