//! Refunds, resets, sets and receipts.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate::{ManualClock, Mark, MemoryStore, QuotaState, Timestamp};
use tollgate_policy::{
    Attributes, CheckError, Config, MarkedCharge, Policy, PolicyLimiter, QuotaChanges, QuotaRefund,
    RefundError, Refusal,
};
use tollgate_testkit::{StoreFault, block_on};

use super::{ALICE, attributes, check, limiter, limiter_at, policies_of, reserve, used};

#[test]
fn refunds_a_charge_under_a_limit_of_the_request() {
    let limiter = limiter(
        "  - { name: api, key: [user], quotas: [{ limit: { attribute: quota }, max: 10, window: 1m@first_hit }] }",
    );
    let alice = attributes(&[("user", "alice"), ("quota", "4")]);
    let decision = block_on(limiter.check(&alice, 4)).unwrap();
    assert!(decision.is_allowed());
    let window = MarkedCharge::from(decision.quota().unwrap());
    let _ = block_on(limiter.settle(&mut decision.receipt(), 3)).unwrap();
    let changed = block_on(limiter.refund(&alice, 1, 1, &[window])).unwrap();
    let refund: Vec<(String, u64)> =
        changed.iter().map(|(_, quota, refund)| (quota.quota().to_string(), refund.state.used())).collect();
    assert_eq!(refund, [("4/1m@first_hit".to_owned(), 2)]);
    let set =
        block_on(limiter.set(&attributes(&[("user", "alice"), ("quota", "7")]), 6, None, |_| true)).unwrap();
    assert_eq!(set.iter().map(|(_, _, state)| state.remaining()).collect::<Vec<_>>(), [1]);
}

/// To reset a user, an administrator had to invent the attribute with the limit, on which no counter depends. The same
/// went for the attribute with the cost, which a reset does not have.
/// Whoever resets a user's counter need not know the user's address.
#[test]
fn a_change_of_one_policy_needs_nothing_of_the_others() {
    let limiter = limiter(
        "  - { name: users, key: [user], quotas: [5/1m] }
  - { name: addresses, key: [ip], quotas: [5/1m] }
  - { name: costs, key: [user], cost: { attribute: tokens, max: 9 }, quotas: [5/1m] }",
    );
    let alice = attributes(ALICE);
    let used = |changed: QuotaChanges<QuotaState>| {
        let changed = changed.iter().map(|(policy, _, state)| (policy.name().to_owned(), state.used()));
        changed.collect::<Vec<_>>()
    };
    block_on(async {
        let counts_of_users = |used: u64| [("users".to_owned(), used)];
        assert_eq!(used(limiter.set(&alice, 4, Some("users"), |_| true).await.unwrap()), counts_of_users(4));
        assert_eq!(used(limiter.reset(&alice, Some("users"), |_| true).await.unwrap()), counts_of_users(0));
        assert_eq!(used(limiter.reset(&alice, Some("none"), |_| true).await.unwrap()), []);
        for policy in [None, Some("addresses")] {
            let error = limiter.reset(&alice, policy, |_| true).await.unwrap_err();
            assert!(error.to_string().contains("`addresses`"), "{error}");
        }
    });
}

#[test]
fn a_change_needs_no_limit_and_a_reset_no_cost() {
    let limiter = limiter(
        "  - name: api
    key: [user]
    cost: { attribute: tokens, max: 9 }
    quotas: [{ limit: { attribute: quota }, max: 10, window: 1m@first_hit }]",
    );
    let states = |changed: QuotaChanges<QuotaState>| {
        changed.iter().map(|(.., state)| (state.used(), state.limit())).collect::<Vec<_>>()
    };
    let (asked, alice) = (attributes(&[("user", "alice"), ("tokens", "3")]), attributes(ALICE));
    block_on(async {
        assert!(limiter.check(&asked, 1).await.is_err() && limiter.peek(&asked, 1).await.is_err());
        assert_eq!(states(limiter.record(&asked, 1).await.unwrap()), [(3, 10)]);
        assert!(limiter.record(&alice, 1).await.is_err(), "it charges the cost, which nothing says");
        let known = attributes(&[("user", "alice"), ("tokens", "3"), ("quota", "5")]);
        let window = MarkedCharge::from(limiter.peek(&known, 1).await.unwrap().quota().unwrap());
        let refunded = limiter.refund(&asked, 1, 1, &[window]).await.unwrap();
        assert_eq!(refunded.iter().map(|(.., refund)| refund.state.used()).collect::<Vec<_>>(), [0]);
        assert_eq!(states(limiter.set(&alice, 4, None, |_| true).await.unwrap()), [(4, 10)]);
        assert_eq!(states(limiter.set(&known, 4, None, |_| true).await.unwrap()), [(4, 5)]);
        assert_eq!(states(limiter.reset(&alice, None, |_| true).await.unwrap()), [(0, 10)]);
    });
}

