//! Holds by policies: what is reserved, who decides, and how holds end.

use std::time::Duration;

use tollgate::{HoldId, HoldLength, HoldPlace, ManualClock, MemoryStore, Reason, StoreError};
use tollgate_policy::{
    AskedHold, Attributes, CheckError, Ground, HoldSettlement, HoldTally, Policies, Policy, PolicyDecision,
    PolicyHold, PolicyLimiter, RenewAnswer, ReserveAnswer, SettleAnswer, TrialAnswer, WhenFull,
};
use tollgate_testkit::{StoreFault, block_on};

use super::{
    ALICE, Limiter, attributes, check, limiter, limiter_at, policies_of, policy, trials, try_check, used,
};

const TOKENS: &str = "
  - { name: tokens, key: [user], quotas: [1000/1m, 2~in_flight:30s] }";

fn asked(cost: u32) -> AskedHold {
    AskedHold::new(HoldId::random(), cost)
}

fn try_reserve(limiter: &Limiter, asked: AskedHold) -> (PolicyDecision, Option<PolicyHold>, bool) {
    match block_on(limiter.reserve(&attributes(ALICE), asked)).unwrap() {
        ReserveAnswer::Decided { decision, hold, is_repeated } => (decision, hold, is_repeated),
        other => panic!("{other:?}"),
    }
}

fn reserve(limiter: &Limiter, cost: u32) -> PolicyHold {
    let (decision, hold, _) = try_reserve(limiter, asked(cost));
    assert!(decision.is_allowed(), "{decision:?}");
    hold.unwrap()
}

/// A decision that denies.
fn denied(limiter: &Limiter, asked: AskedHold) -> PolicyDecision {
    let (decision, hold, is_repeated) = try_reserve(limiter, asked);
    assert!(!decision.is_allowed() && hold.is_none() && !is_repeated, "{decision:?}");
    decision
}

fn renew(limiter: &Limiter, hold: &PolicyHold) -> RenewAnswer {
    block_on(limiter.renew_until(None, hold)).unwrap()
}

fn settle(limiter: &Limiter, hold: &PolicyHold, cost: u32) -> Vec<HoldSettlement> {
    match block_on(limiter.settle_until(None, hold, cost)).unwrap() {
        SettleAnswer::Settled(settled) => settled,
        other => panic!("{other:?}"),
    }
}

/// The units of a settlement: given back, charged, forgiven, and then used.
fn units(settled: &[HoldSettlement]) -> Vec<(&str, u32, u32, u32, u64)> {
    let units = |one: &HoldSettlement| (one.given, one.charged, one.forgiven, one.state.used());
    settled
        .iter()
        .map(|one| {
            let (given, charged, forgiven, used) = units(one);
            (one.quota.windows(), given, charged, forgiven, used)
        })
        .collect()
}

/// Live units of each limit in flight, and its policy.
fn live(limiter: &Limiter) -> Vec<(String, u32)> {
    let looked = block_on(limiter.peek(&attributes(ALICE), 0)).unwrap();
    looked.in_flight().map(|standing| (standing.policy.name().into(), standing.state.live())).collect()
}

fn tally(limiter: &Limiter, name: &str) -> HoldTally {
    limiter.live().tally().find(|(policy, _)| policy.name() == name).unwrap().1.holds
}

