//! Receipts of charged units, which can be given back once, or settled at another cost.

use std::error::Error;
use std::fmt;
use std::mem;
use std::time::Duration;

use smallvec::SmallVec;

use crate::store::only;
use crate::{
    AnswerError, Charge, Counter, Key, Mark, PolicyQuota, QuotaKind, QuotaState, QuotaStates, Source, Step,
    Store, StoreError, Timestamp, WindowLength,
};

/// A receipt of the units that a check charged: for each quota the counter, the units and the time.
///
/// It comes from a [`Decision`](crate::Decision::into_receipt), and a limiter's `refund` accepts it. Each charge with
/// units has one [item](Self::items). The receipt is [empty](Self::is_empty) if the check charged nothing: for a peek,
/// an answer of a fallback, or a denial, unless [denied requests are counted](crate::CountDenied).
///
/// Units leave the receipt when they are given back, and items when they are settled, so nothing is given back twice.
/// If the store failed and provably did nothing, the item stays, and the caller can retry.
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

/// The units that a check charged to one counter.
#[derive(Debug)]
pub struct ReceiptItem {
    quota: PolicyQuota,
    key: Key<'static>,
    units: u32,
    mark: Mark,
    /// The part of the cost that was not charged here: settling starts from this and the units. `None` if settling does
    /// not change the item.
    uncharged: Option<u32>,
}

/// The store failed to settle or refund a receipt. A retry helps for the items that the receipt still has.
#[derive(Debug, Clone)]
pub struct ReceiptError {
    quota: PolicyQuota,
    cause: StoreError,
    changed: Box<[PolicyQuota]>,
}

