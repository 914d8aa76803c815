//! The quotas that a request was charged, without the data of the request.

use std::iter::repeat;

use smallvec::SmallVec;
use tollgate::{Key, PolicyQuota};

use super::PolicySet;
use super::applied_override::AppliedOverride;
use crate::file_overrides::ListPlace;
use crate::matched::{AppliedList, Entry};
use crate::{MatchedPolicies, Policy};

/// The quotas that were charged, with their policies.
#[derive(Debug, Clone)]
pub(super) struct ChargedQuotas {
    /// Lists of quotas, one after another.
    pub(super) entries: SmallVec<[ChargedEntry; 2]>,
    /// The quotas instead of all these lists, if some of them are not simply those of a list.
    limited: Option<Box<[LimitedQuota]>>,
    /// Whether any policy matches.
    pub(super) is_any: bool,
}

/// A quota of a policy, with a limit of its own.
#[derive(Debug, Clone)]
struct LimitedQuota {
    policy: u32,
    origin: QuotaOrigin,
    quota: PolicyQuota,
}

/// What a quota is from.
#[derive(Debug, Clone, Copy)]
enum QuotaOrigin {
    /// A list of the policy, where it has this place.
    List(ListPlace, u32),
    Override(AppliedOverride),
}

/// A policy's quotas that were charged for one key.
#[derive(Debug, Clone)]
pub(super) struct ChargedEntry {
    pub(super) applied: AppliedList,
    /// The number of quotas.
    pub(super) quotas: usize,
    pub(super) key: Key<'static>,
    /// The cost that the caller gave; `None` if the policy or an attribute sets it.
    pub(super) asked: Option<u32>,
    /// The units that the request costs.
    pub(super) cost: u32,
    /// The override that the quotas belong to, or that lifts all limits.
    pub(super) by_override: Option<AppliedOverride>,
}

impl From<&Entry<'_>> for ChargedEntry {
    fn from(entry: &Entry<'_>) -> Self {
        let asked = entry.is_cost_asked.then_some(entry.cost);
        let quotas = entry.quotas().len();
        let by_override = entry.by_override.map(AppliedOverride::from);
        let (applied, key, cost) = (entry.applied, entry.key.clone().into_owned(), entry.cost);
        Self { applied, quotas, key, asked, cost, by_override }
    }
}

impl ChargedQuotas {
    pub(super) fn of(matched: &MatchedPolicies<'_>) -> Self {
        let is_limited = matched.deciding().any(Entry::is_limited);
        let limited = |entry: &Entry<'_>| {
            let listed = entry.places().map(|(list, place)| QuotaOrigin::List(list, place));
            let by_override = entry.by_override.map(AppliedOverride::from);
            let overriding = by_override.into_iter().flat_map(|by| repeat(QuotaOrigin::Override(by)));
            // Places are not known of an override's quotas.
            let origins = overriding.chain(listed).zip(entry.quotas());
            let policy = entry.applied.policy;
            let quotas = origins.map(|(origin, quota)| LimitedQuota { policy, origin, quota: quota.clone() });
            quotas.collect::<SmallVec<[LimitedQuota; 2]>>()
        };
        let quotas = || matched.deciding().flat_map(limited).collect();
        Self {
            entries: matched.deciding().map(ChargedEntry::from).collect(),
            limited: is_limited.then(quotas),
            is_any: matched.is_any,
        }
    }

    /// Returns no quotas, although some would apply.
    pub(super) fn unknown(matched: &MatchedPolicies<'_>) -> Self {
        Self { entries: SmallVec::new(), limited: None, is_any: matched.is_any }
    }
}

/// A quota that was charged, with its policy.
pub(super) struct ChargedQuota<'a> {
    pub(super) policy: &'a Policy,
    pub(super) declared: &'a PolicyQuota,
    pub(super) quota: &'a PolicyQuota,
    pub(super) by_override: Option<AppliedOverride>,
}

impl PolicySet {
    /// The quotas as they are declared and as they were charged.
    pub(super) fn quotas<'a>(&'a self, charged: &'a ChargedQuotas) -> impl Iterator<Item = ChargedQuota<'a>> {
        let limited = charged.limited.iter().flatten();
        let limited = limited.filter_map(|LimitedQuota { policy, origin, quota }| {
            let (declared, by_override) = match *origin {
                QuotaOrigin::List(list, place) => {
                    let applied = AppliedList { policy: *policy, list };
                    (self.list(applied).get(place as usize)?, None)
                }
                QuotaOrigin::Override(by_override) => (quota, Some(by_override)),
            };
            let policy = self.policies().policy(*policy)?;
            Some(ChargedQuota { policy, declared, quota, by_override })
        });
        let lists = if charged.limited.is_none() { charged.entries.as_slice() } else { &[] };
        let quotas = lists.iter().flat_map(|ChargedEntry { applied, .. }| {
            let policy = self.policies().policy(applied.policy);
            let quotas = |policy| {
                let quotas = self.list(*applied).iter();
                quotas.map(move |quota| ChargedQuota { policy, declared: quota, quota, by_override: None })
            };
            policy.into_iter().flat_map(quotas)
        });
        limited.chain(quotas)
    }

    fn list(&self, applied: AppliedList) -> &[PolicyQuota] {
        self.policies()
            .policy(applied.policy)
            .map_or(&[], |policy| &policy.list(applied.list).enforced.quotas)
    }
}
