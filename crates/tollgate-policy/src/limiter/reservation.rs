//! Costs that are known only once the work is done: an upper bound is taken first, and what was too much given back.
//! And receipts, for giving back what a check took.

use tollgate::{
    Charge, Clock, Counted, Decision, Key, PolicyQuota, QuotaState, Receipt, ReceiptItem, Source, Step,
    Store, StoreError,
};

use super::{Charges, CheckError, PolicyDecision, PolicyLimiter};
use crate::{Outcome, View};

/// What was taken for a request and may be given back: to the windows it was taken from, whatever policies are live by
/// then. It holds who was counted and nothing else of the request.
///
/// Dropped, it stands for what was taken: call [`PolicyLimiter::cancel`] for work that failed.
#[derive(Debug, Default)]
#[must_use = "what is reserved stays taken until it is committed or cancelled"]
pub struct Reservation {
    /// Where the caller said the cost.
    asked: Receipt,
    /// Where the policy said it.
    fixed: Receipt,
    /// Where the caller said the cost, and nothing was taken that could be given back.
    untaken: Vec<Untaken>,
}

/// A counter of which an admitted request took nothing: at cost 0, or where the policy for a store in trouble decided.
#[derive(Debug)]
struct Untaken {
    quota: PolicyQuota,
    key: Key<'static>,
    cost: u32,
}

impl Untaken {
    fn of((charge, state): (&Charge<'_>, &QuotaState)) -> Option<Self> {
        let is_taken = state.units() > 0 && state.source() == Source::Store;
        let counter = charge.counter();
        let (quota, key) = (counter.quota(), counter.key());
        (!is_taken).then(|| Self { quota: quota.clone(), key: key.clone().into_owned(), cost: charge.cost() })
    }

    /// The step that charges the units beyond the reserved cost.
    fn settle(&self, cost: u32) -> Option<Step<'_>> {
        let missing = cost.checked_sub(self.cost).filter(|missing| *missing > 0)?;
        Some(Step::Record(Charge::new(&self.quota, &self.key, missing)))
    }
}

impl Reservation {
    fn of<V: View>(decision: &PolicyDecision, view: &V, cost: u32) -> Self {
        let (Some(counted), Ok(Outcome::Charge(matched))) =
            (decision.counted(), decision.policies().policies().charges(view, cost))
        else {
            return Self::default();
        };
        let is_asked = matched.deciding().flat_map(|entry| {
            let is_asked = entry.policy.cost().is_asked(view);
            entry.quotas.enforced.iter().map(move |_| is_asked)
        });
        let all = matched.enforced().zip(counted.iter().copied()).zip(is_asked);
        let (asked, fixed): (Vec<_>, Vec<_>) = all.partition(|(_, is_asked)| *is_asked);
        let receipt = |charges: &[Charge<'_>], states: Vec<QuotaState>| {
            let decision = Decision::of_charges(charges, states.into_iter().collect::<Counted>());
            decision.map_or_else(Receipt::default, Decision::into_receipt)
        };
        let ((asked, asked_states), (fixed, fixed_states)) = (apart(asked), apart(fixed));
        let untaken = if decision.is_allowed() && !decision.is_without_room() {
            asked.iter().zip(&asked_states).filter_map(Untaken::of).collect()
        } else {
            Vec::new()
        };
        Self { asked: receipt(&asked, asked_states), fixed: receipt(&fixed, fixed_states), untaken }
    }

    /// The most units that a quota was charged with. What was admitted in the store's place counts as well.
    #[must_use]
    pub fn units(&self) -> u32 {
        let items = self.asked.items().iter().chain(self.fixed.items());
        let untaken = self.untaken.iter().map(|untaken| untaken.cost);
        items.map(ReceiptItem::units).chain(untaken).max().unwrap_or(0)
    }

    /// Whether nothing was taken that can be given back. A denied request takes nothing unless
    /// [denials are counted](tollgate::CountDenied), and neither does one that the policy for a store in trouble
    /// decided.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.fixed.is_empty()
    }
}

