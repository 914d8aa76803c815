//! The series against a ledger that keeps everything.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tollgate::{Clock, ManualClock, Timestamp};

use super::recorded_time::Tier;
use super::recorder::{ProcessStates, Recorder};
use super::{PolicyCounts, SeriesPoint};
use crate::live::cause::Cause;
use crate::live::record::{Changes, ReloadOutcome, ReloadRecord};
use crate::metrics::ProcessCounts;

const NAMES: [&str; 3] = ["login", "search", "upload"];

const STARTED: Timestamp = Timestamp::from_unix_millis(1_700_000_000_250);

/// What was decided, by the second at whose end it was read. Each tick is there, also without decisions.
#[derive(Default)]
struct Ledger(BTreeMap<u64, Vec<(&'static str, PolicyCounts)>>);

impl Ledger {
    /// Sums up the entries whose second is in this range, of one policy or of all.
    fn sum(&self, name: Option<&str>, seconds: RangeInclusive<u64>) -> PolicyCounts {
        let entries = self.0.range(seconds).flat_map(|(_, entries)| entries);
        let mut sum = PolicyCounts::default();
        for (_, counts) in entries.filter(|entry| name.is_none_or(|name| name == entry.0)) {
            sum.allowed += counts.allowed;
            sum.denied += counts.denied;
            sum.failed += counts.failed;
            sum.by_fallback += counts.by_fallback;
            sum.shadow.denied += counts.shadow.denied;
            sum.candidate.allowed += counts.candidate.allowed;
            sum.candidate.denied += counts.candidate.denied;
        }
        sum
    }

    /// Returns what a point of so many seconds, the last of which is this one, has to show.
    fn point(&self, name: Option<&str>, seconds: RangeInclusive<u64>) -> Option<SeriesPoint> {
        self.0.range(seconds.clone()).next()?;
        let sum = self.sum(name, seconds);
        let narrow = |count: u64| u32::try_from(count).unwrap();
        Some(SeriesPoint {
            allowed: narrow(sum.allowed),
            denied: narrow(sum.denied),
            failed: narrow(sum.failed),
            by_fallback: narrow(sum.by_fallback),
            trial_denied: narrow(sum.shadow.denied + sum.candidate.denied),
        })
    }
}

fn random_counts(rng: &mut Rng) -> PolicyCounts {
    let mut counts = PolicyCounts::default();
    if rng.u8(..) < 100 {
        counts.allowed = rng.u64(..500);
        counts.denied = rng.u64(..50);
        counts.by_fallback = rng.u64(..5);
    }
    if rng.u8(..) < 40 {
        counts.failed = rng.u64(..9);
        counts.shadow.denied = rng.u64(..9);
        counts.candidate.allowed = rng.u64(..9);
        counts.candidate.denied = rng.u64(..9);
    }
    counts
}

fn expect(recorder: &Recorder, ledger: &Ledger, live: &BTreeMap<&'static str, PolicyCounts>, seed: u64) {
    let second = recorder.second();
    let series = live.keys().map(|name| (Some(*name), recorder.policy(name).unwrap()));
    for (name, series) in series.chain([(None, recorder.total())]) {
        for (tier, length, step) in [(Tier::Seconds, 600, 1), (Tier::Periods, 288, 300)] {
            let numbers = recorder.points(tier, None).numbers();
            let last = second.div_ceil(step);
            assert_eq!(numbers.clone().last(), (last > 0).then_some(last), "seed {seed}");
            assert_eq!(numbers.clone().count() as u64, last.min(length), "seed {seed}");
            for number in numbers {
                let seconds = (number - 1) * step + 1..=number * step;
                let expected = ledger.point(name, seconds);
                assert_eq!(
                    recorder.point(series, tier, number),
                    expected,
                    "seed {seed}: {name:?}, {tier:?} {number}"
                );
            }
        }
        let decided = (0..60).rev().map(|ago| {
            let number = second.checked_sub(ago).filter(|number| *number > 0)?;
            ledger.point(name, number..=number).map(|point| (point.allowed, point.denied))
        });
        let decided: Vec<_> = decided.collect();
        assert_eq!(recorder.last_minute(series).to_vec(), decided, "seed {seed}: {name:?} at {second}");
        let minute = second.saturating_sub(59).max(1)..=second;
        assert_eq!(series.minute(), ledger.sum(name, minute), "seed {seed}: {name:?} at {second}");
    }
}

/// Ticks come late, seconds are missed, policies are removed, added and replaced: each second and each period shows
/// what was decided in it.
#[test]
fn every_point_is_what_the_ledger_has() {
    for seed in 0..12 {
        let (mut rng, clock) = (Rng::with_seed(seed), ManualClock::at(STARTED));
        let (mut recorder, mut ledger) = (Recorder::new(STARTED), Ledger::default());
        let mut live: BTreeMap<&str, PolicyCounts> = NAMES.map(|name| (name, PolicyCounts::default())).into();
        let mut elapsed_millis = 0;
        for tick in 0..900 {
            let seconds = match rng.u16(..) {
                0..200 => rng.u64(2..1_000),
                200..3_000 => rng.u64(2..9),
                _ => 1,
            };
            let whole = elapsed_millis / 1_000 + seconds;
            elapsed_millis = whole * 1_000;
            clock.set(STARTED + Duration::from_millis(elapsed_millis + rng.u64(..400)));
            let mut read = Vec::new();
            for name in NAMES {
                match rng.u16(..) {
                    // Removed: its series is dropped.
                    0..200 => {
                        live.remove(name);
                        // The sum over all keeps it, under no name.
                        let entries = ledger.0.values_mut().flatten().filter(|entry| entry.0 == name);
                        entries.for_each(|entry| entry.0 = "");
                    }
                    // Added, or replaced by another policy, whose counters begin at zero.
                    200..600 => {
                        let new =
                            random_counts(&mut rng).plus(&PolicyCounts { allowed: 1, ..Default::default() });
                        let before = live.get(name).copied().unwrap_or_default();
                        // A larger counter would look like the old one that grew.
                        if before == PolicyCounts::default() || new.allowed < before.allowed {
                            live.insert(name, new);
                            read.push((name, new));
                        }
                    }
                    _ => {
                        if let Some(counts) = live.get_mut(name) {
                            let new = random_counts(&mut rng);
                            *counts = counts.plus(&new);
                            read.push((name, new));
                        }
                    }
                }
            }
            ledger.0.insert(whole, read);
            let policies = live.iter().map(|(name, counts)| (*name, *counts));
            recorder.tick(clock.now(), policies, ProcessCounts::default(), ProcessStates::default());
            assert_eq!(recorder.second(), whole, "seed {seed}");
            if tick % 90 == 0 {
                expect(&recorder, &ledger, &live, seed);
            }
        }
        expect(&recorder, &ledger, &live, seed);
    }
}

#[test]
fn a_reader_gets_the_points_after_those_that_it_has() {
    let mut recorder = Recorder::new(STARTED);
    let mut tick = |second: u64| {
        let now = STARTED + Duration::from_secs(second);
        recorder.tick(now, std::iter::empty(), ProcessCounts::default(), ProcessStates::default());
        let points = |tier, since| recorder.points(tier, since).numbers();
        [
            points(Tier::Seconds, None),
            points(Tier::Seconds, Some(second - 2)),
            points(Tier::Seconds, Some(second)),
            // Of another process.
            points(Tier::Seconds, Some(second + 1)),
            points(Tier::Periods, None),
            points(Tier::Periods, Some(second - 2)),
        ]
    };
    assert_eq!(tick(10), [1..11, 9..11, 11..11, 1..11, 1..2, 1..2]);
    assert_eq!(tick(700), [101..701, 699..701, 701..701, 101..701, 1..4, 3..4]);
    assert_eq!(recorder.begin(Tier::Seconds, 1), 1_700_000_000);
    assert_eq!(recorder.begin(Tier::Periods, 3), 1_700_000_600);
}

#[test]
fn a_second_is_recorded_once_and_a_minute_is_a_minute() {
    let mut recorder = Recorder::new(STARTED);
    let process = |checks| ProcessCounts { sources: [("store", checks)].into(), ..Default::default() };
    let mut tick = |millis: u64, checks: u64| {
        let now = STARTED + Duration::from_millis(millis);
        recorder.tick(now, std::iter::empty(), process(checks), ProcessStates::default());
        (recorder.second(), recorder.minute().0, recorder.minute().1.checks(), recorder.checks_now())
    };
    assert_eq!(tick(10, 5), (0, 0, 0, 0), "the first second is not over");
    assert_eq!(tick(1_002, 7), (1, 1, 7, 7));
    assert_eq!(tick(1_300, 9), (1, 1, 7, 7), "it is in the next second");
    assert_eq!(tick(2_001, 9), (2, 2, 9, 2));
    // Each of the seconds that were missed had as many.
    assert_eq!(tick(12_000, 109), (12, 12, 109, 10));
    assert_eq!(tick(61_000, 110), (61, 60, 103, 0));
    assert_eq!(tick(62_000, 110), (62, 60, 101, 0));
    assert_eq!(tick(72_000, 111), (72, 60, 2, 0));
}

#[test]
fn changes_of_the_process_are_events() {
    let mut recorder = Recorder::new(STARTED);
    let reload = |version, outcome| {
        let at = STARTED + Duration::from_millis(400);
        Arc::new(ReloadRecord { at, cause: Cause::Request, version, outcome })
    };
    let changes = Changes::of(["a: quotas 5/1m, was 6/1m".to_owned(), "b: new".to_owned()]).unwrap();
    let first = reload(2, ReloadOutcome::Replaced(changes.clone()));
    let unchanged = reload(2, ReloadOutcome::Unchanged);
    let second = reload(3, ReloadOutcome::Replaced(changes));
    let mut second_number = 0;
    let mut kinds = |is_store_up, are_overrides_stale, is_leaving, reloads: &[&Arc<ReloadRecord>]| {
        second_number += 1;
        let reloads = reloads.iter().map(|record| Arc::clone(record)).collect();
        let states = ProcessStates { is_store_up, is_leaving, are_overrides_stale, reloads };
        let now = STARTED + Duration::from_secs(second_number);
        recorder.tick(now, std::iter::empty(), ProcessCounts::default(), states);
        let kinds = recorder.events().map(|event| event.kind.name()).collect::<Vec<_>>().join(" ");
        (kinds, recorder.store_down_since().is_some())
    };
    assert_eq!(kinds(Some(true), false, false, &[]), (String::new(), false));
    assert_eq!(
        kinds(Some(false), true, false, &[&first]),
        ("overrides_stale store_down reload".into(), true)
    );
    let all = "overrides_fresh store_up overrides_stale store_down reload";
    assert_eq!(kinds(Some(true), false, false, &[&unchanged, &first]), (all.into(), false));
    let all = format!("draining reload {all}");
    assert_eq!(kinds(Some(true), false, true, &[&second, &unchanged, &first]), (all.clone(), false));
    assert_eq!(kinds(Some(true), false, true, &[&second, &unchanged, &first]), (all, false));
    let texts: Vec<_> = recorder.events().map(|event| &*event.text).collect();
    assert_eq!(texts[1], "version 3: a: quotas 5/1m, was 6/1m; b: new");
}
