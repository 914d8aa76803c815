//! The figures of the live page are those of metrics and those of the load.

#![allow(clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::io::Read as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ask;
use crate::support::folder::Folder;
use crate::support::{HANG, Server, until};

const POLICIES: &str = "
unmatched: deny
policies:
  - { name: health, match: { path: /health }, exempt: true }
  - { name: search, match: { path: /search }, key: [user], quotas: [5/1d], candidate: [2/1d] }
  - { name: trial, match: { path: /trial }, key: [user], quotas: [3/1d], mode: shadow }
  - { name: idle, match: { path: /idle }, key: [user], quotas: [9/1d] }
";

/// Sends eight checks for each path.
fn load(server: &Server) {
    for path in ["/search", "/trial", "/health", "/nowhere"] {
        for _ in 0..8 {
            let attributes = json!({ "attributes": { "user": "alice", "path": path } });
            server.post("/v1/check", &attributes.to_string());
        }
    }
}

fn sum(figures: &Value) -> u64 {
    figures.as_array().expect("a list").iter().filter_map(Value::as_u64).sum()
}

/// Waits until the series of all policies has so many checks, and returns the figures of that time.
fn live_after(server: &Server, checks: u64) -> Value {
    until("all checks are in the series", || {
        let series = server.admin_get("/v1/live/series").json();
        sum(&series["series"][0]["allowed"]) + sum(&series["series"][0]["denied"]) >= checks
    });
    server.admin_get("/v1/live").json()
}

/// Returns the sample of this name and these labels.
fn sample(metrics: &str, name: &str) -> u64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().expect("a number")
}

/// A page that says other than metrics is worse than none.
#[test]
fn the_figures_are_those_of_the_load_and_of_metrics() {
    let folder = Folder::new();
    let file = folder.write("p.yaml", POLICIES);
    let server = Server::start(&["--config", &file]);
    load(&server);
    let live = live_after(&server, 16);
    let metrics = server.admin_get("/metrics").body;
    let metrics = String::from_utf8(metrics).expect("text");
    let decided = |policy: &str, verdict: &str| {
        sample(&metrics, &format!("tollgate_decisions_total{{policy=\"{policy}\",verdict=\"{verdict}\"}}"))
    };
    let tried = |policy: &str, kind: &str, answer: &str| {
        sample(
            &metrics,
            &format!("tollgate_trials_total{{policy=\"{policy}\",kind=\"{kind}\",answer=\"{answer}\"}}"),
        )
    };
    let rows = live["policies"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["health", "search", "trial", "idle"]);
    let [health, search, trial, idle] = &rows[..] else { panic!("{live}") };
    for (row, allowed, denied) in [(health, 8, 0), (search, 5, 3), (trial, 0, 0), (idle, 0, 0)] {
        assert_eq!((&row["allowed"], &row["denied"]), (&json!(allowed), &json!(denied)), "{row}");
        assert_eq!((sum(&row["checks"]), sum(&row["denials"])), (allowed + denied, denied), "{row}");
        assert_eq!(row["checks"].as_array().map(Vec::len), Some(60));
    }
    assert_eq!(
        (decided("search", "allowed"), decided("search", "denied"), decided("health", "allowed")),
        (5, 3, 8)
    );
    assert_eq!(search["candidate"], json!({ "allowed": 2, "denied": 6, "failed": 0 }));
    assert_eq!((tried("search", "candidate", "allowed"), tried("search", "candidate", "denied")), (2, 6));
    assert_eq!(trial["shadow"], json!({ "allowed": 3, "denied": 5, "failed": 0 }));
    assert_eq!((tried("trial", "shadow", "allowed"), tried("trial", "shadow", "denied")), (3, 5));
    for (row, kind, [allowed, denied, both, only_on_trial, only_now]) in
        [(search, "candidate", [2, 6, 3, 3, 0]), (trial, "shadow", [3, 5, 0, 5, 0])]
    {
        let [tried] = &row["trials"].as_array().expect("a list")[..] else { panic!("{row}") };
        assert!(tried["since"].as_str() <= live["at"].as_str() && tried["since"].is_string(), "{row}");
        let expected = json!({
            "kind": kind, "since": tried["since"], "allowed": allowed, "denied": denied, "failed": 0,
            "denied_by_both": both, "denied_only_on_trial": only_on_trial, "denied_only_now": only_now,
        });
        assert_eq!(*tried, expected);
    }
    assert!(health["trials"].is_null() && idle["trials"].is_null());
    assert_eq!((&search["candidates"], &search["key"]), (&json!([["2/1d"]]), &json!("user")));
    assert_eq!(
        (&health["role"], &trial["mode"], &idle["quotas"]),
        (&json!("exempt"), &json!("shadow"), &json!(["9/1d"]))
    );

    let totals = &live["totals"];
    let expected = [
        ("checks", 32),
        ("allowed", 13),
        ("denied", 3),
        ("trial_denied", 11),
        ("unmatched", 8),
        ("failed", 0),
    ];
    for (name, count) in expected {
        assert_eq!(totals[name], count, "{name} of {totals}");
    }
    assert_eq!(totals["unlimited"], sample(&metrics, "tollgate_unlimited_checks_total"));
    for source in ["store", "local", "policies", "fallback_local", "fallback_open", "none"] {
        let name = format!("tollgate_checks_total{{source=\"{source}\"}}");
        assert_eq!(live["sources"][source], sample(&metrics, &name), "{source}");
    }
    assert_eq!((&live["state"], &live["state_text"]), (&json!("ready"), &json!("ready")));
    assert_eq!((&live["decided_by"], &live["in_step"]), (&json!("policies"), &json!(true)));
    assert_eq!(live["memory"]["counters"], sample(&metrics, "tollgate_store_counters"));
    assert!(live["latency_ms"]["p50"].is_number() && live["store"].is_null(), "{live}");
    assert_eq!(live["policies_count"], 4);
}

