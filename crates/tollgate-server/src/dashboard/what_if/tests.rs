//! Estimates against ledgers of their own, and against the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate::{CountDenied, ManualClock, MemoryStore, Quota, Timestamp};
use tollgate_policy::{Attributes, Config, PolicyLimiter};

use super::time_limit::OutOfTime;
use super::*;
use crate::sample::{SampledRequest, SampledRequests};
use crate::talkers::{TalkerNames, TalkerSecret, Talkers, TalkersSettings};

/// A whole hour.
const START: i64 = 1_699_999_200_000;

/// The tests are about figures and not about time.
const LONG: Duration = Duration::from_secs(600);

/// A request as a test plays it: milliseconds after the start, the user, the cost.
type Played = (i64, u8, u32);

fn played(seed: u64, requests: usize, span: i64, costs: &[u32]) -> Vec<Played> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut played: Vec<Played> = (0..requests)
        .map(|_| {
            // Some ask far more than others.
            let user = random.u8(0..20).min(random.u8(0..20));
            (random.i64(0..span), user, random.choice(costs.iter().copied()).unwrap())
        })
        .collect();
    played.sort_unstable();
    played
}

/// Plays requests under a policy. Returns the sample of it, and the users that were denied, once for each denial.
async fn play(quota: &str, requests: &[Played]) -> (SampledRequests, Vec<u8>) {
    let text = format!("policies: [{{ name: a, key: [user], quotas: ['{quota}'] }}]");
    let policies = Config::parse("a.yaml", &text).unwrap().into_policies();
    let clock = ManualClock::at(Timestamp::from_unix_millis(START));
    let limiter = PolicyLimiter::new(MemoryStore::builder().clock(clock.clone()).build(), policies, "a.yaml");
    let secret = Some(TalkerSecret::new(&[7; 32]));
    let talkers = Talkers::new(&TalkersSettings { names: TalkerNames::Hashed, secret }).unwrap();
    let (mut now, mut denied) = (0, Vec::new());
    for (at, user, cost) in requests {
        clock.advance(Duration::from_millis((at - now).unsigned_abs()));
        now = *at;
        let name = format!("user {user}");
        let attributes: Attributes<'_> = [("user", &*name)].into_iter().collect();
        let decision = limiter.check(&attributes, *cost).await.unwrap();
        talkers.note(&decision);
        if !decision.is_allowed() {
            denied.push(*user);
        }
    }
    (talkers.sample_of("a").unwrap().requests(), denied)
}

fn question(quota: &str, seconds: i64) -> WhatIfQuestion {
    WhatIfQuestion {
        quota: quota.parse().unwrap(),
        count_denied: CountDenied::No,
        circumstances: Circumstances {
            now: Timestamp::from_unix_millis(START + seconds * 1_000),
            quotas: 1,
            has_in_flight: false,
            is_shared: false,
        },
    }
}

fn users(denied: &[u8]) -> u64 {
    denied.iter().collect::<BTreeSet<_>>().len() as u64
}

/// By a count by hand: the requests of each user in each minute of the clock.
#[tokio::test]
async fn what_fixed_windows_deny_is_exact_for_every_limit() {
    let requests = played(1, 3_000, 600_000, &[1]);
    // Requests that the live limit denies are requests as well.
    let (sample, denied) = play("20/1m", &requests).await;
    let estimate = Estimate::within(&question("7/1m", 600), sample, LONG).unwrap();
    let mut ledger = BTreeMap::<(u8, i64), u64>::new();
    for (at, user, _) in &requests {
        *ledger.entry((*user, at / 60_000)).or_default() += 1;
    }
    let most = *ledger.values().max().unwrap();
    assert!(estimate.points.len() <= 64 && estimate.points.iter().any(|point| point.limit == 7));
    assert!(estimate.points.last().unwrap().limit >= most);
    for point in &estimate.points {
        let above = ledger.iter().filter(|(_, count)| **count > point.limit);
        let expected: u64 = above.clone().map(|(_, count)| count - point.limit).sum();
        let users: BTreeSet<u8> = above.map(|((user, _), _)| *user).collect();
        assert_eq!((point.requests, point.keys), (expected, users.len() as u64), "{point:?}");
        assert_eq!(point.band, None);
    }
    assert_eq!((estimate.requests, estimate.keys, estimate.one_in), (3_000, 20, 1));
    assert_eq!(estimate.denied, denied.len() as u64);
    assert!(denied.len() > 100 && !estimate.is_replayed);
    assert!(estimate.doubts.is_empty() && estimate.remarks.is_empty(), "{estimate:?}");
}

