//! Overrides without limits: `unlimited` and `denied`.

use tollgate::Source;
use tollgate_policy::{CheckError, Ground};

use super::*;

#[test]
fn unlimited_counts_nothing_and_says_so() {
    let world = World::new(SEARCH);
    world.set("alice", &Unlimited, Some(10_000));
    for _ in 0..5 {
        let decision = world.check(ALICE);
        assert!(decision.is_allowed() && matches!(decision.ground(), Ground::Unlimited));
        assert!(
            decision.quotas().next().is_none() && decision.policy().is_none() && !decision.is_unmatched()
        );
        let applied: Vec<_> =
            decision.applied_overrides().map(|it| (it.policy.name(), it.by_override.until)).collect();
        assert_eq!(applied, [("search", Some(world.time(10_000)))]);
    }
    world.go_to(10_000);
    let decision = world.check(ALICE);
    assert_eq!(quotas(&decision), [("2/1m@first_hit".to_owned(), 1)], "nothing was counted before");
    assert!(decision.applied_overrides().next().is_none());
    assert_eq!(world.limiter.live().unlimited(), 5);
}

/// A denied customer was told to come again in a minute.
#[test]
fn denied_is_a_denial_with_status_403_and_without_a_wait() {
    let policy =
        "  - { name: search, match: { path: /search }, key: [user], quotas: [2/1m], deny_status: 402 }
  - { name: all, key: global, quotas: [5/1m@first_hit] }";
    let world = World::new(policy);
    world.set("alice", &Denied, Some(10_000));
    let set = world.limiter.live();
    for decision in
        [world.check(ALICE), world.limiter.check_at_once(&alice(), 1).unwrap().unwrap(), world.peek(ALICE)]
    {
        assert!(!decision.is_allowed());
        let Ground::DeniedByOverride { policy, until } = decision.ground() else { panic!("{decision:?}") };
        assert_eq!((policy.name(), until), ("search", Some(world.time(10_000))));
        assert_eq!((decision.deny_status(), decision.retry_after(), decision.reason()), (403, None, None));
        assert_eq!(decision.policy().map(|policy| policy.name()), Some("search"));
        assert!(decision.quotas().next().is_none() && !decision.is_unmatched());
        assert_eq!((decision.source(), decision.applied_overrides().count()), (Source::Store, 1));
        assert!(decision.receipt().is_empty());
    }
    // Peeks are not counted.
    let tally: Vec<_> = set.tally().map(|(_, tally)| (tally.allowed, tally.denied)).collect();
    assert_eq!(tally, [(0, 2), (0, 0)]);
    assert_eq!(
        world.peek(&[("path", "/")]).state().map(|state| state.used()),
        Some(0),
        "nothing was charged"
    );

    let bob = attributes(&[("user", "bob"), ("path", "/search")]);
    let together = block_on(world.limiter.check_together([(&alice(), 1), (&bob, 1)])).unwrap();
    assert_eq!(together.iter().map(PolicyDecision::is_allowed).collect::<Vec<_>>(), [false, true]);
    assert_eq!(quotas(&together[1]).remove(0), ("2/1m".to_owned(), 0), "all or nothing");
    world.go_to(10_000);
    assert!(world.check(ALICE).is_allowed());
}

/// During an outage, nothing has to be asked to know that a request is denied.
#[test]
fn denied_and_unlimited_need_no_store() {
    let world = World::new("  - { name: search, key: [user], quotas: [2/1m], on_store_failure: closed }");
    world.limiter.store().begin(tollgate_testkit::StoreFault::unreachable());
    assert!(matches!(block_on(world.limiter.check(&alice(), 1)), Err(CheckError::Store(_))));
    world.set("alice", &Denied, None);
    assert_eq!(world.check(ALICE).deny_status(), 403);
    world.set("alice", &Unlimited, None);
    assert!(world.check(ALICE).is_allowed());
}