#[test]
fn a_series_has_every_check_once_in_both_tiers() {
    let folder = Folder::new();
    let file = folder.write("p.yaml", POLICIES);
    let server = Server::start(&["--config", &file]);
    load(&server);
    live_after(&server, 16);
    for tier in ["1s", "5m"] {
        let query = format!("/v1/live/series?policy=search&policy=trial&tier={tier}");
        let series = server.admin_get(&query).json();
        let [search, trial] = &series["series"].as_array().expect("series")[..] else { panic!("{series}") };
        let sums = |row: &Value| {
            ["allowed", "denied", "failed", "trial_denied", "by_fallback"].map(|name| sum(&row[name]))
        };
        assert_eq!((sums(search), sums(trial)), ([5, 3, 0, 6, 0], [0, 0, 0, 5, 0]), "{series}");
        let length = series["times"].as_array().map(Vec::len);
        assert_eq!(search["allowed"].as_array().map(Vec::len), length);
        assert_eq!(
            (&series["tier"], &series["start"]),
            (&json!(tier), &json!(if tier == "1s" { 1 } else { 300 }))
        );
    }
    let seq = server.admin_get("/v1/live/series").json()["seq"].as_u64().expect("a number");
    let newer = server.admin_get(&format!("/v1/live/series?since={seq}")).json();
    let more = newer["seq"].as_u64().expect("a number") - seq;
    assert_eq!(newer["times"].as_array().map(Vec::len), usize::try_from(more).ok());
    for (query, field) in
        [("policy=missing", "query.policy"), ("tier=1h", "query.tier"), ("since=x", "query.since")]
    {
        let refused = server.admin_get(&format!("/v1/live/series?{query}"));
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{query}");
    }
}

/// All viewers share one answer for a second, and who has it is told so.
#[test]
fn an_answer_is_made_once_a_second() {
    let server = Server::start(&["--limit", "5/1d"]);
    let begun = Instant::now();
    loop {
        let first = ask(server.admin, "GET", "/v1/live", "");
        let tag = first.header("etag").expect("a tag").to_owned();
        let known = ask(server.admin, "GET", "/v1/live", &format!("If-None-Match: {tag}\r\n"));
        let packed = ask(server.admin, "GET", "/v1/live", "Accept-Encoding: gzip\r\n");
        let last = ask(server.admin, "GET", "/v1/live", "");
        assert!(begun.elapsed() < HANG, "every second ends between two requests");
        // A second ended in between.
        if last.body != first.body {
            continue;
        }
        assert_eq!((known.status, known.body.len()), (304, 0));
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).expect("it is gzip");
        assert_eq!(unpacked, first.body);
        break;
    }
    assert_eq!(ask(server.admin, "GET", "/v1/live", "If-None-Match: \"x\"\r\n").status, 200);
}

/// Eight viewers ask 40 times in five seconds.
#[test]
fn more_viewers_than_eight_are_told_to_come_back_later() {
    let server = Server::start(&["--limit", "5/1d"]);
    let begun = Instant::now();
    let statuses: Vec<u16> = (0..41).map(|_| server.admin_get("/v1/live").status).collect();
    // On a machine that stood still, the first ones are forgotten.
    if begun.elapsed() < Duration::from_secs(5) {
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 1, "{statuses:?}");
        let refused = server.admin_get("/v1/live");
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("5")));
    }
}