/// Windows were named only by their place. With as many other quotas in the policies, refunds went to other counters.
#[test]
fn a_refund_finds_its_counters_by_policy_and_windows_or_not_at_all() {
    let limiter = limiter("  - { name: a, key: [user], quotas: [9/1m, 20/1h] }");
    let alice = attributes(ALICE);
    let windows: Vec<MarkedCharge> = check(&limiter, ALICE).quotas().map(Into::into).collect();
    let refund = |windows: &[MarkedCharge]| {
        let changed = block_on(limiter.refund(&alice, 1, 1, windows)).map_err(|error| error.to_string())?;
        Ok::<Vec<(String, u32)>, String>(
            changed.iter().map(|(_, quota, one)| (quota.windows().to_owned(), one.state.units())).collect(),
        )
    };
    let replace = |policies: &str| {
        limiter.replace(policies_of(policies), "test");
    };

    // In another order, with other limits, and next to a new policy.
    replace("  - { name: a, key: [user], quotas: [30/1h, 3/1s, 2/1m] }");
    assert_eq!(refund(&windows[..1]), Ok(vec![("1m".to_owned(), 1)]));
    let given = refund(&windows).unwrap();
    assert_eq!(given, [("1h".to_owned(), 1), ("1m".to_owned(), 0)]);

    let _ = check(&limiter, ALICE);
    for (policies, there) in [
        ("  - { name: a, key: [user], quotas: [9/1h, 9/2h] }", "there are 9/1h of a, 9/2h of a"),
        ("  - { name: b, key: [user], quotas: [9/1m, 20/1h] }", "there are 9/1m of b, 20/1h of b"),
        ("  - { name: a, key: [user], match: { path: /b }, quotas: [9/1m, 20/1h] }", "none does"),
    ] {
        replace(policies);
        let error = refund(&windows).unwrap_err();
        let expected = "nothing was given back: this quota does not apply to the request; ";
        assert_eq!(error, format!("{expected}{there}"));
    }
    replace("  - { name: a, key: [user], quotas: [9/1m, 20/1h] }");
    let twice = [windows[0].clone(), windows[1].clone(), windows[0].clone()];
    assert_eq!(refund(&twice), Err("this quota is named twice".to_owned()));
    assert_eq!(refund(&[]), Ok(Vec::new()));
    assert_eq!(check(&limiter, ALICE).quotas().map(|quota| quota.state.used()).collect::<Vec<_>>(), [2, 2]);
}

fn window(policy: &str, quota: &str, start: Timestamp) -> MarkedCharge {
    MarkedCharge::new(policy, quota.parse().unwrap(), Mark::at(start))
}

/// The store's clock had stepped back a little, so the window of the check began in the future, and the refund was
/// refused.
#[test]
fn a_refund_is_none_of_the_future_after_a_step_back_of_a_second() {
    let clock = ManualClock::default();
    let limiter = limiter_at(&clock, "  - { name: a, key: [user], quotas: [9/1m@first_hit] }");
    let (alice, start) = (attributes(ALICE), Timestamp::from_unix_millis(1_700_000_000_000));
    clock.set(start);
    let windows: Vec<MarkedCharge> = check(&limiter, ALICE).quotas().map(Into::into).collect();
    let refund_before = |millis: u64| {
        clock.set(start - Duration::from_millis(millis));
        block_on(limiter.refund(&alice, 1, 1, &windows)).map(drop)
    };
    assert!(refund_before(1_000).is_ok());
    assert!(matches!(refund_before(1_001), Err(RefundError::FutureStart { index: 0 })));
}

