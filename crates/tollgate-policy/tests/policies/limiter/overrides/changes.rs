//! Changes of counters under overrides: they reach those of the override and those that it replaces.

use tollgate::{PolicyQuota, Quota, QuotaState};
use tollgate_policy::{CheckError, MarkedCharge, OverridesVersion, PolicyLimit, QuotaChanges, RefundError};

use super::*;

const BOTH: &str = "  - { name: search, key: [user], quotas: [9/1m@first_hit, 8/1d@first_hit] }";

fn changed(changes: &QuotaChanges<QuotaState>) -> Vec<(String, u64)> {
    changes.iter().map(|(_, quota, state)| (quota.quota().to_string(), state.used())).collect()
}

fn expected(quotas: &[(&str, u64)]) -> Vec<(String, u64)> {
    quotas.iter().map(|(quota, used)| ((*quota).to_owned(), *used)).collect()
}

/// Charges 2 units under the policy, and 3 under an override that has one series of it.
fn charged() -> World {
    let world = World::new(BOTH);
    let _ = block_on(world.limiter.check(&alice(), 2)).unwrap();
    world.set("alice", &Limits(&["7/1h@first_hit", "6/1d@first_hit"]), None);
    let _ = block_on(world.limiter.check(&alice(), 3)).unwrap();
    assert_eq!(quotas(&world.peek(ALICE)), expected(&[("7/1h@first_hit", 3), ("6/1d@first_hit", 5)]));
    world
}

fn without(world: &World) -> Vec<(String, u64)> {
    let live = world.limiter.live();
    world.clear();
    let counts = quotas(&world.peek(ALICE));
    world.limiter.replace_overrides(|_, _| live.overrides().clone());
    counts
}

#[test]
fn a_reset_reaches_the_counters_that_an_override_replaces() {
    let world = charged();
    assert_eq!(without(&world), expected(&[("9/1m@first_hit", 2), ("8/1d@first_hit", 5)]));
    let reset = block_on(world.limiter.reset(&alice(), None, |_| true)).unwrap();
    let all = [("7/1h@first_hit", 0), ("6/1d@first_hit", 0), ("9/1m@first_hit", 0)];
    assert_eq!(changed(&reset), expected(&all));
    assert_eq!(without(&world), expected(&[("9/1m@first_hit", 0), ("8/1d@first_hit", 0)]));

    let world = charged();
    let minute = PolicyQuota::new("search", "1/1m@first_hit".parse().unwrap());
    let is_minute = |limit: PolicyLimit<'_>| matches!(limit, PolicyLimit::Quota(it) | PolicyLimit::ReplacedQuota(it) if it.shares_counters_with(&minute));
    let reset = block_on(world.limiter.reset(&alice(), Some("search"), is_minute)).unwrap();
    assert_eq!(changed(&reset), expected(&[("9/1m@first_hit", 0)]));
    assert_eq!(quotas(&world.peek(ALICE)), expected(&[("7/1h@first_hit", 3), ("6/1d@first_hit", 5)]));
}

#[test]
fn a_set_reaches_both_and_the_caller_says_which() {
    let world = charged();
    let applies = |limit: PolicyLimit<'_>| matches!(limit, PolicyLimit::Quota(_));
    let set = block_on(world.limiter.set(&alice(), 4, None, applies)).unwrap();
    assert_eq!(changed(&set), expected(&[("7/1h@first_hit", 4), ("6/1d@first_hit", 4)]));
    assert_eq!(without(&world), expected(&[("9/1m@first_hit", 2), ("8/1d@first_hit", 4)]));
    let replaced = |limit: PolicyLimit<'_>| matches!(limit, PolicyLimit::ReplacedQuota(_));
    let set = block_on(world.limiter.set(&alice(), 1, None, replaced)).unwrap();
    assert_eq!(changed(&set), expected(&[("9/1m@first_hit", 1)]));
}

#[test]
fn a_record_charges_what_applies() {
    let world = charged();
    let recorded = block_on(world.limiter.record(&alice(), 1)).unwrap();
    assert_eq!(changed(&recorded), expected(&[("7/1h@first_hit", 4), ("6/1d@first_hit", 6)]));
    assert_eq!(without(&world), expected(&[("9/1m@first_hit", 2), ("8/1d@first_hit", 6)]));
    world.set("alice", &Unlimited, None);
    assert_eq!(changed(&block_on(world.limiter.record(&alice(), 1)).unwrap()), []);
}

/// A list that denies leaves nothing to record, for any policy. So does an override that denies.
#[test]
fn a_record_charges_nothing_for_a_request_that_an_override_denies() {
    let all = format!("{SEARCH}\n  - {{ name: all, key: global, quotas: [9/1m@first_hit] }}");
    let world = World::new(&all);
    let recorded = |world: &World| changed(&block_on(world.limiter.record(&alice(), 1)).unwrap());
    world.set("alice", &Unlimited, None);
    assert_eq!(recorded(&world), expected(&[("9/1m@first_hit", 1)]));
    world.set("alice", &Denied, None);
    assert_eq!(recorded(&world), []);
}