impl Receipt {
    /// Returns whether nothing was charged. [`settle`](Self::settle) may still charge then: a request can cost more
    /// than was charged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|item| item.units == 0)
    }

    /// Returns the items, in the order in which they were charged. An item without units is here because
    /// [settling](Self::settle) may charge it.
    #[must_use]
    pub fn items(&self) -> &[ReceiptItem] {
        &self.0
    }

    /// Gives back everything on the store that was charged, fixed costs too, and empties the receipt. Limiters have
    /// this as `refund`.
    ///
    /// It calls the store once, with a step for each item. Only items whose step was provably not executed stay in the
    /// receipt.
    ///
    /// # Errors
    ///
    /// The store's first error, with its quota. If other items were given back, or may have been, the error [may have
    /// charged](ReceiptError::may_have_charged).
    ///
    /// # Cancel safety
    ///
    /// Units that are given back leave the receipt before the call. If the future is dropped, it may or may not have
    /// been given back, and no later call gives it back.
    pub async fn refund(&mut self, store: &impl Store) -> Result<QuotaStates, ReceiptError> {
        self.0.retain(|item| item.refund().is_some());
        self.change(store, ReceiptItem::refund, |_, _| None).await
    }

    /// Gives back up to `units` of each item, except those with a [fixed](ReceiptItem::fixed) cost. The rest stays in
    /// the receipt, and can be given back or [settled](Self::settle) later. Limiters have this as `refund_units`.
    ///
    /// # Errors
    ///
    /// The same as [`refund`](Self::refund).
    ///
    /// # Cancel safety
    ///
    /// The same as [`refund`](Self::refund).
    pub async fn refund_units(
        &mut self,
        store: &impl Store,
        units: u32,
    ) -> Result<QuotaStates, ReceiptError> {
        let mut parts = self.split_off(units);
        let refunded = parts.change(store, |item| Some(item.step_back(item.units)), |_, _| None).await;
        for part in parts.0 {
            self.put_back(part);
        }
        refunded
    }

    /// Moves up to `units` of each item whose cost is not fixed into a separate receipt.
    pub(crate) fn split_off(&mut self, units: u32) -> Self {
        let lowered = self.0.iter_mut().filter(|item| item.units > 0 && item.uncharged.is_some());
        Self(lowered.map(|item| item.split_off(units.min(item.units))).collect())
    }

    fn put_back(&mut self, part: ReceiptItem) {
        let is_rest = |item: &&mut ReceiptItem| item.counter() == part.counter() && item.mark == part.mark;
        match self.0.iter_mut().find(is_rest) {
            Some(item) => item.units += part.units,
            None => self.0.push(part),
        }
    }

    /// Settles each item at the actual cost, on the store that was charged. Units above the cost are given back.
    /// Missing units are charged without asking for room, in the windows that are open now. A
    /// [fixed](ReceiptItem::fixed) cost does not change. Settled items leave the receipt;
    /// [`adjust`](Self::adjust) keeps them.
    ///
    /// # Errors
    ///
    /// The same as [`refund`](Self::refund).
    ///
    /// # Cancel safety
    ///
    /// The same as [`refund`](Self::refund).
    pub async fn settle(&mut self, store: &impl Store, cost: u32) -> Result<QuotaStates, ReceiptError> {
        self.0.retain(|item| item.settle(cost).is_some());
        self.change(store, |item| item.settle(cost), |_, _| None).await
    }

    /// Like [`settle`](Self::settle), but the receipt then holds what is charged at this cost, including fixed costs.
    /// So it can be adjusted again, to any cost, or given back. If the cost rises, a bucket, a sliding window or a log may
    /// still count both charges; then the receipt can give back only one of them, that of which more is left.
    ///
    /// # Errors
    ///
    /// The same as [`refund`](Self::refund).
    ///
    /// # Cancel safety
    ///
    /// The same as [`refund`](Self::refund).
    pub async fn adjust(&mut self, store: &impl Store, cost: u32) -> Result<QuotaStates, ReceiptError> {
        self.change(store, |item| item.settle(cost), |item, state| Some(item.settled(cost, state))).await
    }

    /// Executes the steps of the items that have one. `rest` is what stays of an item after its step.
    async fn change(
        &mut self,
        store: &impl Store,
        step: impl Fn(&ReceiptItem) -> Option<Step<'_>>,
        rest: impl Fn(ReceiptItem, &QuotaState) -> Option<ReceiptItem>,
    ) -> Result<QuotaStates, ReceiptError> {
        let Self(items) = self.take(|item| step(item).is_some());
        if items.is_empty() {
            return Ok(QuotaStates::none());
        }
        let steps: Vec<Step<'_>> = items.iter().filter_map(step).collect();
        let mut answers = store.step_each(&steps).await.into_iter();
        drop(steps);
        let (mut states, mut changed, mut failed, mut is_unknown) = (Vec::new(), Vec::new(), None, false);
        for item in items {
            match only(answers.next().unwrap_or_else(|| Err(AnswerError::Nonsense.into()))) {
                Ok(state) => {
                    states.push(state);
                    changed.push(item.quota.clone());
                    self.0.extend(rest(item, &state));
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

    /// Moves the items that satisfy the condition into a separate receipt.
    pub fn take(&mut self, is_meant: impl Fn(&ReceiptItem) -> bool) -> Self {
        let (meant, others): (SmallVec<_>, _) = mem::take(&mut self.0).into_iter().partition(is_meant);
        self.0 = others;
        Self(meant)
    }

    /// Keeps the items that satisfy the condition.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&ReceiptItem) -> bool) {
        self.0.retain(|item| keep(item));
    }
}

/// Removes items that can neither be given back nor settled.
impl FromIterator<ReceiptItem> for Receipt {
    fn from_iter<I: IntoIterator<Item = ReceiptItem>>(items: I) -> Self {
        Self(items.into_iter().filter(|item| item.units > 0 || item.uncharged.is_some()).collect())
    }
}

impl IntoIterator for Receipt {
    type Item = ReceiptItem;
    type IntoIter = smallvec::IntoIter<[ReceiptItem; 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl ReceiptItem {
    /// Creates an item from its saved parts. A [`Decision`](crate::Decision::into_receipt) has its items ready.
    #[must_use]
    pub const fn new(quota: PolicyQuota, key: Key<'static>, units: u32, mark: Mark) -> Self {
        let uncharged = if units > 0 { Some(0) } else { None };
        Self { quota, key, units, mark, uncharged }
    }

    /// Makes the item of a step with this outcome. A fallback's answer charged nothing.
    #[must_use]
    pub fn of(counter: Counter<'_>, state: &QuotaState) -> Self {
        let units = if state.source() == Source::Store { state.units() } else { 0 };
        Self::new(counter.quota().clone(), counter.key().clone().into_owned(), units, state.mark())
    }

    /// Sets the cost of the check if the store charged less: a check at cost 0 charges nothing, and neither does one
    /// that a fallback answered. [Settling](Self::settle) then charges the difference beyond this cost.
    #[must_use]
    pub fn with_cost(self, cost: u32) -> Self {
        Self { uncharged: Some(cost.saturating_sub(self.units)), ..self }
    }

    /// Marks the cost as fixed by a policy, whatever the work costs. Neither settling nor a refund of some units
    /// changes the item.
    #[must_use]
    pub fn fixed(self) -> Self {
        Self { uncharged: None, ..self }
    }

    /// Returns the quota that was charged.
    #[must_use]
    pub const fn quota(&self) -> &PolicyQuota {
        &self.quota
    }

    /// Returns the key that was charged.
    #[must_use]
    pub const fn key(&self) -> &Key<'static> {
        &self.key
    }

    /// Returns the charged units.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Returns the cost that [settling](Self::settle) starts from: usually the charged units. `None` if settling does
    /// not change the item.
    #[must_use]
    pub const fn cost(&self) -> Option<u32> {
        match self.uncharged {
            Some(uncharged) => Some(uncharged.saturating_add(self.units)),
            None => None,
        }
    }

    /// Returns the time of the charge, as the counter sees it.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// Returns the step that gives back all charged units. `None` if there are none.
    #[must_use]
    pub fn refund(&self) -> Option<Step<'_>> {
        (self.units > 0).then(|| self.step_back(self.units))
    }

    fn step_back(&self, units: u32) -> Step<'_> {
        Step::Refund { charge: Charge::new(&self.quota, &self.key, units), mark: self.mark }
    }

    fn counter(&self) -> Counter<'_> {
        Counter::new(&self.quota, &self.key)
    }

    /// Moves `units`, at most those it has, into a separate item.
    fn split_off(&mut self, units: u32) -> Self {
        self.units -= units;
        Self { quota: self.quota.clone(), key: self.key.clone(), units, ..*self }
    }

    /// Returns the step that settles the item at the actual cost: it gives back the rest, or charges missing units
    /// without asking for room, in the window that is open then. `None` if there is nothing to do.
    #[must_use]
    pub fn settle(&self, actual: u32) -> Option<Step<'_>> {
        match actual.checked_sub(self.cost()?) {
            None => Some(self.units - self.kept(actual))
                .filter(|units| *units > 0)
                .map(|units| self.step_back(units)),
            Some(0) => None,
            Some(missing) => Some(Step::Record(Charge::new(&self.quota, &self.key, missing))),
        }
    }

    /// Returns the units that stay charged at a lower cost.
    fn kept(&self, actual: u32) -> u32 {
        actual.saturating_sub(self.uncharged.unwrap_or(0)).min(self.units)
    }

    /// Returns the most that a refund at this time can give back. Of a fixed window it is called only if another one is
    /// open now, so it has closed.
    fn left_at(&self, now: Timestamp) -> u32 {
        let quota = self.quota.quota();
        let WindowLength::Fixed(window) = quota.window() else { return 0 };
        let still_counts = |longest: Duration| {
            if now.since(self.mark.time()) < longest { self.units } else { 0 }
        };
        match quota.kind() {
            QuotaKind::Window => 0,
            QuotaKind::Burst => {
                let drains = self.mark.time().since(now).as_millis() * u128::from(quota.limit());
                u32::try_from(drains / window.as_millis()).unwrap_or(u32::MAX).min(self.units)
            }
            QuotaKind::Sliding => still_counts(2 * window),
            QuotaKind::Log => {
                let step = quota.log_step().unwrap_or_default();
                still_counts(window + step.saturating_sub(Duration::from_millis(1)))
            }
        }
    }

    /// Returns what is charged after the item was settled at the actual cost, with this outcome of the step.
    fn settled(self, actual: u32, state: &QuotaState) -> Self {
        let Some(cost) = self.cost().filter(|cost| *cost < actual) else {
            return Self { units: self.kept(actual), ..self };
        };
        let added = Self::of(self.counter(), state);
        match added.units {
            // Not counted by the store: the next time, it is still missing.
            0 => self,
            units if added.mark == self.mark => Self { units: self.units.saturating_add(units), ..self },
            // One mark names one of both charges: that of which more is left.
            units if units < self.left_at(state.now()) => {
                Self { uncharged: Some(actual.saturating_sub(self.units)), ..self }
            }
            _ => Self { uncharged: Some(cost), ..added },
        }
    }
}

impl ReceiptError {
    /// Returns the quota whose counter could not be changed, with the name of its policy; the first of several.
    #[must_use]
    pub const fn quota(&self) -> &PolicyQuota {
        &self.quota
    }

    /// Why.
    #[must_use]
    pub const fn cause(&self) -> &StoreError {
        &self.cause
    }

    /// Returns the quotas whose items were given back or settled despite the error.
    #[must_use]
    pub fn changed(&self) -> &[PolicyQuota] {
        &self.changed
    }

    /// Returns whether units of any item may have been given back or charged without an answer.
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

/// The source of the cause, because the message contains the cause.
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
