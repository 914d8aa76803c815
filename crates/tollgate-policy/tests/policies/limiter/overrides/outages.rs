//! Overrides while the store cannot answer.

use tollgate::Source;
use tollgate_testkit::StoreFault;

use super::*;

/// With `local`, an override's limit is counted in memory against the share, and ends by the process's clock.
#[test]
fn a_local_policy_counts_an_override_until_its_end() {
    let policy = "  - { name: search, key: [user], quotas: [4/1m@first_hit], on_store_failure: local, local_share: 1/2 }";
    let world = World::new(policy);
    world.set("alice", &Limits(&["6/1m@first_hit"]), Some(10_000));
    world.limiter.store().begin(StoreFault::unreachable());
    let decided = |millis| {
        world.go_apart(0, millis);
        let decision = world.check(ALICE);
        assert_eq!(decision.source(), Source::Fallback);
        let standing = decision.quota().unwrap();
        (standing.state.limit(), standing.state.used(), decision.is_allowed(), standing.by_override.is_some())
    };
    assert_eq!(decided(0), (3, 1, true, true));
    assert_eq!(decided(5_000), (3, 2, true, true));
    assert_eq!(decided(9_999), (3, 3, true, true));
    assert_eq!(decided(10_000), (2, 3, false, false));
}

/// With `open`, nothing is counted and no step compares the end, so a decision named the override for two seconds more.
#[test]
fn an_open_policy_is_under_an_override_until_its_end_by_the_processs_clock() {
    let policy = "  - { name: search, key: [user], quotas: [4/1m@first_hit], on_store_failure: open }";
    let world = World::new(policy);
    world.set("alice", &Limits(&["6/1m@first_hit"]), Some(10_000));
    world.limiter.store().begin(StoreFault::unreachable());
    for (millis, limit) in [(9_999, 6), (10_000, 4), (11_000, 4)] {
        world.go_apart(0, millis);
        for decision in [world.check(ALICE), world.peek(ALICE)] {
            let state = decision.state().unwrap();
            assert_eq!(
                (state.limit(), state.used(), state.source()),
                (limit, 0, Source::Fallback),
                "{millis}"
            );
        }
        let answer = block_on(
            world.limiter.reserve(&alice(), tollgate_policy::AskedHold::new(tollgate::HoldId::random(), 1)),
        );
        let tollgate_policy::ReserveAnswer::Decided { decision, .. } = answer.unwrap() else { panic!() };
        assert_eq!(decision.state().map(|state| state.limit()), Some(limit), "{millis}");
    }
}

/// The clock of the process decided where nothing was counted, and not its estimate of the store's.
#[test]
fn an_open_policy_does_not_go_by_the_clock_of_the_machine() {
    let policy = "  - { name: search, key: [user], quotas: [4/1m@first_hit], on_store_failure: open }";
    for machine in [0, 60_000] {
        let world = World::new(policy);
        world.set("alice", &Limits(&["6/1m@first_hit"]), Some(10_000));
        let clock = ManualClock::default();
        clock.set(world.time(machine));
        let store = FaultyStore::new(MemoryStore::builder().clock(world.clock.clone()).build());
        let limiter = PolicyLimiter::new(store, policies_of(policy), "test")
            .memory(MemoryStore::builder().clock(clock).build())
            .with_overrides(world.limiter.live().overrides().clone());
        limiter.store().begin(StoreFault::unreachable());
        for (millis, limit) in [(9_999, 6), (10_000, 4)] {
            world.go_apart(0, millis);
            let (checked, peeked) =
                (block_on(limiter.check(&alice(), 1)), block_on(limiter.peek(&alice(), 1)));
            for decision in [checked.unwrap(), peeked.unwrap()] {
                assert_eq!(decision.state().map(|state| state.limit()), Some(limit), "{machine}, {millis}");
            }
        }
    }
}

/// A closed policy stays closed.
#[test]
fn a_closed_policy_is_an_error_under_an_override_too() {
    let world = World::new("  - { name: search, key: [user], quotas: [4/1m], on_store_failure: closed }");
    world.set("alice", &Limits(&["6/1m"]), Some(10_000));
    world.limiter.store().begin(StoreFault::unreachable());
    assert!(block_on(world.limiter.check(&alice(), 1)).is_err());
    let tally = world.limiter.live().tally().map(|(_, tally)| tally.failed).next();
    assert_eq!(tally, Some(1));
}
