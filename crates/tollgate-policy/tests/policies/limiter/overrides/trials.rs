//! Trials next to overrides, and overrides on trial.

use tollgate::HoldId;
use tollgate_policy::{AskedHold, ReserveAnswer, TrialKind};

use super::super::trials;
use super::*;

/// Candidates are tried out for all customers, also for those whose limits an override replaces.
#[test]
fn candidates_stay_those_of_the_policy() {
    let policy = "  - { name: search, key: [user], quotas: [2/1m@first_hit], candidate: [1/1m@first_hit] }";
    let world = World::new(policy);
    world.set("alice", &Limits(&["3/1m@first_hit"]), Some(10_000));
    let candidate = |allowed| vec![("search", TrialKind::Candidate, Some(allowed))];
    for (number, millis) in [(1, 0), (2, 5_000), (3, 9_999)] {
        world.go_to(millis);
        let decision = world.check(ALICE);
        assert!(decision.is_allowed());
        assert_eq!(trials(&decision), candidate(number == 1));
    }
    world.go_to(10_000);
    let decision = world.check(ALICE);
    assert_eq!((decision.is_allowed(), trials(&decision)), (false, candidate(false)));

    world.set("alice", &Unlimited, None);
    let decision = world.check(ALICE);
    assert_eq!((decision.is_allowed(), trials(&decision)), (true, candidate(false)));
}

/// In shadow mode, the override is on trial as the policy is, and ends by the same clock: that of the store.
#[test]
fn an_override_of_a_policy_in_shadow_mode_is_on_trial() {
    for is_counted in [true, false] {
        let other =
            if is_counted { "\n  - { name: all, key: global, quotas: [99/1m@first_hit] }" } else { "" };
        let policy = "  - { name: search, mode: shadow, key: [user], quotas: [1/1m@first_hit] }";
        let world = World::new(&format!("{policy}{other}"));
        world.set("alice", &Limits(&["9/1m@first_hit"]), Some(10_000));
        let shadow = |allowed| vec![("search", TrialKind::Shadow, Some(allowed))];
        for _ in 0..2 {
            let decision = world.check(ALICE);
            assert!(decision.is_allowed() && decision.applied_overrides().next().is_none());
            assert_eq!(trials(&decision), shadow(true));
        }
        // Where nothing decides by the store's clock, the estimate does.
        world.go_apart(9_999, if is_counted { 11_000 } else { 9_999 });
        assert_eq!(trials(&world.check(ALICE)), shadow(true));
        world.go_apart(10_000, if is_counted { 9_000 } else { 10_000 });
        assert_eq!(trials(&world.check(ALICE)), shadow(false), "of 1, 3 are used");

        world.set("alice", &Denied, None);
        let decision = world.check(ALICE);
        assert_eq!((decision.is_allowed(), trials(&decision)), (true, shadow(false)));
        world.set("alice", &Unlimited, None);
        assert_eq!(trials(&world.check(ALICE)), []);
    }
}

/// A reservation that nothing decides takes no step. Its trial was under the override for two seconds after the end.
#[test]
fn a_trial_of_a_hold_ends_by_the_estimate_if_no_step_compares() {
    let world = World::new("  - { name: search, mode: shadow, key: [user], quotas: [1/1m@first_hit] }");
    world.set("alice", &Limits(&["9/1m@first_hit"]), Some(10_000));
    for (millis, allowed) in [(9_998, true), (9_999, true), (10_000, false)] {
        world.go_to(millis);
        let asked = AskedHold::new(HoldId::random(), 1);
        let answer = block_on(world.limiter.reserve(&alice(), asked)).unwrap();
        let ReserveAnswer::Decided { decision, .. } = answer else { panic!("{answer:?}") };
        let shadow = vec![("search", TrialKind::Shadow, Some(allowed))];
        assert_eq!((decision.is_allowed(), trials(&decision)), (true, shadow), "{millis}");
    }
}
