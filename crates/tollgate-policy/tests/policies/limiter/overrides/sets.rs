//! The live pair of policies and overrides.

use std::sync::Arc;

use tollgate::{Key, ManualClock, MemoryStore, Quota, Timestamp};
use tollgate_policy::{
    OverrideLimits, OverrideRecord, OverrideSet, OverrideState, OverridesVersion, Policies, Policy,
    PolicyLimiter,
};
use tollgate_testkit::block_on;

use super::attributes;

fn policies(names: &[&str]) -> Policies {
    let policy = |name: &&str| Policy::builder(name).quota(Quota::per_minute(5)).build().unwrap();
    Policies::of(names.iter().map(policy)).unwrap()
}

fn record(id: &str) -> OverrideRecord {
    OverrideRecord {
        name: id.parse().unwrap(),
        key: "global".into(),
        limits: OverrideLimits::of(["9/1m"]),
        until: None,
        label: None,
        note: None,
        by: None,
        at: Timestamp::EPOCH,
        version: 1,
    }
}

fn states(set: &OverrideSet) -> Vec<(String, bool)> {
    let each = set.after(None, None);
    each.map(|entry| (entry.name().to_string(), entry.state() == OverrideState::Active)).collect()
}

/// A change of one override must not copy what is counted of a thousand policies, nor make the receipts of a second ago
/// those of another version.
#[test]
fn a_change_of_the_overrides_leaves_the_policies_as_they_are() {
    let limiter = PolicyLimiter::new(MemoryStore::new(), policies(&["a"]), "test");
    assert!(block_on(limiter.check(&attributes(&[]), 1)).unwrap().is_allowed());
    let before = limiter.live();
    let version = OverridesVersion { epoch: 7, number: 1 };
    let after = limiter
        .replace_overrides(|set, policies| set.with(record("a:tenant=acme"), policies).at_version(version));

    assert!(std::ptr::eq(before.policies(), after.policies()), "they are shared");
    assert_eq!((before.version(), after.version()), (1, 1));
    assert_eq!((before.since(), before.source()), (after.since(), after.source()));
    assert_eq!(after.tally().map(|(_, tally)| tally.allowed).sum::<u64>(), 1);
    assert_eq!((before.overrides().version(), after.overrides().version()), (None, Some(version)));
    assert_eq!(states(before.overrides()), []);
    assert_eq!(states(after.overrides()), [("a:tenant=acme".to_owned(), true)]);
    assert!(Arc::ptr_eq(&limiter.live(), &after));
}

/// Only those that apply are counted, and the next end says how long the count holds.
#[test]
fn active_overrides_are_counted_by_policy() {
    let ended =
        |id, millis| OverrideRecord { until: Some(Timestamp::from_unix_millis(millis)), ..record(id) };
    let policies = policies(&["a", "b", "c"]);
    let clock = ManualClock::at(Timestamp::from_unix_millis(1_000));
    let digest = |key: &Key<'_>| u128::from(key.canonical_bytes().len() as u64);
    let set = OverrideSet::new(Arc::new(digest), Arc::new(clock.clone()));
    let records = [
        record("a:tenant=acme"),
        ended("a:tenant=beta", 3_000),
        ended("a:tenant=gone", 1_000),
        ended("a:=xXvTxt0caa3R8GNSS22skw", 2_000),
        // It was set when the policy had another key.
        OverrideRecord { key: "user".into(), ..record("b:tenant=acme") },
        record("missing:tenant=acme"),
    ];
    let set = set.of_all(records, &policies);
    let active = |millis| {
        clock.set(Timestamp::from_unix_millis(millis));
        let each = set.active().map(|active| (active.policy, active.count, active.until));
        each.collect::<Vec<_>>()
    };
    let until = |millis| Some(Timestamp::from_unix_millis(millis));
    assert_eq!(active(1_000), [("a", 3, until(2_000))]);
    assert_eq!(active(1_999), [("a", 3, until(2_000))]);
    assert_eq!(active(2_000), [("a", 2, until(3_000))]);
    assert_eq!(active(3_000), [("a", 1, None)]);
    let counted = set.after(None, None).filter(|entry| entry.state() == OverrideState::Active).count();
    assert_eq!(counted, 1);
}

#[test]
fn other_policies_keep_the_overrides_and_their_version() {
    let version = OverridesVersion { epoch: 7, number: 2 };
    let set = OverrideSet::default();
    let set = set.with(record("a:tenant=acme"), &policies(&[])).with(record("b:tenant=acme"), &policies(&[]));
    assert_eq!(states(&set), [("a:tenant=acme".to_owned(), false), ("b:tenant=acme".to_owned(), false)]);
    let limiter = PolicyLimiter::new(MemoryStore::new(), policies(&["a"]), "test");
    let limiter = limiter.with_overrides(set.at_version(version));
    let live =
        || states(limiter.live().overrides()).into_iter().map(|(_, is_active)| is_active).collect::<Vec<_>>();
    assert_eq!(live(), [true, false]);
    let _ = limiter.replace(policies(&["b"]), "test");
    assert_eq!(live(), [false, true]);
    let _ = limiter.replace(policies(&["a", "b"]), "test");
    assert_eq!(live(), [true, true]);
    assert_eq!(limiter.live().overrides().version(), Some(version));
    assert_eq!(limiter.live().version(), 3);
}

/// The limits that a caller passes are no policy, so there is no version of overrides that they are under.
#[test]
fn limits_of_a_caller_are_under_no_overrides() {
    let limiter = PolicyLimiter::new(MemoryStore::new(), policies(&["a"]), "test");
    let version = OverridesVersion { epoch: 7, number: 1 };
    limiter
        .replace_overrides(|set, policies| set.with(record("a:tenant=acme"), policies).at_version(version));
    let under = limiter.under(Policy::of_caller("mine", [Quota::per_minute(5)], None).unwrap());
    assert!(under.overrides().is_empty() && under.overrides().version().is_none());
    let decision = block_on(limiter.check_in(under, &attributes(&[("user", "alice")]), 1)).unwrap();
    assert_eq!(decision.overrides_version(), None);
    let decision = block_on(limiter.check(&attributes(&[]), 1)).unwrap();
    assert_eq!(decision.overrides_version(), Some(version));
}