#[test]
fn a_hold_charges_quotas_and_takes_units_until_it_is_settled() {
    let limiter = limiter(TOKENS);
    let first = reserve(&limiter, 400);
    assert_eq!((first.place(), first.length()), (HoldPlace::Store, "30s".parse().unwrap()));
    assert_eq!(first.policies().collect::<Vec<_>>(), ["tokens"]);
    let [part] = first.parts() else { panic!("{first:?}") };
    assert_eq!((part.cost, part.is_asked, part.units), (400, true, 400));
    let second = reserve(&limiter, 100);
    assert_eq!(live(&limiter), [("tokens".to_owned(), 2)]);

    let third = denied(&limiter, asked(1));
    assert_eq!((third.reason(), third.retry_after()), (Some(Reason::InFlightExceeded), None));
    assert!(matches!(third.ground(), Ground::InFlight(standing) if standing.state.remaining() == 0));
    assert_eq!((policy(&third), third.state(), used(&third)), (Some("tokens"), None, vec![("tokens", 500)]));

    assert_eq!(units(&settle(&limiter, &first, 150)), [("1m", 250, 0, 0, 250)]);
    assert_eq!(live(&limiter), [("tokens".to_owned(), 1)]);
    assert_eq!(units(&settle(&limiter, &second, 700)), [("1m", 0, 600, 0, 850)]);
    assert_eq!(live(&limiter), [("tokens".to_owned(), 0)]);

    // More than the limit, and only what is above it.
    let late = reserve(&limiter, 100);
    assert_eq!(units(&settle(&limiter, &late, 300)), [("1m", 0, 200, 0, 1150)]);
    assert_eq!(tally(&limiter, "tokens"), {
        let mut expected = HoldTally::default();
        (expected.admitted, expected.settled, expected.overrun_units) = (3, 3, 800);
        expected
    });
    let checks = limiter.live().tally().next().unwrap().1;
    assert_eq!((checks.allowed, checks.denied), (3, 1));
}

#[test]
fn a_reservation_needs_no_limit_in_flight() {
    let limiter = limiter("  - { name: tokens, key: [user], quotas: [1000/1m, 5000/1h] }");
    let hold = reserve(&limiter, 400);
    assert_eq!((hold.in_flight().len(), hold.parts().len(), hold.length()), (0, 2, HoldLength::default()));
    let settled = settle(&limiter, &hold, 0);
    assert_eq!(units(&settled), [("1m", 400, 0, 0, 0), ("1h", 400, 0, 0, 0)]);
    assert!(settle(&limiter, &reserve(&limiter, 7), 7).is_empty(), "nothing changes");
    // A cost of 0 is the caller's too.
    let unknown = reserve(&limiter, 0);
    assert_eq!(units(&settle(&limiter, &unknown, 30)), [("1m", 0, 30, 0, 37), ("1h", 0, 30, 0, 37)]);
}

#[test]
fn an_overrun_is_forgiven_where_the_policy_caps_it() {
    let limiter = limiter("  - { name: tokens, key: [user], quotas: [1000/1m], overrun: cap }");
    let hold = reserve(&limiter, 900);
    assert_eq!(units(&settle(&limiter, &hold, 1200)), [("1m", 0, 100, 200, 1000)]);
    let tally = tally(&limiter, "tokens");
    assert_eq!((tally.overrun_units, tally.forgiven_units), (100, 200));
}

#[test]
fn fixed_costs_stay() {
    let limiter = limiter(
        "  - { name: requests, key: [user], quotas: [9/1m], cost: 1 }
  - { name: weighed, key: [user], quotas: [90/1m], cost: { attribute: weight, max: 50, on_missing: 50 } }
  - { name: tokens, key: [user], quotas: [900/1m] }",
    );
    let hold = reserve(&limiter, 500);
    let costs: Vec<(u32, bool)> = hold.parts().iter().map(|part| (part.cost, part.is_asked)).collect();
    assert_eq!(costs, [(1, false), (50, false), (500, true)]);
    let settled = settle(&limiter, &hold, 0);
    assert_eq!((settled.len(), settled[0].quota.policy(), settled[0].given), (1, "tokens", 500));
    let looked = block_on(limiter.peek(&attributes(ALICE), 0)).unwrap();
    assert_eq!(used(&looked), [("requests", 1), ("weighed", 50), ("tokens", 0)]);
}

