//! Policies with quotas that are not fixed windows.

use std::time::Duration;

use tollgate::{ManualClock, Mark, Reason, Source, Timestamp, Verdict};
use tollgate_policy::{MarkedCharge, RefundError};
use tollgate_testkit::{StoreFault, block_on};

use super::{ALICE, Limiter, attributes, check, limiter_at, reserve, trials, used};

/// Of each kind, with room for four.
const KINDS: [&str; 3] = ["10/1m~burst:4", "4/1m~sliding", "4/1m~log"];

const SECOND: Duration = Duration::from_secs(1);

/// A policy of this quota, at the start of a minute.
fn at_a_minute(quota: &str, more: &str) -> (ManualClock, Limiter) {
    let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_040_000));
    let limiter = limiter_at(&clock, &format!("  - {{ name: a, key: [user], quotas: [\"{quota}\"]{more} }}"));
    (clock, limiter)
}

fn peeked(limiter: &Limiter) -> u64 {
    block_on(limiter.peek(&attributes(ALICE), 1)).unwrap().quota().unwrap().state.used()
}

/// Returns whether the charge may still count, the units given back, and those that are still used.
fn refund(limiter: &Limiter, cost: u32, marked: MarkedCharge) -> Result<(bool, u32, u64), RefundError> {
    let changed = block_on(limiter.refund(&attributes(ALICE), cost, 1, &[marked]))?;
    let (_, _, refund) = changed.iter().next().unwrap();
    Ok((refund.is_open, refund.state.units(), refund.state.used()))
}

#[test]
fn a_mark_gives_back_what_has_not_come_back_by_itself() {
    // In six seconds, one unit of the bucket has come back.
    for (quota, given) in KINDS.into_iter().zip([2, 3, 3]) {
        let (clock, limiter) = at_a_minute(quota, "");
        let (decision, _) = reserve(&limiter, &attributes(ALICE), 3);
        let marked = MarkedCharge::from(decision.quota().unwrap());
        clock.advance(6 * SECOND);
        assert_eq!(refund(&limiter, 3, marked.clone()).unwrap(), (true, given, 0), "{quota}");
        assert_eq!(refund(&limiter, 3, marked.clone()).unwrap(), (true, 0, 0), "{quota}, repeated");
        clock.advance(114 * SECOND);
        assert!(check(&limiter, ALICE).is_allowed());
        assert_eq!(refund(&limiter, 3, marked).unwrap(), (false, 0, 1), "{quota}, when nothing of it counts");
    }
}

#[test]
fn a_mark_that_no_charge_can_have_is_refused() {
    let marked = |quota: &str, seconds: i64| {
        let mark = Mark::at(Timestamp::from_unix_millis(1_700_000_040_000 + 1_000 * seconds));
        MarkedCharge::new("a", quota.parse().unwrap(), mark)
    };
    for quota in KINDS {
        let (_, limiter) = at_a_minute(quota, "");
        assert!(check(&limiter, ALICE).is_allowed());
        let refused = refund(&limiter, 1, marked(quota, 120));
        match quota {
            // Its units come back later than now.
            "10/1m~burst:4" => assert_eq!(refused.unwrap(), (true, 1, 0)),
            _ => assert!(matches!(refused.unwrap_err(), RefundError::FutureStart { index: 0 }), "{quota}"),
        }
    }
    let (_, limiter) = at_a_minute("4/1m~sliding", "");
    let refused = refund(&limiter, 1, marked("4/1m~sliding", -1)).unwrap_err();
    assert!(matches!(refused, RefundError::NoWindowStart { index: 0, .. }), "{refused}");
    let other = refund(&limiter, 1, marked("4/1m", 0)).unwrap_err();
    assert!(matches!(other, RefundError::NoSuchQuota { .. }), "another kind has other counters: {other}");
}

#[test]
fn receipts_are_settled_at_the_actual_cost() {
    for (quota, [small, large]) in KINDS.into_iter().zip([[1, 2], [0, 0], [1, 1]]) {
        let (_, limiter) = at_a_minute(quota, "");
        let (_, mut receipt) = reserve(&limiter, &attributes(ALICE), 3);
        for cost in [2, 1] {
            block_on(receipt.adjust(limiter.fallback(), cost)).unwrap();
            assert_eq!(peeked(&limiter), u64::from(cost), "{quota}");
        }
        block_on(receipt.refund(limiter.fallback())).unwrap();
        assert_eq!(peeked(&limiter), 0, "{quota}");
        // A mark names the larger of two charges, and a millisecond of a bucket's has come back by itself. Both charges of
        // a window have the same mark.
        for (cost, left) in [(1, small), (3, large)] {
            let (clock, limiter) = at_a_minute(quota, "");
            let (_, mut receipt) = reserve(&limiter, &attributes(ALICE), cost);
            clock.advance(Duration::from_millis(1));
            block_on(receipt.adjust(limiter.fallback(), 4)).unwrap();
            assert_eq!(peeked(&limiter), 4, "{quota}");
            block_on(receipt.refund(limiter.fallback())).unwrap();
            assert_eq!(peeked(&limiter), left, "{quota}, {cost}");
        }
    }
}

