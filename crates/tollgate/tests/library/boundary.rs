//! The burst at a boundary (G3): twice the limit is reached, and never exceeded.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{PolicyQuota, Timestamp};
use tollgate_testkit::boundary::{admitted, attack, worst_interval};
use tollgate_testkit::{ManualMemory, block_on, instant};

const LIMIT: u32 = 10;
const DAY: Duration = Duration::from_secs(24 * 3600);

fn quota(windows: &str) -> PolicyQuota {
    PolicyQuota::new("boundary", format!("{LIMIT}/{windows}").parse().unwrap())
}

/// Returns the end of the attacker's window that holds `time`.
fn boundary(quota: &PolicyQuota, time: Timestamp) -> Timestamp {
    quota.quota().window_at(&"attacker".into(), time).end()
}

/// Shortly before Berlin's day of 23 hours.
fn before_the_short_day() -> Timestamp {
    instant("2026-03-28T12:00:00Z")
}

fn twice_the_limit_in_two_milliseconds(windows: &str) {
    let quota = quota(windows);
    let last = boundary(&quota, before_the_short_day()) - Duration::from_millis(1);
    let attack = vec![(Duration::ZERO, LIMIT), (Duration::from_millis(1), LIMIT), (Duration::ZERO, 1)];
    let admitted = block_on(admitted(&ManualMemory::new(), &quota, last, &attack));
    assert_eq!(worst_interval(&admitted), u64::from(2 * LIMIT));
    assert_eq!(admitted.last().unwrap().0.since(admitted[0].0), Duration::from_millis(1));
}

#[test]
fn twice_the_limit_passes_around_a_boundary() {
    for windows in ["1s", "1m", "1m@staggered", "day@Europe/Berlin"] {
        twice_the_limit_in_two_milliseconds(windows);
    }
}

#[test]
fn a_first_hit_window_falls_short_of_twice_the_limit_by_its_first_hit() {
    let (quota, start) = (quota("1m@first_hit"), before_the_short_day());
    let last = Duration::from_millis(59_999);
    let attack = vec![(Duration::ZERO, 1), (last, LIMIT - 1), (Duration::from_millis(1), LIMIT)];
    let admitted = block_on(admitted(&ManualMemory::new(), &quota, start, &attack));
    assert_eq!(worst_interval(&admitted), u64::from(2 * LIMIT - 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_attack_gets_more_than_twice_the_limit(
        windows in prop::sample::select(vec!["1s", "1s@staggered", "1s@first_hit"]),
        attack in attack(Duration::from_secs(1), LIMIT),
    ) {
        let admitted = block_on(admitted(&ManualMemory::new(), &quota(windows), Timestamp::EPOCH, &attack));
        prop_assert!(worst_interval(&admitted) <= u64::from(2 * LIMIT));
    }

    #[test]
    fn no_attack_on_days_of_23_hours_gets_more_than_twice_the_limit(
        attack in prop_oneof![attack(DAY - Duration::from_secs(3600), LIMIT), attack(DAY, LIMIT)],
        hours_before in 0..48_u64,
    ) {
        let start = before_the_short_day() - Duration::from_secs(hours_before * 3600);
        let admitted = block_on(admitted(&ManualMemory::new(), &quota("day@Europe/Berlin"), start, &attack));
        prop_assert!(worst_interval(&admitted) <= u64::from(2 * LIMIT));
    }
}
