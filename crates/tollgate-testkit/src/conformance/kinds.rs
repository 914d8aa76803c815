//! Buckets, sliding windows and logs: the promises that hold for every kind of quota, and the bound of each.

use std::time::Duration;

use tollgate::{Charge, Counter, Key, Mark, PolicyQuota, Quota, QuotaState, Reason, Step, Store, Timestamp};

use super::quota;
use crate::{CounterUnderTest, SettableClock, StoreSteps, StoreUnderTest};

const MILLISECOND: Duration = Duration::from_millis(1);

/// One quota of each kind, with room for three units at once. Their units come back long after a test has ended.
const THREE: [&str; 4] = ["3/1h", "5/1h~burst:3", "3/1h~sliding", "3/1h~log"];

/// Takes a step on one counter.
async fn take(subject: &impl StoreUnderTest, step: Step<'_>) -> QuotaState {
    subject.store().step(step).await.expect("the store answers")[0]
}

/// Returns the subject's short window as quotas for three units of each kind that has no fixed windows.
fn short_quotas(subject: &impl StoreUnderTest) -> [PolicyQuota; 3] {
    let window = || Quota::new(3, subject.short_window());
    let kinds = [
        window().and_then(|quota| quota.with_burst(None)),
        window().and_then(Quota::sliding),
        window().and_then(|quota| quota.with_log(MILLISECOND)),
    ];
    kinds.map(|quota| PolicyQuota::new("conformance", quota.expect("a quota")))
}

/// Rule 5: a bucket admits its burst, and the others their limit; then each denies, and says how long.
pub async fn every_kind_admits_its_capacity_at_once<S: StoreUnderTest>(subject: &S) {
    for text in THREE {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        for used in 1..=3 {
            let decision = alice.takes(1).await;
            assert!(decision.is_allowed(), "{text}");
            assert_eq!(
                (decision.quotas()[0].limit(), decision.used(), decision.remaining()),
                (3, used, 3 - used),
                "{text}"
            );
        }
        let decision = alice.takes(1).await;
        assert!(!decision.is_allowed() && decision.retry_after().is_some(), "{text}: {decision:?}");
    }
}

/// Rule 7: a cost above the capacity is denied for good, even if it is below the limit.
pub async fn a_cost_above_the_capacity_is_denied_for_good<S: StoreUnderTest>(subject: &S) {
    for text in THREE {
        let quota = quota(text);
        let decision = CounterUnderTest::new(subject, &quota, "alice").takes(4).await;
        let state = decision.quotas()[0];
        let answer = (state.reason(), state.retry_after(), state.used());
        assert_eq!(answer, (Some(Reason::CostExceedsLimit), None, 0), "{text}");
    }
}

/// Rule 8: quotas of all kinds in one step are charged all or none.
pub async fn quotas_of_all_kinds_are_charged_all_or_none<S: StoreUnderTest>(subject: &S) {
    for scarce in ["2/1m", "5/1h~burst:2", "2/1m~sliding", "2/1m~log"] {
        let (quotas, key) =
            ([scarce, "9/2h", "9/2h~burst", "9/2h~sliding", "9/2h~log"].map(quota), Key::from("alice"));
        let charges = |cost| quotas.each_ref().map(|quota| Charge::new(quota, &key, cost));
        for quota in &quotas {
            subject.store().step(Step::Reset(Counter::new(quota, &key))).await.expect("the store answers");
        }
        let used = |states: &[QuotaState]| states.iter().map(QuotaState::used).collect::<Vec<_>>();
        let first = subject.store().charge(&charges(1)).await.expect("the store answers");
        assert!(first.is_admitted() && used(&first) == [1; 5], "{scarce}: {first:?}");
        // Two more do not fit under the scarce quota.
        let denied = subject.store().charge(&charges(2)).await.expect("the store answers");
        assert!(!denied.is_admitted() && used(&denied) == [1; 5], "{scarce}: {denied:?}");
        let last = subject.store().charge(&charges(1)).await.expect("the store answers");
        assert!(last.is_admitted() && used(&last) == [2; 5], "{scarce}: {last:?}");
    }
}

