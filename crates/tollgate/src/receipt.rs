//! What a check took, which can be given back once.

use smallvec::SmallVec;

use crate::{Charge, Key, Mark, PolicyQuota, Step};

/// What a check took: for each quota the counter, the units and when.
///
/// It comes from a [`Decision`](crate::Decision::into_receipt), and a limiter's `refund` takes it back. Each charge that
/// took units has one [item](Self::items). A check that took nothing has an [empty](Self::is_empty) receipt: a peek, an
/// answer in the store's place, or a denial, unless [denied requests are counted](crate::CountDenied::Yes).
///
/// An item leaves the receipt when it is given back or settled, so nothing is given back twice. Where the store failed and
/// provably did nothing, the item stays, and the caller can try again.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_day(1));
/// let mut receipt = limiter.check("alice")?.into_receipt();
/// assert_eq!(receipt.items()[0].units(), 1);
///
/// let denied = limiter.check("alice")?;
/// assert!(!denied.is_allowed() && denied.into_receipt().is_empty());
///
/// limiter.refund(&mut receipt);
/// assert!(receipt.is_empty());
/// assert!(limiter.check("alice")?.is_allowed());
/// # Ok::<(), tollgate::Full>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "what was taken stays taken until it is refunded"]
pub struct Receipt(SmallVec<[ReceiptItem; 1]>);

/// What a check took from one counter.
#[derive(Debug)]
pub struct ReceiptItem {
    quota: PolicyQuota,
    key: Key<'static>,
    units: u32,
    mark: Mark,
}

impl Receipt {
    /// Whether nothing was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was taken, in the order in which it was charged.
    #[must_use]
    pub fn items(&self) -> &[ReceiptItem] {
        &self.0
    }

    /// Removes the first item.
    pub(crate) fn take_first(&mut self) -> Option<ReceiptItem> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// Puts back what was the first item.
    pub(crate) fn put_back(&mut self, item: ReceiptItem) {
        self.0.insert(0, item);
    }
}

impl FromIterator<ReceiptItem> for Receipt {
    fn from_iter<I: IntoIterator<Item = ReceiptItem>>(items: I) -> Self {
        Self(items.into_iter().filter(|item| item.units > 0).collect())
    }
}

impl ReceiptItem {
    /// What was taken from this counter then. A [`Decision`](crate::Decision::into_receipt) has it ready; make one only
    /// from what was kept of such an item.
    #[must_use]
    pub const fn new(quota: PolicyQuota, key: Key<'static>, units: u32, mark: Mark) -> Self {
        Self { quota, key, units, mark }
    }

    /// The quota that was charged.
    #[must_use]
    pub const fn quota(&self) -> &PolicyQuota {
        &self.quota
    }

    /// The key that was charged.
    #[must_use]
    pub const fn key(&self) -> &Key<'static> {
        &self.key
    }

    /// Units that were taken.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// When they were taken, as the counter sees it.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// The step that gives back `units`, at most those that were taken.
    #[must_use]
    pub fn refund(&self, units: u32) -> Step<'_> {
        let charge = Charge::new(&self.quota, &self.key, units.min(self.units));
        Step::Refund { charge, mark: self.mark }
    }

    /// The step that brings what was taken to `units`: it gives back the rest, or charges what is missing without asking
    /// for room, in the window that is open then. `None` if just so many were taken.
    #[must_use]
    pub fn settle(&self, units: u32) -> Option<Step<'_>> {
        match units.checked_sub(self.units) {
            None => Some(self.refund(self.units - units)),
            Some(0) => None,
            Some(missing) => Some(Step::Record(Charge::new(&self.quota, &self.key, missing))),
        }
    }
}