impl PolicyDecision {
    /// What the check took, to be given back later. `view` and `cost` are those of the check.
    pub fn receipt<V: View>(&self, view: &V, cost: u32) -> Receipt {
        let (Some(counted), Ok(Outcome::Charge(matched))) =
            (self.counted(), self.policies().policies().charges(view, cost))
        else {
            return Receipt::default();
        };
        let charges: Charges<'_> = matched.enforced().collect();
        Decision::of_charges(&charges, counted.clone()).map_or_else(Receipt::default, Decision::into_receipt)
    }
}

type Taken<'a> = ((Charge<'a>, QuotaState), bool);

fn apart(taken: Vec<Taken<'_>>) -> (Vec<Charge<'_>>, Vec<QuotaState>) {
    taken.into_iter().map(|(taken, _)| taken).unzip()
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// As [`check`](Self::check), for a cost that is known only later: what was too much can be given back.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MemoryStore, Quota};
    /// use tollgate_policy::{Attributes, Policies, Policy, PolicyLimiter};
    ///
    /// let tokens = Policy::builder("tokens").quota(Quota::per_day(1_000)).build()?;
    /// let limiter = PolicyLimiter::new(MemoryStore::new(), Policies::of([tokens])?, "code");
    /// # tollgate_testkit::block_on(async {
    /// let nobody = Attributes::default();
    /// let (decision, reservation) = limiter.reserve(&nobody, 800).await?;
    /// assert!(decision.is_allowed());
    /// limiter.commit(reservation, 300).await?;
    /// assert_eq!(limiter.peek(&nobody, 0).await?.quota().map(|quota| quota.state.used()), Some(300));
    ///
    /// // With 700 left, there is no room for 800.
    /// let (denied, nothing) = limiter.reserve(&nobody, 800).await?;
    /// assert!(!denied.is_allowed() && nothing.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn reserve<V: View>(
        &self,
        view: &V,
        cost: u32,
    ) -> Result<(PolicyDecision, Reservation), CheckError> {
        let decision = self.check(view, cost).await?;
        let reservation = Reservation::of(&decision, view, cost);
        Ok((decision, reservation))
    }

    /// As [`reserve`](Self::reserve), if the store answers at once; `None` if it has to be waited for, and then nothing
    /// was taken.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn reserve_at_once<V: View>(
        &self,
        view: &V,
        cost: u32,
    ) -> Option<Result<(PolicyDecision, Reservation), CheckError>> {
        Some(self.check_at_once(view, cost)?.map(|decision| {
            let reservation = Reservation::of(&decision, view, cost);
            (decision, reservation)
        }))
    }

    /// Settles a reservation at the actual cost. What was reserved beyond it is given back to the windows it came from,
    /// and what is missing is taken now, without asking for room. Costs that a policy says itself stay as they are.
    ///
    /// # Errors
    ///
    /// If the store could not take a step; all are tried. If others were taken, the error
    /// [may have charged](StoreError::may_have_charged).
    pub async fn commit(&self, reservation: Reservation, cost: u32) -> Result<(), StoreError> {
        let Reservation { asked, untaken, .. } = &reservation;
        let settled = asked.items().iter().filter_map(|item| item.settle(cost));
        self.take_all(settled.chain(untaken.iter().filter_map(|untaken| untaken.settle(cost)))).await
    }

    /// Gives everything back, to the windows it came from.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub async fn cancel(&self, reservation: Reservation) -> Result<(), StoreError> {
        let items = reservation.asked.items().iter().chain(reservation.fixed.items());
        self.take_all(items.map(|item| item.refund(u32::MAX))).await
    }

    async fn take_all(&self, steps: impl Iterator<Item = Step<'_>>) -> Result<(), StoreError> {
        let (mut failed, mut has_taken) = (None, false);
        for step in steps {
            match self.store.step(step).await {
                Ok(_) => has_taken = true,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            None => Ok(()),
            Some(error) => Err(if has_taken { error.after_others() } else { error }),
        }
    }
}