/// Rule 6: a denial consumes nothing, so it makes nobody wait longer.
pub async fn a_denial_of_any_kind_makes_no_wait_longer<S: StoreUnderTest>(subject: &S) {
    for text in THREE {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        assert!(alice.takes(3).await.is_allowed());
        let [first, second] =
            [alice.takes(1).await, alice.takes(2).await].map(|decision| decision.quotas()[0]);
        let third = alice.takes(1).await.quotas()[0];
        assert_eq!((first.retry_at(), first.used()), (third.retry_at(), third.used()), "{text}");
        assert!(second.retry_at() >= first.retry_at(), "{text}");
    }
}

/// Equal charges that come together are admitted as one by one.
pub async fn a_batch_of_any_kind_admits_exactly_the_capacity<S: StoreUnderTest>(subject: &S) {
    for text in THREE {
        let (quota, key) = (quota(text), Key::from("alice"));
        let charges = [Charge::new(&quota, &key, 1)];
        let answers = subject.store().charge_each(&[&charges[..]; 5]).await;
        let admitted = answers.into_iter().filter(|answer| answer.as_ref().expect("an answer").is_admitted());
        assert_eq!(admitted.count(), 3, "{text}");
    }
}

/// Rule 10: a client that waits for `retry_after` is admitted; one millisecond earlier, it is denied.
pub async fn every_kind_admits_clients_that_wait_as_told<S: StoreUnderTest>(subject: &S) {
    for quota in &short_quotas(subject) {
        let alice = CounterUnderTest::new(subject, quota, "alice");
        assert!(alice.takes(3).await.is_allowed());
        let denied = alice.takes(2).await.quotas()[0];
        // Nothing is left to wait for if the machine stalls.
        let Some(told) = denied.retry_at() else { continue };
        subject.reach(told - MILLISECOND).await;
        let early = alice.takes(2).await.quotas()[0];
        assert_eq!(early.has_room(), early.now() >= told, "{}: {denied:?} {early:?}", quota.quota());
        if !early.has_room() {
            assert_eq!(early.retry_at(), Some(told), "{}", quota.quota());
            subject.reach(told).await;
            assert!(alice.takes(2).await.is_allowed(), "{}: {denied:?}", quota.quota());
        }
    }
}

/// Rule 10: a refund gives back units of the marked charge alone, and those units can be taken again.
pub async fn a_refund_of_any_kind_frees_what_it_gives_back<S: StoreUnderTest>(subject: &S) {
    for text in THREE {
        let (quota, key) = (quota(text), Key::from("alice"));
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let mark = alice.takes(3).await.quotas()[0].mark();
        let refund =
            |cost, mark| take(subject, Step::Refund { charge: Charge::new(&quota, &key, cost), mark });
        let old = refund(3, Mark::at(Timestamp::from_unix_millis(1_000))).await;
        assert_eq!((old.units(), old.used()), (0, 3), "{text}: another charge");
        let some = refund(2, mark).await;
        assert_eq!((some.units(), some.used()), (2, 1), "{text}");
        assert!(alice.takes(2).await.is_allowed(), "{text}");
        assert!(!alice.takes(1).await.is_allowed(), "{text}");
    }
}

/// Rules 6 and 10: `record` never asks, `set` may free units again, and a bucket never holds more than twice its burst.
pub async fn every_kind_is_recorded_set_and_reset<S: StoreUnderTest>(subject: &S) {
    for text in THREE {
        let (quota, key) = (quota(text), Key::from("alice"));
        let counter = Counter::new(&quota, &key);
        let all = if quota.quota().bucket().is_some() { 6 } else { 9 };
        let recorded = take(subject, Step::Record(Charge::new(&quota, &key, 9))).await;
        assert_eq!(
            (recorded.used(), recorded.remaining(), u64::from(recorded.units())),
            (all, 0, all),
            "{text}"
        );
        assert_eq!(take(subject, Step::Set { counter, used: 2 }).await.used(), 2, "{text}");
        assert!(CounterUnderTest::new(subject, &quota, "alice").takes(1).await.is_allowed(), "{text}");
        assert_eq!(take(subject, Step::Reset(counter)).await.used(), 0, "{text}");
        assert!(CounterUnderTest::new(subject, &quota, "alice").takes(3).await.is_allowed(), "{text}");
    }
}

