//! The engine that decides live, under a clock that the log drives.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tollgate::{ManualClock, MemoryStore};
use tollgate_policy::{
    Attributes, CheckError, MatchedPolicies, Matching, Outcome, Policies, PolicyDecision, PolicyLimiter,
    PolicySet, Refusal,
};

use crate::replay::error::ReplayError;

/// The limiter of the service and of the middleware, over counters in memory.
pub(crate) struct Engine {
    limiter: PolicyLimiter<MemoryStore<ManualClock>, ManualClock>,
    set: Arc<PolicySet>,
}

impl Engine {
    /// An engine with at most this many counters, that refuses longer values of attributes. Only address space is
    /// reserved for counters, some 38 bytes each, until they are needed.
    pub(crate) fn new(
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

    pub(crate) fn policies(&self) -> &Policies {
        self.set.policies()
    }

    /// Finds out what applies to each of these requests, and prefetches their counters. No policy is asked about
    /// `None`.
    pub(crate) fn outcomes<'a, 'h: 'a>(
        &'a self,
        requests: impl Iterator<Item = Option<&'a Attributes<'h>>>,
    ) -> Outcomes<'a> {
        let outcomes: Outcomes<'a> =
            requests.map(|request| Some(self.limiter.matching(&self.set, request?, 1))).collect();
        if outcomes.len() > 1 {
            let charges = outcomes.iter().flatten().filter_map(matched).flat_map(|matched| {
                matched.enforced().chain(matched.trials().flat_map(|trial| trial.charges()))
            });
            self.limiter.store().prefetch(charges.map(|charge| charge.counter()));
        }
        outcomes
    }

    /// Decides on a request at the time that the clock shows. If the request lacks something, live it would be
    /// answered as an error.
    pub(crate) fn decide(
        &self,
        outcome: &Result<Matching<'_>, Refusal>,
    ) -> Result<Result<PolicyDecision, CheckError>, ReplayError> {
        let matching = match outcome {
            Ok(matching) => matching,
            Err(refusal) => return Ok(Err(refusal.clone().into())),
        };
        match self.limiter.decide_at_once(matching) {
            Some(Err(CheckError::Store(error))) => Err(ReplayError::Store(error)),
            Some(decision) => Ok(decision),
            None => Err(ReplayError::NoAnswer),
        }
    }
}

/// What applies to each of some requests; `None` if no policy is asked.
pub(crate) type Outcomes<'a> = Vec<Option<Result<Matching<'a>, Refusal>>>;

/// The charges of a request, if it has some.
pub(crate) fn matched<'a, 'm>(outcome: &'a Result<Matching<'m>, Refusal>) -> Option<&'a MatchedPolicies<'m>> {
    match outcome.as_ref().ok()?.outcome() {
        Outcome::Charge(matched) => Some(matched),
        _ => None,
    }
}
