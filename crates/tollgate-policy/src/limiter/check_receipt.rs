//! Receipts of checks, for costs that are only known afterwards and for refunds.

use tollgate::{
    Clock, Counter, Mark, PolicyQuota, QuotaState, QuotaStates, Receipt, ReceiptError, ReceiptItem, Store,
};

use super::decision::ChargedEntry;
use super::{PolicyDecision, PolicyLimiter, QuotaRefund, QuotaStanding};

/// The result of settling one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaSettlement {
    /// The charge was above the actual cost, and units were given back.
    Given(QuotaRefund),
    /// The charge was below the actual cost, and units were charged: the [units](QuotaState::units) of this state.
    Charged(QuotaState),
}

impl PolicyDecision {
    /// Returns the receipt of the check's units, to be given back or [settled](PolicyLimiter::settle) later.
    ///
    /// It holds the keys that were charged, and no other data of the request. A denied request costs nothing unless
    /// [denials are counted](tollgate::CountDenied). If an admitted request charged nothing to a counter, because its
    /// cost is 0 or the policy for outages decided, settling charges the difference beyond the cost.
    pub fn receipt(&self) -> Receipt {
        let is_admitted = self.is_allowed() && !self.is_without_room();
        let item = |(entry, standing): (&ChargedEntry, QuotaStanding<'_>)| {
            let item = ReceiptItem::of(Counter::new(standing.quota, &entry.key), standing.state);
            match entry.asked {
                Some(cost) if is_admitted => item.with_cost(cost),
                Some(_) => item,
                None => item.fixed(),
            }
        };
        self.charged().map(item).collect()
    }
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Settles a check at the actual cost. Units beyond it are given back to the windows that were charged, and missing
    /// units are charged now, whether or not there is room. Costs that a policy fixes stay unchanged.
    ///
    /// The receipt names the counters that were charged, so it does not matter which policies are live.
    ///
    /// # Errors
    ///
    /// As [`Receipt::settle`].
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
    /// let decision = limiter.check(&nobody, 800).await?;
    /// assert!(decision.is_allowed());
    /// limiter.settle(&mut decision.receipt(), 300).await?;
    /// assert_eq!(limiter.peek(&nobody, 0).await?.quota().map(|quota| quota.state.used()), Some(300));
    ///
    /// // With 700 left, there is no room for 800.
    /// let denied = limiter.check(&nobody, 800).await?;
    /// assert!(!denied.is_allowed() && denied.receipt().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn settle(&self, receipt: &mut Receipt, cost: u32) -> Result<QuotaStates, ReceiptError> {
        receipt.settle(&self.store, cost).await
    }

    /// Gives back the units of a check, by its receipt: to the windows that were charged, whatever policies are live
    /// now. Without `cost`, everything is given back; with it, at most that many units of each quota whose cost came
    /// from the request. Returns the result for each quota, in order.
    ///
    /// # Errors
    ///
    /// As [`Receipt::refund`].
    ///
    /// # Cancel safety
    ///
    /// As [`Receipt::refund`].
    pub async fn refund_receipt(
        &self,
        receipt: &mut Receipt,
        cost: Option<u32>,
    ) -> Result<Vec<(PolicyQuota, QuotaRefund)>, ReceiptError> {
        let given = |item: &&ReceiptItem| item.units() > 0 && (cost.is_none() || item.cost().is_some());
        let given: Vec<(PolicyQuota, Mark)> = receipt.items().iter().filter(given).map(charged).collect();
        let states = match cost {
            None => receipt.refund(&self.store).await?,
            Some(units) => receipt.refund_units(&self.store, units).await?,
        };
        let refunds = given.into_iter().zip(&states);
        let refunds = refunds.map(|((quota, mark), state)| {
            let refund = QuotaRefund::of(quota.quota(), mark, state);
            (quota, refund)
        });
        Ok(refunds.collect())
    }

    /// Settles a check at the actual cost, by its receipt, whatever policies are live now. The receipt then holds what
    /// is charged at this cost, and can be settled again or given back. Returns the result for each quota that changed,
    /// in order.
    ///
    /// # Errors
    ///
    /// As [`Receipt::adjust`].
    ///
    /// # Cancel safety
    ///
    /// As [`Receipt::adjust`].
    pub async fn adjust_receipt(
        &self,
        receipt: &mut Receipt,
        cost: u32,
    ) -> Result<Vec<(PolicyQuota, QuotaSettlement)>, ReceiptError> {
        let settled = receipt.items().iter().filter(|item| item.settle(cost).is_some());
        let settled: Vec<((PolicyQuota, Mark), bool)> =
            settled.map(|item| (charged(item), item.cost() > Some(cost))).collect();
        let states = receipt.adjust(&self.store, cost).await?;
        let settlement =
            |(((quota, mark), is_lower), state): (((PolicyQuota, Mark), bool), &QuotaState)| match is_lower {
                true => {
                    let refund = QuotaRefund::of(quota.quota(), mark, state);
                    (quota, QuotaSettlement::Given(refund))
                }
                false => (quota, QuotaSettlement::Charged(*state)),
            };
        Ok(settled.into_iter().zip(&states).map(settlement).collect())
    }
}

fn charged(item: &ReceiptItem) -> (PolicyQuota, Mark) {
    (item.quota().clone(), item.mark())
}
