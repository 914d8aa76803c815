//! Quotas of which the denials of every limit follow from the windows of their clients.

use tollgate::{Anchor, CountDenied, PolicyQuota, QuotaKind};
use tollgate_policy::{Cost, Mode, Policies, Policy, PolicyKind};

use crate::role::Role;

/// Returns whether what every limit of this quota denies follows from the windows of its clients.
///
/// It does if each request takes one unit and a denied one takes none, and no other quota decides on the same requests.
/// Under a limit of 0, windows that open at their first unit never do, so there are none to go by.
pub(crate) fn is_calculable(policies: &Policies, policy: &Policy, role: Role, quota: &PolicyQuota) -> bool {
    let takes_one = matches!(policy.cost(), Cost::Asked | Cost::Fixed(1));
    let own = if role == Role::Candidate { policy.candidates() } else { policy.quotas() };
    let is_alone = own.len() == 1 && policy.overrides().is_empty();
    let mut specs = policy.quota_specs().chain(policy.candidate_specs());
    let is_fixed = specs.all(|spec| spec.limit_attribute().is_none());
    let decides = |other: &&Policy| {
        other.mode() == Mode::Enforce && other.kind() == PolicyKind::Count && other.name() != policy.name()
    };
    let is_apart = || !policies.as_slice().iter().filter(decides).any(|other| other.overlaps(policy));
    let opens = quota.quota().limit() > 0 || quota.quota().anchor() != Anchor::FirstHit;
    let is_window = quota.quota().kind() == QuotaKind::Window;
    is_window
        && takes_one
        && opens
        && quota.count_denied() == CountDenied::No
        && is_alone
        && is_fixed
        && is_apart()
}
