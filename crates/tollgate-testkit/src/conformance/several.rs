//! Several charges in one step, several steps in one call: rules 8 and 9.

use tollgate::{Mark, QuotaState, QuotaStates, Reason, Step, Store, Timestamp};

use super::quota;
use crate::counter_under_test::decide;
use crate::{CounterUnderTest, StoreSteps, StoreUnderTest};

/// Rule 8: either every quota has room and all are charged, or none is.
pub async fn quotas_are_charged_all_or_none<S: StoreUnderTest>(subject: &S) {
    let (wide, narrow) = (quota("10/1h"), quota("2/1d"));
    let (wide, narrow) =
        (CounterUnderTest::new(subject, &wide, "alice"), CounterUnderTest::new(subject, &narrow, "alice"));
    for charges in [[wide.charge(1), narrow.charge(1)], [narrow.charge(1), wide.charge(1)]] {
        assert!(decide(subject, &charges).await.is_allowed());
    }
    for charges in [[wide.charge(1), narrow.charge(1)], [narrow.charge(1), wide.charge(1)]] {
        let denied = decide(subject, &charges).await;
        assert_eq!((denied.is_allowed(), denied.used(), denied.remaining()), (false, 2, 0));
    }
    assert_eq!((wide.used().await, narrow.used().await), (2, 2));
}

/// Rule 8: each charge has a cost and a key of its own.
pub async fn charges_of_a_step_have_costs_and_keys_of_their_own<S: StoreUnderTest>(subject: &S) {
    let (user, everybody) = (quota("5/1h"), quota("100/1d"));
    let alice = CounterUnderTest::new(subject, &user, "alice");
    let bob = CounterUnderTest::new(subject, &user, "bob");
    let all = CounterUnderTest::new(subject, &everybody, "all");
    assert!(decide(subject, &[alice.charge(5), bob.charge(2), all.charge(30)]).await.is_allowed());
    assert!(!decide(subject, &[alice.charge(1), bob.charge(1), all.charge(1)]).await.is_allowed());
    assert_eq!((alice.used().await, bob.used().await, all.used().await), (5, 2, 30));
}

/// Rule 8: a charge with cost 0 takes nothing, but its quota must still have room for one unit.
pub async fn a_quota_that_is_only_looked_at_can_deny<S: StoreUnderTest>(subject: &S) {
    let (hour, day) = (quota("1/1h"), quota("9/1d"));
    let (hour, day) =
        (CounterUnderTest::new(subject, &hour, "alice"), CounterUnderTest::new(subject, &day, "alice"));
    assert!(decide(subject, &[hour.charge(0), day.charge(1)]).await.is_allowed());
    hour.fills().await;
    assert!(!decide(subject, &[hour.charge(0), day.charge(1)]).await.is_allowed());
    assert_eq!((hour.used().await, day.used().await), (1, 1));
}

/// Rule 8: charges of one step on one counter add up.
pub async fn charges_on_one_counter_add_up<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let admitted = decide(subject, &[alice.charge(2), alice.charge(1)]).await;
    assert!(admitted.is_allowed());
    let counted = |quota: &tollgate::QuotaState| (quota.used(), quota.units());
    assert_eq!(admitted.quotas().iter().map(counted).collect::<Vec<_>>(), [(3, 2), (3, 1)]);
    let denied = decide(subject, &[alice.charge(1), alice.charge(2)]).await;
    assert_eq!((denied.is_allowed(), denied.used()), (false, 3));
    assert!(decide(subject, &[alice.charge(1), alice.charge(0), alice.charge(1)]).await.is_allowed());
    assert_eq!(alice.used().await, 5);
}

/// Rules 7 and 8: charges on one counter whose sum is above its limit can never pass.
pub async fn charges_that_add_up_above_the_limit_are_denied_for_good<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let denied = decide(subject, &[alice.charge(3), alice.charge(3)]).await;
    assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsLimit), None));
    assert_eq!(denied.used(), 0);
}

/// Rule 9: if several quotas deny, the one with the longest wait decides.
pub async fn the_longest_wait_decides_a_denial<S: StoreUnderTest>(subject: &S) {
    let (hour, long, wide) = (quota("1/1h"), quota("1/3653d"), quota("9/1d"));
    let callers = [&hour, &long, &wide].map(|quota| CounterUnderTest::new(subject, quota, "alice"));
    let charges = callers.each_ref().map(|caller| caller.charge(1));
    let admitted = decide(subject, &charges).await;
    assert_eq!((admitted.is_allowed(), admitted.deciding(), admitted.quotas().len()), (true, 0, 3));
    let denied = decide(subject, &charges).await;
    assert_eq!((denied.is_allowed(), denied.deciding()), (false, 1));
    assert_eq!(denied.retry_after(), denied.quotas()[1].retry_after());
    assert!(denied.quotas()[0].retry_after() < denied.quotas()[1].retry_after());
    assert_eq!((denied.quotas()[2].reason(), denied.quotas()[2].used()), (None, 1));
}