#[test]
fn a_repeated_call_takes_nothing_and_gets_the_first_answer() {
    let limiter = limiter(TOKENS);
    let alice = attributes(ALICE);
    let asked = asked(400);
    let (first, hold, is_repeated) = try_reserve(&limiter, asked);
    assert!(!is_repeated);
    let (again, same, is_repeated) = try_reserve(&limiter, asked);
    assert!(again.is_allowed() && is_repeated);
    assert_eq!((used(&again), used(&first)), (vec![("tokens", 400)], vec![("tokens", 400)]));
    let (hold, same) = (hold.unwrap(), same.unwrap());
    assert_eq!(hold.parts()[0].mark, same.parts()[0].mark);
    assert_eq!((live(&limiter)[0].1, tally(&limiter, "tokens").admitted), (1, 1));
    assert_eq!(limiter.live().tally().next().unwrap().1.allowed, 1, "it is one request");

    let other = AskedHold { cost: 401, ..asked };
    assert!(matches!(block_on(limiter.reserve(&alice, other)).unwrap(), ReserveAnswer::Conflict));
    let bob = attributes(&[("user", "bob")]);
    assert!(matches!(block_on(limiter.reserve(&bob, asked)).unwrap(), ReserveAnswer::Conflict));

    let settled = settle(&limiter, &hold, 100);
    assert_eq!(units(&settled), units(&settle(&limiter, &same, 100)), "settled once");
    assert_eq!(tally(&limiter, "tokens").settled, 1);
    // At another cost, the first answer would be misread: as an error of the store, or with units of the wrong sign.
    for cost in [0, 50, 350, 400, 500, 1_000] {
        let again = block_on(limiter.settle_until(None, &same, cost)).unwrap();
        assert_eq!(again, SettleAnswer::Conflict, "{cost}");
    }
    assert!(matches!(block_on(limiter.reserve(&alice, asked)).unwrap(), ReserveAnswer::Ended));
    assert_eq!(renew(&limiter, &hold), RenewAnswer::Ended);
    let looked = block_on(limiter.peek(&alice, 0)).unwrap();
    assert_eq!((used(&looked), live(&limiter)[0].1), (vec![("tokens", 100)], 0));
}

#[test]
fn a_hold_expires_unless_it_is_renewed() {
    let clock = ManualClock::default();
    let limiter = limiter_at(&clock, TOKENS);
    let (kept, left) = (reserve(&limiter, 1), reserve(&limiter, 1));
    clock.advance(Duration::from_secs(20));
    assert_eq!(renew(&limiter, &kept), RenewAnswer::Renewed { left: Duration::from_secs(30) });
    clock.advance(Duration::from_secs(15));
    assert_eq!(live(&limiter)[0].1, 1);
    assert_eq!(renew(&limiter, &left), RenewAnswer::Expired);
    assert_eq!(block_on(limiter.settle_until(None, &left, 0)).unwrap(), SettleAnswer::Expired);
    assert_eq!(renew(&limiter, &kept), RenewAnswer::Renewed { left: Duration::from_secs(30) });
    assert_eq!(tally(&limiter, "tokens").expired, 2);
}

#[test]
fn a_cancelled_hold_gives_back_fixed_costs_and_is_tallied_once() {
    let clock = ManualClock::default();
    let limiter =
        limiter_at(&clock, "  - { name: a, key: [user], quotas: [9/1h, 3~in_flight:30s], cost: 2 }");
    let (first, late) = (reserve(&limiter, 1), reserve(&limiter, 1));
    for _ in 0..2 {
        let cancelled = block_on(limiter.cancel_until(None, &first)).unwrap();
        let SettleAnswer::Settled(settled) = cancelled else { panic!("{cancelled:?}") };
        assert_eq!(units(&settled), [("1h", 2, 0, 0, 2)]);
        assert_eq!((tally(&limiter, "a").settled, live(&limiter)[0].1), (1, 1));
    }
    clock.advance(Duration::from_secs(30));
    assert_eq!(block_on(limiter.cancel_until(None, &late)).unwrap(), SettleAnswer::Expired);
    assert_eq!((tally(&limiter, "a").settled, tally(&limiter, "a").expired), (1, 1));
}

