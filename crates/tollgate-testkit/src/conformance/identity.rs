//! The identity of counters: rule 4, promise G4.

use tollgate::Key;

use super::{anchored, quota};
use crate::counter_under_test::decide;
use crate::{CounterUnderTest, StoreUnderTest};

/// Rule 4: a raised limit keeps the counter and frees the difference at once.
pub async fn a_raised_limit_frees_the_difference<S: StoreUnderTest>(subject: &S) {
    let (low, high) = (quota("5/1h"), quota("8/1h"));
    let alice = CounterUnderTest::new(subject, &low, "alice");
    alice.fills().await;
    let raised = alice.under(&high).takes(1).await;
    assert_eq!((raised.is_allowed(), raised.used(), raised.remaining()), (true, 6, 2));
    assert!(!alice.under(&high).takes(3).await.is_allowed());
    assert!(alice.under(&high).takes(2).await.is_allowed());
}

/// Rule 4: a limit lowered below the usage leaves `remaining` at 0, never negative.
pub async fn a_lowered_limit_leaves_nothing_and_never_less<S: StoreUnderTest>(subject: &S) {
    let (high, low) = (quota("8/1h"), quota("5/1h"));
    let alice = CounterUnderTest::new(subject, &high, "alice");
    alice.fills().await;
    let lowered = alice.under(&low).takes(1).await;
    assert_eq!((lowered.is_allowed(), lowered.used(), lowered.remaining()), (false, 8, 0));
    assert!(lowered.retry_after().is_some());
}

/// Rule 4: a new limit does not move the window, whatever the anchor.
pub async fn a_new_limit_moves_no_window<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let (before, after) = (anchored("5/1h", anchor), anchored("6/1h", anchor));
        let alice = CounterUnderTest::new(subject, &before, "alice");
        let window = alice.fills().await;
        let counted = alice.under(&after).counts(1).await;
        assert_eq!((counted.is_admitted(), counted.counts[0].window), (true, window), "{anchor:?}");
    }
}

/// Rule 4, G4: another policy, window length, anchor or zone means another counter.
pub async fn policies_lengths_anchors_and_zones_have_their_own_counters<S: StoreUnderTest>(subject: &S) {
    let texts = [
        "1/1h",
        "1/2h",
        "1/1h@staggered",
        "1/1h@first_hit",
        "1/1d",
        "1/1d@first_hit",
        "1/day@UTC",
        "1/day@Europe/Berlin",
        "1/week@Europe/Berlin",
    ];
    let quotas: Vec<_> = ["a", "b", "", "1/1h"]
        .iter()
        .flat_map(|policy| texts.map(|text| tollgate::PolicyQuota::new(policy, text.parse().unwrap())))
        .collect();
    for quota in &quotas {
        assert!(CounterUnderTest::new(subject, quota, "alice").takes(1).await.is_allowed(), "{quota:?}");
    }
    for quota in &quotas {
        assert!(!CounterUnderTest::new(subject, quota, "alice").takes(1).await.is_allowed(), "{quota:?}");
    }
}

/// Rule 4: a counter does not depend on its place in a list.
pub async fn the_order_of_quotas_does_not_matter<S: StoreUnderTest>(subject: &S) {
    let (hour, day) = (quota("2/1h"), quota("9/1d"));
    let (hour, day) =
        (CounterUnderTest::new(subject, &hour, "alice"), CounterUnderTest::new(subject, &day, "alice"));
    assert!(decide(subject, &[hour.charge(1), day.charge(1)]).await.is_allowed());
    assert!(decide(subject, &[day.charge(1), hour.charge(1)]).await.is_allowed());
    let denied = decide(subject, &[day.charge(1), hour.charge(1)]).await;
    assert_eq!((denied.is_allowed(), denied.deciding()), (false, 1));
    assert_eq!((hour.used().await, day.used().await), (2, 2));
}

/// G4: keys that look alike when joined, or when written as text, have separate counters.
pub async fn keys_that_look_alike_have_their_own_counters<S: StoreUnderTest>(subject: &S) {
    let quota = quota("1/1h");
    let long = "x".repeat(300);
    let address = |text: &str| Key::from(text.parse::<std::net::IpAddr>().unwrap());
    let keys: Vec<Key<'_>> = vec![
        "".into(),
        "a".into(),
        "a:b:c".into(),
        ("a:b", "c").into(),
        ("a", "b:c").into(),
        ("a", "b", "c").into(),
        Key::from((("a", "b"), "c")),
        Key::from(("a", ("b", "c"))),
        Key::parts(["a"]),
        Key::parts([Key::parts(["a"])]),
        Key::parts(Vec::<Key<'_>>::new()),
        Key::parts([""]),
        Key::parts(["", ""]),
        "1".into(),
        1_u64.into(),
        b"1".into(),
        Key::from(&1_u64.to_be_bytes()).into_owned(),
        address("127.0.0.1"),
        address("::ffff:127.0.0.1"),
        "127.0.0.1".into(),
        Key::from(&long),
        Key::from(&long[1..]),
        "a\0".into(),
        "\0a".into(),
    ];
    for key in &keys {
        assert!(CounterUnderTest::new(subject, &quota, key).takes(1).await.is_allowed(), "{key:?}");
    }
    for key in &keys {
        assert!(!CounterUnderTest::new(subject, &quota, key).takes(1).await.is_allowed(), "{key:?}");
    }
}

/// G4: the end of a policy's name and the beginning of a key are never confused, even if chosen to deceive.
pub async fn a_policy_never_runs_into_a_key<S: StoreUnderTest>(subject: &S) {
    let names = [
        ("ab", "c"),
        ("a", "bc"),
        ("", "abc"),
        ("abc", ""),
        ("a:b", "c"),
        ("a", "b:c"),
        // The second policy's name continues with the windows and the beginning of a key, as canonical bytes would show
        // them if the length of a policy's name were not encoded.
        ("x", "\u{2}1h\u{1}\u{1}k"),
        ("x\u{2}1h\u{1}\u{6}", "k"),
    ];
    for (policy, key) in names {
        let quota = tollgate::PolicyQuota::new(policy, "1/1h".parse().unwrap());
        assert!(
            CounterUnderTest::new(subject, &quota, key).takes(1).await.is_allowed(),
            "{policy:?} {key:?}"
        );
    }
}