#[test]
fn administrators_change_every_quota_that_applies() {
    let limiter = limiter(
        "  - { name: a, key: [user], quotas: [9/1m] }\n  - { name: b, key: global, quotas: [20/1h], cost: 5 }",
    );
    let alice = attributes(ALICE);
    let decision = check(&limiter, ALICE);
    let windows: Vec<MarkedCharge> = decision.quotas().map(Into::into).collect();
    let given = block_on(limiter.refund(&alice, 1, 1, &windows)).unwrap();
    let given: Vec<(&str, u32)> = given
        .iter()
        .map(|(policy, _, refund): (_, _, &QuotaRefund)| (policy.name(), refund.state.units()))
        .collect();
    assert_eq!(given, [("a", 1), ("b", 5)]);

    let starts: Vec<Timestamp> = decision.quotas().map(|quota| quota.state.mark().time()).collect();
    let late = [windows[0].clone(), window("b", "20/1h", starts[1] + Duration::from_secs(1))];
    assert!(matches!(
        block_on(limiter.refund(&alice, 1, 1, &late)).unwrap_err(),
        RefundError::NoWindowStart { index: 1, .. }
    ));

    let states = |changed: tollgate_policy::QuotaChanges<QuotaState>| -> Vec<u64> {
        changed.iter().map(|(_, _, state)| state.used()).collect()
    };
    assert_eq!(states(block_on(limiter.set(&alice, 7, None, |_| true)).unwrap()), [7, 7]);
    assert_eq!(used(&check(&limiter, ALICE)), [("a", 8), ("b", 12)]);
    assert_eq!(states(block_on(limiter.reset(&alice, None, |_| true)).unwrap()), [0, 0]);
    let nobody = block_on(limiter.reset(&Attributes::default(), None, |_| true)).unwrap_err();
    assert!(matches!(nobody, CheckError::Refused(Refusal::MissingKey { .. })));
}

/// Every operation: the refused request leaves all counters as they were, even those of policies that the caller may
/// use.
#[test]
fn a_request_that_matches_a_policy_of_others_changes_nothing() {
    let limiter = limiter(
        "
  - { name: mine, key: [user], quotas: [5/1m] }
  - { name: theirs, match: { path: /search }, key: [user], quotas: [5/1m] }
  - { name: shadow, match: { path: /shadow }, mode: shadow, key: [user], quotas: [5/1m] }
",
    );
    let mine = BTreeSet::from(["mine".into()]);
    let as_me = |path: &'static str| attributes(&[("user", "alice"), ("path", path)]).within(&mine);
    assert!(block_on(limiter.check(&as_me("/"), 1)).unwrap().is_allowed());
    let is_refused = |error: CheckError, policy: &str| matches!(error, CheckError::Refused(Refusal::OtherPolicy { policy: other }) if *other == *policy);
    for (path, policy) in [("/search", "theirs"), ("/shadow", "shadow")] {
        let request = as_me(path);
        assert!(is_refused(block_on(limiter.check(&request, 1)).unwrap_err(), policy));
        assert!(is_refused(limiter.check_at_once(&request, 1).unwrap().unwrap_err(), policy));
        assert!(is_refused(block_on(limiter.peek(&request, 1)).unwrap_err(), policy));
        assert!(is_refused(block_on(limiter.reset(&request, None, |_| true)).unwrap_err(), policy));
        assert!(is_refused(block_on(limiter.set(&request, 4, None, |_| true)).unwrap_err(), policy));
        let refund = block_on(limiter.refund(&request, 1, 1, &[])).unwrap_err();
        assert!(matches!(refund, RefundError::Check(ref error) if is_refused(error.clone(), policy)));
        let both = [(&request, 1), (&as_me("/"), 0)];
        let mut answers = block_on(limiter.check_each(both)).into_iter();
        assert!(is_refused(answers.next().unwrap().unwrap_err(), policy));
        assert_eq!(used(&answers.next().unwrap().unwrap()), [("mine", 1)], "each is decided by itself");
    }
    let all = block_on(limiter.peek(&attributes(ALICE), 1)).unwrap();
    assert_eq!(used(&all), [("mine", 1), ("theirs", 0)]);
}

