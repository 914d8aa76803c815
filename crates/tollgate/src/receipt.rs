//! What a check took, which can be given back once.

use std::error::Error;
use std::fmt;
use std::mem;

use smallvec::SmallVec;

use crate::store::only;
use crate::{
    AnswerError, Charge, Counted, Counter, Key, Mark, PolicyQuota, QuotaState, Source, Step, Store,
    StoreError,
};

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
    /// The cost that settling starts from; `None` if it leaves the item as it is.
    cost: Option<u32>,
}

/// The store failed while a receipt was settled or given back. A retry helps as far as the receipt still has items.
#[derive(Debug, Clone)]
pub struct ReceiptError {
    quota: PolicyQuota,
    cause: StoreError,
    changed: Box<[PolicyQuota]>,
}

impl Receipt {
    /// Whether nothing was taken. [`settle`](Self::settle) may still charge then: a request can cost more than it took.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|item| item.units == 0)
    }

    /// What was taken, in the order in which it was charged. An item without units took nothing, and is here because
    /// [settling](Self::settle) may charge it.
    #[must_use]
    pub fn items(&self) -> &[ReceiptItem] {
        &self.0
    }

    /// Gives back up to `units` of each item on the store that they were taken from; the rest stays taken. `u32::MAX`
    /// gives back everything. Limiters have this as `refund`.
    ///
    /// The store is asked once, with a step for each item. The receipt is empty then, but for items whose step provably
    /// was not taken.
    ///
    /// # Errors
    ///
    /// The first error of the store, and the quota it is about. If other items were given back, or nobody knows, it
    /// [may have charged](ReceiptError::may_have_charged).
    ///
    /// # Cancel safety
    ///
    /// The items leave the receipt before the store is asked. If the future is dropped, they may or may not have been
    /// given back, and are not given back again.
    pub async fn refund(&mut self, store: &impl Store, units: u32) -> Result<Counted, ReceiptError> {
        self.use_up(store, |item| item.refund(units)).await
    }

    /// Settles each item at the actual cost, on the store that it was taken from: what was taken beyond that is given
    /// back, and what is missing is charged without asking for room, in the windows that are open now. A cost that was
    /// [fixed](ReceiptItem::fixed) stays as it is.
    ///
    /// # Errors
    ///
    /// As [`refund`](Self::refund).
    ///
    /// # Cancel safety
    ///
    /// As [`refund`](Self::refund).
    pub async fn settle(&mut self, store: &impl Store, cost: u32) -> Result<Counted, ReceiptError> {
        self.use_up(store, |item| item.settle(cost)).await
    }

    async fn use_up(
        &mut self,
        store: &impl Store,
        step: impl Fn(&ReceiptItem) -> Option<Step<'_>>,
    ) -> Result<Counted, ReceiptError> {
        let mut items = mem::take(&mut self.0);
        items.retain(|item| step(item).is_some());
        if items.is_empty() {
            return Ok([].into_iter().collect());
        }
        let steps: Vec<Step<'_>> = items.iter().filter_map(step).collect();
        let mut answers = store.step_each(&steps).await.into_iter();
        drop(steps);
        let (mut states, mut changed, mut failed, mut is_unknown) = (Vec::new(), Vec::new(), None, false);
        for item in items {
            match only(answers.next().unwrap_or_else(|| Err(AnswerError::Nonsense.into()))) {
                Ok(state) => {
                    states.push(state);
                    changed.push(item.quota);
                }
                Err(cause) => {
                    is_unknown |= cause.may_have_charged();
                    failed.get_or_insert((item.quota.clone(), cause.clone()));
                    if !cause.may_have_charged() {
                        self.0.push(item);
                    }
                }
            }
        }
        let Some((quota, cause)) = failed else { return Ok(states.into_iter().collect()) };
        let cause = if changed.is_empty() && !is_unknown { cause } else { cause.after_others() };
        Err(ReceiptError { quota, cause, changed: changed.into() })
    }

    /// Keeps the items for which this holds.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&ReceiptItem) -> bool) {
        self.0.retain(|item| keep(item));
    }
}