#[test]
fn expired_units_are_tallied_by_policy_when_the_next_hold_is_decided() {
    let clock = ManualClock::default();
    let limiter = limiter_at(
        &clock,
        "
  - { name: tokens, key: [user], quotas: [9/1m, 3~in_flight:30s] }
  - { name: jobs, key: [user], quotas: 1000~in_flight:1h }
  - { name: tried, key: [user], quotas: 3~in_flight, mode: shadow }",
    );
    let tallied = || ["tokens", "jobs", "tried"].map(|name| tally(&limiter, name).expired_units);
    let two = AskedHold { units: 2, ..asked(1) };
    assert!(try_reserve(&limiter, two).1.is_some());
    reserve(&limiter, 1);
    clock.advance(Duration::from_secs(30));
    // Neither a look nor a hold of 0 units reports expired units.
    assert_eq!(live(&limiter)[0].1, 0);
    let _ = try_reserve(&limiter, AskedHold { units: 0, ..asked(1) });
    assert_eq!(tallied(), [0; 3]);
    // A denial does. The shortest length is that of all units.
    assert_eq!(denied(&limiter, asked(8)).reason(), Some(Reason::QuotaExceeded));
    assert_eq!(tallied(), [3, 3, 0]);
    let hold = asked(1);
    for is_repeated in [false, true, true] {
        assert_eq!(try_reserve(&limiter, hold).2, is_repeated);
    }
    assert_eq!(tallied(), [3, 3, 0]);
    clock.advance(Duration::from_secs(30));
    reserve(&limiter, 1);
    assert_eq!(tallied(), [4, 4, 0]);
}

/// A caller that brought its own limits under thousands of names took the places of the policies whose expired units
/// waited to be counted.
#[test]
fn limits_of_callers_displace_no_expired_units_of_policies() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(1 << 20).build();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let policies =
        names.map(|name| format!("\n  - {{ name: {name}, key: [user], quotas: 9~in_flight:30s }}")).concat();
    let limiter = PolicyLimiter::new(store, policies_of(&policies), "test");
    let reserve = |set| {
        let answer = block_on(limiter.reserve_in_until(None, set, &attributes(ALICE), asked(1))).unwrap();
        assert!(matches!(answer, ReserveAnswer::Decided { hold: Some(_), .. }), "{answer:?}");
    };
    reserve(limiter.live());
    for caller in 0..2 * 4_096 {
        let limit = "9~in_flight:30s".parse().ok();
        reserve(limiter.under(Policy::of_caller(&format!("caller-{caller}"), [], limit).unwrap()));
    }
    clock.advance(Duration::from_secs(30));
    reserve(limiter.live());
    let expired: Vec<u64> = limiter.live().tally().map(|(_, tally)| tally.holds.expired_units).collect();
    assert_eq!(expired, [1; 8]);
}

#[test]
fn units_that_were_reset_are_lost_and_the_charges_are_settled() {
    let limiter = limiter(TOKENS);
    let alice = attributes(ALICE);
    let hold = reserve(&limiter, 400);
    let reset = block_on(
        limiter.reset(&alice, None, |limit| matches!(limit, tollgate_policy::PolicyLimit::InFlight(_))),
    );
    let reset = reset.unwrap();
    let forgotten: Vec<(&str, u32)> =
        reset.forgotten().map(|forgotten| (forgotten.policy.name(), forgotten.units)).collect();
    assert_eq!((forgotten, reset.iter().count()), (vec![("tokens", 1)], 0));
    assert_eq!(renew(&limiter, &hold), RenewAnswer::Lost);
    assert_eq!(tally(&limiter, "tokens").lost, 1);
    assert_eq!(units(&settle(&limiter, &hold, 100)), [("1m", 300, 0, 0, 100)]);

    // Everything at once.
    let _hold = reserve(&limiter, 1);
    let reset = block_on(limiter.reset(&alice, Some("tokens"), |_| true)).unwrap();
    assert_eq!((reset.iter().count(), reset.forgotten().count()), (1, 1));
    assert_eq!(live(&limiter)[0].1, 0);
}

#[test]
fn a_hold_is_settled_after_its_policy_is_gone() {
    let limiter = limiter(TOKENS);
    let hold = reserve(&limiter, 400);
    limiter.replace(policies_of("  - { name: other, key: [path], quotas: [5/1m] }"), "test");
    assert_eq!(renew(&limiter, &hold), RenewAnswer::Renewed { left: Duration::from_secs(30) });
    assert_eq!(units(&settle(&limiter, &hold, 100)), [("1m", 300, 0, 0, 100)]);
    limiter.replace(policies_of(TOKENS), "test");
    assert_eq!(live(&limiter)[0].1, 0);
    assert_eq!(used(&block_on(limiter.peek(&attributes(ALICE), 0)).unwrap()), [("tokens", 100)]);
}

