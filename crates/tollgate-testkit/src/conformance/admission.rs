//! Admission and its cost: rules 3, 5, 6 and 7, promises G1 and G2.

use tollgate::{CountDenied, Quota, Reason, Source, Verdict};

use super::quota;
use crate::counter_under_test::decide;
use crate::{CounterUnderTest, StoreSteps, StoreUnderTest};

/// Rule 5, G1, G2: the fifth of five is admitted, the sixth is denied.
pub async fn admits_the_last_unit_and_denies_the_next<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for used in 1..=5 {
        let decision = alice.takes(1).await;
        assert_eq!(decision.verdict(), Verdict::Allowed, "unit {used} of 5");
        assert_eq!((decision.used(), decision.remaining()), (used, 5 - used));
        assert_eq!((decision.reason(), decision.retry_after()), (None, None));
        assert_eq!(decision.source(), Source::Store);
    }
    let denied = alice.takes(1).await;
    assert_eq!(denied.verdict(), Verdict::Denied);
    assert_eq!((denied.used(), denied.remaining()), (5, 0));
    assert_eq!(denied.reason(), Some(Reason::QuotaExceeded));
    assert!(denied.retry_after() >= Some(denied.reset_after()));
}

/// Rule 5, G2: a cost that fits exactly is admitted; one unit more is denied.
pub async fn admits_a_cost_that_fits_exactly<S: StoreUnderTest>(subject: &S) {
    let quota = quota("10/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert!(alice.takes(7).await.is_allowed());
    assert!(!alice.takes(4).await.is_allowed());
    assert!(alice.takes(3).await.is_allowed());
    assert!(!alice.takes(1).await.is_allowed());
}

/// Rule 3: limit 0 denies everything, for good.
pub async fn limit_zero_denies_everything<S: StoreUnderTest>(subject: &S) {
    let quota = quota("0/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for cost in [0, 1, u32::MAX] {
        let denied = alice.takes(cost).await;
        assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsLimit), None));
        assert_eq!((denied.used(), denied.remaining()), (0, 0));
    }
}

/// Rule 3: the largest costs and the largest limit are counted to the unit.
pub async fn the_largest_costs_and_limits_are_exact<S: StoreUnderTest>(subject: &S) {
    let quota = quota(&format!("{}/1h", Quota::MAX_LIMIT));
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for _ in 0..256 {
        assert!(alice.takes(u32::MAX).await.is_allowed());
    }
    // 2^40 - 1 minus 256 times 2^32 - 1.
    assert_eq!(alice.peeks().await.remaining(), 255);
    assert!(!alice.takes(256).await.is_allowed());
    assert!(alice.takes(255).await.is_allowed());
    assert!(!alice.takes(1).await.is_allowed());
}

/// Rule 5: cost 0 charges nothing and gets the answer of cost 1.
pub async fn cost_zero_only_looks<S: StoreUnderTest>(subject: &S) {
    let quota = quota("1/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for _ in 0..3 {
        let decision = alice.takes(0).await;
        assert!(decision.is_allowed());
        assert_eq!(decision.used(), 0);
    }
    assert!(alice.takes(1).await.is_allowed());
    let denied = alice.takes(0).await;
    assert_eq!((denied.is_allowed(), denied.used()), (false, 1));
    assert!(denied.retry_after().is_some());
}

/// Rule 5: a peek charges nothing, and gets the answer that a charge of its cost would get.
pub async fn a_peek_answers_as_the_charge_would<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert!(alice.takes(3).await.is_allowed());
    for (cost, fits) in [(0, true), (2, true), (3, false), (6, false), (2, true)] {
        let counted = subject.store().peek(&[alice.charge(cost)]).await.unwrap();
        assert_eq!((counted.is_admitted(), counted[0].used()), (fits, 3), "cost {cost}");
    }
    assert!(alice.takes(2).await.is_allowed());
}