/// By the engine: what it denies with each of the limits.
#[tokio::test]
async fn what_other_quotas_deny_is_what_the_engine_denies() {
    for (quota, costs) in [
        ("9/1m", &[1, 2, 5][..]),
        ("9/1m@first_hit", &[1]),
        ("9/1m@first_hit", &[1, 3]),
        ("9/1m~burst", &[1]),
        ("9/1m~burst:4", &[1, 2]),
        ("9/1m~sliding", &[1, 2]),
        ("9/1m~log", &[1, 2]),
        ("90/1h@Europe/Berlin", &[1]),
        ("900/day@Europe/Berlin", &[1]),
    ] {
        let Ok(asked) = quota.parse::<Quota>() else { continue };
        let requests = played(2, 700, 300_000, costs);
        let (sample, _) = play("5/1m", &requests).await;
        let estimate = Estimate::within(&question(quota, 300), sample, LONG).unwrap();
        assert!(estimate.points.iter().any(|point| point.limit == asked.limit()), "{quota}");
        for point in estimate.points.iter().step_by(5) {
            let with_limit = asked.clone().with_limit(point.limit).unwrap().to_string();
            let (_, denied) = play(&with_limit, &requests).await;
            assert_eq!((point.requests, point.keys), (denied.len() as u64, users(&denied)), "{with_limit}");
        }
        for kind in &estimate.kinds {
            let (_, denied) = play(&kind.quota.to_string(), &requests).await;
            assert_eq!((kind.requests, kind.keys), (denied.len() as u64, users(&denied)), "{}", kind.quota);
        }
        assert_eq!(estimate.kinds.is_empty(), quota.contains("Berlin"), "{quota}");
    }
}

fn request(key: u64, millis: i64) -> SampledRequest {
    let (is_denied, is_denied_elsewhere, is_overridden) = Default::default();
    let at = Timestamp::from_unix_millis(START + millis);
    SampledRequest { key: key << 8, at, cost: 1, is_denied, is_denied_elsewhere, is_overridden }
}

fn sample(requests: Vec<SampledRequest>) -> SampledRequests {
    let since = requests.iter().map(|request| request.at).min();
    SampledRequests { requests, since, ..SampledRequests::default() }
}

/// The windows before it lack requests that are forgotten.
#[test]
fn a_sample_that_is_cut_begins_with_its_first_whole_window() {
    let requests: Vec<_> = (0..100).map(|number| request(1, 30_000 + number * 6_000)).collect();
    let cut = SampledRequests { is_cut: true, ..sample(requests) };
    let estimate = Estimate::within(&question("3/1m", 630), cut, LONG).unwrap();
    assert_eq!((estimate.requests, estimate.since), (95, Some(Timestamp::from_unix_millis(START + 60_000))));
    assert!(estimate.doubts.is_empty(), "{:?}", estimate.doubts);
    // Unless that would leave out most of it.
    let requests: Vec<_> = (0..100).map(|number| request(1, 30_000 + number * 600)).collect();
    let cut = SampledRequests { is_cut: true, ..sample(requests) };
    let estimate = Estimate::within(&question("3/1h", 90), cut, LONG).unwrap();
    assert_eq!((estimate.requests, estimate.doubts.len()), (100, 1));
    assert!(estimate.doubts[0].contains("forgotten") && !estimate.remarks.is_empty());
}

#[test]
fn what_is_not_exact_says_why() {
    let doubts = |sample: SampledRequests, quota: &str, change: fn(&mut WhatIfQuestion)| {
        let mut question = question(quota, 600);
        change(&mut question);
        let doubts = Estimate::within(&question, sample, LONG).unwrap().doubts;
        let doubts: Vec<String> = doubts.iter().map(|doubt| doubt.to_string()).collect();
        doubts.join(" ")
    };
    let usual = || {
        sample((0..100_u32).map(|number| request((number % 10).into(), i64::from(number) * 5_000)).collect())
    };
    let first = |change: fn(&mut SampledRequest)| {
        let mut sample = usual();
        sample.requests.iter_mut().take(3).for_each(change);
        sample
    };
    let none: fn(&mut WhatIfQuestion) = |_| {};
    assert_eq!(doubts(usual(), "5/1m", none), "");
    for (sample, quota, change, word) in [
        (SampledRequests { rarity: 3, ..usual() }, "5/1m", none, "1 in 8 clients"),
        (SampledRequests { skipped: 4, ..usual() }, "5/1m", none, "4 requests were not noted"),
        (
            first(|request| request.is_overridden = true),
            "5/1m",
            none,
            "3 requests had limits by an override or a tier",
        ),
        (
            first(|request| request.is_denied_elsewhere = true),
            "5/1m",
            none,
            "3 requests were denied by another",
        ),
        (first(|request| request.cost = 2), "5/1m", none, "different units"),
        (usual(), "5/1m@staggered", none, "other times for each key"),
        (usual(), "5/1m~burst", none, "replayed under each limit"),
        (usual(), "5/1m", |question| question.circumstances.quotas = 2, "2 quotas"),
        (usual(), "5/1m", |question| question.circumstances.has_in_flight = true, "in flight"),
        (usual(), "5/1m", |question| question.circumstances.is_shared = true, "share the store"),
    ] {
        let said = doubts(sample, quota, change);
        assert!(said.contains(word), "{word}: {said}");
    }
    // Of nothing there is nothing to doubt.
    let nothing = Estimate::within(&question("5/1m", 600), SampledRequests::default(), LONG).unwrap();
    assert!(nothing.doubts.is_empty() && nothing.points.is_empty() && nothing.kinds.is_empty());
}