/// Rule 9: if several quotas admit, the one with the least share left decides.
pub async fn the_least_share_decides_an_admission<S: StoreUnderTest>(subject: &S) {
    let (wide, narrow) = (quota("100/1h"), quota("9/1d"));
    let (wide, narrow) =
        (CounterUnderTest::new(subject, &wide, "alice"), CounterUnderTest::new(subject, &narrow, "alice"));
    let admitted = decide(subject, &[wide.charge(1), narrow.charge(1)]).await;
    assert_eq!((admitted.deciding(), admitted.remaining()), (1, 8));
    let admitted = decide(subject, &[wide.charge(90), narrow.charge(1)]).await;
    assert_eq!((admitted.deciding(), admitted.remaining()), (0, 9));
}

/// A step without charges is admitted and returns the time.
pub async fn a_step_without_charges_is_admitted<S: StoreUnderTest>(subject: &S) {
    let counted = subject.store().charge(&[]).await.unwrap();
    assert!(counted.is_admitted() && counted.is_empty());
}

/// A batch takes one step for each request, in some order. A denied request does not affect the others, and none is
/// counted twice.
pub async fn requests_of_a_batch_are_independent<S: StoreUnderTest>(subject: &S) {
    let (hour, day) = (quota("5/1h"), quota("100/1d"));
    let alice = CounterUnderTest::new(subject, &hour, "alice");
    let bob = CounterUnderTest::new(subject, &hour, "bob");
    let all = CounterUnderTest::new(subject, &day, "all");
    let requests: [&[_]; 6] = [
        &[alice.charge(3), all.charge(3)],
        &[alice.charge(6), all.charge(6)],
        &[],
        &[bob.charge(5), all.charge(5)],
        &[alice.charge(3), all.charge(3)],
        &[bob.charge(0)],
    ];
    let answers: Vec<_> =
        subject.store().charge_each(&requests).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().map(|answer| answer.len()).collect::<Vec<_>>(), [2, 2, 0, 2, 2, 1]);
    assert!(!answers[1].is_admitted() && answers[2].is_admitted() && answers[3].is_admitted());
    // Two requests compete, and only the first one taken fits.
    assert!(answers[0].is_admitted() != answers[4].is_admitted());
    assert_eq!((alice.used().await, bob.used().await, all.used().await), (3, 5, 8));
    assert!(subject.store().charge_each(&[]).await.is_empty());
}

/// In a store in this process, a batch is taken in the given order.
pub async fn a_batch_is_taken_in_the_given_order<S: StoreUnderTest>(subject: &S) {
    let (hour, day) = (quota("5/1h"), quota("100/1d"));
    let alice = CounterUnderTest::new(subject, &hour, "alice");
    let all = CounterUnderTest::new(subject, &day, "all");
    let (one, two, three) = ([alice.charge(1)], [alice.charge(2), all.charge(2)], [alice.charge(3)]);
    let requests: [&[_]; 6] = [&two, &three, &one, &two, &three, &one];
    let answers = subject.store().charge_each(&requests).await.into_iter().map(Result::unwrap);
    let answers: Vec<_> = answers.map(|counted| (counted.is_admitted(), counted[0].used())).collect();
    assert_eq!(answers, [(true, 2), (true, 5), (false, 5), (false, 5), (false, 5), (false, 5)]);
}

