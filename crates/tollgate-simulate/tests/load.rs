//! The load over time and the statuses, against figures that a test counts for itself.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{Hit, Options, PeakLength, Replay, Report};

/// Every third request of a client in a minute is denied, and requests of users without one are errors.
const POLICIES: &str = "policies:
  - { name: all, key: [ip], quotas: [2/1m] }
  - { name: users, match: { path: /users }, key: [user], quotas: [100/1m], on_missing_key: error }
  - { name: none, match: { path: /none }, key: [ip], quotas: [0/1m] }
";

/// The lengths of bars that a report may have, as its documentation has them.
const STEPS: [i64; 17] =
    [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 1_209_600];

/// 2026-11-23 00:00 UTC, a Monday.
const MONDAY: i64 = 1_795_392_000_000;

/// Milliseconds, the client, its path, and the status in the log.
type Line = (i64, u8, &'static str, Option<u16>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Admitted,
    Denied,
    Undecided,
}

fn replay(lines: &[Line], zone: &TimeZone) -> (Report, Vec<Outcome>) {
    let policies = Config::parse("test.yaml", POLICIES).unwrap().into_policies();
    let options = Options { zone: zone.clone(), rungs: 0, ..Options::default() };
    let mut replay = Replay::new(policies, None, options).unwrap();
    let mut outcomes = Vec::new();
    for (millis, client, path, status) in lines {
        let ip = format!("192.0.2.{client}");
        let attributes = [("ip", ip.as_str()), ("path", path)].into_iter().collect();
        let hit = Hit { status: *status, ..Hit::new(Timestamp::from_unix_millis(*millis), attributes) };
        let before = replay.denied();
        replay.request(hit).unwrap();
        outcomes.push(match *path {
            "/users" => Outcome::Undecided,
            _ if replay.denied() > before => Outcome::Denied,
            _ => Outcome::Admitted,
        });
    }
    (replay.report(), outcomes)
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let line = (
        any::<u32>(),
        0_u8..3,
        0_usize..8,
        prop::sample::select(&[None, Some(200), Some(404), Some(599)][..]),
    );
    // Pauses from milliseconds to weeks, so that each step of the ladder comes up.
    (0_u32..30, proptest::collection::vec(line, 1..150), 0_i64..700_000_000).prop_map(
        |(bits, lines, start)| {
            let mut now = MONDAY + start;
            let lines = lines.into_iter().map(|(random, client, path, status)| {
                now += i64::from(random >> (random % 4) >> (31 - bits));
                (now, client, ["/users", "/none", "/"][path.min(2)], status)
            });
            lines.collect()
        },
    )
}

/// The busiest interval of this length, the first of several, with its start.
fn busiest(times: &[i64], seconds: i64) -> Option<(u64, i64)> {
    let mut counts = BTreeMap::<i64, u64>::new();
    times.iter().for_each(|millis| *counts.entry(millis.div_euclid(seconds * 1_000)).or_default() += 1);
    let most = *counts.values().max()?;
    let (place, _) = counts.iter().find(|(_, count)| **count == most)?;
    Some((most, place * seconds * 1_000))
}