/// A policy without counters decides for everybody. A caller on a list of the denied was told that the policy belongs
/// to others, and a client that continues after a refusal let the caller pass.
#[test]
fn a_policy_that_counts_nothing_applies_to_every_caller() {
    let text = "
deny: { user: mallory }
allow: { user: probe }
policies:
  - { name: mine, key: [user], quotas: [5/1m] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    let policies = Config::parse("tollgate.yaml", text).unwrap().into_policies();
    let limiter = PolicyLimiter::new(MemoryStore::new(), policies, "test");
    let mine = BTreeSet::from(["mine".into()]);
    for (pairs, is_allowed, by) in [
        ([("user", "mallory"), ("path", "/")], false, "deny"),
        ([("user", "probe"), ("path", "/")], true, "allow"),
        ([("user", "alice"), ("path", "/healthz")], true, "health"),
    ] {
        let decision = block_on(limiter.check(&attributes(&pairs).within(&mine), 1)).unwrap();
        assert_eq!((decision.is_allowed(), decision.policy().map(Policy::name)), (is_allowed, Some(by)));
    }
}

#[test]
fn a_reservation_is_given_back_to_its_own_windows() {
    let limiter = limiter(
        "  - { name: asked, key: [user], quotas: [9/1m, 90/1h] }\n  - { name: fixed, key: [user], quotas: [9/1m], cost: 2 }",
    );
    let alice = attributes(ALICE);
    let reserve = |cost| reserve(&limiter, &alice, cost);
    let now = || {
        used(&block_on(limiter.peek(&alice, 1)).unwrap())
            .into_iter()
            .map(|(_, used)| used)
            .collect::<Vec<_>>()
    };

    let (decision, mut receipt) = reserve(6);
    assert!(decision.is_allowed() && !receipt.is_empty());
    block_on(limiter.settle(&mut receipt, 2)).unwrap();
    assert_eq!(now(), [2, 2, 2], "the policy said its cost itself");
    let (_, mut receipt) = reserve(1);
    // A receipt knows nothing of later versions of the policies.
    let _ = limiter.replace(policies_of("  - { name: other, key: global, quotas: [1/1s] }"), "test");
    block_on(limiter.settle(&mut receipt, 4)).unwrap();
    let _ = limiter.replace(
        policies_of("  - { name: asked, key: [user], quotas: [9/1m, 90/1h] }\n  - { name: fixed, key: [user], quotas: [9/1m], cost: 2 }"),
        "test",
    );
    assert_eq!(now(), [6, 6, 4]);
    let (_, mut receipt) = reserve(3);
    block_on(receipt.refund(limiter.fallback())).unwrap();
    assert_eq!(now(), [6, 6, 4]);
    let (denied, receipt) = reserve(4);
    assert!(!denied.is_allowed() && receipt.is_empty());
}

/// Without a receipt nothing was charged at all, however much the work cost. A reservation of 0 only peeks, and during
/// an outage the local memory counts instead of the store.
#[test]
fn units_beyond_an_empty_reservation_are_charged() {
    let policies = "  - { name: a, key: [user], quotas: [9/1d], on_store_failure: local, local_share: 1/1 }
  - { name: fixed, key: [user], quotas: [9/1d], cost: 2, on_store_failure: local, local_share: 1/1 }";
    for (cost, is_away, actual, expected) in
        [(0, false, 0, 0), (0, false, 7, 7), (4, true, 7, 7), (4, true, 3, 4), (4, false, 7, 7)]
    {
        let (limiter, alice) = (limiter(policies), attributes(ALICE));
        if is_away {
            limiter.store().begin(StoreFault::unreachable());
        }
        let (decision, mut receipt) = reserve(&limiter, &alice, cost);
        assert!(decision.is_allowed());
        block_on(limiter.settle(&mut receipt, actual)).unwrap();
        let decision = block_on(limiter.peek(&alice, 1)).unwrap();
        let fixed = if cost == 0 { 0 } else { 2 };
        assert_eq!(
            used(&decision),
            [("a", expected), ("fixed", fixed)],
            "{actual} of {cost}, away: {is_away}"
        );
    }
    let limiter = limiter("  - { name: a, key: [user], quotas: [1/1d] }");
    let (denied, mut receipt) = reserve(&limiter, &attributes(ALICE), 2);
    assert!(!denied.is_allowed());
    block_on(limiter.settle(&mut receipt, 9)).unwrap();
    assert_eq!(used(&block_on(limiter.peek(&attributes(ALICE), 1)).unwrap()), [("a", 0)]);
}

/// Only the kind of answer told a refund of a closed window from one of an open window.
#[test]
fn a_refund_says_whether_its_window_is_open() {
    let clock = ManualClock::default();
    let limiter = limiter_at(&clock, "  - { name: a, key: [user], quotas: [9/1m, 20/1h] }");
    let (alice, windows) = (attributes(ALICE), check(&limiter, ALICE));
    let windows: Vec<MarkedCharge> = windows.quotas().map(Into::into).collect();
    clock.advance(Duration::from_secs(60));
    let changed = block_on(limiter.refund(&alice, 1, 1, &windows)).unwrap();
    let refunds: Vec<_> = changed
        .iter()
        .map(|(.., refund)| (refund.is_open, refund.state.units(), refund.state.used()))
        .collect();
    assert_eq!(refunds, [(false, 0, 0), (true, 1, 0)]);
}

/// Of a talker only the key of one policy is known.
#[test]
fn a_key_alone_reaches_the_counters_of_its_policy_and_no_others() {
    let limiter = limiter(
        "  - { name: a, match: { path: /search }, key: { first_of: [account, user] }, quotas: [5/1m] }
  - { name: b, key: [user], quotas: [9/1m] }
  - { name: tiers, key: [user], quotas: [9/1m], overrides: [{ when: { plan: pro }, quotas: [99/1m] }] }
  - { name: costly, match: { path: /x }, key: [user], cost: { attribute: tokens, max: 9 }, quotas: [9/1m] }
  - { name: safe, match: { path: /safe }, exempt: true }",
    );
    let set = limiter.live();
    let keyed = |name: &str| {
        let policy = set.policies().as_slice().iter().find(|policy| policy.name() == name).unwrap();
        attributes(&[("user", "alice")]).of_key(policy)
    };
    for _ in 0..3 {
        let _ = check(&limiter, ALICE);
    }
    let used = |name: &str| {
        let decision = block_on(limiter.peek(&keyed(name), 1)).unwrap();
        decision
            .quotas()
            .map(|quota| (quota.policy.name().to_owned(), quota.state.used()))
            .collect::<Vec<_>>()
    };
    assert_eq!((used("a"), used("b")), (vec![("a".to_owned(), 3)], vec![("b".to_owned(), 3)]));

    let changed = block_on(limiter.reset(&keyed("a"), Some("a"), |_| true)).unwrap();
    assert_eq!(changed.iter().map(|(policy, ..)| policy.name()).collect::<Vec<_>>(), ["a"]);
    assert_eq!((used("a")[0].1, used("b")[0].1), (0, 3));

    // The tier is not known, and neither is the cost.
    for (name, attribute) in [("tiers", "plan"), ("costly", "tokens")] {
        let refused = block_on(limiter.peek(&keyed(name), 1)).unwrap_err();
        assert!(
            matches!(&refused, CheckError::Refused(Refusal::Undecided { attribute: it, .. }) if **it == *attribute),
            "{refused:?}"
        );
    }

    // Another key of the same name is another client.
    let attributes = keyed("b");
    let _ = limiter.replace(policies_of("  - { name: b, key: [user, ip], quotas: [9/1m] }"), "test");
    assert!(block_on(limiter.reset(&attributes, Some("b"), |_| true)).unwrap().iter().next().is_none());
}