/// Without items that can neither be given back nor settled.
impl FromIterator<ReceiptItem> for Receipt {
    fn from_iter<I: IntoIterator<Item = ReceiptItem>>(items: I) -> Self {
        Self(items.into_iter().filter(|item| item.units > 0 || item.cost.is_some()).collect())
    }
}

impl ReceiptItem {
    /// What was taken from this counter then. A [`Decision`](crate::Decision::into_receipt) has it ready; make one only
    /// from what was kept of such an item.
    #[must_use]
    pub const fn new(quota: PolicyQuota, key: Key<'static>, units: u32, mark: Mark) -> Self {
        let cost = if units > 0 { Some(units) } else { None };
        Self { quota, key, units, mark, cost }
    }

    /// What a step took from this counter, which then stood so. Where something answered in the store's place, that is
    /// nothing.
    #[must_use]
    pub fn of(counter: Counter<'_>, state: &QuotaState) -> Self {
        let units = if state.source() == Source::Store { state.units() } else { 0 };
        Self::new(counter.quota().clone(), counter.key().clone().into_owned(), units, state.mark())
    }

    /// Sets the cost that the check asked for, where the store took less. A check at cost 0 takes nothing, and while the
    /// store is in trouble something else may answer in its place. [Settling](Self::settle) then charges what is needed
    /// beyond this cost.
    #[must_use]
    pub fn with_cost(self, cost: u32) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Says that the cost does not depend on what the work turns out to cost, because a policy sets it. Settling leaves
    /// the item as it is.
    #[must_use]
    pub fn fixed(self) -> Self {
        Self { cost: None, ..self }
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

    /// The cost that [settling](Self::settle) starts from: usually the units that were taken. `None` if settling leaves
    /// the item as it is.
    #[must_use]
    pub const fn cost(&self) -> Option<u32> {
        self.cost
    }

    /// When they were taken, as the counter sees it.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// The step that gives back `units`, at most those that were taken. `None` if none were.
    #[must_use]
    pub fn refund(&self, units: u32) -> Option<Step<'_>> {
        let charge = Charge::new(&self.quota, &self.key, units.min(self.units));
        (self.units > 0).then_some(Step::Refund { charge, mark: self.mark })
    }

    /// The step that brings what was taken to the actual cost: it gives back the rest, or charges what is missing without
    /// asking for room, in the window that is open then. `None` if there is nothing to do.
    #[must_use]
    pub fn settle(&self, actual: u32) -> Option<Step<'_>> {
        match actual.checked_sub(self.cost?) {
            None => self.refund(self.units.saturating_sub(actual)),
            Some(0) => None,
            Some(missing) => Some(Step::Record(Charge::new(&self.quota, &self.key, missing))),
        }
    }
}

impl ReceiptError {
    /// The quota whose counter could not be changed, with the name of its policy. Of several, the first.
    #[must_use]
    pub const fn quota(&self) -> &PolicyQuota {
        &self.quota
    }

    /// Why.
    #[must_use]
    pub const fn cause(&self) -> &StoreError {
        &self.cause
    }

    /// The quotas whose items were given back or settled all the same.
    #[must_use]
    pub fn changed(&self) -> &[PolicyQuota] {
        &self.changed
    }

    /// Whether units of any item may have been given back or charged although there is no answer.
    #[must_use]
    pub const fn may_have_charged(&self) -> bool {
        self.cause.may_have_charged()
    }
}

impl fmt::Display for ReceiptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, cause, .. } = self;
        write!(f, "policy `{}`, quota {}: {cause}", quota.policy(), quota.quota())
    }
}

/// The cause's own source, because the message has the cause.
impl Error for ReceiptError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

impl From<ReceiptError> for StoreError {
    fn from(error: ReceiptError) -> Self {
        error.cause
    }
}
