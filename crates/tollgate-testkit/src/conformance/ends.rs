//! Steps that come before an end or not at all: rule 24.

use std::time::Duration;

use tollgate::{
    Anchor, Charge, CountDenied, Key, PolicyQuota, QuotaKind, QuotaStates, Step, Store, StoreError, Timestamp,
};

use super::{anchored, quota};
use crate::{CounterUnderTest, SettableClock, StoreSteps, StoreUnderTest};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(3_600);

/// A time that a test can wait for, and in which it takes several steps.
const SHORT: Duration = Duration::from_millis(30);

/// An end that no test reaches.
const FOREVER: Timestamp = Timestamp::from_unix_millis(1 << 43);

/// One quota of each kind, and of each anchor, with room for five units at once.
const FIVE: [&str; 6] =
    ["5/1h", "5/1h@staggered", "5/1h@first_hit", "5/1h~burst", "5/1h~sliding", "5/1h~log"];

/// Charges before the end, and returns the store's time if that has come.
async fn charge_before(
    subject: &impl StoreUnderTest,
    charges: &[Charge<'_>],
    end: Timestamp,
) -> Result<QuotaStates, Timestamp> {
    outcome(subject.store().charge_before(charges, end).await, end)
}

/// Returns the outcome of a step before the end, which agrees with the end in any case.
fn outcome(answer: Result<QuotaStates, StoreError>, end: Timestamp) -> Result<QuotaStates, Timestamp> {
    match answer {
        Ok(counted) => {
            assert!(counted.iter().all(|state| state.now() < end), "not before {end:?}: {counted:?}");
            Ok(counted)
        }
        Err(error) => Err(ended(&error, end)),
    }
}

/// Returns the store's time, which has reached the end.
pub(super) fn ended(error: &StoreError, end: Timestamp) -> Timestamp {
    let StoreError::Ended { now } = *error else { panic!("the store answers {error:?}") };
    assert!(now >= end, "ended at {now:?}, before {end:?}");
    assert!(!error.may_have_charged() && !error.is_outage(), "{error:?}");
    now
}

/// Returns the units that are used. A peek may read another clock, which lags, and see a unit more in a bucket.
async fn used<S: StoreUnderTest>(counter: &CounterUnderTest<'_, S>) -> u64 {
    let charges = [counter.charge(0)];
    charge_before(counter.subject(), &charges, FOREVER).await.expect("years are left")[0].used()
}

/// Rule 24: until its end, a charge gets the answers of one without an end.
pub async fn a_charge_before_its_end_is_an_ordinary_charge<S: StoreUnderTest>(subject: &S) {
    for text in FIVE {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, text);
        let end = subject.now().await + LONG;
        for (cost, used, has_room) in [(2, 2, true), (0, 2, true), (4, 2, false), (3, 5, true), (0, 5, false)]
        {
            let charges = [alice.charge(cost)];
            let state = charge_before(subject, &charges, end).await.expect("an hour is left")[0];
            assert_eq!((state.used(), state.has_room()), (used, has_room), "{text}");
            assert_eq!(state.units(), if has_room { cost } else { 0 }, "{text}");
        }
    }
}

/// Rules 10 and 24: what was charged before an end can be given back, also after it.
pub async fn a_charge_before_an_end_can_be_given_back<S: StoreUnderTest>(subject: &S) {
    for text in FIVE {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, text);
        let end = subject.now().await + SHORT;
        let Ok(counted) = charge_before(subject, &[alice.charge(3)], end).await else { continue };
        subject.reach(end).await;
        let refunded = subject.store().refund(&alice.charge(3), counted[0].mark()).await;
        // Of a bucket, a part of one unit has come back by itself.
        let given = if quota.quota().kind() == QuotaKind::Burst { 2 } else { 3 };
        assert_eq!(refunded.expect("the store answers").units(), given, "{text}");
    }
}

/// Rule 24: at its end and later, a charge of any cost changes nothing, whether it would be admitted or denied.
pub async fn a_charge_at_its_end_changes_nothing<S: StoreUnderTest>(subject: &S) {
    for text in FIVE {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, text);
        let end = subject.now().await;
        for taken in [0, 3, 2] {
            let counted = charge_before(subject, &[alice.charge(taken)], end + LONG).await;
            assert!(counted.expect("an hour is left").is_admitted());
            let before = used(&alice).await;
            for cost in [0, 1, 2, 3, u32::MAX] {
                for end in [end, end - LONG] {
                    let ended = charge_before(subject, &[alice.charge(cost)], end).await;
                    assert!(ended.is_err(), "{text}: {cost} at {before}");
                }
            }
            assert_eq!(used(&alice).await, before, "{text}");
        }
        assert_eq!(used(&alice).await, 5, "{text}");
    }
}

/// Rules 2 and 24: a charge that comes too late opens no window.
pub async fn a_charge_at_its_end_opens_no_window<S: StoreUnderTest>(subject: &S) {
    let quota = anchored("5/1h", Anchor::FirstHit);
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let end = subject.now().await;
    assert!(charge_before(subject, &[alice.charge(1)], end).await.is_err());
    subject.reach(end + SHORT).await;
    let opened = alice.counts(1).await;
    assert_eq!((opened.counts[0].used, opened.counts[0].window.start()), (1, opened.now));
}

