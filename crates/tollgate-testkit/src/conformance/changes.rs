//! Waiting for `retry_after`, and changes of a count: rule 10.

use std::time::Duration;

use tollgate::{CountDenied, Quota, Timestamp};

use super::{anchored, quota, short_quota};
use crate::{CounterUnderTest, GivenBackUnits, StoreSteps, StoreUnderTest};

/// Rule 10: a client that waits for `retry_after` is admitted; one millisecond earlier, it is denied.
pub async fn admits_clients_that_wait_as_told<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 3, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;

        let decision = alice.takes(1).await;
        let denied = decision.quotas()[0].now();
        assert!(!decision.is_allowed() || denied >= window.end(), "{anchor:?}");
        // Nothing is left to wait for if the machine stalls for a whole window.
        let Some(wait) = decision.retry_after() else { continue };
        assert_eq!(wait, window.end().since(denied), "{anchor:?}");

        let told = denied + wait;
        subject.reach(told - Duration::from_millis(1)).await;
        let early = alice.counts(3).await;
        assert_eq!(early.is_admitted(), early.now >= window.end(), "{anchor:?}: {early:?}");
        if !early.is_admitted() {
            subject.reach(told).await;
            assert!(alice.takes(3).await.is_allowed(), "{anchor:?}");
        }
    }
}

/// Rule 10: a refund gives back what its answer says, and those units can be taken again.
pub async fn a_refund_frees_what_it_gives_back<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = anchored("5/1h", anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let start = alice.fills().await.start();
        assert_eq!(alice.refunds(2, start).await, Some(GivenBackUnits { units: 2, used: 3 }), "{anchor:?}");
        assert!(!alice.takes(3).await.is_allowed());
        let again = alice.takes(2).await;
        assert_eq!(
            (again.is_allowed(), again.quotas()[0].window().unwrap().start()),
            (true, start),
            "{anchor:?}"
        );
    }
}

/// Rule 10: a refund gives back at most what is used.
pub async fn a_refund_gives_back_at_most_what_is_used<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let start = alice.takes(2).await.quotas()[0].window().unwrap().start();
    assert_eq!(alice.refunds(0, start).await, Some(GivenBackUnits { units: 0, used: 2 }));
    assert_eq!(alice.refunds(u32::MAX, start).await, Some(GivenBackUnits { units: 2, used: 0 }));
    assert_eq!(alice.refunds(1, start).await, Some(GivenBackUnits { units: 0, used: 0 }));
    assert_eq!(alice.peeks().await.remaining(), 5);
}

/// Rule 10: a refund is exact even for counts that no single cost can reach.
pub async fn a_refund_of_a_large_count_is_exact<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let start = alice.sets(Quota::MAX_LIMIT).await.window.start();
    let used = Quota::MAX_LIMIT - u64::from(u32::MAX);
    assert_eq!(alice.refunds(u32::MAX, start).await, Some(GivenBackUnits { units: u32::MAX, used }));
}

/// Rule 10: a refund of a window that is not open gives back nothing, and its answer says so.
pub async fn a_refund_names_its_window<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = anchored("5/1h", anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;
        let millisecond = Duration::from_millis(1);
        for start in
            [window.start() - millisecond, window.start() + millisecond, window.end(), Timestamp::EPOCH]
        {
            assert_eq!(alice.refunds(1, start).await, None, "{anchor:?}");
        }
        assert_eq!(alice.used().await, 5);
    }
}

/// Rule 10, G5: a refund of a closed window gives nothing back to the next one.
pub async fn a_refund_of_a_closed_window_gives_nothing<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;
        subject.reach(window.end()).await;
        assert_eq!(alice.refunds(5, window.start()).await, None, "{anchor:?}");
        let next = alice.fills().await;
        let refunded = alice.refunds(5, window.start()).await;
        assert_eq!(refunded, None, "{anchor:?}");
        let after = alice.counts(0).await;
        assert!(after.counts[0].used == 5 || after.now >= next.end(), "{anchor:?}: {after:?}");
    }
}

/// Rule 10: `record` charges whether or not there is room.
pub async fn a_record_never_asks<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for used in [4, 8, 12] {
        let count = alice.records(4).await;
        assert_eq!((count.used, count.fits), (used, true));
    }
    assert_eq!(alice.records(0).await.used, 12);
    let denied = alice.takes(1).await;
    assert_eq!((denied.is_allowed(), denied.used(), denied.remaining()), (false, 12, 0));
}