/// Rule 4: a new limit keeps the counter and applies at once; of a bucket, what is used weighs in proportion, and a
/// larger burst is free at once.
pub async fn a_new_limit_or_burst_applies_at_once<S: StoreUnderTest>(subject: &S) {
    for (first, second, used, remaining) in [
        ("4/1h~sliding", "10/1h~sliding", 4, 6),
        ("4/1h~sliding", "2/1h~sliding", 4, 0),
        ("4/1h~log", "10/1h~log", 4, 6),
        ("4/1h~log", "2/1h~log", 4, 0),
        ("60/1h~burst:4", "60/1h~burst:10", 4, 6),
        ("60/1h~burst:4", "60/1h~burst:2", 4, 0),
        ("60/1h~burst:4", "120/1h~burst:10", 8, 2),
        ("60/1h~burst:4", "30/1h~burst:10", 2, 8),
    ] {
        let (before, after) = (quota(first), quota(second));
        let alice = CounterUnderTest::new(subject, &before, "alice");
        take(subject, Step::Reset(Counter::new(&before, alice.key()))).await;
        assert!(alice.takes(4).await.is_allowed(), "{first}");
        let decision = alice.under(&after).peeks().await;
        assert_eq!((decision.used(), decision.remaining()), (used, remaining), "{first} to {second}");
    }
}

/// Charges one unit in each millisecond of a time, as often as it is admitted, and returns the instants.
async fn greedy<S: SettableClock>(
    subject: &S,
    quota: &PolicyQuota,
    from: Timestamp,
    millis: u64,
) -> Vec<Timestamp> {
    let alice = CounterUnderTest::new(subject, quota, "alice");
    let mut admitted = Vec::new();
    for at in (0..=millis).map(|millis| from + Duration::from_millis(millis)) {
        subject.set_time(at);
        while alice.takes(1).await.is_allowed() {
            admitted.push(at);
        }
    }
    admitted
}

/// G1: a bucket admits `burst + floor(time * limit / window)` in every time, and no more; no part of a unit is lost.
pub async fn a_bucket_reaches_its_bound_and_never_exceeds_it<S: SettableClock>(subject: &S) {
    let (quota, from) = (quota("7/100ms~burst:3"), Timestamp::from_unix_millis(1_700_000_040_000));
    let admitted = greedy(subject, &quota, from, 300).await;
    for millis in 0..=300 {
        let within = admitted.iter().filter(|at| at.since(from) <= Duration::from_millis(millis)).count();
        assert_eq!(within as u64, 3 + millis * 7 / 100, "in {millis} ms");
    }
    for (first, start) in admitted.iter().enumerate() {
        for (more, end) in admitted[first..].iter().enumerate() {
            let millis = end.since(*start).as_millis();
            assert!((more as u128) < 3 + millis * 7 / 100, "{} in {millis} ms", more + 1);
        }
    }
}

/// G3: a sliding window admits `limit + floor(limit * (time - 1) / window)` at worst, in a time shorter than a window.
pub async fn a_sliding_window_reaches_its_bound_and_never_exceeds_it<S: SettableClock>(subject: &S) {
    let quota = quota("10/100ms~sliding");
    // From the last millisecond of a window on.
    let from = Timestamp::from_unix_millis(1_700_000_040_099);
    let admitted = greedy(subject, &quota, from, 300).await;
    for (first, start) in admitted.iter().enumerate() {
        let within = admitted[first..].iter().take_while(|at| at.since(*start) < Duration::from_millis(100));
        let within: Vec<&Timestamp> = within.collect();
        let time = within[within.len() - 1].since(*start).as_millis() + 1;
        assert!(within.len() as u128 <= 10 + 10 * (time - 1) / 100, "{} in {time} ms", within.len());
    }
    let first = admitted.iter().filter(|at| at.since(from) < Duration::from_millis(99));
    assert_eq!(first.count(), 19, "the bound is reached");
}