/// Rule 6: a denied request consumes nothing, so a smaller one still passes.
pub async fn a_denied_request_consumes_nothing<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert!(alice.takes(3).await.is_allowed());
    for _ in 0..10 {
        assert_eq!(alice.takes(3).await.used(), 3);
    }
    assert!(alice.takes(2).await.is_allowed());
}

/// Rule 6: with `count_denied`, a denial is charged to the quotas that had no room, and to no other.
pub async fn a_counted_denial_charges_only_quotas_without_room<S: StoreUnderTest>(subject: &S) {
    let narrow = quota("2/1h").with_count_denied(CountDenied::Yes);
    let wide = quota("10/2h").with_count_denied(CountDenied::Yes);
    let (narrow, wide) =
        (CounterUnderTest::new(subject, &narrow, "alice"), CounterUnderTest::new(subject, &wide, "alice"));
    let both = [narrow.charge(2), wide.charge(2)];
    assert!(decide(subject, &both).await.is_allowed());
    for denials in 1..=3 {
        let denied = decide(subject, &both).await;
        assert!(!denied.is_allowed());
        assert_eq!((denied.quotas()[0].used(), denied.quotas()[1].used()), (2 + 2 * denials, 2));
        assert_eq!((denied.quotas()[0].units(), denied.quotas()[1].units()), (2, 0));
        assert_eq!(denied.remaining(), 0);
    }
    assert_eq!((narrow.used().await, wide.used().await), (8, 2));
}

/// Rule 6: `count_denied` belongs to each quota; a quota without it is never charged for a denial.
pub async fn denials_are_counted_only_if_the_quota_says_so<S: StoreUnderTest>(subject: &S) {
    let counts = quota("1/1h").with_count_denied(CountDenied::Yes);
    let forgives = quota("1/2h");
    let (counts, forgives) = (
        CounterUnderTest::new(subject, &counts, "alice"),
        CounterUnderTest::new(subject, &forgives, "alice"),
    );
    let both = [counts.charge(1), forgives.charge(1)];
    for _ in 0..3 {
        let _ = decide(subject, &both).await;
    }
    assert_eq!((counts.used().await, forgives.used().await), (3, 1));
}

/// Rule 6: a cost above the limit is never charged, even with `count_denied`.
pub async fn a_cost_above_the_limit_is_never_charged<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h").with_count_denied(CountDenied::Yes);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert_eq!(alice.takes(6).await.used(), 0);
    assert!(alice.takes(5).await.is_allowed());
    assert_eq!(alice.takes(6).await.used(), 5);
    assert_eq!(alice.takes(5).await.used(), 10);
}

/// Rule 6: with `count_denied`, cost 0 still charges nothing.
pub async fn a_denied_look_is_not_counted<S: StoreUnderTest>(subject: &S) {
    let quota = quota("1/1h").with_count_denied(CountDenied::Yes);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert!(alice.takes(1).await.is_allowed());
    assert_eq!(alice.takes(0).await.used(), 1);
    assert_eq!(alice.used().await, 1);
}

/// Rule 6: `used` saturates at 2^40 - 1, and a counter that is full at the largest limit has no room.
pub async fn used_saturates_at_the_largest_limit<S: StoreUnderTest>(subject: &S) {
    let quota = quota(&format!("{}/1h", Quota::MAX_LIMIT)).with_count_denied(CountDenied::Yes);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert_eq!(alice.sets(Quota::MAX_LIMIT - 1).await.used, Quota::MAX_LIMIT - 1);
    let denied = alice.takes(u32::MAX).await;
    assert_eq!((denied.is_allowed(), denied.used(), denied.remaining()), (false, Quota::MAX_LIMIT, 0));
    let denied = alice.takes(1).await;
    assert_eq!((denied.is_allowed(), denied.state().units()), (false, 0));
    let recorded = alice.records(u32::MAX).await;
    assert_eq!((recorded.used, recorded.units), (Quota::MAX_LIMIT, 0));
}

/// Rule 7: a cost above the limit can never pass, so the denial has no time to wait.
pub async fn a_cost_above_the_limit_is_denied_for_good<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for used in [0, 5] {
        assert_eq!(alice.sets(used).await.used, used);
        let denied = alice.takes(6).await;
        assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsLimit), None));
        assert_eq!(denied.used(), used);
    }
}