#[test]
fn a_lowered_limit_ends_no_hold() {
    let limiter = limiter(TOKENS);
    let (first, second) = (reserve(&limiter, 1), reserve(&limiter, 1));
    limiter.replace(policies_of("  - { name: tokens, key: [user], quotas: [1000/1m, 1~in_flight] }"), "test");
    assert!(matches!(renew(&limiter, &first), RenewAnswer::Renewed { .. }));
    let decision = denied(&limiter, asked(1));
    let standing = decision.limit_in_flight().unwrap();
    assert_eq!((standing.state.live(), standing.state.limit(), standing.state.remaining()), (2, 1, 0));
    settle(&limiter, &first, 1);
    assert_eq!(denied(&limiter, asked(1)).limit_in_flight().unwrap().state.live(), 1);
    settle(&limiter, &second, 1);
    reserve(&limiter, 1);
}

#[test]
fn quotas_decide_before_limits_in_flight_and_what_can_never_pass_before_both() {
    let limiter = limiter(
        "  - { name: tokens, key: [user], quotas: [10/1m] }
  - { name: runs, key: [user], quotas: 1~in_flight, deny_status: 503 }",
    );
    let _hold = reserve(&limiter, 8);
    // Both deny: the quota decides, with its wait.
    let both = denied(&limiter, asked(5));
    assert_eq!((policy(&both), both.reason()), (Some("tokens"), Some(Reason::QuotaExceeded)));
    assert!(both.retry_after().is_some() && matches!(both.ground(), Ground::Quotas(_)));
    let alone = denied(&limiter, asked(1));
    assert_eq!((policy(&alone), alone.deny_status()), (Some("runs"), 503));
    assert_eq!((alone.reason(), alone.retry_after()), (Some(Reason::InFlightExceeded), None));
    assert_eq!(alone.quotas().count(), 1, "it lists all");
    let never = denied(&limiter, AskedHold { units: 2, ..asked(5) });
    assert_eq!((policy(&never), never.reason()), (Some("runs"), Some(Reason::CostExceedsLimit)));
    assert_eq!(never.retry_after(), None);
    assert_eq!(used(&never), [("tokens", 8)], "no denial charges");
}

#[test]
fn units_are_the_callers_and_a_fixed_cost_is_for_quotas() {
    let limiter = limiter("  - { name: batches, key: [user], quotas: [100/1m, 5~in_flight], cost: 10 }");
    let (decision, hold, _) = try_reserve(&limiter, AskedHold { units: 3, ..asked(1) });
    assert_eq!(used(&decision), [("batches", 10)]);
    assert_eq!(hold.unwrap().in_flight()[0].units, 3);
    assert_eq!(live(&limiter)[0].1, 3);
    let again = denied(&limiter, AskedHold { units: 3, ..asked(1) });
    assert_eq!(again.reason(), Some(Reason::InFlightExceeded));
    // Of 0 units, there is nothing to give back.
    let (looked, hold, _) = try_reserve(&limiter, AskedHold { units: 0, ..asked(1) });
    assert!(looked.is_allowed() && hold.is_none());
    assert_eq!(live(&limiter)[0].1, 3);
}