/// G1: a log never admits more than the limit in any time shorter than a window, and exactly the limit in each window's
/// length of greedy requests.
pub async fn a_log_reaches_its_bound_and_never_exceeds_it<S: SettableClock>(subject: &S) {
    for text in ["10/100ms~log", "10/100ms~log:30ms"] {
        let (quota, from) = (quota(text), Timestamp::from_unix_millis(1_700_000_040_099));
        let admitted = greedy(subject, &quota, from, 350).await;
        for (first, start) in admitted.iter().enumerate() {
            let within = admitted[first..].iter().filter(|at| at.since(*start) < Duration::from_millis(100));
            assert!(within.count() <= 10, "{text} from {start:?}");
        }
        let least = if text.ends_with("log") { 40 } else { 30 };
        assert!(admitted.len() >= least, "{text}: {}", admitted.len());
    }
}

/// Rule 12: a step back frees nothing, and afterwards nobody waits longer than the kind's table says, however often they
/// try meanwhile.
pub async fn a_step_back_of_any_kind_frees_nothing_and_locks_nobody_out<S: SettableClock>(subject: &S) {
    let start = Timestamp::from_unix_millis(1_700_000_040_000);
    for (text, longest) in [("3/1m~burst", 120), ("3/1m~sliding", 120), ("3/1m~log", 60), ("3/1m~log:1s", 61)]
    {
        let quota = quota(text);
        for (key, back) in [1_u64, 1_000, 1_001, 60_000, 3_600_000, 365 * 86_400_000].into_iter().enumerate()
        {
            subject.set_time(start);
            let alice = CounterUnderTest::new(subject, &quota, key as u64);
            assert!(alice.takes(3).await.is_allowed(), "{text}");
            let now = start - Duration::from_millis(back);
            subject.set_time(now);
            let longest = now + Duration::from_secs(longest) + Duration::from_secs(1);
            let mut denied = alice.takes(1).await.quotas()[0];
            for _ in 0..3 {
                assert!(!denied.has_room(), "{text}, {back} ms back");
                let told = denied.retry_at().expect("a denial that ends");
                assert!(told <= longest, "{text}, {back} ms back: {denied:?}");
                subject.set_time(denied.now() + told.since(denied.now()) / 3);
                denied = alice.takes(1).await.quotas()[0];
                assert_eq!(denied.retry_at(), Some(told), "{text}, {back} ms back");
            }
            subject.set_time(denied.retry_at().expect("a denial that ends"));
            assert!(alice.takes(1).await.is_allowed(), "{text}, {back} ms back");
        }
    }
}

/// Requests under a smaller burst take nothing from what a larger one has charged to the same counter. A denial under a
/// burst of 1 lowered 50 used units to 2, so 48 more were admitted.
pub async fn a_smaller_burst_forgives_nothing<S: SettableClock>(subject: &S) {
    subject.set_time(Timestamp::from_unix_millis(1_700_000_040_000));
    let [large, small] = ["60/1h~burst:50", "60/1h~burst:1"].map(quota);
    let [large, small] = [large, small].map(|quota| PolicyQuota::new("conformance", quota.quota().clone()));
    let key = Key::from("alice");
    let charge = async |quota, units| take(subject, Step::Charge(&[Charge::new(quota, &key, units)])).await;
    assert!(charge(&large, 50).await.has_room());
    assert!(!charge(&small, 1).await.has_room());
    assert_eq!(take(subject, Step::Peek(&[Charge::new(&small, &key, 1)])).await.used(), 50);
    assert!(!charge(&large, 1).await.has_room());
}