/// Rule 24: every charge that comes before its end is counted, and none that comes later.
pub async fn exactly_the_charges_before_the_end_are_counted<S: StoreUnderTest>(subject: &S) {
    // None of these frees a unit meanwhile.
    for text in ["5000/1h", "5000/3000d~burst", "5000/1h~sliding", "5000/1h~log:1m"] {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, text);
        let end = subject.now().await + SHORT;
        let mut counted = 0;
        for _ in 0..2_000 {
            if charge_before(subject, &[alice.charge(1)], end).await.is_err() {
                break;
            }
            counted += 1;
        }
        subject.reach(end).await;
        for _ in 0..3 {
            assert!(charge_before(subject, &[alice.charge(1)], end).await.is_err(), "{text}");
        }
        assert_eq!(used(&alice).await, counted, "{text}");
    }
}

/// Rules 6 and 24: before the end, a denial charges what a denial charges; afterwards nothing.
pub async fn a_denial_is_counted_before_the_end_alone<S: StoreUnderTest>(subject: &S) {
    for (key, count_denied, used) in
        [("no", CountDenied::No, 4), ("yes", CountDenied::Yes, 6), ("overdraft", CountDenied::Overdraft, 6)]
    {
        let five = quota("5/1h").with_count_denied(count_denied);
        let none = quota("0/2h");
        let [alice, denier] = [&five, &none].map(|quota| CounterUnderTest::new(subject, quota, key));
        let now = subject.now().await;
        assert!(charge_before(subject, &[alice.charge(4)], now + LONG).await.is_ok());
        let charges = [alice.charge(2), denier.charge(1)];
        assert!(charge_before(subject, &charges, now).await.is_err());
        assert_eq!(alice.used().await, 4, "{count_denied:?}");
        let denied = charge_before(subject, &charges, now + LONG).await.expect("an hour is left");
        assert!(!denied.is_admitted());
        assert_eq!((denied[0].used(), alice.used().await), (used, used), "{count_denied:?}");
        assert!(charge_before(subject, &charges, now).await.is_err());
        assert_eq!(alice.used().await, used, "{count_denied:?}");
    }
}

/// Rules 8 and 24: several charges come before one end, all or none, on one counter and on several.
pub async fn several_charges_have_one_end<S: StoreUnderTest>(subject: &S) {
    let quotas = ["5/1h", "9/2h", "7/1h~burst"].map(quota);
    let [first, second, third] =
        quotas.each_ref().map(|quota| CounterUnderTest::new(subject, quota, "alice"));
    let bob = CounterUnderTest::new(subject, &quotas[0], "bob");
    let charges = [first.charge(2), second.charge(1), third.charge(3), first.charge(1), bob.charge(4)];
    let counters = [&first, &second, &third, &bob];
    let all = async || {
        let mut all = Vec::new();
        for counter in counters {
            all.push(used(counter).await);
        }
        all
    };
    let now = subject.now().await;
    assert!(charge_before(subject, &charges, now).await.is_err());
    assert_eq!(all().await, [0; 4]);
    let counted = charge_before(subject, &charges, now + LONG).await.expect("an hour is left");
    assert!(counted.is_admitted());
    assert_eq!(all().await, [3, 1, 3, 4]);
    let denied = charge_before(subject, &charges, now + LONG).await.expect("an hour is left");
    assert!(!denied.is_admitted());
    assert!(charge_before(subject, &charges, now).await.is_err());
    assert_eq!(all().await, [3, 1, 3, 4]);
}

/// Rule 24: a step without charges is admitted at any time, because it has no counter whose clock could be read.
pub async fn a_step_without_charges_has_no_end<S: StoreUnderTest>(subject: &S) {
    let now = subject.now().await;
    for end in [now - LONG, now, now + LONG] {
        let counted = subject.store().charge_before(&[], end).await.expect("it is admitted");
        assert!(counted.is_empty() && counted.is_admitted());
    }
}