#[test]
fn a_sample_of_keys_has_a_band() {
    // Of 40 keys, 10 have three requests in a minute.
    let requests =
        (0..40).flat_map(|key| (0..if key < 10 { 3 } else { 1 }).map(move |n| request(key << 3, n)));
    let sample = SampledRequests { rarity: 3, ..sample(requests.collect()) };
    let estimate = Estimate::within(&question("2/1m", 600), sample, LONG).unwrap();
    let point = estimate.points.iter().find(|point| point.limit == 2).unwrap();
    assert_eq!((point.keys, estimate.keys, estimate.one_in), (10, 40, 8));
    let band = point.band.unwrap();
    assert!(band.low > 0.14 && band.low < 0.15 && band.high > 0.40 && band.high < 0.41, "{band:?}");
}

#[test]
fn too_many_requests_to_replay_are_reduced_by_keys_and_then_by_time() {
    let of = |keys: u64, quota: &str| {
        let requests = (0..100_000).map(|number| request(number % keys, number as i64 * 36)).collect();
        Estimate::within(&question(quota, 3_600), sample(requests), LONG).unwrap()
    };
    let many = of(10_000, "50/1m~log");
    assert!(many.one_in > 1 && many.requests < 50_000, "{} of 1 in {}", many.requests, many.one_in);
    let few = of(3, "50/1m~log");
    assert_eq!((few.one_in, few.keys), (1, 3));
    assert!(few.requests < 50_000 && few.doubts.iter().any(|doubt| doubt.contains("forgotten")), "{few:?}");
    // All limits of fixed windows take one pass.
    let whole = of(3, "50/1m");
    assert!(whole.kinds.len() == 3 && whole.remarks.len() == 1, "{:?}", whole.kinds);
    assert_eq!((whole.one_in, whole.requests, whole.doubts.len()), (1, 100_000, 0), "{:?}", whole.doubts);
}

#[test]
fn an_estimate_that_takes_too_long_is_given_up() {
    let ask = |most| Estimate::within(&question("5/1m", 600), sample(vec![request(1, 0)]), most);
    assert!(matches!(ask(Duration::ZERO), Err(OutOfTime)));
    assert!(ask(LONG).is_ok());
}

#[test]
fn one_estimate_is_made_at_a_time() {
    let what_if = WhatIf::default();
    let first = what_if.begin();
    assert!(first.is_some() && what_if.clone().begin().is_none());
    drop(first);
    assert!(what_if.begin().is_some());
}

/// The time of an estimate from a full sample.
#[test]
#[ignore = "a measurement: cargo test --release -p tollgate-server --lib what_if -- --ignored --nocapture"]
fn measure() {
    use crate::observe::stopwatch::Stopwatch;
    use crate::sample::SampleMemory;
    let mut random = fastrand::Rng::with_seed(3);
    for keys in [1, 100, 100_000] {
        let requests: Vec<_> = (0..SampleMemory::MAX_REQUESTS)
            .map(|_| {
                request(random.u64(0..keys).wrapping_mul(0x9e37_79b9_7f4a_7c15), random.i64(0..3_600_000))
            })
            .collect();
        for quota in ["60/1m", "60/1m~burst", "60/1m~sliding", "60/1m~log"] {
            let sample = sample(requests.clone());
            let began = Stopwatch::start();
            let estimate = Estimate::within(&question(quota, 3_600), sample, LONG).unwrap();
            println!(
                "{quota}, {keys} keys: {:?}, {} limits, {} kinds, {} requests",
                began.elapsed(),
                estimate.points.len(),
                estimate.kinds.len(),
                estimate.requests
            );
        }
    }
}