/// A bucket with the largest burst and the finest rate is exact: no product is rounded, in Rust or in a server.
pub async fn the_largest_bucket_is_exact<S: SettableClock>(subject: &S) {
    const BURST: u64 = Quota::MAX_LIMIT;
    let key = Key::from("alice");
    // 2048 odd parts: the burst times the unit is just below 2^51.
    for (limit, window, burst) in
        [(4_194_303, 2_048, BURST), (1, 315_619_200_000, 1), (4_194_301, 1_000, BURST)]
    {
        let quota =
            Quota::new(limit, Duration::from_millis(window)).and_then(|quota| quota.with_burst(Some(burst)));
        let quota = PolicyQuota::new("conformance", quota.expect("a quota at its bounds"));
        let counter = Counter::new(&quota, &key);
        let start = Timestamp::from_unix_millis(1_700_000_040_007);
        // A level in parts of a millisecond, and what it comes to after a time.
        let used_after = |level: u128, millis: u64| {
            let left = level.saturating_sub(u128::from(millis) * u128::from(limit));
            u64::try_from(left.div_ceil(u128::from(window))).unwrap()
        };
        for units in [burst, 2 * burst, burst / 2, burst / 3 + 1] {
            subject.set_time(start);
            let level = u128::from(units.min(Quota::MAX_LIMIT)) * u128::from(window);
            let set = take(subject, Step::Set { counter, used: units }).await;
            let reset_after = u64::try_from(level.div_ceil(u128::from(limit))).unwrap();
            let answer = (set.used(), set.reset_after());
            assert_eq!(
                answer,
                (used_after(level, 0), Duration::from_millis(reset_after)),
                "{}",
                quota.quota()
            );
            for millis in [1, 2, 999, 86_400_000, reset_after.saturating_sub(1), reset_after] {
                subject.set_time(start + Duration::from_millis(millis));
                let seen = take(subject, Step::Peek(&[Charge::new(&quota, &key, 1)])).await;
                let place = format!("{}: {units} units after {millis} ms: {seen:?}", quota.quota());
                assert_eq!(seen.used(), used_after(level, millis), "{place}");
                if let Some(retry_at) = seen.retry_at() {
                    // The first instant at which a unit fits.
                    let over = level + u128::from(window) - u128::from(burst) * u128::from(window);
                    let wait = u64::try_from(over.div_ceil(u128::from(limit))).unwrap();
                    assert_eq!(retry_at, start + Duration::from_millis(wait), "{place}");
                }
            }
        }
        take(subject, Step::Reset(counter)).await;
    }
}

/// Rule 6: a bucket has no more than 2^40 - 1 units, even if that is less than twice its burst. In memory, it had more.
pub async fn the_largest_bucket_saturates<S: SettableClock>(subject: &S) {
    const MOST: u64 = Quota::MAX_LIMIT;
    let quota = Quota::new(4_194_301, Duration::from_secs(1)).and_then(|quota| quota.with_burst(Some(MOST)));
    let quota = PolicyQuota::new("conformance", quota.expect("a quota at its bounds"));
    let key = Key::from("alice");
    let counter = Counter::new(&quota, &key);
    let record = async |units| {
        let state = take(subject, Step::Record(Charge::new(&quota, &key, units))).await;
        (state.used(), state.units(), state.reset_at())
    };
    let start = Timestamp::from_unix_millis(1_700_000_040_007);
    subject.set_time(start);
    assert_eq!(take(subject, Step::Set { counter, used: u64::MAX }).await.used(), MOST);
    assert_eq!(take(subject, Step::Set { counter, used: MOST - 3 }).await.used(), MOST - 3);
    let (used, units, _) = record(5).await;
    assert_eq!((used, units), (MOST, 3));
    // 4,194 units and three tenths are back, and 4,194 fit.
    subject.set_time(start + MILLISECOND);
    let reset_after = (MOST * 1_000 - 301).div_ceil(4_194_301);
    let reset_at = start + MILLISECOND + Duration::from_millis(reset_after);
    assert_eq!(record(u32::MAX).await, (MOST, 4_194, reset_at));
    take(subject, Step::Reset(counter)).await;
}