/// Rules 5 to 7: an overdraft admits any cost while a unit is left, and charges what it denies. A budget of 1,000 that
/// was charged 400 after each answer stayed at 200 left, and admitted for ever: no charge fitted any more.
pub async fn an_overdraft_admits_until_the_limit_is_used<S: StoreUnderTest>(subject: &S) {
    let quota = quota("1000/1h").with_count_denied(CountDenied::Overdraft);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for (used, remaining) in [(400, 600), (800, 200), (1_200, 0)] {
        let admitted = alice.takes(400).await;
        assert_eq!((admitted.is_allowed(), admitted.used()), (true, used));
        assert_eq!((admitted.remaining(), admitted.state().units()), (remaining, 400));
    }
    let denied = alice.takes(400).await;
    assert_eq!((denied.is_allowed(), denied.used(), denied.state().units()), (false, 1_600, 400));
    assert_eq!((denied.reason(), denied.remaining()), (Some(Reason::QuotaExceeded), 0));
    assert_eq!(denied.retry_after(), Some(denied.reset_after()));
}

/// Rule 7: a cost above the limit is admitted by an overdraft. A budget of 300 was never charged for answers of 400.
pub async fn an_overdraft_admits_a_cost_above_its_limit<S: StoreUnderTest>(subject: &S) {
    let quota = quota("300/1h").with_count_denied(CountDenied::Overdraft);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert!(alice.takes(0).await.is_allowed());
    let admitted = alice.takes(400).await;
    assert_eq!((admitted.is_allowed(), admitted.used(), admitted.remaining()), (true, 400, 0));
    for cost in [0, 1, 400] {
        assert_eq!(alice.takes(cost).await.reason(), Some(Reason::QuotaExceeded));
    }
    assert_eq!(alice.used().await, 801);
}

/// Rule 5: a peek at an overdraft, whatever its cost, and a cost of 0 are denied once the limit is used, and charge
/// nothing.
pub async fn a_look_at_an_overdraft_is_denied_once_the_limit_is_used<S: StoreUnderTest>(subject: &S) {
    let quota = quota("2/1h").with_count_denied(CountDenied::Overdraft);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for (used, fits) in [(0, true), (1, true), (2, false), (3, false)] {
        for cost in [0, 1, u32::MAX] {
            let looked = subject.store().peek(&[alice.charge(cost)]).await.unwrap();
            assert_eq!((looked.is_admitted(), looked[0].used(), looked[0].units()), (fits, used, 0));
        }
        let looked = alice.takes(0).await;
        assert_eq!((looked.is_allowed(), looked.used()), (fits, used));
        let _ = alice.takes(1).await;
    }
    assert_eq!(alice.used().await, 4);
}

/// Rule 3: limit 0 denies everything, also an overdraft, for good. What it denies is still charged.
pub async fn an_overdraft_of_limit_zero_denies_everything<S: StoreUnderTest>(subject: &S) {
    let quota = quota("0/1h").with_count_denied(CountDenied::Overdraft);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for (cost, used) in [(0, 0), (3, 3), (4, 7)] {
        let denied = alice.takes(cost).await;
        assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsLimit), None));
        assert_eq!((denied.used(), denied.remaining()), (used, 0));
    }
}

