//! What administrators change: refund, reset, set. Quotas are changed one after another.

use std::sync::Arc;

use smallvec::SmallVec;
use thiserror::Error;
use tollgate::{Clock, PolicyQuota, QuotaState, Refunded, Store, StoreError, Timestamp};

use super::{Charges, CheckError, PolicyLimiter, PolicySet};
use crate::matched::Applied;
use crate::{Attributes, Matched, Outcome, Policy, Refusal};

/// What came of a change, for each quota that applies to a request.
#[derive(Debug, Clone)]
pub struct Changed<T> {
    set: Arc<PolicySet>,
    applied: SmallVec<[Applied; 2]>,
    values: Vec<T>,
}

/// Why nothing, or not all of it, was given back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RefundError {
    /// The request lacks something, or the store could not answer.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// There are other quotas than windows. The caller's fault.
    #[error("expected the window start of each of the quotas {}", .quotas.join(", "))]
    WindowCount {
        /// The quotas that apply, each with its policy.
        quotas: Box<[String]>,
    },
    /// None of the windows of the quota at this place can have begun then. The caller's fault.
    #[error("no window of {quota} begins then")]
    NoWindowStart {
        /// The place among those that were named.
        index: usize,
        /// The quota.
        quota: Box<str>,
    },
    /// The window at this place would begin later than now. The caller's fault.
    #[error("this lies in the future")]
    FutureStart {
        /// The place among those that were named.
        index: usize,
    },
}

impl<T> Changed<T> {
    /// Each quota that applies, whose it is, and what came of it.
    pub fn iter(&self) -> impl Iterator<Item = (&Policy, &PolicyQuota, &T)> {
        let quotas = self.set.quotas(&self.applied);
        quotas.zip(&self.values).map(|((policy, quota), value)| (policy, quota, value))
    }

    /// The policies under which it was made.
    #[must_use]
    pub const fn policies(&self) -> &Arc<PolicySet> {
        &self.set
    }
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Gives back what a check of these attributes takes, in the windows that began then, one for each quota that
    /// applies. A start that cannot be one is refused before anything is given back.
    ///
    /// # Errors
    ///
    /// If the request lacks something, the windows are not those of the quotas that apply, or the store could not
    /// answer. Once something was given back, an error of the store is [`StoreError::TimedOut`]: who is told that
    /// nothing was would ask for it once more.
    pub async fn refund(
        &self,
        attributes: &Attributes<'_>,
        cost: u32,
        starts: &[Timestamp],
    ) -> Result<Changed<Refunded>, RefundError> {
        let set = self.live();
        let matched = matched(&set, attributes, cost)?;
        let charges: Charges<'_> = matched.enforced().collect();
        self.expect_starts(&charges, starts).await?;
        let mut values = Vec::with_capacity(charges.len());
        for (charge, start) in charges.iter().zip(starts) {
            match self.store.refund(charge, *start).await {
                Ok(given) => values.push(given),
                Err(_) if !values.is_empty() => return Err(CheckError::from(StoreError::TimedOut).into()),
                Err(error) => return Err(CheckError::from(error).into()),
            }
        }
        Ok(Changed { applied: applied(&matched), values, set: Arc::clone(&set) })
    }

    /// Forgets what is used of every quota that applies.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); quotas before the one that failed were reset.
    pub async fn reset(&self, attributes: &Attributes<'_>) -> Result<Changed<QuotaState>, CheckError> {
        let set = self.live();
        let matched = matched(&set, attributes, 0)?;
        let mut values = Vec::new();
        for charge in matched.enforced() {
            values.push(self.store.reset(&charge.counter()).await?);
        }
        Ok(Changed { applied: applied(&matched), values, set: Arc::clone(&set) })
    }

    /// Sets what is used of every quota that applies, in its current window.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); quotas before the one that failed were set.
    pub async fn set(
        &self,
        attributes: &Attributes<'_>,
        used: u64,
    ) -> Result<Changed<QuotaState>, CheckError> {
        let set = self.live();
        let matched = matched(&set, attributes, 0)?;
        let mut values = Vec::new();
        for charge in matched.enforced() {
            values.push(self.store.set(&charge.counter(), used).await?);
        }
        Ok(Changed { applied: applied(&matched), values, set: Arc::clone(&set) })
    }

    async fn expect_starts(&self, charges: &Charges<'_>, starts: &[Timestamp]) -> Result<(), RefundError> {
        if charges.len() != starts.len() {
            let quotas = charges.iter().map(|charge| {
                let quota = charge.counter().quota();
                format!("{} of {}", quota.quota(), quota.policy())
            });
            return Err(RefundError::WindowCount { quotas: quotas.collect() });
        }
        for (index, (charge, start)) in charges.iter().zip(starts).enumerate() {
            let counter = charge.counter();
            let quota = counter.quota().quota();
            // For a first hit, whose windows only the store knows, the one that opens then: any start will do.
            if quota.window_at(counter.key(), *start).start() != *start {
                return Err(RefundError::NoWindowStart { index, quota: quota.to_string().into() });
            }
        }
        if charges.is_empty() {
            return Ok(());
        }
        // The store's time: a shared one may be ahead of this process, and so may the windows that it began.
        let counted = self.store.peek(charges).await.map_err(CheckError::from)?;
        let now = counted.first().map(QuotaState::now);
        match starts.iter().position(|start| now.is_some_and(|now| *start > now)) {
            Some(index) => Err(RefundError::FutureStart { index }),
            None => Ok(()),
        }
    }
}

/// What applies to a request, if it says who is counted.
fn matched<'a>(
    set: &'a PolicySet,
    attributes: &'a Attributes<'_>,
    cost: u32,
) -> Result<Matched<'a>, CheckError> {
    match set.policies().charges(attributes, cost)? {
        Outcome::Charge(matched) => Ok(matched),
        Outcome::Exempt(_) => Ok(Matched::default()),
        Outcome::DenyUnknown { policy, no_key } => Err(Refusal::missing_key(policy, no_key).into()),
    }
}

fn applied(matched: &Matched<'_>) -> SmallVec<[Applied; 2]> {
    matched.deciding().map(|entry| entry.applied).collect()
}