#[test]
fn denied_requests_are_counted_where_the_policy_says_so() {
    for quota in KINDS {
        let (clock, limiter) = at_a_minute(quota, ", count_denied: true");
        let costs = [4, 1].map(|cost| {
            let decision = block_on(limiter.check(&attributes(ALICE), cost)).unwrap();
            (decision.is_allowed(), decision.quota().unwrap().state.used())
        });
        assert_eq!(costs, [(true, 4), (false, 5)], "{quota}");
        // The answer tells when one more fits, and it does.
        let state = *block_on(limiter.peek(&attributes(ALICE), 1)).unwrap().quota().unwrap().state;
        clock.advance(state.retry_after().unwrap() - Duration::from_millis(1));
        assert!(!block_on(limiter.peek(&attributes(ALICE), 1)).unwrap().is_allowed(), "{quota}");
        clock.advance(Duration::from_millis(1));
        assert!(check(&limiter, ALICE).is_allowed(), "{quota}");
    }
}

#[test]
fn an_overdraft_passes_the_limit_and_waits_until_a_unit_is_free() {
    // A bucket holds twice its burst.
    for (quota, after) in KINDS.into_iter().zip([8, 10, 10]) {
        let (clock, limiter) = at_a_minute(quota, ", overdraft: true");
        for (cost, stands) in [(3, 3), (7, after)] {
            let decision = block_on(limiter.check(&attributes(ALICE), cost)).unwrap();
            assert_eq!((decision.is_allowed(), used(&decision)), (true, vec![("a", stands)]), "{quota}");
        }
        let peek = || block_on(limiter.peek(&attributes(ALICE), 1)).unwrap();
        let wait = peek().quota().unwrap().state.retry_after().unwrap();
        clock.advance(wait - Duration::from_millis(1));
        assert!(!peek().is_allowed(), "{quota}");
        clock.advance(Duration::from_millis(1));
        assert!(peek().is_allowed(), "{quota}");
    }
}

#[test]
fn a_share_is_of_the_limit_and_of_the_burst() {
    // A third of ten is four a minute, and of a burst of four two at once.
    for (quota, wait) in KINDS.into_iter().zip([15, 90, 60]) {
        let (_, limiter) = at_a_minute(quota, ", on_store_failure: local, local_share: 1/3");
        limiter.store().begin(StoreFault::unreachable());
        let checks = [(); 3].map(|()| {
            let decision = check(&limiter, ALICE);
            assert_eq!(decision.source(), Source::Fallback);
            decision.is_allowed()
        });
        assert_eq!(checks, [true, true, false], "{quota}");
        let state = *check(&limiter, ALICE).quota().unwrap().state;
        assert_eq!((state.limit(), state.retry_after()), (2, Some(wait * SECOND)), "{quota}");
        let above = block_on(limiter.check(&attributes(ALICE), 3)).unwrap();
        assert_eq!(above.quota().unwrap().state.reason(), Some(Reason::CostExceedsShare), "{quota}");
        let never = block_on(limiter.check(&attributes(ALICE), 5)).unwrap();
        assert_eq!(never.quota().unwrap().state.reason(), Some(Reason::CostExceedsLimit), "{quota}");
    }
}

#[test]
fn a_trial_tries_another_kind() {
    for quota in KINDS {
        let (_, limiter) = at_a_minute("9/1m", &format!(", candidate: [\"{quota}\"]"));
        let answers: Vec<bool> = (0..5)
            .map(|_| {
                let decision = check(&limiter, ALICE);
                assert_eq!(decision.verdict(), Verdict::Allowed);
                trials(&decision)[0].2.unwrap()
            })
            .collect();
        assert_eq!(answers, [true, true, true, true, false], "{quota}");
    }
}

#[test]
fn an_override_changes_the_burst_and_keeps_what_is_used() {
    let gold = ", overrides: [{ when: { tier: gold }, quotas: [\"20/1m~burst:8\"] }]";
    let (_, limiter) = at_a_minute("10/1m~burst:4", gold);
    let of = |tier| {
        let decision = block_on(limiter.check(&attributes(&[("user", "alice"), ("tier", tier)]), 4)).unwrap();
        (decision.is_allowed(), used(&decision)[0].1)
    };
    assert_eq!(of("free"), (true, 4));
    assert_eq!(of("free"), (false, 4));
    // At twice the rate, what is used takes as long to come back, and weighs twice.
    assert_eq!(of("gold"), (false, 8));
}

#[test]
fn an_attribute_sets_the_limit_of_any_kind() {
    let limited = |window: &str, max: u64, quota: &str| {
        let quotas = format!("[{{ limit: {{ attribute: quota }}, max: {max}, window: \"{window}\" }}]");
        let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_040_000));
        let limiter = limiter_at(&clock, &format!("  - {{ name: a, key: [user], quotas: {quotas} }}"));
        let decision =
            block_on(limiter.check(&attributes(&[("user", "alice"), ("quota", quota)]), 1)).unwrap();
        let state = *decision.quota().unwrap().state;
        (decision.is_allowed(), state.limit(), state.next_after().map(|wait| wait.as_millis()))
    };
    assert_eq!(limited("1m~burst:5", 1_000, "7"), (true, 5, Some(8_572)));
    assert_eq!(limited("1m~burst", 1_000, "7"), (true, 7, Some(8_572)));
    assert_eq!(limited("1m~burst:5", 1_000, "0"), (false, 0, None));
    assert_eq!(limited("1m~sliding", 1_000, "99999"), (true, 1_000, Some(120_000)));
    assert_eq!(limited("1h~log:1m", 5_000, "4999"), (true, 4_999, Some(3_659_999)));
    // No bucket has this rate exactly; it has the nearest below.
    assert_eq!(limited("1s~burst:9", 10_000_000, "9999991"), (true, 9, Some(1)));
}