/// No step compares the end of an override here, so the estimate does, without the slack that a check has.
#[test]
fn changes_go_by_the_estimate_of_the_stores_time() {
    let world = World::new(SEARCH);
    world.set("alice", &Limits(&["7/1h@first_hit"]), Some(10_000));
    for (millis, quota) in [(9_999, "7/1h@first_hit"), (10_000, "2/1m@first_hit")] {
        world.go_apart(9_000, millis);
        let recorded = block_on(world.limiter.record(&alice(), 1)).unwrap();
        assert_eq!(changed(&recorded), expected(&[(quota, 1)]), "{millis}");
    }
}

/// An override that denies hid the counters of the policy: nobody could reset them before it ended.
#[test]
fn changes_reach_the_counters_behind_an_override_without_limits() {
    for says in [Denied, Unlimited] {
        let world = World::new(BOTH);
        let _ = block_on(world.limiter.check(&alice(), 2)).unwrap();
        world.set("alice", &says, None);
        let reset = block_on(world.limiter.reset(&alice(), None, |_| true)).unwrap();
        assert_eq!(changed(&reset), expected(&[("9/1m@first_hit", 0), ("8/1d@first_hit", 0)]));
    }
}

#[test]
fn a_reset_forgets_the_units_in_flight_that_an_override_replaces() {
    use tollgate::HoldId;
    use tollgate_policy::AskedHold;

    let world = World::new("  - { name: search, key: [user], quotas: [9/1m, 2~in_flight] }");
    let reserve = || block_on(world.limiter.reserve(&alice(), AskedHold::new(HoldId::random(), 1))).unwrap();
    let _ = (reserve(), reserve());
    world.set("alice", &Limits(&["7/1m"]), None);
    let only = block_on(
        world.limiter.set(&alice(), 1, None, |limit| matches!(limit, PolicyLimit::ReplacedInFlight(_))),
    );
    assert!(matches!(only, Err(CheckError::OnlyHolds { policy }) if &*policy == "search"));
    let reset = block_on(world.limiter.reset(&alice(), None, |_| true)).unwrap();
    assert_eq!(reset.forgotten().map(|it| it.units).collect::<Vec<_>>(), [2]);
    world.set("alice", &Limits(&["7/1m", "5~in_flight"]), None);
    let _ = reserve();
    let reset = block_on(world.limiter.reset(&alice(), None, |_| true)).unwrap();
    assert_eq!(
        reset.forgotten().map(|it| (it.in_flight.in_flight().limit(), it.units)).collect::<Vec<_>>(),
        [(5, 1)]
    );
}

/// A refund names what was charged by its marks, and an override may have gone, come or changed since.
#[test]
fn a_refund_reaches_quotas_that_no_longer_apply() {
    let world = World::new(SEARCH);
    let marked = |decision: &PolicyDecision| decision.quotas().map(MarkedCharge::from).collect::<Vec<_>>();
    let refund = |marked: &[MarkedCharge]| block_on(world.limiter.refund(&alice(), 2, 1, marked));
    let given = |marked: &[MarkedCharge]| {
        let refunded = refund(marked).unwrap();
        refunded
            .iter()
            .map(|(_, quota, one)| (quota.windows().to_owned(), one.state.units()))
            .collect::<Vec<_>>()
    };
    let own = marked(&block_on(world.limiter.check(&alice(), 2)).unwrap());

    // What an override has in its place.
    world.set("alice", &Limits(&["7/1h@first_hit"]), None);
    let by_override = marked(&block_on(world.limiter.check(&alice(), 2)).unwrap());
    assert_eq!(given(&own), [("1m@first_hit".to_owned(), 2)]);
    world.set("alice", &Denied, None);
    assert_eq!(given(&own), [("1m@first_hit".to_owned(), 0)], "there is nothing more");

    // What an override had that is gone. Without a version, there never was one.
    world.clear();
    assert!(matches!(refund(&by_override), Err(RefundError::NoSuchQuota { index: 0, .. })));
    let version = OverridesVersion { epoch: 1, number: 3 };
    world.limiter.replace_overrides(|set, _| set.clone().at_version(version));
    let twice = [by_override.clone(), by_override.clone()].concat();
    assert!(matches!(refund(&twice), Err(RefundError::NamedTwice { index: 1 })));
    assert_eq!(given(&by_override), [("1h@first_hit".to_owned(), 2)]);
    let other = [MarkedCharge::new("none", Quota::per_hour(7), world.peek(ALICE).state().unwrap().mark())];
    assert!(
        matches!(refund(&other), Err(RefundError::NoSuchQuota { index: 0, .. })),
        "the policy does not apply"
    );
    assert_eq!(
        world.limiter.live().version(),
        1,
        "a change of overrides is no other version of the policies"
    );
}
