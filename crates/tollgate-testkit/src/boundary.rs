//! The burst at a boundary: twice the limit can pass in one window's length, and never more (G3).

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Key, PolicyQuota, Timestamp, Window};

use crate::{CounterUnderTest, SettableClock};

/// The requests of an attack: for each, the time since the previous one, and the cost.
pub type Attack = Vec<(Duration, u32)>;

/// Generates attacks of many requests, most of them close together or about one window apart.
pub fn attack(window: Duration, limit: u32) -> impl Strategy<Value = Attack> {
    let millis = u64::try_from(window.as_millis()).unwrap();
    let gap = prop_oneof![3 => Just(0), 3 => 0..=3_u64, 2 => 0..=millis, 1 => millis.saturating_sub(3)..=millis + 3];
    vec((gap.prop_map(Duration::from_millis), 1..=limit + 1), 1..80)
}

/// Plays the attack from `start` on. Returns what was admitted: when, in which window, how much.
pub async fn admitted<S: SettableClock>(
    subject: &S,
    quota: &PolicyQuota,
    start: Timestamp,
    attack: &Attack,
) -> Vec<(Timestamp, Window, u64)> {
    let attacker = CounterUnderTest::new(subject, quota, Key::from("attacker"));
    let mut time = start;
    let mut admitted = Vec::new();
    for (gap, cost) in attack {
        time = time + *gap;
        subject.set_time(time);
        let counted = attacker.counts(*cost).await;
        if counted.is_admitted() {
            admitted.push((counted.now, counted.counts[0].window, u64::from(*cost)));
        }
    }
    admitted
}

/// Returns the most that was admitted in any interval no longer than the shortest window it meets.
#[must_use]
pub fn worst_interval(admitted: &[(Timestamp, Window, u64)]) -> u64 {
    let mut worst = 0;
    for (first, (start, ..)) in admitted.iter().enumerate() {
        let (mut units, mut shortest) = (0, Duration::MAX);
        for (time, window, cost) in &admitted[first..] {
            shortest = shortest.min(window.length());
            // An interval that contains both instants is at least one millisecond longer than the time between them.
            if time.since(*start) >= shortest {
                break;
            }
            units += cost;
            worst = worst.max(units);
        }
    }
    worst
}
