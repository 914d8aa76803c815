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
