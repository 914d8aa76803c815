//! The engine that decides live, under a clock that the log drives.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tollgate::{Counter, ManualClock, MemoryStore, Verdict};
use tollgate_policy::{
    Attributes, CheckError, Policies, Policy, PolicyDecision, PolicyLimiter, PolicySet, TrialKind,
};

use super::Role;
use super::error::ReplayError;

/// The limiter of the service and of the middleware, over counters in memory.
pub(super) struct Engine {
    limiter: PolicyLimiter<MemoryStore<ManualClock>, ManualClock>,
    set: Arc<PolicySet>,
}

impl Engine {
    /// An engine with at most this many counters, that refuses longer values of attributes. Only address space is reserved
    /// for counters, some 38 bytes each, until they are needed.
    pub(super) fn new(
        policies: Policies,
        clock: &ManualClock,
        max_counters: usize,
        max_attribute_bytes: NonZeroUsize,
    ) -> Self {
        let store = MemoryStore::builder().clock(clock.clone());
        // Memory does not fail, so nothing is ever counted in place of the store.
        let unused = store.clone().max_counters(1).build();
        let store = store.max_counters(max_counters).build();
        let limiter = PolicyLimiter::new(store, policies, "simulate").memory(unused);
        let limiter = limiter.max_value_bytes(max_attribute_bytes.get());
        Self { set: limiter.live(), limiter }
    }

    pub(super) fn policies(&self) -> &Policies {
        self.set.policies()
    }

    /// How many counters it may have.
    #[cfg(test)]
    pub(super) fn max_counters(&self) -> usize {
        self.limiter.store().max_counters()
    }

    /// Prefetches these counters.
    pub(super) fn prefetch<'a>(&self, counters: impl IntoIterator<Item = Counter<'a>>) {
        self.limiter.store().prefetch(counters);
    }

    /// Decides on a request at the time that the clock shows; `None` if the request lacks something, and then live it
    /// would be answered as an error.
    pub(super) fn decide(
        &self,
        request: &Attributes<'_>,
    ) -> Result<Result<PolicyDecision, CheckError>, ReplayError> {
        match self.limiter.check_at_once(request, 1) {
            Some(Err(CheckError::Store(error))) => Err(ReplayError::Store(error)),
            Some(decision) => Ok(decision),
            None => Err(ReplayError::NoAnswer),
        }
    }
}

/// Returns whether a quota of this policy had no room, or would have had none.
pub(super) fn is_denied_by(decision: &PolicyDecision, policy: &Policy, role: Role) -> bool {
    let kind = match role {
        Role::Enforced => {
            let mut quotas = decision.quotas().filter(|quota| quota.policy.name() == policy.name());
            return quotas.any(|quota| !quota.state.has_room());
        }
        Role::Shadow => TrialKind::Shadow,
        Role::Candidate => TrialKind::Candidate,
    };
    let mut trials = decision.trials().filter(|trial| trial.kind == kind);
    trials
        .any(|trial| trial.policy.name() == policy.name() && trial.answer.verdict() == Some(Verdict::Denied))
}
