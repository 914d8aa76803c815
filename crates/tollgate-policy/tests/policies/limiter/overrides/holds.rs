//! Holds under overrides: they end as they were admitted, and calls about them may be repeated.

use tollgate::HoldId;
use tollgate_policy::{AskedHold, HoldSettlement, PolicyHold, ReserveAnswer, SettleAnswer};

use super::*;

fn reserve(world: &World, id: HoldId, cost: u32) -> ReserveAnswer {
    block_on(world.limiter.reserve(&alice(), AskedHold::new(id, cost))).unwrap()
}

fn taken(world: &World, id: HoldId, cost: u32) -> (PolicyDecision, PolicyHold, bool) {
    match reserve(world, id, cost) {
        ReserveAnswer::Decided { decision, hold: Some(hold), is_repeated } => (decision, hold, is_repeated),
        other => panic!("{other:?}"),
    }
}

const TOKENS: &str =
    "  - { name: search, key: [user], quotas: [100/1m@first_hit, 2~in_flight], overrun: cap }";

#[test]
fn a_hold_settles_as_it_was_admitted() {
    let world = World::new(TOKENS);
    world.set("alice", &Limits(&["50/1h@first_hit", "5~in_flight"]), Some(10_000));
    let (decision, hold, _) = taken(&world, HoldId::random(), 30);
    let standing = decision.in_flight().next().unwrap();
    assert_eq!((standing.state.limit(), standing.by_override.is_some()), (5, true));
    world.go_to(20_000);
    let settled = block_on(world.limiter.settle_until(None, &hold, 60)).unwrap();
    let SettleAnswer::Settled(settled) = settled else { panic!("{settled:?}") };
    let [HoldSettlement { quota, charged, forgiven, .. }] = settled.as_slice() else { panic!("{settled:?}") };
    assert_eq!((quota.windows(), *charged, *forgiven), ("1h@first_hit", 20, 10));
    assert_eq!(quotas(&world.peek(ALICE)), [("100/1m@first_hit".to_owned(), 0)]);
}

#[test]
fn the_limit_in_flight_of_an_override_decides_and_ends_with_it() {
    let world = World::new(TOKENS);
    world.set("alice", &Limits(&["3~in_flight"]), Some(10_000));
    world.go_apart(9_999, 11_000);
    for _ in 0..3 {
        let (decision, _, _) = taken(&world, HoldId::random(), 1);
        assert!(decision.limit_in_flight().is_some_and(|standing| standing.by_override.is_some()));
    }
    let ReserveAnswer::Decided { decision, hold: None, .. } = reserve(&world, HoldId::random(), 1) else {
        panic!()
    };
    assert!(!decision.is_allowed() && decision.limit_in_flight().is_some_and(|it| it.by_override.is_some()));
    world.go_apart(10_000, 9_000);
    let ReserveAnswer::Decided { decision, .. } = reserve(&world, HoldId::random(), 1) else { panic!() };
    let standing = decision.limit_in_flight().unwrap();
    assert_eq!((standing.state.limit(), standing.state.live(), standing.by_override), (2, 3, None));
}

/// A caller that repeated its call in the second after the end was told that its id belonged to another hold: the call
/// was matched with the override, which had ended when the hold was admitted.
#[test]
fn a_call_is_repeated_across_the_end_of_an_override() {
    for (first, again) in [(9_999, 9_999), (9_999, 10_500), (10_000, 10_500), (10_000, 13_000)] {
        for behind in [0, 800] {
            let world = World::new(TOKENS);
            world.set("alice", &Limits(&["50/1h@first_hit"]), Some(10_000));
            let id = HoldId::random();
            world.go_apart(first, first - behind);
            let (_, hold, is_repeated) = taken(&world, id, 30);
            assert!(!is_repeated);
            world.go_apart(again, again - behind);
            let (_, same, is_repeated) = taken(&world, id, 30);
            assert!(is_repeated, "{first} and {again}, {behind} ms behind");
            let windows = |hold: &PolicyHold| hold.parts()[0].quota.windows().to_owned();
            assert_eq!(windows(&hold), windows(&same));
            assert_eq!(windows(&hold), if first < 10_000 { "1h@first_hit" } else { "1m@first_hit" });
        }
    }
}

/// Other limits are another hold, as after a change of the policies.
#[test]
fn an_id_is_in_conflict_once_other_limits_apply() {
    let world = World::new(TOKENS);
    let id = HoldId::random();
    let _ = taken(&world, id, 30);
    world.set("alice", &Limits(&["50/1h@first_hit"]), None);
    assert!(matches!(reserve(&world, id, 30), ReserveAnswer::Conflict));
    world.set("alice", &Limits(&["70/1m@first_hit", "3~in_flight"]), None);
    let (_, _, is_repeated) = taken(&world, id, 30);
    assert!(is_repeated, "the same series with another limit is the same hold");
}

#[test]
fn denied_and_unlimited_need_no_hold() {
    let world = World::new(TOKENS);
    for (says, is_allowed) in [(Unlimited, true), (Denied, false)] {
        world.set("alice", &says, None);
        let ReserveAnswer::Decided { decision, hold: None, .. } = reserve(&world, HoldId::random(), 1) else {
            panic!("there is nothing to settle");
        };
        assert_eq!(decision.is_allowed(), is_allowed);
        // Without limits in flight, a check needs no hold.
        assert_eq!(world.check(ALICE).is_allowed(), is_allowed);
    }
}
