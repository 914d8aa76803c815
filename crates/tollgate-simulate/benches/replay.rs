//! How many requests a second are replayed: `cargo bench -p tollgate-simulate`.
//!
//! Requests are made on the fly, by clients of whom few make most requests, through two policies.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a bench measures real time")]

use std::net::Ipv4Addr;
use std::time::Instant;

use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{Hit, Options, Replay};

const REQUESTS: u64 = 4_000_000;

/// As the command does it.
const AT_ONCE: u64 = 32_768;

const POLICIES: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }
  - { name: pages, match: { path: { not: /login } }, key: [ip], quotas: [60/1m] }
";

/// Neither quota decides alone, so that other limits have to be tried.
const OVERLAPPING: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }
  - { name: all, key: [ip], quotas: [60/1m] }
";

const PATHS: [&str; 8] =
    ["/", "/login", "/search", "/pages/a", "/pages/b/c", "/app.js", "/api/v1/items", "/1.png"];

fn main() {
    // `cargo test --benches` only has to see that it runs.
    let requests = if std::env::args().any(|word| word == "--bench") { REQUESTS } else { 10_000 };
    for clients in [1_000, 100_000, 1_000_000] {
        measure("replay", POLICIES, 0, clients, requests);
    }
    for rungs in [0, 4] {
        measure("overlapping", OVERLAPPING, rungs, 100_000, requests / 2);
    }
}

fn measure(case: &str, policies: &str, rungs: usize, clients: u32, requests: u64) {
    let policies = Config::parse("bench.yaml", policies).unwrap().into_policies();
    let mut replay = Replay::new(policies, None, Options { rungs, ..Options::default() }).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let names: Vec<String> =
        (0..clients).map(|client| Ipv4Addr::from_bits(0x0a00_0000 + client).to_string()).collect();
    let (mut last, mut slowest) = (Instant::now(), 0_f64);
    let start = last;
    for first in (0..requests).step_by(AT_ONCE as usize) {
        let hits = (first..requests.min(first + AT_ONCE)).map(|number| {
            let name = &names[(f64::from(clients) * random.f64().powi(3)) as usize];
            let path = PATHS[random.usize(0..PATHS.len())];
            Hit {
                status: Some(200),
                user_agent: Some(b"Mozilla/5.0"),
                path: Some(path.as_bytes()),
                // 2,000 requests a second.
                ..Hit::new(
                    Timestamp::from_unix_millis(1_700_000_000_000 + (number / 2) as i64),
                    [("ip", name.as_str()), ("path", path)].into_iter().collect(),
                )
            }
        });
        replay.requests(hits).unwrap();
        if first / 1_000_000 < (first + AT_ONCE) / 1_000_000 {
            slowest = slowest.max(last.elapsed().as_secs_f64());
            last = Instant::now();
        }
    }
    let report = replay.report();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "RESULT simulate/{case} other_limits={rungs} clients={} ns_per_request={:.0} requests_per_second={:.0} slowest_million_s={slowest:.2} \
         denied={}",
        report.clients,
        seconds * 1e9 / requests as f64,
        requests as f64 / seconds,
        report.denied
    );
}
