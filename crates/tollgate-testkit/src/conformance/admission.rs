//! Admission and its cost: rules 3, 5, 6 and 7, promises G1 and G2.

use tollgate::{CountDenied, Quota, Reason, Source, Verdict};

use super::quota;
use crate::caller::decide;
use crate::{Caller, StoreSteps, Subject};

/// Rule 5, G1, G2: the fifth of five is admitted, the sixth is denied.
pub async fn admits_the_last_unit_and_denies_the_next<S: Subject>(subject: &S) {
    let quota = quota("5/1h");
    let alice = Caller::new(subject, &quota, "alice");
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
pub async fn admits_a_cost_that_fits_exactly<S: Subject>(subject: &S) {
    let quota = quota("10/1h");
    let alice = Caller::new(subject, &quota, "alice");
    assert!(alice.takes(7).await.is_allowed());
    assert!(!alice.takes(4).await.is_allowed());
    assert!(alice.takes(3).await.is_allowed());
    assert!(!alice.takes(1).await.is_allowed());
}

/// Rule 3: limit 0 denies everything, for good.
pub async fn limit_zero_denies_everything<S: Subject>(subject: &S) {
    let quota = quota("0/1h");
    let alice = Caller::new(subject, &quota, "alice");
    for cost in [0, 1, u32::MAX] {
        let denied = alice.takes(cost).await;
        assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsLimit), None));
        assert_eq!((denied.used(), denied.remaining()), (0, 0));
    }
}

/// Rule 3: the largest costs and the largest limit are counted to the unit.
pub async fn the_largest_costs_and_limits_are_exact<S: Subject>(subject: &S) {
    let quota = quota(&format!("{}/1h", Quota::MAX_LIMIT));
    let alice = Caller::new(subject, &quota, "alice");
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
pub async fn cost_zero_only_looks<S: Subject>(subject: &S) {
    let quota = quota("1/1h");
    let alice = Caller::new(subject, &quota, "alice");
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
pub async fn a_peek_answers_as_the_charge_would<S: Subject>(subject: &S) {
    let quota = quota("5/1h");
    let alice = Caller::new(subject, &quota, "alice");
    assert!(alice.takes(3).await.is_allowed());
    for (cost, fits) in [(0, true), (2, true), (3, false), (6, false), (2, true)] {
        let counted = subject.store().peek(&[alice.charge(cost)]).await.unwrap();
        assert_eq!((counted.is_admitted(), counted[0].used()), (fits, 3), "cost {cost}");
    }
    assert!(alice.takes(2).await.is_allowed());
}

/// Rule 6: a denied request consumes nothing, so a smaller one still passes.
pub async fn a_denied_request_consumes_nothing<S: Subject>(subject: &S) {
    let quota = quota("5/1h");
    let alice = Caller::new(subject, &quota, "alice");
    assert!(alice.takes(3).await.is_allowed());
    for _ in 0..10 {
        assert_eq!(alice.takes(3).await.used(), 3);
    }
    assert!(alice.takes(2).await.is_allowed());
}

/// Rule 6: with `count_denied`, a denial is charged to the quotas that had no room, and to no other.
pub async fn a_counted_denial_charges_only_quotas_without_room<S: Subject>(subject: &S) {
    let narrow = quota("2/1h").with_count_denied(CountDenied::Yes);
    let wide = quota("10/2h").with_count_denied(CountDenied::Yes);
    let (narrow, wide) = (Caller::new(subject, &narrow, "alice"), Caller::new(subject, &wide, "alice"));
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
pub async fn denials_are_counted_only_if_the_quota_says_so<S: Subject>(subject: &S) {
    let counts = quota("1/1h").with_count_denied(CountDenied::Yes);
    let forgives = quota("1/2h");
    let (counts, forgives) =
        (Caller::new(subject, &counts, "alice"), Caller::new(subject, &forgives, "alice"));
    let both = [counts.charge(1), forgives.charge(1)];
    for _ in 0..3 {
        let _ = decide(subject, &both).await;
    }
    assert_eq!((counts.used().await, forgives.used().await), (3, 1));
}

/// Rule 6: a cost above the limit is never charged, even with `count_denied`.
pub async fn a_cost_above_the_limit_is_never_charged<S: Subject>(subject: &S) {
    let quota = quota("5/1h").with_count_denied(CountDenied::Yes);
    let alice = Caller::new(subject, &quota, "alice");
    assert_eq!(alice.takes(6).await.used(), 0);
    assert!(alice.takes(5).await.is_allowed());
    assert_eq!(alice.takes(6).await.used(), 5);
    assert_eq!(alice.takes(5).await.used(), 10);
}

/// Rule 6: with `count_denied`, cost 0 still charges nothing.
pub async fn a_denied_look_is_not_counted<S: Subject>(subject: &S) {
    let quota = quota("1/1h").with_count_denied(CountDenied::Yes);
    let alice = Caller::new(subject, &quota, "alice");
    assert!(alice.takes(1).await.is_allowed());
    assert_eq!(alice.takes(0).await.used(), 1);
    assert_eq!(alice.used().await, 1);
}

/// Rule 6: `used` saturates at 2^40 - 1, and a counter that is full at the largest limit has no room.
pub async fn used_saturates_at_the_largest_limit<S: Subject>(subject: &S) {
    let quota = quota(&format!("{}/1h", Quota::MAX_LIMIT)).with_count_denied(CountDenied::Yes);
    let alice = Caller::new(subject, &quota, "alice");
    assert_eq!(alice.sets(Quota::MAX_LIMIT - 1).await.used, Quota::MAX_LIMIT - 1);
    let denied = alice.takes(u32::MAX).await;
    assert_eq!((denied.is_allowed(), denied.used(), denied.remaining()), (false, Quota::MAX_LIMIT, 0));
    let denied = alice.takes(1).await;
    assert_eq!((denied.is_allowed(), denied.state().units()), (false, 0));
    let recorded = alice.records(u32::MAX).await;
    assert_eq!((recorded.used, recorded.units), (Quota::MAX_LIMIT, 0));
}

/// Rule 7: a cost above the limit can never pass, so the denial has no time to wait.
pub async fn a_cost_above_the_limit_is_denied_for_good<S: Subject>(subject: &S) {
    let quota = quota("5/1h");
    let alice = Caller::new(subject, &quota, "alice");
    for used in [0, 5] {
        assert_eq!(alice.sets(used).await.used, used);
        let denied = alice.takes(6).await;
        assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsLimit), None));
        assert_eq!(denied.used(), used);
    }
}