#[test]
fn only_a_hold_and_a_peek_pass_a_limit_in_flight() {
    let limiter = limiter(
        "  - { name: tokens, match: { path: /search }, key: [user], quotas: [10/1m, 1~in_flight], on_store_failure: open }
  - { name: all, key: global, quotas: [100/1m] }",
    );
    let alice = attributes(ALICE);
    let elsewhere = attributes(&[("path", "/")]);
    let needs = |error: CheckError| {
        let text = error.to_string();
        assert!(matches!(error, CheckError::NeedsHold { policy } if &*policy == "tokens"), "{text}");
    };
    needs(try_check(&limiter, ALICE).unwrap_err());
    needs(limiter.check_at_once(&alice, 1).unwrap().unwrap_err());
    let peek_check = || block_on(limiter.peek_check_in(limiter.live(), &alice, 1)).unwrap_err();
    needs(peek_check());
    let each = block_on(limiter.check_each([(&alice, 1), (&elsewhere, 1)]));
    let [refused, allowed] = <[_; 2]>::try_from(each).unwrap();
    needs(refused.unwrap_err());
    assert!(allowed.unwrap().is_allowed());
    let together = block_on(limiter.check_together([(&elsewhere, 1), (&alice, 1)])).unwrap_err();
    assert_eq!(together.index, 1);
    needs(together.error);
    // Whatever the policy for outages.
    limiter.store().begin(StoreFault::unreachable());
    needs(try_check(&limiter, ALICE).unwrap_err());
    needs(peek_check());
    limiter.store().end();

    let _hold = reserve(&limiter, 3);
    let looked = block_on(limiter.peek(&alice, 1)).unwrap();
    assert_eq!((looked.is_allowed(), looked.reason()), (false, Some(Reason::InFlightExceeded)));
    assert_eq!(used(&looked), [("tokens", 3), ("all", 4)]);
    assert!(block_on(limiter.peek(&elsewhere, 1)).unwrap().is_allowed());

    for changed in [block_on(limiter.set(&alice, 3, None, |_| true)), block_on(limiter.record(&alice, 3))] {
        let error = changed.unwrap_err();
        assert!(matches!(error, CheckError::OnlyHolds { policy } if &*policy == "tokens"));
    }
    let is_quota =
        |limit: tollgate_policy::PolicyLimit<'_>| matches!(limit, tollgate_policy::PolicyLimit::Quota(_));
    assert_eq!(block_on(limiter.set(&alice, 3, None, is_quota)).unwrap().iter().count(), 2);
    assert_eq!(block_on(limiter.set(&alice, 3, Some("all"), |_| true)).unwrap().iter().count(), 1);
}

#[test]
fn a_request_without_limits_has_no_hold() {
    let limiter = limiter(
        "  - { name: health, match: { path: /healthz }, exempt: true }
  - { name: free, match: { path: /free }, key: [user], quotas: unlimited }
  - { name: known, match: { path: /known }, key: [account], quotas: 1~in_flight, on_missing_key: deny }",
    );
    for (path, is_allowed) in [("/healthz", true), ("/free", true), ("/", true), ("/known", false)] {
        let request = attributes(&[("user", "alice"), ("path", path)]);
        let answer = block_on(limiter.reserve(&request, asked(1))).unwrap();
        let ReserveAnswer::Decided { decision, hold, .. } = answer else { panic!("{path}") };
        assert_eq!((decision.is_allowed(), hold.is_some()), (is_allowed, false), "{path}");
    }
}

#[test]
fn overrides_and_readings_have_limits_in_flight_too() {
    let limiter = || {
        limiter(
            "  - name: runs
    key: [user]
    quotas: 1~in_flight
    overrides:
      - { when: { plan: pro }, quotas: [3~in_flight, 9/1m] }
      - { when: { plan: free }, quotas: unlimited }
      - { by: plan, values: { team: 2~in_flight } }",
        )
    };
    for (plan, most) in [("pro", 3), ("none", 1), ("team", 2)] {
        let (limiter, request) = (limiter(), attributes(&[("user", plan), ("plan", plan)]));
        let admitted = |_: &u32| {
            let answer = block_on(limiter.reserve(&request, asked(1))).unwrap();
            matches!(answer, ReserveAnswer::Decided { hold: Some(_), .. })
        };
        assert_eq!((0..9).take_while(admitted).count(), most, "{plan}");
    }
    let free = attributes(&[("user", "free"), ("plan", "free")]);
    assert!(block_on(limiter().check(&free, 1)).unwrap().is_allowed(), "no limit in flight applies");
}

