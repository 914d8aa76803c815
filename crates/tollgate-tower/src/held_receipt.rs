//! Units that were charged for a request and may be given back.

use tollgate::{AnyStore, Receipt, ReceiptError, ReceiptItem};

/// Charged units, and their counters.
pub(crate) struct HeldReceipt {
    store: AnyStore,
    receipt: Receipt,
}

impl HeldReceipt {
    /// Boxed, so that requests without refunds move less memory.
    pub(crate) fn boxed(store: &AnyStore, receipt: Receipt) -> Box<Self> {
        Box::new(Self { store: store.clone(), receipt })
    }

    /// Returns the most units that a quota was charged, including fallback decisions.
    pub(crate) fn units(&self) -> u32 {
        let units = |item: &ReceiptItem| item.cost().unwrap_or(item.units());
        self.receipt.items().iter().map(units).max().unwrap_or(0)
    }

    /// Gives everything back, to the windows that were charged.
    pub(crate) async fn cancel(mut self) -> Result<(), ReceiptError> {
        self.receipt.refund(&self.store).await.map(drop)
    }

    /// Gives back unneeded units, or charges missing ones without asking for room.
    pub(crate) async fn commit(mut self, actual: u32) -> Result<(), ReceiptError> {
        self.receipt.settle(&self.store, actual).await.map(drop)
    }
}
