//! Units that are given back unless they are committed.

use std::{fmt, mem};

use super::Limiter;
use crate::{Clock, Full, Receipt, SystemClock};

/// A receipt that is refunded when it is dropped, unless it was settled: for costs that are known only after the work.
/// See [`Limiter::reserve`].
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

    /// Returns the receipt of the charged units.
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// [Settles](Limiter::settle) the reservation at the actual cost.
    ///
    /// # Errors
    ///
    /// If missing units need a new counter and the memory is full. Quotas before that one are settled; the others keep
    /// their units.
    pub fn commit(mut self, cost: u32) -> Result<(), Full> {
        let mut receipt = mem::take(&mut self.receipt);
        self.limiter.settle(&mut receipt, cost).map(drop)
    }

    /// Keeps the charged units, and returns their receipt.
    pub fn keep(mut self) -> Receipt {
        mem::take(&mut self.receipt)
    }
}

impl<C: Clock> Drop for Reservation<'_, C> {
    fn drop(&mut self) {
        self.limiter.refund(&mut self.receipt);
    }
}

impl<C: Clock> fmt::Debug for Reservation<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("receipt", &self.receipt).finish_non_exhaustive()
    }
}