/// Rule 24: each step of a batch has its own end, and a step that comes too late affects no other.
pub async fn each_step_of_a_batch_has_its_own_end<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let keys = ["alice", "bob", "carol", "dave", "erin"].map(Key::from);
    let charges = keys.each_ref().map(|key| [Charge::new(&quota, key, 2)]);
    let now = subject.now().await;
    let step = |(index, charges)| match index {
        0 | 3 => Step::ChargeBefore { charges, end: now },
        1 | 4 => Step::ChargeBefore { charges, end: now + LONG },
        _ => Step::Charge(charges),
    };
    let steps: Vec<Step<'_>> =
        charges.iter().map(<[Charge<'_>; 1]>::as_slice).enumerate().map(step).collect();
    for round in 1..=2 {
        let answers = subject.store().step_each(&steps).await;
        assert_eq!(answers.len(), steps.len());
        for (index, answer) in answers.into_iter().enumerate() {
            match index {
                0 | 3 => drop(outcome(answer, now).expect_err("the end has come")),
                _ => assert_eq!(answer.expect("an hour is left")[0].used(), 2 * round),
            }
        }
    }
    for (key, expected) in keys.iter().zip([0, 4, 4, 0, 4]) {
        let caller = CounterUnderTest::new(subject, &quota, key.clone());
        assert_eq!(used(&caller).await, expected, "{key:?}");
    }
}

/// Rule 24: requests for one key with different ends are different requests, even if they are alike otherwise.
pub async fn equal_charges_with_other_ends_are_other_steps<S: StoreUnderTest>(subject: &S) {
    let quota = quota("100/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let (charges, now) = ([alice.charge(1)], subject.now().await);
    let ends = [now + LONG, now, now + 2 * LONG, now - LONG, now + LONG];
    let mut steps: Vec<Step<'_>> = ends.map(|end| Step::ChargeBefore { charges: &charges, end }).to_vec();
    steps.push(Step::Charge(&charges));
    let answers = subject.store().step_each(&steps).await;
    let counted: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(counted, [true, false, true, false, true, true]);
    assert_eq!(alice.used().await, 4);
}

/// Rule 24: an end may be any time.
pub async fn the_earliest_and_the_latest_end_are_exact<S: StoreUnderTest>(subject: &S) {
    let quota = quota("5/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for millis in [i64::MIN, i64::MIN + 1, -(1 << 53) - 1, -1, 0, 1] {
        let end = Timestamp::from_unix_millis(millis);
        assert!(charge_before(subject, &[alice.charge(1)], end).await.is_err(), "{end:?}");
    }
    for (used, millis) in (1..).zip([i64::MAX, i64::MAX - 1, (1 << 53) + 1, 1 << 53]) {
        let end = Timestamp::from_unix_millis(millis);
        let counted = charge_before(subject, &[alice.charge(1)], end).await;
        assert_eq!(counted.expect("years are left")[0].used(), used, "{end:?}");
    }
}

/// Rule 24: a charge is counted in the millisecond before its end, not in that of its end, and again after a step back.
pub async fn a_charge_is_counted_until_the_millisecond_before_its_end<S: SettableClock>(subject: &S) {
    for text in FIVE {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, text);
        let end = subject.now().await + Duration::from_secs(2);
        for (millis, used) in [(-2_000, 1), (-1, 2), (0, 2), (1, 2), (2_000, 2), (-1, 3), (0, 3)] {
            let now = Timestamp::from_unix_millis(end.as_unix_millis() + millis);
            subject.set_time(now);
            let counted = charge_before(subject, &[alice.charge(1)], end).await;
            match counted {
                Ok(states) => assert_eq!((states[0].now(), millis < 0), (now, true), "{text}"),
                Err(ended) => assert_eq!((ended, millis < 0), (now, false), "{text}"),
            }
            assert_eq!(self::used(&alice).await, used, "{text} at {millis}");
        }
    }
}

/// Rules 1 and 24: an end that is also the end of a window is exact, whether or not the counter has a window then.
pub async fn an_end_at_the_end_of_a_window_is_exact<S: SettableClock>(subject: &S) {
    let quota = quota("5/1m");
    for key in ["used", "unused"] {
        let alice = CounterUnderTest::new(subject, &quota, key);
        let start = quota.quota().window_at(alice.key(), subject.now().await).end();
        subject.set_time(start);
        if key == "used" {
            alice.fills().await;
        }
        let end = start + Duration::from_secs(60);
        subject.set_time(end - MILLISECOND);
        let last = charge_before(subject, &[alice.charge(1)], end).await.expect("a millisecond is left");
        assert_eq!(last.is_admitted(), key == "unused");
        subject.set_time(end);
        assert_eq!(charge_before(subject, &[alice.charge(1)], end).await, Err(end), "{key}");
        let next = charge_before(subject, &[alice.charge(5)], end + MILLISECOND).await;
        assert!(next.expect("a millisecond is left").is_admitted(), "{key}");
    }
}

/// Rule 24: limits with an end count on the counter of limits without one.
pub async fn a_counter_is_the_same_before_and_after_an_end<S: SettableClock>(subject: &S) {
    let [more, less]: [PolicyQuota; 2] = ["500/1h", "5/1h"].map(quota);
    let [more, less] = [&more, &less].map(|quota| CounterUnderTest::new(subject, quota, "alice"));
    less.fills().await;
    let end = subject.now().await + Duration::from_secs(1);
    let counted = charge_before(subject, &[more.charge(90)], end).await.expect("a second is left")[0];
    assert_eq!((counted.has_room(), counted.used(), counted.remaining()), (true, 95, 405));
    subject.set_time(end);
    assert!(charge_before(subject, &[more.charge(1)], end).await.is_err());
    let denied = less.takes(1).await;
    assert_eq!((denied.is_allowed(), denied.used(), denied.remaining()), (false, 95, 0));
}
