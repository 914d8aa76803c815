//! Limits that clients choose for themselves.

use tollgate::Quota;

use super::redundant::never_binds;
use crate::limit::{QuotaLists, QuotaSpecs};
use crate::{Condition, Conditions, FileOverride, FileOverrideTable, Policy, Position};

/// The prefix of attributes that are headers of the client.
const HEADER: &str = "header.";

/// Returns the headers by which a client can get more than the policy's own quotas, each with the place of its use.
pub(super) fn chosen_by_client(policy: &Policy) -> Vec<(Position, &str)> {
    let own = policy.quotas.enforced.attributes().map(|name| (policy.at, name));
    let overrides = policy.overrides.iter().filter(|over| is_looser(over, &policy.quotas));
    let choices_of_overrides = overrides.flat_map(|over| {
        let table = over.table().map(FileOverrideTable::attribute);
        let when = over.when().into_iter().flat_map(Conditions::iter).map(Condition::attribute);
        when.chain(table).map(|name| (over.at, name))
    });
    let mut chosen: Vec<_> =
        own.chain(choices_of_overrides).filter(|(_, name)| name.starts_with(HEADER)).collect();
    chosen.dedup();
    chosen
}

/// Returns whether one of its lists may admit what the policy's own quotas deny.
fn is_looser(over: &FileOverride, own: &QuotaLists) -> bool {
    over.lists.iter().any(|list| !is_as_strict(&list.enforced, &own.enforced))
}

fn is_as_strict(list: &QuotaSpecs, own: &QuotaSpecs) -> bool {
    own.quotas.iter().all(|own| list.quotas.iter().any(|quota| denies_first(quota.quota(), own.quota())))
}

fn denies_first(quota: &Quota, own: &Quota) -> bool {
    let is_as_low = quota.limit() <= own.limit() && quota.capacity() <= own.capacity();
    (quota.has_series_of(own) && is_as_low) || never_binds(own, quota)
}