/// Rules 6 and 8: an overdraft is charged although another quota denies, and denies for all others of its step.
pub async fn an_overdraft_is_charged_whichever_quota_denies<S: StoreUnderTest>(subject: &S) {
    let (hour, two_hours) = (quota("2/1h"), quota("10/2h").with_count_denied(CountDenied::Overdraft));
    let (requests, bytes) =
        (CounterUnderTest::new(subject, &hour, "alice"), CounterUnderTest::new(subject, &two_hours, "alice"));
    let both = [requests.charge(1), bytes.charge(3)];
    for _ in 0..2 {
        assert!(decide(subject, &both).await.is_allowed());
    }
    let denied = decide(subject, &both).await;
    assert_eq!((denied.is_allowed(), denied.deciding()), (false, 0));
    let units: Vec<_> = denied.quotas().iter().map(|state| (state.used(), state.units())).collect();
    assert_eq!(units, [(2, 0), (9, 3)]);
    // A counter that does not exist yet is charged as well.
    let bob = CounterUnderTest::new(subject, &two_hours, "bob");
    assert!(!decide(subject, &[requests.charge(1), bob.charge(30)]).await.is_allowed());
    assert_eq!((bytes.used().await, bob.used().await), (9, 30));
    let carol = CounterUnderTest::new(subject, &hour, "carol");
    assert!(!decide(subject, &[carol.charge(1), bob.charge(30)]).await.is_allowed());
    assert_eq!((carol.used().await, bob.used().await), (0, 60));
}

/// Rule 6: charges of one step on one counter are charged together, also if only one of them is an overdraft. Each is
/// decided by its own rule.
pub async fn an_overdraft_is_charged_with_others_on_its_counter<S: StoreUnderTest>(subject: &S) {
    let (strict, lax) = (quota("5/1h"), quota("5/1h").with_count_denied(CountDenied::Overdraft));
    let (strict, lax) =
        (CounterUnderTest::new(subject, &strict, "alice"), CounterUnderTest::new(subject, &lax, "alice"));
    let both = [strict.charge(2), lax.charge(2)];
    for (used, reasons) in [
        (4, [None, None]),
        (8, [Some(Reason::QuotaExceeded), None]),
        (12, [Some(Reason::QuotaExceeded), Some(Reason::QuotaExceeded)]),
    ] {
        let counted = subject.store().charge(&both).await.unwrap();
        let reason: Vec<_> = counted.iter().map(|state| state.reason()).collect();
        assert_eq!((reason.as_slice(), counted[1].used()), (reasons.as_slice(), used));
        assert_eq!((counted[0].units(), counted[1].units()), (2, 2));
    }
    assert_eq!(lax.used().await, 12);
}

/// Rule 6: `used` of an overdraft saturates at 2^40 - 1, and the units told are those that were added.
pub async fn an_overdraft_saturates_at_the_largest_count<S: StoreUnderTest>(subject: &S) {
    let overdraft = quota(&format!("{}/1h", Quota::MAX_LIMIT)).with_count_denied(CountDenied::Overdraft);
    let other = quota("9/1h");
    let (alice, other) =
        (CounterUnderTest::new(subject, &overdraft, "alice"), CounterUnderTest::new(subject, &other, "bob"));
    alice.sets(Quota::MAX_LIMIT - 3).await;
    let admitted = alice.takes(5).await;
    assert_eq!((admitted.is_allowed(), admitted.state().units()), (true, 3));
    assert_eq!((admitted.used(), admitted.remaining()), (Quota::MAX_LIMIT, 0));
    alice.sets(Quota::MAX_LIMIT - 1).await;
    assert!(decide(subject, &[alice.charge(u32::MAX), other.charge(2)]).await.is_allowed());
    assert_eq!((alice.used().await, other.used().await), (Quota::MAX_LIMIT, 2));
    let denied = alice.takes(5).await;
    assert_eq!((denied.is_allowed(), denied.used(), denied.state().units()), (false, Quota::MAX_LIMIT, 0));
}

/// Rule 10: the units of an overdraft are given back like any others, also those of a denial.
pub async fn an_overdraft_can_be_given_back<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h").with_count_denied(CountDenied::Overdraft);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let window = alice.fills().await;
    assert_eq!(alice.takes(7).await.used(), 12);
    assert_eq!(alice.refunds(7, window.start()).await.map(|given| (given.units, given.used)), Some((7, 5)));
    assert!(!alice.takes(0).await.is_allowed());
    assert_eq!(alice.refunds(1, window.start()).await.map(|given| given.used), Some(4));
    assert!(alice.takes(9).await.is_allowed());
    assert_eq!(alice.sets(2).await.used, 2);
    assert!(alice.takes(9).await.is_allowed());
}
