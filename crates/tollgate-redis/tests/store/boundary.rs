//! The burst at a boundary (G3), by the server's clock: twice the limit is reached, and never passed.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::PolicyQuota;
use tollgate_testkit::boundary::{admitted, attack, worst_interval};
use tollgate_testkit::servers::Software;
use tollgate_testkit::{block_on, instant};

use crate::servers::steered;

const LIMIT: u32 = 10;

fn quota(windows: &str) -> PolicyQuota {
    PolicyQuota::new("boundary", format!("{LIMIT}/{windows}").parse().unwrap())
}

#[test]
fn twice_the_limit_passes_around_a_boundary() {
    const TICK: Duration = Duration::from_millis(1);
    let attack = vec![(Duration::ZERO, LIMIT), (TICK, LIMIT), (Duration::ZERO, 1)];
    for software in Software::ALL {
        let subject = steered(software);
        for windows in ["1s", "1m", "1m@staggered", "day@Europe/Berlin"] {
            let quota = quota(windows);
            let window = quota.quota().window_at(&"attacker".into(), instant("2026-03-28T12:00:00Z"));
            let admitted = block_on(admitted(&subject, &quota, window.end() - TICK, &attack));
            assert_eq!(worst_interval(&admitted), u64::from(2 * LIMIT), "{windows}: {admitted:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_attack_gets_more_than_twice_the_limit(
        windows in prop::sample::select(vec!["1s", "1s@staggered", "1s@first_hit"]),
        attack in attack(Duration::from_secs(1), LIMIT),
    ) {
        let start = instant("2026-03-28T12:00:00Z");
        let admitted = block_on(admitted(&steered(Software::Redis), &quota(windows), start, &attack));
        prop_assert!(worst_interval(&admitted) <= u64::from(2 * LIMIT));
    }
}
