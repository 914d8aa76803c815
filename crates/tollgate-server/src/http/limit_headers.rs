//! Which headers tell of a decision: those that the policy wants which decided, on all quotas that apply.
//!
//! What is the same for every decision on a policy's quotas is made once for each version of the policies. Where
//! several policies apply, or an override, it is made for the one decision.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use tollgate::PolicyQuota;
use tollgate_policy::{PolicyDecision, PolicySet};
use tollgate_tower::headers::{HeaderFormat, LimitHeaders};

/// Writes the headers of decisions.
pub(super) struct HeaderTable(ArcSwap<Made>);

/// What was made for one version of the policies.
struct Made {
    version: u64,
    /// By the policy's name, for its own quotas.
    alone: HashMap<Box<str>, LimitHeaders>,
}

impl HeaderTable {
    pub(super) fn new(live: &PolicySet) -> Self {
        Self(ArcSwap::from_pointee(Made::new(live)))
    }

    pub(super) fn write(&self, decision: &PolicyDecision, headers: &mut HeaderMap) {
        let Some(counted) = decision.counted() else { return };
        if decision.policies().is_of_caller() {
            return together(decision).write(counted, headers);
        }
        let made = self.of(decision.policies());
        match made.of(decision) {
            Some(alone) => alone.write(counted, headers),
            None => together(decision).write(counted, headers),
        }
    }

    fn of(&self, set: &PolicySet) -> arc_swap::Guard<Arc<Made>> {
        let made = self.0.load();
        // A decision may be older than what was made already, and then is told of by itself.
        if made.version >= set.version() {
            return made;
        }
        self.0.store(Arc::new(Made::new(set)));
        self.0.load()
    }
}

/// Writes headers in this format, whatever the policy wants.
pub(super) fn write_as(format: HeaderFormat, decision: &PolicyDecision, headers: &mut HeaderMap) {
    if let Some(counted) = decision.counted() {
        of_all(format, decision).write(counted, headers);
    }
}

/// The quotas that had no room, as the headers name them.
pub(super) fn violated(decision: &PolicyDecision) -> Vec<String> {
    let names = together(decision);
    let quotas = decision.quotas().enumerate().filter(|(_, standing)| !standing.state.has_room());
    quotas.filter_map(|(place, _)| names.name(place).map(str::to_owned)).collect()
}

impl Made {
    fn new(set: &PolicySet) -> Self {
        let counting = set.policies().as_slice().iter().filter(|policy| !policy.quotas().is_empty());
        let alone = counting.map(|policy| {
            (policy.name().into(), LimitHeaders::new(policy.headers().into(), policy.quotas()))
        });
        Self { version: set.version(), alone: alone.collect() }
    }

    /// What was made for the one list of quotas that applies, if it is one that it was made for.
    fn of(&self, decision: &PolicyDecision) -> Option<&LimitHeaders> {
        let policy = decision.policy()?;
        let applied = decision.quotas().map(|standing| standing.quota);
        let is_alone = self.version == decision.version()
            && applied.map(std::ptr::from_ref).eq(policy.quotas().iter().map(std::ptr::from_ref));
        self.alone.get(policy.name()).filter(|_| is_alone)
    }
}

fn together(decision: &PolicyDecision) -> LimitHeaders {
    of_all(decision.headers().into(), decision)
}

fn of_all(format: HeaderFormat, decision: &PolicyDecision) -> LimitHeaders {
    let quotas: Vec<&PolicyQuota> = decision.quotas().map(|standing| standing.quota).collect();
    LimitHeaders::of(format, quotas.into_iter())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{ManualClock, MemoryStore};
    use tollgate_policy::{Attributes, Policies, Policy, PolicyBuilder, PolicyLimiter};
    use tollgate_testkit::block_on;

    use super::*;

    type Limiter = PolicyLimiter<MemoryStore<ManualClock>>;

    fn policy(name: &str, quotas: &[&str]) -> PolicyBuilder {
        let quotas = quotas.iter().map(|quota| quota.parse().unwrap());
        quotas.fold(Policy::builder(name), PolicyBuilder::quota)
    }

    fn policies<const N: usize>(policies: [PolicyBuilder; N]) -> Policies {
        Policies::of(policies.map(|policy| policy.build().unwrap())).unwrap()
    }

    fn limiter(policies: Policies) -> Limiter {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        clock.advance(Duration::from_millis(18_400));
        PolicyLimiter::new(store, policies, "test")
    }

    fn written(table: &HeaderTable, limiter: &Limiter) -> (Option<String>, Option<String>) {
        let decision = block_on(limiter.check(&Attributes::default(), 1)).unwrap();
        let mut headers = HeaderMap::new();
        table.write(&decision, &mut headers);
        let told = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        (told("ratelimit-policy"), told("ratelimit"))
    }

    #[test]
    fn every_quota_that_applies_is_told_under_the_name_of_its_policy() {
        let limiter = limiter(policies([policy("a", &["5/1m", "9/day@UTC"]), policy("b", &["7/1h"])]));
        let (policy, limit) = written(&HeaderTable::new(&limiter.live()), &limiter);
        assert_eq!(policy.unwrap(), r#""a/5/1m";q=5;w=60, "a/9/day@UTC";q=9;w=86400, "b";q=7;w=3600"#);
        // 2023-11-14 22:14:18.4, so that 6,342 seconds of the day are left, rounded up.
        assert_eq!(limit.unwrap(), r#""a/5/1m";r=4;t=42, "a/9/day@UTC";r=8;t=6342, "b";r=6;t=2742"#);
    }

    #[test]
    fn the_policy_that_decides_chooses_the_format() {
        let limiter = limiter(policies([
            policy("a", &["5/1m"]).headers(tollgate_policy::HeaderFormat::None),
            policy("b", &["9/1m"]),
        ]));
        assert_eq!(written(&HeaderTable::new(&limiter.live()), &limiter), (None, None));
        let nothing = Policies::of([]).unwrap();
        let _ = limiter.replace(nothing, "test");
        assert_eq!(written(&HeaderTable::new(&limiter.live()), &limiter), (None, None));
    }

    /// What was made for one version told the limits of that version for all that came after it.
    #[test]
    fn a_new_version_has_headers_of_its_own() {
        let limiter = limiter(policies([policy("a", &["5/1m"])]));
        let table = HeaderTable::new(&limiter.live());
        assert_eq!(written(&table, &limiter).0.unwrap(), r#""a";q=5;w=60"#);
        let old = block_on(limiter.check(&Attributes::default(), 1)).unwrap();
        let _ = limiter.replace(policies([policy("a", &["6/1m"])]), "test");
        assert_eq!(written(&table, &limiter).0.unwrap(), r#""a";q=6;w=60"#);
        let mut headers = HeaderMap::new();
        table.write(&old, &mut headers);
        assert_eq!(headers["ratelimit-policy"], r#""a";q=5;w=60"#);
    }
}
