//! Decisions by random files, held against a naive reading of them.
//!
//! `draw` makes files and requests, and `model` reads and counts them a second time, with code of its own and no index.
//! `cargo xtask prove envoy` runs more of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod draw;
mod model;

use std::env;
use std::time::Duration;

use fastrand::Rng;
use tollgate::{Clock, ManualClock, MemoryStore, SystemClock, Timestamp};
use tollgate_envoy::{Charging, Domains, EnvoyLimiter, SameDomain, Settings};
use tollgate_policy::Sources;
use tollgate_testkit::block_on;

use self::model::{Model, Told};

/// Requests for each file.
const REQUESTS: usize = 12;

/// What was seen of the answers, so that a search that sees only one kind of them fails.
#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    allowed: u64,
    denied: u64,
    limited: u64,
    unlimited: u64,
    partly: u64,
}

struct Search {
    files: u64,
    tally: Tally,
    fault: Option<String>,
}

#[test]
fn decisions_are_those_of_a_naive_reading() {
    let Search { tally, fault, .. } = search(1, 2_000);
    assert!(fault.is_none(), "{}", fault.unwrap_or_default());
    let Tally { requests, allowed, denied, limited, unlimited, partly } = tally;
    for (kind, count) in [
        ("allowed", allowed),
        ("denied", denied),
        ("limited", limited),
        ("unlimited", unlimited),
        ("partly", partly),
    ] {
        assert!(count * 100 > requests, "{kind}: {count} of {requests}");
    }
}

#[test]
#[ignore = "takes its time: cargo xtask prove envoy"]
fn prove() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, files) = (number("TOLLGATE_SEED").unwrap_or(1), number("TOLLGATE_FILES").unwrap_or(100_000));
    let start = SystemClock.now();
    let Search { files, tally, fault } = search(first, files);
    let seconds = SystemClock.now().since(start).as_secs_f64();
    println!(
        "\nRESULT prove/envoy files={files} requests={} seconds={seconds:.0} allowed={} denied={} limited={} \
         unlimited={} violations={}",
        tally.requests,
        tally.allowed,
        tally.denied,
        tally.limited,
        tally.unlimited,
        u8::from(fault.is_some())
    );
    assert!(fault.is_none(), "{}", fault.unwrap_or_default());
}

/// Looks for the bug that was put into the sources.
#[test]
#[ignore = "no bug is planted: cargo xtask prove envoy --planted"]
fn a_planted_bug_is_found() {
    let Search { files, fault, .. } = search(1, 20_000);
    let fault = fault.expect("the bug is found");
    println!("\nFOUND files={files} by={}", fault.lines().next().unwrap_or_default());
}

fn search(first: u64, files: u64) -> Search {
    let mut tally = Tally::default();
    for seed in first..first + files {
        if let Err(fault) = play(seed, &mut tally) {
            return Search { files: seed - first + 1, tally, fault: Some(format!("{fault}\nseed {seed}")) };
        }
    }
    Search { files, tally, fault: None }
}

/// Decides on some requests by one file.
fn play(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let tree = draw::tree(&mut rng);
    let charging = if rng.bool() { Charging::AllOrNothing } else { Charging::Each };
    let (shadow_mode, quota_mode) = (rng.u8(..8) == 0, rng.u8(..8) == 0);
    let settings = Settings { charging, shadow_mode, quota_mode, ..Settings::default() };
    let text = draw::written(&tree);
    let domains = Domains::parse(&Sources::of("envoy.yaml", &*text), SameDomain::Refuse);
    let domains = domains.map_err(|error| format!("not read: {error}\n{text}"))?;
    let mut now = 1_700_000_000 + rng.u64(..100_000);
    let clock = ManualClock::at(Timestamp::from_unix_millis(now as i64 * 1_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = EnvoyLimiter::new(store, domains, settings.clone());
    let mut model = Model::new(&tree, settings);
    for _ in 0..REQUESTS {
        let steps = [0, 0, 0, 1, 20, 70, 4_000, 700_000];
        let step = steps[rng.usize(..steps.len())];
        now += step;
        clock.advance(Duration::from_secs(step));
        let asked = draw::request(&mut rng, &tree);
        let told = match block_on(limiter.decide(&asked.request())) {
            Ok(response) => Told::of(&response),
            Err(error) => return Err(format!("no answer: {error}\n{asked:#?}\n{text}")),
        };
        let expected = model.decide(&asked, now);
        if told != expected {
            return Err(format!(
                "another answer\n{text}\n{:?}\n{asked:#?}\nanswered {told:#?}\nexpected {expected:#?}",
                model.settings
            ));
        }
        tally.note(&told);
    }
    Ok(())
}

impl Tally {
    fn note(&mut self, told: &Told) {
        self.requests += 1;
        *if told.denied { &mut self.denied } else { &mut self.allowed } += 1;
        self.limited += u64::from(told.statuses.iter().any(|status| status.limit.is_some()));
        self.unlimited += u64::from(told.statuses.iter().any(|status| status.remaining == u32::MAX));
        let over = told.statuses.iter().filter(|status| status.over).count();
        self.partly += u64::from(over > 0 && over < told.statuses.len());
    }
}