fn millis(written: &str) -> i64 {
    written.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

fn zone() -> impl Strategy<Value = TimeZone> {
    prop::sample::select(&["UTC", "Asia/Kolkata", "America/New_York"][..])
        .prop_map(|name| TimeZone::get(name).unwrap())
}

proptest! {
    #[test]
    fn peaks_are_those_that_counting_finds(lines in lines(), zone in zone()) {
        let (report, outcomes) = replay(&lines, &zone);
        let all: Vec<i64> = lines.iter().map(|line| line.0).collect();
        let admitted = lines.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Outcome::Admitted);
        let admitted: Vec<i64> = admitted.map(|(line, _)| line.0).collect();
        prop_assert_eq!(report.peaks.len(), 2);
        for (peak, (length, seconds)) in
            report.peaks.iter().zip([(PeakLength::Second, 1), (PeakLength::Minute, 60)])
        {
            prop_assert_eq!(peak.length, length);
            let offered = (peak.requests.requests, millis(&peak.requests.start));
            prop_assert_eq!(Some(offered), busiest(&all, seconds));
            match busiest(&admitted, seconds) {
                Some(most) => prop_assert_eq!((peak.admitted.requests, millis(&peak.admitted.start)), most),
                None => prop_assert_eq!(peak.admitted.requests, 0),
            }
        }
    }

    /// The bars are those of the shortest step of which 240 suffice, aligned to the clock of the zone.
    #[test]
    fn bars_hold_the_requests_of_their_time(lines in lines(), zone in zone()) {
        let (report, outcomes) = replay(&lines, &zone);
        let timeline = report.timeline.as_ref().unwrap();
        let first = lines.first().unwrap().0.div_euclid(1_000);
        let last = lines.last().unwrap().0.div_euclid(1_000);
        let offset = i64::from(zone.to_offset(jiff::Timestamp::from_second(first).unwrap()).seconds());
        // From a Monday on.
        let local = |second: i64| second + offset + 3 * 86_400;
        let bars = |step: i64| local(last).div_euclid(step) - local(first).div_euclid(step) + 1;
        let step = STEPS.into_iter().find(|step| bars(*step) <= 240).unwrap();
        prop_assert_eq!(timeline.step_seconds, step as u64);
        prop_assert_eq!(timeline.bars.len() as i64, bars(step));
        let start = millis(&timeline.start) / 1_000;
        prop_assert_eq!(local(start).rem_euclid(step), 0);
        for (place, bar) in (0..).zip(&timeline.bars) {
            let begin = (start + place * step) * 1_000;
            let within: Vec<Outcome> = lines
                .iter()
                .zip(&outcomes)
                .filter(|(line, _)| (begin..begin + step * 1_000).contains(&line.0))
                .map(|(_, outcome)| *outcome)
                .collect();
            let denied = within.iter().filter(|outcome| **outcome == Outcome::Denied).count();
            prop_assert_eq!((bar.requests, bar.denied), (within.len() as u64, denied as u64));
        }
    }

    #[test]
    fn denied_requests_are_told_apart_by_their_status(lines in lines()) {
        let (report, outcomes) = replay(&lines, &TimeZone::UTC);
        let mut expected = BTreeMap::<(bool, Option<u16>), (u64, u64)>::new();
        let mut none_denied = BTreeMap::<(bool, Option<u16>), u64>::new();
        for ((.., path, status), outcome) in lines.iter().zip(&outcomes) {
            let key = (status.is_none(), *status);
            let (requests, denied) = expected.entry(key).or_default();
            *requests += 1;
            *denied += u64::from(*outcome == Outcome::Denied);
            if *path == "/none" {
                *none_denied.entry(key).or_default() += 1;
            }
        }
        let reported = report.statuses.iter().map(|share| (share.status, (share.requests, share.denied)));
        prop_assert!(reported.eq(expected.into_iter().map(|((_, status), counts)| (status, counts))));
        let by_policy = report.policies[2].denied_by_status.iter().map(|noted| (noted.status, noted.denied));
        prop_assert!(by_policy.eq(none_denied.into_iter().map(|((_, status), denied)| (status, denied))));
    }
}

/// Of a second around midnight in a zone, and of a period of years.
#[test]
fn bars_of_days_begin_at_midnight_of_the_zone_and_those_of_weeks_on_monday() {
    let zone = TimeZone::get("Asia/Kolkata").unwrap();
    let line = |second: i64| (MONDAY + second * 1_000, 1, "/", None);
    let day = 86_400;
    let (report, _) = replay(&[line(3 * day), line(200 * day)], &zone);
    let timeline = report.timeline.unwrap();
    assert_eq!((timeline.start.as_str(), timeline.step_seconds), ("2026-11-26T00:00:00+05:30", 86_400));
    assert_eq!(timeline.bars.len(), 198);
    let (report, _) = replay(&[line(3 * day), line(1_000 * day)], &zone);
    let timeline = report.timeline.unwrap();
    assert_eq!((timeline.start.as_str(), timeline.step_seconds), ("2026-11-23T00:00:00+05:30", 604_800));
}

#[test]
fn without_requests_there_is_no_peak_and_no_bar() {
    let (report, _) = replay(&[], &TimeZone::UTC);
    assert!(report.peaks.is_empty() && report.timeline.is_none() && report.statuses.is_empty());
}

/// Times of other worlds: a device whose clock was reset, and a broken one.
#[test]
fn bars_of_any_period_are_at_most_240() {
    let (report, _) =
        replay(&[(i64::MIN, 1, "/", None), (0, 1, "/", None), (i64::MAX, 1, "/", None)], &TimeZone::UTC);
    let timeline = report.timeline.unwrap();
    assert!(timeline.bars.len() <= 240, "{}", timeline.bars.len());
    assert_eq!(timeline.bars.iter().map(|bar| bar.requests).sum::<u64>(), 3);
    assert_eq!(report.peaks[1].requests.requests, 1);
}
