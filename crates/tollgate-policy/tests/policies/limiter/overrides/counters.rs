//! The counters of overrides: rule 4 names them.

use super::*;

fn used(quota: &str, used: u64) -> [(String, u64); 1] {
    [(quota.to_owned(), used)]
}

/// The count of the policy's own quota was gone after an override of another window, so every customer whose limit was
/// raised for an hour began from 0 again.
#[test]
fn the_old_count_is_there_again_after_an_override_of_another_series() {
    let world = World::new(SEARCH);
    assert_eq!(quotas(&world.check(ALICE)), used("2/1m@first_hit", 1));
    world.set("alice", &Limits(&["7/1h"]), Some(10_000));
    assert_eq!(quotas(&world.check(ALICE)), used("7/1h", 1));
    assert_eq!(quotas(&world.check(ALICE)), used("7/1h", 2));
    world.go_to(10_000);
    assert_eq!(quotas(&world.check(ALICE)), used("2/1m@first_hit", 2));
    assert!(!world.check(ALICE).is_allowed());
    world.set("alice", &Limits(&["7/1h"]), None);
    assert_eq!(quotas(&world.check(ALICE)), used("7/1h", 3), "its own count was kept too");
    world.clear();
    assert_eq!(quotas(&world.peek(ALICE)), used("2/1m@first_hit", 2));
}

#[test]
fn a_quota_of_the_same_series_keeps_the_count_and_applies_at_once() {
    let world = World::new(SEARCH);
    (0..2).for_each(|_| assert!(world.check(ALICE).is_allowed()));
    assert!(!world.check(ALICE).is_allowed());
    world.set("alice", &Limits(&["4/1m@first_hit"]), Some(10_000));
    assert_eq!(quotas(&world.check(ALICE)), used("4/1m@first_hit", 3));
    assert_eq!(quotas(&world.check(ALICE)), used("4/1m@first_hit", 4));
    assert!(!world.check(ALICE).is_allowed());
    let bob = [("user", "bob"), ("path", "/search")];
    assert_eq!(quotas(&world.check(&bob)), used("2/1m@first_hit", 1), "others keep theirs");
    world.go_to(10_000);
    let ended = world.check(ALICE);
    assert_eq!((quotas(&ended), ended.is_allowed()), (used("2/1m@first_hit", 4).to_vec(), false));
    assert_eq!(ended.state().map(|state| state.remaining()), Some(0));
}

/// An override replaces the limits of one policy alone, and a request needs room everywhere.
#[test]
fn the_quotas_of_other_policies_apply_beside_an_override() {
    let all = format!("{SEARCH}\n  - {{ name: all, key: global, quotas: [3/1m@first_hit] }}");
    let world = World::new(&all);
    world.set("alice", &Limits(&["9/1h", "1/1d"]), None);
    let decision = world.check(ALICE);
    let standings: Vec<(&str, String, bool)> = decision
        .quotas()
        .map(|it| (it.policy.name(), it.quota.quota().to_string(), it.by_override.is_some()))
        .collect();
    let expected = [("search", "9/1h", true), ("search", "1/1d", true), ("all", "3/1m@first_hit", false)];
    assert_eq!(standings, expected.map(|(policy, quota, by)| (policy, quota.to_owned(), by)));
    assert_eq!(
        decision.quota().map(|it| (it.quota.windows().to_owned(), it.by_override.is_some())),
        Some(("1d".to_owned(), true))
    );
    assert_eq!(decision.policy().map(|policy| policy.name()), Some("search"));
    let denied = world.check(ALICE);
    assert!(!denied.is_allowed() && denied.quota().is_some_and(|it| it.by_override.is_some()));
    assert_eq!(denied.deny_status(), 429);
    assert_eq!(world.peek(&[("path", "/")]).state().map(|state| state.used()), Some(1));
}

/// Receipts name the counters that were charged, whatever applies by then.
#[test]
fn a_receipt_gives_back_what_an_override_was_charged() {
    let world = World::new(SEARCH);
    world.set("alice", &Limits(&["7/1h"]), None);
    let decision = block_on(world.limiter.check(&alice(), 3)).unwrap();
    world.clear();
    block_on(world.limiter.settle(&mut decision.receipt(), 1)).unwrap();
    assert_eq!(quotas(&world.peek(ALICE)), used("2/1m@first_hit", 0));
    world.set("alice", &Limits(&["7/1h"]), None);
    assert_eq!(quotas(&world.peek(ALICE)), used("7/1h", 1));
}

/// The readings of a path may lead to two lists of the file. An override is the same for both.
#[test]
fn an_override_replaces_the_limits_of_both_readings() {
    let policy = "  - { name: search, match: { path: /search/** }, key: [user], quotas: [2/1m], overrides: [
      { when: { path: /search/a }, quotas: [5/1h] }, { when: { path: /search/x/../a }, quotas: [6/1d] }] }";
    let world = World::new(policy);
    let request = attributes(&[("user", "alice"), ("path", "/search/x/../a")]);
    let listed = block_on(world.limiter.peek(&request, 1)).unwrap();
    let windows: Vec<&str> = listed.quotas().map(|it| it.quota.windows()).collect();
    assert_eq!(windows, ["1h", "1d"], "the quotas of both readings apply");
    world.set("alice", &Limits(&["7/1h"]), None);
    assert_eq!(quotas(&block_on(world.limiter.check(&request, 1)).unwrap()), used("7/1h", 1));
}