/// Rule 10: `set` may exceed the limit, and may free used units.
pub async fn a_set_may_pass_the_limit_and_free_it_again<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert_eq!(alice.sets(9).await.used, 9);
    let denied = alice.takes(1).await;
    assert_eq!((denied.is_allowed(), denied.used(), denied.remaining()), (false, 9, 0));
    assert_eq!(alice.sets(3).await.used, 3);
    assert!(alice.takes(2).await.is_allowed());
    assert_eq!(alice.sets(0).await.used, 0);
    assert!(alice.takes(5).await.is_allowed());
}

/// Rules 6 and 10: `set` and `record` saturate at the same value as `used`.
pub async fn set_and_record_saturate<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h").with_count_denied(CountDenied::Yes);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    assert_eq!(alice.sets(u64::MAX).await.used, Quota::MAX_LIMIT);
    assert_eq!(alice.records(1).await.used, Quota::MAX_LIMIT);
    assert_eq!(alice.takes(5).await.used(), Quota::MAX_LIMIT);
}

/// Rules 6 and 10: a charge can be refunded exactly for what it took. A nearly saturated counter claimed to have taken
/// the whole cost, so a refund gave back units of others. Charges on one counter are told what each took, in their
/// order.
pub async fn a_counter_that_saturates_says_what_it_took<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h").with_count_denied(CountDenied::Yes);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let nearly = Quota::MAX_LIMIT - 3;
    alice.sets(nearly).await;
    let recorded = alice.records(5).await;
    assert_eq!((recorded.used, recorded.units), (Quota::MAX_LIMIT, 3));
    alice.sets(nearly).await;
    let denied = alice.counts(5).await.counts[0];
    assert_eq!((denied.used, denied.units), (Quota::MAX_LIMIT, 3));
    assert_eq!(
        alice.refunds(denied.units, denied.window.start()).await,
        Some(GivenBackUnits { units: 3, used: nearly })
    );

    let charges = [2, 0, 2, 1].map(|cost| alice.charge(cost));
    let counted = subject.store().charge(&charges).await.unwrap();
    assert!(!counted.is_admitted());
    assert_eq!(
        counted.iter().map(|state| (state.used(), state.units())).collect::<Vec<_>>(),
        [2, 0, 1, 0].map(|units| (Quota::MAX_LIMIT, units))
    );
}

/// A reset forgets the usage of its own counter, and no other.
pub async fn a_reset_forgets_one_counter<S: StoreUnderTest>(subject: &S) {
    let (hour, day) = (quota("5/1h"), quota("5/1d"));
    let alice = CounterUnderTest::new(subject, &hour, "alice");
    let bob = CounterUnderTest::new(subject, &hour, "bob");
    for caller in [&alice, &bob, &alice.under(&day)] {
        caller.fills().await;
    }
    assert_eq!(alice.resets().await.used, 0);
    assert_eq!((alice.used().await, bob.used().await, alice.under(&day).used().await), (0, 5, 5));
    alice.fills().await;
    assert_eq!(CounterUnderTest::new(subject, &hour, "nobody").resets().await.used, 0);
}

/// A reset closes a `first_hit` window: the next unit opens another.
pub async fn a_reset_closes_a_first_hit_window<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h@first_hit");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let window = alice.fills().await;
    subject.reach(window.start() + Duration::from_millis(5)).await;
    alice.resets().await;
    assert_eq!(alice.refunds(1, window.start()).await, None);
    let next = alice.counts(1).await;
    assert_eq!(next.counts[0].window.start(), next.now);
    assert!(next.now > window.start());
}

/// `set` and `record` open a `first_hit` window as a charge does; setting 0 opens none.
pub async fn set_and_record_open_a_first_hit_window<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h@first_hit");
    let (alice, bob, carol) = (
        CounterUnderTest::new(subject, &quota, "alice"),
        CounterUnderTest::new(subject, &quota, "bob"),
        CounterUnderTest::new(subject, &quota, "carol"),
    );
    let (set, recorded, nothing) = (alice.sets(2).await, bob.records(2).await, carol.sets(0).await);
    subject.reach(nothing.window.start() + Duration::from_millis(5)).await;
    assert_eq!(alice.counts(1).await.counts[0].window, set.window);
    assert_eq!(bob.counts(1).await.counts[0].window, recorded.window);
    let opened = carol.counts(1).await;
    assert_eq!(opened.counts[0].window.start(), opened.now);
}
