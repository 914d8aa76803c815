//! Decisions under overrides: their ends, their counters, and what reaches them.

mod changes;
mod counters;
mod denials;
mod ends;
mod holds;
mod outages;
mod sets;
mod trials;

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Key, ManualClock, MemoryStore, Timestamp};
use tollgate_policy::{
    Attributes, OverrideKey, OverrideLimits, OverrideName, OverrideRecord, OverrideSet, OverrideTarget,
    Policies, PolicyDecision, PolicyLimiter,
};
use tollgate_testkit::{FaultyStore, block_on};

use super::{Limiter, attributes, policies_of};

/// A policy by users.
const SEARCH: &str = "  - { name: search, match: { path: /search }, key: [user], quotas: [2/1m@first_hit] }";

const ALICE: &[(&str, &str)] = &[("user", "alice"), ("path", "/search"), ("tenant", "acme")];

/// A limiter, with its store's clock and the clock by which the process estimates that one.
struct World {
    clock: ManualClock,
    estimate: ManualClock,
    limiter: Limiter,
    /// The same over a store that answers at once, with counters of its own.
    at_once: PolicyLimiter<MemoryStore<ManualClock>, ManualClock>,
}

/// What an override says.
enum Says<'a> {
    Limits(&'a [&'a str]),
    Unlimited,
    Denied,
}

use Says::{Denied, Limits, Unlimited};

impl World {
    fn new(policies: &str) -> Self {
        let (clock, estimate) = (ManualClock::default(), ManualClock::default());
        let memory =
            |clock: &ManualClock| MemoryStore::builder().clock(clock.clone()).max_counters(100).build();
        let set = OverrideSet::new(Arc::new(digest), Arc::new(estimate.clone()));
        let limiter = PolicyLimiter::new(FaultyStore::new(memory(&clock)), policies_of(policies), "test");
        let limiter = limiter.memory(memory(&estimate)).with_overrides(set.clone());
        let at_once = PolicyLimiter::new(memory(&clock), policies_of(policies), "test");
        let at_once = at_once.memory(memory(&estimate)).with_overrides(set);
        Self { clock, estimate, limiter, at_once }
    }

    /// Returns the time so many milliseconds after the start.
    fn time(&self, millis: u64) -> Timestamp {
        let start = ManualClock::default();
        let start = tollgate::Clock::now(&start);
        start + Duration::from_millis(millis)
    }

    /// Sets both clocks to this many milliseconds after the start.
    fn go_to(&self, millis: u64) {
        self.go_apart(millis, millis);
    }

    /// Sets the clock of the store, and that of the process.
    fn go_apart(&self, store: u64, process: u64) {
        self.clock.set(self.time(store));
        self.estimate.set(self.time(process));
    }

    /// Sets the override of a key of `search`, which is a user's.
    fn set(&self, user: &str, says: &Says<'_>, until: Option<u64>) {
        let target = OverrideTarget::Key(OverrideKey(digest(&Key::from(user))));
        self.put("search", "user", target, says, until);
    }

    /// Sets the override of a tenant, or of those whose names begin so.
    fn set_tenant(&self, policy: &str, tenant: &str, says: &Says<'_>, until: Option<u64>) {
        let (text, is_whole) = match tenant.strip_suffix('*') {
            Some(prefix) => (prefix, false),
            None => (tenant, true),
        };
        let target = OverrideTarget::Attribute { attribute: "tenant".into(), text: text.into(), is_whole };
        self.put(policy, "user", target, says, until);
    }

    fn put(&self, policy: &str, key: &str, target: OverrideTarget, says: &Says<'_>, until: Option<u64>) {
        let limits = match says {
            Limits(limits) => OverrideLimits::of(limits.iter().copied()),
            Unlimited => OverrideLimits::Unlimited,
            Denied => OverrideLimits::Denied,
        };
        let record = OverrideRecord {
            name: OverrideName { policy: policy.into(), target },
            key: key.into(),
            limits,
            until: until.map(|until| self.time(until)),
            label: None,
            note: None,
            by: None,
            at: Timestamp::EPOCH,
            version: 1,
        };
        let change = |set: &OverrideSet, policies: &Policies| {
            set.expect_fit(&record, policies).unwrap();
            set.with(record.clone(), policies)
        };
        self.limiter.replace_overrides(change);
        self.at_once.replace_overrides(change);
    }

    /// Deletes all overrides.
    fn clear(&self) {
        self.limiter.replace_overrides(|set, _| set.cleared());
    }

    fn check(&self, pairs: &[(&str, &str)]) -> PolicyDecision {
        block_on(self.limiter.check(&attributes(pairs), 1)).unwrap()
    }

    fn peek(&self, pairs: &[(&str, &str)]) -> PolicyDecision {
        block_on(self.limiter.peek(&attributes(pairs), 1)).unwrap()
    }
}

/// A digest for tests.
fn digest(key: &Key<'_>) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(&key.canonical_bytes());
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Returns quota and used units of each quota that decided.
fn quotas(decision: &PolicyDecision) -> Vec<(String, u64)> {
    decision.quotas().map(|it| (it.quota.quota().to_string(), it.state.used())).collect()
}

fn alice() -> Attributes<'static> {
    attributes(ALICE)
}
