//! Where windows start and end: rules 1, 2 and 11, promise G5.

use std::time::Duration;

use tollgate::{Anchor, Quota, Timestamp};

use super::quota;
use crate::windows::holding;
use crate::{CounterUnderTest, StoreSteps, StoreUnderTest};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Rule 1, G5: a window includes its start and excludes its end; its usage does not count after it.
pub async fn a_window_ends_just_before_its_end<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = super::short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;

        subject.reach(window.end() - MILLISECOND).await;
        let at_the_edge = alice.counts(1).await;
        assert_eq!(at_the_edge.is_admitted(), at_the_edge.now >= window.end(), "{anchor:?}: {at_the_edge:?}");

        subject.reach(window.end()).await;
        let after = alice.counts(1).await;
        assert!(after.is_admitted(), "{anchor:?}: {after:?}");
        assert!(after.counts[0].window.start() >= window.end(), "{anchor:?}: {after:?}");
    }
}

/// G5: after any number of unused windows, the next one starts empty.
pub async fn a_closed_window_is_never_counted_again<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = super::short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;
        subject.reach(window.end() + window.length() * 2).await;
        assert_eq!((alice.used().await, alice.peeks().await.remaining()), (0, 5), "{anchor:?}");
        assert_ne!(alice.fills().await, window);
    }
}

/// Rule 2: a window with its own anchor is where the quota says, and contains the time of the step.
pub async fn windows_lie_where_the_quota_says<S: StoreUnderTest>(subject: &S) {
    let quotas = [
        "5/1h",
        "5/7s",
        "5/1h@staggered",
        "5/3653d",
        "5/3653d@staggered",
        "5/day@Europe/Berlin",
        "5/day@Asia/Kathmandu",
        "5/week@America/New_York",
        "5/month@Pacific/Auckland",
        "5/year@UTC",
    ];
    for text in quotas {
        let quota = quota(text);
        for key in ["alice", "bob"] {
            let caller = CounterUnderTest::new(subject, &quota, key);
            let counted = caller.counts(1).await;
            let expected = holding(quota.quota(), caller.key(), counted.now);
            assert_eq!(counted.counts[0].window, expected, "{text}");
            assert!(counted.counts[0].window.contains(counted.now), "{text}");
        }
    }
}

/// Rule 2: the staggered windows of different keys do not all end together.
pub async fn staggered_windows_of_keys_end_apart<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h@staggered");
    let mut ends = Vec::<Timestamp>::new();
    for key in 0..8_u64 {
        ends.push(CounterUnderTest::new(subject, &quota, key).counts(1).await.counts[0].window.end());
    }
    ends.sort_unstable();
    ends.dedup();
    assert!(ends.len() > 1, "{ends:?}");
}

/// Rule 2: a `first_hit` window starts with the first unit, and later units do not extend it.
pub async fn a_first_hit_window_is_never_extended<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h@first_hit");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let first = alice.counts(1).await;
    assert_eq!(first.counts[0].window.start(), first.now);
    assert_eq!(first.counts[0].window.length(), Duration::from_secs(3600));

    subject.reach(first.now + Duration::from_millis(20)).await;
    for cost in [1, 0, 9, 2] {
        assert_eq!(alice.counts(cost).await.counts[0].window, first.counts[0].window);
    }
    assert_eq!(alice.records(1).await.window, first.counts[0].window);
    assert_eq!(alice.sets(3).await.window, first.counts[0].window);
}

/// Rule 2: before the first unit a peek answers as if the window opened now. Neither a peek nor a denial opens one.
pub async fn only_a_charge_opens_a_first_hit_window<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h@first_hit");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for cost in [0, 6] {
        let asked = alice.counts(cost).await;
        assert_eq!((asked.counts[0].window.start(), asked.counts[0].used), (asked.now, 0));
        subject.reach(asked.now + Duration::from_millis(5)).await;
    }
    let before = alice.peeks().await;
    assert_eq!(before.reset_after(), Duration::from_secs(3600));
    subject.reach(before.quotas()[0].window().unwrap().start() + Duration::from_millis(5)).await;
    let first = alice.counts(1).await;
    assert_eq!(first.counts[0].window.start(), first.now);
    assert!(first.now > before.quotas()[0].window().unwrap().start());
}

/// Rule 2: once a `first_hit` window has closed, the next unit opens a new one.
pub async fn the_next_hit_opens_the_next_window<S: StoreUnderTest>(subject: &S) {
    let quota = super::short_quota(subject, 1, Anchor::FirstHit);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let window = alice.fills().await;
    subject.reach(window.end() + Duration::from_millis(7)).await;
    let next = alice.counts(1).await;
    assert!(next.is_admitted());
    assert_eq!(next.counts[0].window.start(), next.now);
}

/// Rule 3: the shortest window is one millisecond, and its units do not count in the next.
pub async fn the_shortest_window_is_one_millisecond<S: StoreUnderTest>(subject: &S) {
    let quota = quota("1/1ms");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let mut last = None;
    for _ in 0..20 {
        let counted = alice.counts(1).await;
        let window = counted.counts[0].window;
        assert_eq!((window.start(), window.length()), (counted.now, Quota::MIN_WINDOW));
        assert_eq!(counted.is_admitted(), last != Some(window), "{counted:?}");
        last = Some(window);
        subject.reach(counted.now + MILLISECOND).await;
    }
}

/// Rules 9 and 11: one step answers for several quotas from one reading of the clock.
pub async fn a_step_reads_the_clock_once<S: StoreUnderTest>(subject: &S) {
    let quotas = ["9/1ms", "9/1h", "9/3s@first_hit", "9/2ms@staggered", "9/day@Europe/Berlin"].map(quota);
    for round in 0..20_u64 {
        let callers = quotas.each_ref().map(|quota| CounterUnderTest::new(subject, quota, round));
        let charges = callers.each_ref().map(|caller| caller.charge(1));
        let counted = crate::StepCounts::from(subject.store().charge(&charges).await.unwrap());
        for (caller, count) in callers.iter().zip(&counted.counts) {
            let expected = holding(caller.charge(1).counter().quota().quota(), caller.key(), counted.now);
            assert_eq!((count.used, count.window), (1, expected));
        }
    }
}

/// Rule 11: the store's time does not go back by itself.
pub async fn time_does_not_go_back<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let mut last = alice.counts(1).await.now;
    for _ in 0..100 {
        let now = alice.counts(1).await.now;
        assert!(now >= last);
        last = now;
    }
}
