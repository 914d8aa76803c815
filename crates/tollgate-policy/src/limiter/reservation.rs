//! Costs that are known only once the work is done: an upper bound is taken first, and what was too much given back.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use tollgate::{Charge, Clock, Key, Store, StoreError, Timestamp};

use super::{Charges, CheckError, PolicyDecision, PolicyLimiter, PolicySet};
use crate::matched::Applied;
use crate::{Attributes, Outcome};

/// Units that were taken for a request and may be given back: to the windows they were taken from, under the policies
/// of that time. It holds who was counted and nothing else of the request.
///
/// Dropped, it stands for what was taken.
#[derive(Clone)]
#[must_use = "what is reserved stays taken until it is committed or cancelled"]
pub struct Reservation {
    set: Arc<PolicySet>,
    taken: Vec<Taken>,
}

#[derive(Clone)]
struct Taken {
    applied: Applied,
    /// Which quota of the list.
    quota: usize,
    key: Key<'static>,
    cost: u32,
    start: Timestamp,
    /// Whether the caller said the cost, and not the policy.
    is_asked: bool,
}

impl Reservation {
    fn of(decision: &PolicyDecision, attributes: &Attributes<'_>, cost: u32) -> Self {
        let set = Arc::clone(decision.policies());
        let mut taken = Vec::new();
        if let (Some(decision), Ok(Outcome::Charge(matched))) =
            (decision.decision(), set.policies().charges(attributes, cost))
        {
            let charges: Charges<'_> = matched.enforced().collect();
            let mut refunds = decision.refunds(&charges);
            for entry in matched.deciding() {
                let is_asked = entry.policy.cost().is_asked(attributes);
                for quota in 0..entry.quotas.enforced.len() {
                    let Some((charge, start)) = refunds.next().filter(|(charge, _)| charge.cost() > 0) else {
                        continue;
                    };
                    let (key, cost) = (charge.counter().key().clone().into_owned(), charge.cost());
                    taken.push(Taken { applied: entry.applied, quota, key, cost, start, is_asked });
                }
            }
        }
        Self { set, taken }
    }

    /// Whether anything was taken that can be given back. Not of a denied request, nor where the policy for a store in
    /// trouble decided.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
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
    /// limiter.commit(&reservation, 300).await?;
    /// assert_eq!(limiter.peek(&nobody, 0).await?.quota().map(|quota| quota.state.used()), Some(300));
    ///
    /// // With 700 left, there is no room for 800.
    /// let (denied, nothing) = limiter.reserve(&nobody, 800).await?;
    /// assert!(!denied.is_allowed() && nothing.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn reserve(
        &self,
        attributes: &Attributes<'_>,
        cost: u32,
    ) -> Result<(PolicyDecision, Reservation), CheckError> {
        let decision = self.check(attributes, cost).await?;
        let reservation = Reservation::of(&decision, attributes, cost);
        Ok((decision, reservation))
    }

    /// Has as many units taken as the request has cost in the end: what was reserved above that is given back to the
    /// windows it came from, and what it cost beyond that is taken now, without asking for room. Costs that a policy
    /// says itself stay as they are.
    ///
    /// # Errors
    ///
    /// If the store could not take a step; all are tried.
    pub async fn commit(&self, reservation: &Reservation, cost: u32) -> Result<(), StoreError> {
        let mut answer = Ok(());
        for (taken, charge) in reservation.charges().filter(|(taken, _)| taken.is_asked) {
            let step = match cost.cmp(&taken.cost) {
                Ordering::Less => self.store.refund(&charge(taken.cost - cost), taken.start).await.map(drop),
                Ordering::Equal => Ok(()),
                Ordering::Greater => self.store.record(&charge(cost - taken.cost)).await.map(drop),
            };
            answer = answer.and(step);
        }
        answer
    }

    /// Gives everything back, to the windows it came from.
    ///
    /// # Errors
    ///
    /// If the store could not take a step; all are tried.
    pub async fn cancel(&self, reservation: &Reservation) -> Result<(), StoreError> {
        let mut answer = Ok(());
        for (taken, charge) in reservation.charges() {
            let step = self.store.refund(&charge(taken.cost), taken.start).await.map(drop);
            answer = answer.and(step);
        }
        answer
    }
}

impl Reservation {
    /// What was taken, with the charge of any cost on the same counter.
    fn charges<'a>(&'a self) -> impl Iterator<Item = (&'a Taken, impl Fn(u32) -> Charge<'a>)> {
        self.taken.iter().filter_map(|taken| {
            let policy = self.set.policies().policy(taken.applied.policy)?;
            let quota = policy.list(taken.applied.list).enforced.get(taken.quota)?;
            Some((taken, move |cost| Charge::new(quota, &taken.key, cost)))
        })
    }
}

/// Without keys, which are persons.
impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("taken", &self.taken.len()).finish_non_exhaustive()
    }
}