#[test]
fn trials_look_at_units_in_flight_and_take_none() {
    let limiter = limiter(
        "  - { name: runs, key: [user], quotas: 3~in_flight, candidate: [1~in_flight, 5/1m] }
  - { name: dark, mode: shadow, key: [user], quotas: [2~in_flight, 9/1m] }",
    );
    let held: Vec<_> = (0..3).map(|_| try_reserve(&limiter, asked(1))).collect();
    let tried: Vec<_> = held.iter().map(|(decision, ..)| trials(decision)).collect();
    let answered = |candidate| {
        use tollgate_policy::TrialKind::{Candidate, Shadow};
        vec![("runs", Candidate, Some(candidate)), ("dark", Shadow, Some(true))]
    };
    assert_eq!(tried, [answered(true), answered(false), answered(false)]);
    let answers: Vec<_> = held[1].0.trials().map(|trial| trial.answer).collect();
    let [TrialAnswer::InFlight(state), TrialAnswer::Quotas(counted)] = answers.as_slice() else {
        panic!("{answers:?}")
    };
    assert_eq!((state.live(), state.limit(), counted[0].used()), (1, 1, 2));
    // All or nothing: only the first was charged to the quota next to it.
    let more = "  - { name: runs, key: [user], quotas: 9~in_flight, candidate: [9~in_flight, 5/1m] }";
    limiter.replace(policies_of(more), "test");
    let (decision, ..) = try_reserve(&limiter, asked(1));
    let counted = decision.trials().next().and_then(|trial| trial.answer.state().copied());
    assert_eq!(counted.map(|state| state.used()), Some(2));
    // A check meets limits in flight only where they decide.
    limiter.replace(
        policies_of("  - { name: dark, mode: shadow, key: [user], quotas: [2~in_flight, 9/1m] }"),
        "test",
    );
    let checked = check(&limiter, ALICE);
    assert!(checked.is_allowed() && trials(&checked).len() == 1);
}

/// A shadow policy charges nothing for a request that another policy denies, and sees what its own holds still have.
#[test]
fn a_trial_goes_by_other_policies_and_by_holds_from_before() {
    let both = "
  - { name: runs, key: [user], quotas: 1~in_flight }
  - { name: dark, mode: shadow, key: [user], quotas: 9/1m }";
    let first = limiter(both);
    let _hold = reserve(&first, 1);
    let denial = denied(&first, asked(1));
    let counted = denial.trials().next().and_then(|trial| trial.answer.state().copied());
    assert_eq!(counted.map(|state| state.used()), Some(1), "of the first request");

    let second = limiter("  - { name: runs, key: [user], quotas: 2~in_flight }");
    let _hold = reserve(&second, 1);
    second.replace(
        policies_of("  - { name: runs, key: [user], quotas: 5/1m, candidate: 1~in_flight }"),
        "test",
    );
    let (decision, hold, _) = try_reserve(&second, asked(1));
    let answers: Vec<_> = decision.trials().map(|trial| trial.answer.verdict()).collect();
    assert_eq!((answers, hold.unwrap().in_flight().len()), (vec![Some(tollgate::Verdict::Denied)], 0));
}

#[test]
fn of_two_readings_the_lower_limit_in_flight_applies() {
    let limiter = limiter(
        "  - name: runs
    key: [user]
    quotas: 3~in_flight
    overrides: { when: { path: /big }, quotas: [2~in_flight, 9/1m] }",
    );
    let request = attributes(&[("user", "alice"), ("path", "/x/../big")]);
    let answer = block_on(limiter.reserve(&request, asked(1))).unwrap();
    let ReserveAnswer::Decided { decision, hold: Some(hold), .. } = answer else { panic!("{answer:?}") };
    let limits: Vec<u32> = decision.in_flight().map(|standing| standing.state.limit()).collect();
    assert_eq!((limits, hold.parts().len()), (vec![2], 1));
}

#[test]
fn a_full_store_refuses_holds_or_admits_them_uncounted() {
    let clock = ManualClock::default();
    let store = || MemoryStore::builder().clock(clock.clone()).max_counters(1).build();
    let policies = || policies_of("  - { name: a, key: [user], quotas: [5/1m, 2~in_flight] }");
    let alice = attributes(ALICE);
    let deny = PolicyLimiter::new(store(), policies(), "test");
    let error = block_on(deny.reserve(&alice, asked(1))).unwrap_err();
    assert!(matches!(error, CheckError::Store(StoreError::Full)));
    let allow = PolicyLimiter::new(store(), policies(), "test").when_full(WhenFull::Allow);
    let answer = block_on(allow.reserve(&alice, asked(1))).unwrap();
    let ReserveAnswer::Decided { decision, hold: Some(hold), .. } = answer else { panic!("{answer:?}") };
    assert!(decision.is_allowed() && decision.is_without_room() && allow.store_full() == 1);
    assert_eq!(hold.place(), HoldPlace::Nowhere);
    assert_eq!(block_on(allow.renew_until(None, &hold)).unwrap(), RenewAnswer::Gone);
    assert_eq!(block_on(allow.settle_until(None, &hold, 3)).unwrap(), SettleAnswer::Gone);
    let answer = block_on(allow.reserve(&alice, AskedHold { units: 3, ..asked(1) })).unwrap();
    assert!(matches!(answer, ReserveAnswer::Decided { hold: None, .. }), "it never fits");
}

