//! How many overrides apply to each policy.

use std::collections::HashMap;

use tollgate::Timestamp;
use tollgate_policy::{OverridesVersion, PolicySet};

/// See the [module](self). There may be a million overrides, so they are counted only if one has changed or ended.
#[derive(Debug, Default)]
pub(crate) struct OverrideCounts {
    /// The versions of the policies and of the overrides that were counted.
    versions: Option<(u64, Option<OverridesVersion>)>,
    /// When the first of the counted ones ends.
    until: Option<Timestamp>,
    counts: HashMap<Box<str>, usize>,
}

impl OverrideCounts {
    /// Counts those that apply now.
    pub(crate) fn renew(&mut self, live: &PolicySet) {
        let overrides = live.overrides();
        let versions = Some((live.version(), overrides.version()));
        let has_ended = self.until.is_some_and(|until| overrides.now() >= until);
        if self.versions == versions && !has_ended {
            return;
        }
        (self.versions, self.until) = (versions, None);
        self.counts.clear();
        for active in overrides.active() {
            self.until = self.until.into_iter().chain(active.until).min();
            self.counts.insert(active.policy.into(), active.count);
        }
    }

    /// Returns how many apply to this policy.
    pub(crate) fn of(&self, policy: &str) -> usize {
        self.counts.get(policy).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::{Key, ManualClock, MemoryStore, Quota};
    use tollgate_policy::{OverrideLimits, OverrideRecord, OverrideSet, Policies, Policy, PolicyLimiter};

    use super::*;

    #[test]
    fn counts_again_after_a_change_and_after_an_end() {
        let at = Timestamp::from_unix_millis;
        let record = |name: &str, until| OverrideRecord {
            name: name.parse().unwrap(),
            key: "global".into(),
            limits: OverrideLimits::of(["9/1m"]),
            until,
            label: None,
            note: None,
            by: None,
            at: at(0),
            version: 1,
        };
        let clock = ManualClock::at(at(1_000));
        let digest = |key: &Key<'_>| u128::from(key.canonical_bytes().len() as u64);
        let overrides = OverrideSet::new(Arc::new(digest), Arc::new(clock.clone()));
        let policies =
            Policies::of([Policy::builder("a").quota(Quota::per_minute(5)).build().unwrap()]).unwrap();
        let limiter = PolicyLimiter::new(MemoryStore::new(), policies, "test").with_overrides(overrides);
        let mut counts = OverrideCounts::default();
        let mut count = || {
            counts.renew(&limiter.live());
            counts.of("a")
        };
        assert_eq!(count(), 0);
        for (number, until, expected) in [(1, None, 1), (2, Some(at(3_000)), 2), (3, Some(at(2_000)), 3)] {
            let record = record(&format!("a:tenant=t{number}"), until);
            let version = OverridesVersion { epoch: 7, number };
            limiter.replace_overrides(|set, policies| set.with(record, policies).at_version(version));
            assert_eq!(count(), expected);
        }
        for (millis, expected) in [(1_999, 3), (2_000, 2), (2_999, 2), (3_000, 1)] {
            clock.set(at(millis));
            assert_eq!(count(), expected, "at {millis}");
        }
    }
}
