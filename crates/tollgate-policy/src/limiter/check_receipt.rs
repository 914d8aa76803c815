//! Receipts of checks, for costs that are only known afterwards and for refunds.

use tollgate::{Clock, Counter, QuotaStates, Receipt, ReceiptError, ReceiptItem, Store};

use super::charged_quotas::ChargedEntry;
use super::{PolicyDecision, PolicyLimiter, QuotaStanding};

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
}