#[test]
fn debug_hides_keys_and_ids() {
    let limiter = limiter(TOKENS);
    let hold = reserve(&limiter, 400);
    let (shown, id) = (format!("{hold:?}"), hold.id().to_string());
    assert!(!shown.contains("alice") && !shown.contains(&id) && shown.contains("tokens"), "{shown}");
}

#[test]
fn policies_in_code_have_limits_in_flight() {
    let built =
        |builder: tollgate_policy::PolicyBuilder| builder.in_flight("2~in_flight".parse().unwrap()).build();
    let alone = built(tollgate_policy::Policy::builder("runs")).unwrap();
    assert_eq!(alone.written_limits().collect::<Vec<_>>(), ["2~in_flight"]);
    let limiter = PolicyLimiter::new(MemoryStore::new(), Policies::of([alone]).unwrap(), "code");
    let nobody = Attributes::default();
    let answer = block_on(limiter.reserve(&nobody, asked(1))).unwrap();
    assert!(matches!(answer, ReserveAnswer::Decided { hold: Some(_), .. }));
    let error = built(tollgate_policy::Policy::builder("runs").overdraft()).unwrap_err();
    assert!(error.to_string().starts_with("policy `runs`: `count_denied` and `overdraft`"), "{error}");
}

/// A candidate quota without its limit left out the quotas on trial, but not the limit in flight next to them.
#[test]
fn a_trial_without_its_limit_is_left_out_with_its_limit_in_flight() {
    let limiter = limiter(
        "  - name: runs
    key: [user]
    quotas: 9~in_flight
    candidate: [1~in_flight, { limit: { attribute: quota }, max: 9, window: 1m }]",
    );
    let (without, ..) = try_reserve(&limiter, asked(1));
    assert_eq!(trials(&without), []);
    let request = attributes(&[("user", "alice"), ("quota", "5")]);
    let answer = block_on(limiter.reserve(&request, asked(1))).unwrap();
    let ReserveAnswer::Decided { decision, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(trials(&decision).len(), 1);
}

/// Repetitions are no overruns of their own.
#[test]
fn an_overrun_is_counted_once() {
    let limiter = limiter(TOKENS);
    let (_, hold, _) = try_reserve(&limiter, asked(10));
    let hold = hold.unwrap();
    assert_eq!(settle(&limiter, &hold, 25)[0].charged, 15);
    assert_eq!(settle(&limiter, &hold, 25)[0].charged, 15);
    let tally = tally(&limiter, "tokens");
    assert_eq!((tally.settled, tally.overrun_units), (1, 15));
}

/// A hold of 0 units was charged to trials, though it charges no quota that counts.
#[test]
fn a_hold_of_no_units_charges_no_trial() {
    let limiter = limiter(
        "  - { name: runs, key: [user], quotas: [3~in_flight, 9/1m], candidate: [5/1m] }
  - { name: dark, mode: shadow, key: [user], quotas: [9/1m] }",
    );
    let (looked, hold, _) = try_reserve(&limiter, AskedHold { units: 0, ..asked(2) });
    assert!(looked.is_allowed() && hold.is_none());
    assert_eq!((trials(&looked), limiter.live().tally().next().unwrap().1.allowed), (vec![], 0));
    let (decision, ..) = try_reserve(&limiter, asked(2));
    let counted: Vec<_> =
        decision.trials().map(|trial| trial.answer.state().map(|state| state.used())).collect();
    assert_eq!(counted, [Some(2), Some(2)]);
}
