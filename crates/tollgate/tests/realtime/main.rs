//! The library on the real clock, which shows faults that no manual clock shows.
//!
//! A limiter of `1/1s` with two thousand busy keys and a stream of new ones admitted dozens of units too many within
//! twenty seconds. Yet every test under a manual clock, every model and the reference agreed with it, because all of
//! them read one clock, and read it once. Here the limiter uses the system clock, and the judge has its own.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

mod limiter;
mod oracle;
mod reference;

use std::time::Duration;

use tollgate_testkit::realtime::{self, Group, LoadPlan, LoadRun, OracleFigures, Start, Terms};

use self::limiter::Limiters;
use self::reference::Reference;

fn terms(limit: usize, millis: i64, start: Start) -> Terms {
    Terms { limit, millis, start }
}

fn plan() -> LoadPlan {
    let group =
        |policy, quotas: &[Terms], crowd| Group { policy, quotas: quotas.into(), crowd, obedient: 64 };
    LoadPlan {
        groups: vec![
            group("second", &[terms(1, 1_000, Start::Epoch)], 2_000),
            group("other", &[terms(2, 1_100, Start::Epoch)], 1_000),
            group("quarter", &[terms(1, 250, Start::Epoch)], 300),
            group("staggered", &[terms(1, 1_000, Start::Staggered)], 1_000),
            group("first_hit", &[terms(2, 1_000, Start::FirstHit)], 500),
            group("pair", &[terms(2, 1_000, Start::Epoch), terms(3, 1_300, Start::Staggered)], 500),
            group("trio", &[terms(3, 1_200, Start::FirstHit), terms(2, 300, Start::Epoch)], 200),
            group("bucket", &[terms(7, 1_000, Start::Bucket(3))], 300),
            group("slow bucket", &[terms(1, 700, Start::Bucket(1))], 300),
            group("sliding", &[terms(4, 1_000, Start::Sliding)], 300),
            group("log", &[terms(3, 900, Start::Log)], 300),
            group("kinds", &[terms(5, 1_100, Start::Bucket(2)), terms(3, 600, Start::Log)], 200),
        ],
    }
}

/// Stores with much room, little, and hardly enough, under one thread and under several.
#[test]
#[ignore = "takes its time: cargo xtask prove realtime"]
fn no_window_admits_more_than_its_limit() {
    let scenes = [(100_000, 1), (20_000, 3), (8_000, 1), (100_000, 3), (8_000, 3), (20_000, 1)];
    let seconds = realtime::seconds();
    // Each scene spans several ends of windows. A long proof is many scenes, each with a new store.
    let count = (seconds / 10).max(scenes.len() as u64).min(seconds.max(1));
    let length = Duration::from_millis(1_000 * seconds / count);
    // A correct limiter, to show that the judge finds nothing on this machine and this clock.
    let plan = plan();
    let mut windows = plan.clone();
    windows.groups.retain(|group| group.quotas.iter().all(Terms::has_fixed_windows));
    let control = LoadRun { chargers: 2, length: Duration::from_secs(1) }
        .run(&Reference::new(&windows, None), &windows);
    assert!(control.are_clean(), "the judge is wrong: {control:#?}");
    let mut sum = OracleFigures::default();
    for (max_counters, chargers) in scenes.into_iter().cycle().take(count as usize) {
        let limiters = Limiters::new(&plan, max_counters);
        let figures = LoadRun { chargers, length }.run(&limiters, &plan);
        eprintln!("max_counters={max_counters} chargers={chargers} {figures}");
        sum += figures;
    }
    println!("\nRESULT prove/realtime/library {sum}");
    assert!(sum.are_clean(), "{:#?}", sum.stories);
}
