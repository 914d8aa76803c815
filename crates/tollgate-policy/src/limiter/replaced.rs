//! The limits of a policy that an override replaces: nothing is charged to their counters, and changes reach them.

use tollgate::{Charge, PolicyInFlight, PolicyQuota};

use crate::MatchedPolicies;
use crate::matched::Entry;

impl MatchedPolicies<'_> {
    /// Returns the charges that decide, each with the place of its policy.
    pub(super) fn enforced_with_places(&self) -> impl Iterator<Item = (u32, Charge<'_>)> {
        self.deciding().flat_map(|entry| {
            let charges = entry.quotas().iter().map(|quota| Charge::new(quota, &entry.key, entry.cost));
            charges.map(|charge| (entry.applied.policy, charge))
        })
    }

    /// Returns the charges on the counters that overrides replace, each with the place of its policy. A counter that an
    /// override has in common with the policy is not among them.
    pub(super) fn replaced(&self) -> impl Iterator<Item = (u32, Charge<'_>)> {
        self.deciding().flat_map(|entry| {
            let applies = |counter: &PolicyQuota| {
                entry.quotas().iter().any(|quota| quota.shares_counters_with(counter))
            };
            let quotas = entry.replaced().map_or(&[][..], |(quotas, _)| quotas);
            let replaced = quotas.iter().filter(move |quota| !applies(quota));
            replaced.map(|quota| (entry.applied.policy, Charge::new(quota, &entry.key, entry.cost)))
        })
    }
}

impl Entry<'_> {
    /// Returns the limit in flight of the policy, if an override replaces its limits by others without one. All limits in
    /// flight of a policy have one counter for a key.
    pub(super) fn replaced_in_flight(&self) -> Option<&PolicyInFlight> {
        let (_, in_flight) = self.replaced()?;
        in_flight.filter(|_| self.in_flight().is_none())
    }
}