/// Rule 4: under another limit, a fraction of a millisecond is rounded up. Rounded down, it forgave what was left of a
/// unit.
pub async fn a_new_limit_forgives_no_fraction<S: SettableClock>(subject: &S) {
    let key = Key::from("alice");
    // A unit drains in 333 1/3 ms. Under the second limit, there are no thirds, or no whole number of them.
    for second in ["4/1s~burst", "2/1s~burst", "7/1s~burst"] {
        let start = Timestamp::from_unix_millis(1_700_000_040_000);
        let [first, second] = ["3/1s~burst", second].map(quota);
        let peek = async |quota| take(subject, Step::Peek(&[Charge::new(quota, &key, 1)])).await.used();
        subject.set_time(start);
        take(subject, Step::Reset(Counter::new(&first, &key))).await;
        assert!(take(subject, Step::Charge(&[Charge::new(&first, &key, 1)])).await.has_room());
        subject.set_time(start + Duration::from_millis(333));
        assert_eq!([peek(&first).await, peek(&second).await], [1, 1], "{}", second.quota());
        subject.set_time(start + Duration::from_millis(334));
        assert_eq!([peek(&first).await, peek(&second).await], [0, 0], "{}", second.quota());
    }
}

/// Sliding windows are exact with the largest counts, in the longest windows too.
pub async fn the_largest_sliding_window_is_exact<S: SettableClock>(subject: &S) {
    for (limit, window) in [(1_000_000, 1_000_u64), (999_983, 4_503_599_627), (14_269, 315_619_200_000)] {
        let quota = Quota::new(limit, Duration::from_millis(window)).and_then(Quota::sliding);
        let quota = PolicyQuota::new("conformance", quota.expect("a quota at its bounds"));
        let (key, start) = (Key::from("alice"), 1_700_000_040_000 / window * window);
        let at = |millis: u64| Timestamp::from_unix_millis(i64::try_from(start + millis).unwrap());
        subject.set_time(at(window - 1));
        let full =
            take(subject, Step::Charge(&[Charge::new(&quota, &key, u32::try_from(limit).unwrap())])).await;
        assert!(full.has_room(), "{}", quota.quota());
        for elapsed in [0, 1, 2, window / 3, window / 2 + 1, window - 2, window - 1] {
            subject.set_time(at(window + elapsed));
            let seen = take(subject, Step::Peek(&[Charge::new(&quota, &key, 1)])).await;
            let used = (u128::from(limit) * u128::from(window - elapsed)).div_ceil(u128::from(window));
            assert_eq!(u128::from(seen.used()), used, "{} after {elapsed} ms", quota.quota());
        }
    }
}

/// Logs are exact with the largest count and with the most entries.
pub async fn the_largest_logs_are_exact<S: SettableClock>(subject: &S) {
    let (key, start) = (Key::from("alice"), 1_700_000_040_000);
    let at = |millis: u64| Timestamp::from_unix_millis(start) + Duration::from_millis(millis);
    let most = quota("16777215/1m~log:1m");
    subject.set_time(at(59_999));
    let full = take(subject, Step::Charge(&[Charge::new(&most, &key, 16_777_215)])).await;
    assert!(full.has_room() && full.reset_at() == at(119_999), "{full:?}");
    let more = take(subject, Step::Record(Charge::new(&most, &key, u32::MAX))).await;
    assert_eq!((more.used(), more.units()), (16_777_215, 0));
    subject.set_time(at(119_998));
    assert_eq!(take(subject, Step::Peek(&[Charge::new(&most, &key, 1)])).await.remaining(), 0);
    subject.set_time(at(119_999));
    assert_eq!(take(subject, Step::Peek(&[Charge::new(&most, &key, 1)])).await.used(), 0);
    // As many entries as a log may have, one in each millisecond.
    let many = quota("300/254ms~log");
    for millis in 0..600 {
        subject.set_time(at(200_000 + millis));
        let state = take(subject, Step::Charge(&[Charge::new(&many, &key, 1)])).await;
        assert!(state.has_room(), "{state:?}");
        assert_eq!(state.used(), (millis + 1).min(254), "after {millis} ms");
    }
}
