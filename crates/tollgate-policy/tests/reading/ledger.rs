//! Counts requests by the naive reading, in windows that never end.

use std::collections::HashMap;

use crate::judge::Counted;

/// The units that were used of each policy, its windows and its client.
#[derive(Default)]
pub(crate) struct Ledger(HashMap<[String; 3], u64>);

impl Ledger {
    /// Returns whether a request with these quotas is admitted, and charges what it takes.
    pub(crate) fn decide(&mut self, deciding: &[Counted]) -> bool {
        let is_admitted = deciding.iter().all(|counted| {
            let used = self.0.get(&counter(counted)).copied().unwrap_or(0);
            let limit = limit(counted);
            if counted.overdraft { used < limit } else { used + u64::from(counted.cost.max(1)) <= limit }
        });
        for counted in deciding.iter().filter(|counted| is_admitted || counted.overdraft) {
            *self.0.entry(counter(counted)).or_default() += u64::from(counted.cost);
        }
        is_admitted
    }
}

fn limit(Counted { quota, .. }: &Counted) -> u64 {
    let (limit, _) = quota.split_once('/').expect("it has a limit and windows");
    limit.parse().expect("it is a number")
}

fn counter(Counted { policy, quota, who, .. }: &Counted) -> [String; 3] {
    let (_, windows) = quota.split_once('/').expect("it has a limit and windows");
    [policy.clone(), windows.to_owned(), who.clone()]
}
