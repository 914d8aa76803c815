//! Units that are given back unless they are committed.

use std::{fmt, mem};

use super::Limiter;
use crate::{Clock, Full, Receipt, Step, SystemClock};

/// A receipt that is refunded when it is dropped, unless it is settled before: for costs that are known only once the
/// work is done. See [`Limiter::reserve`].
#[must_use = "dropped, it gives back everything"]
pub struct Reservation<'a, C: Clock = SystemClock> {
    limiter: &'a Limiter<C>,
    /// Empty once it is settled.
    receipt: Receipt,
}

impl<'a, C: Clock> Reservation<'a, C> {
    pub(super) const fn new(limiter: &'a Limiter<C>, receipt: Receipt) -> Self {
        Self { limiter, receipt }
    }

    /// What was taken.
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Settles it at the actual cost: what was taken beyond that is given back to where it came from, and what is
    /// missing is taken without asking for room, in the windows that are open now. Where nothing was taken, it does
    /// nothing.
    ///
    /// # Errors
    ///
    /// If what is missing needs a new counter and the memory is full. Quotas before that one are settled; of the
    /// others, what was taken stays taken.
    pub fn commit(mut self, cost: u32) -> Result<(), Full> {
        let receipt = mem::take(&mut self.receipt);
        receipt.items().iter().filter_map(|item| item.settle(cost)).try_for_each(|step| self.take(step))
    }

    /// Keeps what was taken, and returns the receipt for it.
    pub fn keep(mut self) -> Receipt {
        mem::take(&mut self.receipt)
    }

    fn take(&self, step: Step<'_>) -> Result<(), Full> {
        self.limiter.store.take(step).map(drop)
    }
}

impl<C: Clock> Drop for Reservation<'_, C> {
    fn drop(&mut self) {
        self.limiter.refund(mem::take(&mut self.receipt));
    }
}

impl<C: Clock> fmt::Debug for Reservation<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("receipt", &self.receipt).finish_non_exhaustive()
    }
}