/// G1, G2: a batch of many requests on one key admits exactly as many as fit.
pub async fn a_batch_on_one_key_admits_exactly_the_limit<S: StoreUnderTest>(subject: &S) {
    let quota = quota("20/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let one = [alice.charge(1)];
    let answers = subject.store().charge_each(&[&one[..]; 50]).await;
    let mut seen: Vec<u64> = Vec::new();
    for counted in answers.into_iter().map(Result::unwrap).filter(tollgate::QuotaStates::is_admitted) {
        seen.push(counted[0].used());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
}

/// Steps of all kinds in one call get the answers that each would get alone, in the order of the steps. A step that is
/// denied, asks for nothing or names a closed window does not affect the others. Each has its own counters here, so
/// their order does not matter.
pub async fn steps_of_all_kinds_go_together<S: StoreUnderTest>(subject: &S) {
    let (hour, day) = (quota("5/1h"), quota("5/1d"));
    let of = |name: &str| CounterUnderTest::new(subject, &hour, name);
    let charged = of("charged");
    let also = charged.under(&day);
    let [denied, never, looked, recorded, refunded, late, reset, set] =
        ["denied", "never", "looked", "recorded", "refunded", "late", "reset", "set"].map(of);
    let mut start = Timestamp::EPOCH;
    for caller in [&denied, &looked, &refunded, &late, &reset] {
        start = caller.fills().await.start();
    }
    let (both, one) = ([charged.charge(2), also.charge(2)], [denied.charge(1)]);
    let (six, look, two) = ([never.charge(6)], [looked.charge(1)], [looked.charge(0), also.charge(9)]);
    let steps = [
        Step::Charge(&both),
        Step::Charge(&one),
        Step::Charge(&[]),
        Step::Charge(&six),
        Step::Peek(&look),
        Step::Peek(&[]),
        Step::Record(recorded.charge(7)),
        Step::Refund { charge: refunded.charge(2), mark: Mark::at(start) },
        Step::Refund { charge: late.charge(2), mark: Mark::at(Timestamp::EPOCH) },
        Step::Reset(reset.charge(0).counter()),
        Step::Set { counter: set.charge(0).counter(), used: 3 },
        Step::Peek(&two),
    ];
    /// The usage and the units taken for each charge, and the reason of a denial.
    type Expected<'a> = (&'a [(u64, u32)], Option<Reason>);
    let expected: [Expected<'_>; 12] = [
        (&[(2, 2), (2, 2)], None),
        (&[(5, 0)], Some(Reason::QuotaExceeded)),
        (&[], None),
        (&[(0, 0)], Some(Reason::CostExceedsLimit)),
        (&[(5, 0)], Some(Reason::QuotaExceeded)),
        (&[], None),
        (&[(7, 7)], None),
        (&[(3, 2)], None),
        (&[(5, 0)], None),
        (&[(0, 0)], None),
        (&[(3, 0)], None),
        (&[(5, 0), (0, 0)], Some(Reason::CostExceedsLimit)),
    ];
    let answers = subject.store().step_each(&steps).await;
    assert_eq!(answers.len(), steps.len());
    for ((step, answer), (states, reason)) in steps.iter().zip(answers).zip(expected) {
        let counted = answer.unwrap_or_else(|error| panic!("{step:?}: {error}"));
        let mut found: Vec<_> = counted.iter().map(|state| (state.used(), state.units())).collect();
        if let (Step::Peek([_, _]), [_, (used, _)]) = (step, &mut found[..]) {
            // The peek may happen before or after the charge of its second counter.
            assert!([0, 2].contains(used), "{step:?}: {counted:?}");
            *used = 0;
        }
        assert_eq!(found, states, "{step:?}");
        assert_eq!(counted.decided().and_then(QuotaState::reason), reason, "{step:?}");
    }
    let used = [&charged, &also, &denied, &never, &looked, &recorded, &refunded, &late, &reset, &set];
    for (caller, used) in used.into_iter().zip([2, 2, 5, 0, 5, 7, 3, 5, 0, 3]) {
        assert_eq!(caller.used().await, used, "{:?}", caller.key());
    }
}

/// In a store in this process, steps of all kinds are taken in the given order.
pub async fn steps_of_all_kinds_are_taken_in_the_given_order<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let start = alice.counts(1).await.counts[0].window.start();
    let (three, one) = ([alice.charge(3)], [alice.charge(1)]);
    let counter = alice.charge(0).counter();
    let steps = [
        Step::Charge(&three),
        Step::Charge(&three),
        Step::Peek(&one),
        Step::Record(alice.charge(4)),
        Step::Peek(&one),
        Step::Refund { charge: alice.charge(5), mark: Mark::at(start) },
        Step::Charge(&one),
        Step::Set { counter, used: 5 },
        Step::Charge(&one),
        Step::Reset(counter),
        Step::Charge(&one),
    ];
    let answers = subject.store().step_each(&steps).await.into_iter().map(Result::unwrap);
    let answers: Vec<_> =
        answers.map(|counted: QuotaStates| (counted.is_admitted(), counted[0].used())).collect();
    let (yes, no) = (true, false);
    assert_eq!(
        answers,
        [
            (yes, 4),
            (no, 4),
            (yes, 4),
            (yes, 8),
            (no, 8),
            (yes, 3),
            (yes, 4),
            (yes, 5),
            (no, 5),
            (yes, 0),
            (yes, 1)
        ]
    );
}
