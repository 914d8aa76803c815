//! What a client's users have used, by the client's own requests alone: nobody else asks for them.

use std::collections::HashMap;

use crate::answer::SettledQuota;
use crate::attributes::Attributes;
use crate::change::written;
use crate::expected::ExpectedQuota;

/// A counter: policy, key and series.
type CounterName = (&'static str, Vec<(&'static str, String)>, &'static str);

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Ledger {
    used: HashMap<CounterName, u64>,
    /// By the place of the reservation among what the client asked.
    holds: HashMap<usize, LedgerHold>,
}

/// A hold that is not settled. It is settled under the limits that it was admitted under, also if overrides have changed since.
struct LedgerHold {
    attributes: Attributes,
    cost: u64,
    quotas: Vec<ExpectedQuota>,
}

impl Ledger {
    pub(crate) fn used(&self, quota: &ExpectedQuota, attributes: &Attributes) -> u64 {
        self.used.get(&counter(quota, attributes)).copied().unwrap_or_default()
    }

    pub(crate) fn charge(&mut self, quotas: &[ExpectedQuota], attributes: &Attributes, cost: u64) {
        for quota in quotas {
            *self.used.entry(counter(quota, attributes)).or_default() += quota.units(cost);
        }
    }

    /// Notes a hold that has been charged.
    pub(crate) fn hold(
        &mut self,
        place: usize,
        quotas: Vec<ExpectedQuota>,
        attributes: &Attributes,
        cost: u64,
    ) {
        self.holds.insert(place, LedgerHold { attributes: attributes.clone(), cost, quotas });
    }

    /// Ends a hold, and returns what the answer has to say; `None` if there is no such hold.
    pub(crate) fn settle(&mut self, place: usize, actual: u64) -> Option<Vec<SettledQuota>> {
        let LedgerHold { attributes, cost, quotas } = self.holds.remove(&place)?;
        let mut changed = Vec::new();
        for quota in &quotas {
            let used = self.used.entry(counter(quota, &attributes)).or_default();
            if quota.is_in_flight() {
                *used = used.saturating_sub(1);
                continue;
            }
            *used = (*used + actual).saturating_sub(cost);
            let (given, charged) = (cost.saturating_sub(actual), actual.saturating_sub(cost));
            if given + charged > 0 {
                let text = written(quota.limit, quota.series);
                changed.push(SettledQuota { policy: quota.policy.to_owned(), quota: text, given, charged });
            }
        }
        changed.sort();
        Some(changed)
    }
}

fn counter(quota: &ExpectedQuota, attributes: &Attributes) -> CounterName {
    (quota.policy, attributes.key(quota.policy), quota.series)
}
