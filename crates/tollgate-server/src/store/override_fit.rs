//! Decides which limits of overrides a shared store can count.
//!
//! An override may have what its policy could have in a file. Besides, it must leave the counters of its policy alone, and
//! it must not share any with an override of another policy, of which nobody knows yet.

use tollgate::{PolicyQuota, Quota, QuotaKind};
use tollgate_policy::{Mode, OverrideFit, OverrideQuotas, Policies, Policy};
use tollgate_redis::KeyLayout;

use super::fit::{MisfitReason, StoreFit, candidates, enforced, pairs, unwritable_key};

impl OverrideFit for StoreFit {
    fn misfit(&self, policies: &Policies, policy: &Policy, limits: &OverrideQuotas) -> Option<Box<str>> {
        // Own keys tell all counters apart, and those of one key are in one slot.
        let layout = self.layout()?;
        let fit = LayoutFit { layout, policies, policy, quotas: limits.quotas() };
        let in_flight = limits.in_flight().map(|_| MisfitReason::InFlight { layout: layout.clone() });
        let scattered = limits.quotas().len() > 1 && !self.counts_several();
        let reason = in_flight
            .or_else(|| fit.invalid())
            .or_else(|| unwritable_key(layout, policy))
            .or_else(|| scattered.then_some(MisfitReason::Scattered))
            .or_else(|| fit.shared_by_quotas())
            .or_else(|| fit.shared_with_own())
            .or_else(|| fit.shared_with_policy())
            .or_else(|| fit.other_log());
        reason.map(|reason| reason.to_string().into())
    }
}

/// The quotas of an override, in keys of a layout.
struct LayoutFit<'a> {
    layout: &'a KeyLayout,
    policies: &'a Policies,
    policy: &'a Policy,
    quotas: &'a [PolicyQuota],
}

impl LayoutFit<'_> {
    /// Returns a quota that no key of the layout can express.
    fn invalid(&self) -> Option<MisfitReason> {
        let quotas = self.quotas.iter().map(PolicyQuota::quota);
        quotas.into_iter().find_map(|quota| {
            let error = self.layout.validate(quota).err()?;
            Some(MisfitReason::Quota { quota: quota.clone(), error })
        })
    }

    /// Returns the quotas of the override that share a counter with each other or with a candidate, which stays.
    fn shared_by_quotas(&self) -> Option<MisfitReason> {
        let is_shared = |(one, other): &(&PolicyQuota, &PolicyQuota)| !self.layout.tells_apart(one, other);
        if let Some((one, other)) = pairs(self.quotas).find(is_shared) {
            let (one, other) = (one.quota().clone(), other.quota().clone());
            return Some(MisfitReason::SharedByQuotas { layout: self.layout.clone(), one, other });
        }
        let with_each = |tried| self.quotas.iter().map(move |quota| (quota, tried));
        let (quota, tried) = candidates(self.policy).flatten().flat_map(with_each).find(is_shared)?;
        let (quota, candidate) = (quota.quota().clone(), tried.quota().clone());
        Some(MisfitReason::SharedWithCandidate { layout: self.layout.clone(), quota, candidate })
    }

    /// Returns the quotas of another series that would count on a counter of the policy.
    fn shared_with_own(&self) -> Option<MisfitReason> {
        let with_each = |own| self.quotas.iter().map(move |quota: &PolicyQuota| (quota, own));
        let is_shared = |(quota, own): &(&PolicyQuota, &PolicyQuota)| {
            !quota.quota().has_series_of(own.quota()) && !self.layout.tells_apart(quota, own)
        };
        let (quota, own) = enforced(self.policy).flatten().flat_map(with_each).find(is_shared)?;
        let (quota, other) = (quota.quota().clone(), own.quota().clone());
        Some(MisfitReason::SharedWithOwn { layout: self.layout.clone(), quota, other })
    }

    /// Returns a counter that the override would share with another policy of the same key, or with an override of it.
    fn shared_with_policy(&self) -> Option<MisfitReason> {
        let counts = |policy: &Policy| policy.mode() != Mode::Off && !policy.is_exempt();
        let others = self.policies.as_slice().iter().filter(|other| {
            other.name() != self.policy.name()
                && other.identity() == self.policy.identity()
                && counts(other)
                && (self.policy.covers(other) || other.covers(self.policy))
        });
        let mut shared = others.flat_map(|other| {
            self.quotas.iter().filter_map(move |quota| {
                let in_other = PolicyQuota::new(other.name(), quota.quota().clone());
                let is_own =
                    enforced(self.policy).flatten().any(|own| own.quota().has_series_of(quota.quota()));
                let an_override = (!is_own).then_some(in_other);
                let known = enforced(other).flatten().cloned().chain(an_override);
                let known = known.into_iter().find(|known| !self.layout.tells_apart(quota, known))?;
                Some((quota, known))
            })
        });
        let (quota, known) = shared.next()?;
        Some(MisfitReason::SharedWithPolicy {
            layout: self.layout.clone(),
            quota: quota.quota().clone(),
            other: known.quota().clone(),
            policy: known.policy().into(),
        })
    }

    /// Returns a log of another length than those of the policies: a shorter one would remove what a longer one counts.
    fn other_log(&self) -> Option<MisfitReason> {
        let is_log = |quota: &&Quota| quota.kind() == QuotaKind::Log;
        let quota = self.quotas.iter().map(PolicyQuota::quota).find(is_log)?;
        let policies = self.policies.as_slice().iter();
        let others = policies.flat_map(|policy| enforced(policy).chain(candidates(policy))).flatten();
        let layout = self.layout.clone();
        match others.map(PolicyQuota::quota).find(is_log) {
            None => Some(MisfitReason::NewLog { layout, quota: quota.clone() }),
            Some(one) if one.window() == quota.window() => None,
            Some(one) => Some(MisfitReason::LogLengths { layout, one: one.clone(), other: quota.clone() }),
        }
    }
}
