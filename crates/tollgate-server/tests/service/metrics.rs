//! Metrics: the two availabilities, the age of policies, and the names in alerts and the dashboard.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testkit::servers::{self, Software};

use crate::ads::Ads;
use crate::certificates::{Authority, Client, Identity};
use crate::support::{Connection, Reply, Server};

const RULES: &str = include_str!("../../../../examples/alerts/tollgate.rules.yml");
const DASHBOARD: &str = include_str!("../../../../deploy/compose/grafana/dashboards/tollgate.json");

/// A policy for each answer to an outage, and for decisions without a store.
const POLICIES: &str = "
policies:
  - { name: open, match: { path: /open }, key: [user], quotas: [2/1d@first_hit] }
  - { name: local, match: { path: /local }, key: [user], quotas: [2/1d@first_hit],
      on_store_failure: local, local_share: 1/2 }
  - { name: closed, match: { path: /closed }, key: [user], quotas: [2/1d@first_hit], on_store_failure: closed }
  - { name: health, match: { path: /health }, exempt: true }
  - { name: trial, match: { path: /trial }, mode: shadow, key: [user], quotas: [2/1d@first_hit] }
";

/// A service with a file of policies, which is removed at the end.
struct ByFile {
    server: Server,
    file: PathBuf,
}

impl ByFile {
    fn start(name: &str, policies: &str, more: &[&str]) -> Self {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-metrics-{name}-{}-{number}.yaml", std::process::id());
        let file = std::env::temp_dir().join(name);
        fs::write(&file, policies).expect("it can be written");
        let config = file.display().to_string();
        Self { server: Server::start(&[&["--config", &config], more].concat()), file }
    }
}

impl Drop for ByFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

fn on_store(store: &servers::Server) -> ByFile {
    let url = format!("redis://{}", store.address());
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let service = ByFile::start("store", POLICIES, &[&["--store", &url], &patient[..]].concat());
    let until = Instant::now() + Duration::from_secs(60);
    while service.server.get("/v1/check?path=/open&user=first").json()["source"] != "store" {
        assert!(Instant::now() < until, "the store is not used");
        thread::sleep(Duration::from_millis(10));
    }
    service
}

const SOURCES: [&str; 6] = ["store", "local", "policies", "fallback_local", "fallback_open", "none"];

fn checks(server: &Server) -> [f64; 6] {
    SOURCES.map(|source| {
        server
            .metric(&format!("tollgate_checks_total{{source=\"{source}\"}}"))
            .expect("every source is there")
    })
}

/// Returns the increase of each source.
fn more(server: &Server, before: [f64; 6]) -> [f64; 6] {
    let now = checks(server);
    std::array::from_fn(|place| now[place] - before[place])
}

#[test]
fn counts_each_check_once_by_its_source() {
    let store = servers::Server::start(Software::Redis);
    let ByFile { server, .. } = &on_store(&store);
    let ask = |path: &str, times: usize| {
        for _ in 0..times {
            server.get(&format!("/v1/check?path={path}&user=alice"));
        }
    };
    let before = checks(server);
    ask("/open", 2);
    ask("/health", 3);
    ask("/nowhere", 1);
    assert_eq!(more(server, before), [2.0, 0.0, 4.0, 0.0, 0.0, 0.0]);

    // The third is denied by the store, and what follows by what the store said. How many of them is a matter of time.
    ask("/open", 10);
    let [store_said, known, ..] = more(server, before);
    assert_eq!(store_said + known, 12.0);
    assert!(known > 0.0, "denials are told without asking again");
    assert_eq!(server.metric("tollgate_local_denials_total"), Some(checks(server)[1]));

    store.kill();
    let before = checks(server);
    // Peeks are answered by the share as well, even while nothing of it is used.
    server.get("/v1/check?path=/local&user=alice&cost=0");
    ask("/local", 2);
    ask("/health", 1);
    ask("/closed", 4);
    let batch = r#"{"requests": [{"attributes": {"path": "/closed", "user": "bob"}},
                                 {"attributes": {"path": "/open", "user": "bob"}}]}"#;
    server.post("/v1/check/batch", batch);
    // Two invalid requests and a peek are not checks.
    server.get("/v1/check?path=/open").assert_problem(400, Some("query.user"));
    server.get("/v1/check?cost=x").assert_problem(400, Some("query.cost"));
    server.post("/v1/peek", r#"{"attributes": {"path": "/open", "user": "bob"}}"#);
    assert_eq!(more(server, before), [0.0, 0.0, 1.0, 3.0, 1.0, 5.0]);
}

#[test]
fn a_full_memory_gives_no_decision_or_admits_uncounted() {
    for (when_full, source) in [("deny", 5), ("allow", 4)] {
        let arguments = ["--limit", "5/1d@first_hit", "--max-counters", "1", "--when-full", when_full];
        let server = Server::start(&arguments);
        for user in 0..2_000 {
            server.get(&format!("/v1/check?user={user}"));
        }
        let counts = checks(&server);
        assert!(counts[source] > 0.0, "{when_full}: {counts:?}");
        assert_eq!(counts.iter().sum::<f64>(), 2_000.0);
        assert_eq!(counts[0] + counts[source], 2_000.0, "{when_full}: {counts:?}");
    }
}

#[test]
fn the_age_of_policies_is_the_time_since_the_file_matched_them() {
    let service = ByFile::start("age", POLICIES, &[]);
    let (server, age) = (&service.server, || {
        service.server.metric("tollgate_policies_age_seconds").map(Duration::from_secs_f64).expect("an age")
    });
    let reload = || server.admin_post("/v1/policies/reload", "").status;

    let asked = Instant::now();
    assert_eq!(reload(), 200);
    assert!(age() <= asked.elapsed(), "it was read just now");

    let broken = Instant::now();
    fs::write(&service.file, "policies: [{ name: broken }]").expect("it can be written");
    assert_eq!(reload(), 422);
    let since = broken.elapsed();
    assert!(age() >= since, "what is not valid makes nothing younger");
    let first = age();
    assert_eq!(reload(), 422);
    assert!(age() >= first);
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(0.0));

    let mended = Instant::now();
    fs::write(&service.file, POLICIES).expect("it can be written");
    assert_eq!(reload(), 200);
    assert!(age() <= mended.elapsed());
    let flag_server = Server::start(&["--limit", "1/1d"]);
    assert_eq!(flag_server.metric("tollgate_policies_age_seconds"), None, "flags do not grow old");
}

#[test]
fn alerts_name_metrics_and_labels_that_are_exported() {
    let store = servers::Server::start(Software::Redis);
    let service = on_store(&store);
    service.server.get("/v1/check?path=/open&user=alice");
    expect_exported(&expressions(RULES), &exported(&service.server));
    for figure in RULES.split_whitespace().filter(|word| word.starts_with("tollgate:")) {
        assert!(RULES.contains(&format!("record: {}", name(figure))), "{figure} is recorded nowhere");
    }
}

#[test]
fn the_dashboard_shows_metrics_and_labels_that_are_exported() {
    let store = servers::Server::start(Software::Redis);
    let service = on_store(&store);
    let exported = exported(&service.server);
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets")) {
        let shown = target["expr"].as_str().expect("an expression");
        // Prometheus adds these labels.
        let shown = shown.replace(r#"job=~"$job","#, "").replace(r#"{job=~"$job"}"#, "");
        let selectors = expressions(&shown);
        assert!(!selectors.is_empty(), "{shown}");
        expect_exported(&selectors, &exported);
        let grouped = shown.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
        for label in grouped.flat_map(|labels| labels.split(", ")).filter(|label| *label != "instance") {
            let has_label =
                |line: &String| line.contains(&format!("{label}=\"")) && name(line) == name(&selectors[0]);
            assert!(exported.iter().any(has_label), "{shown}: no {label}");
        }
    }
}

#[track_caller]
fn expect_exported(selectors: &[String], exported: &[String]) {
    assert!(!selectors.is_empty());
    for selector in selectors {
        // A text may speak of a histogram as a whole.
        let is_named = |line: &&String| [name(line), &family(name(line))].contains(&name(selector));
        let samples: Vec<&String> = exported.iter().filter(is_named).collect();
        assert!(!samples.is_empty(), "{selector} is not exported");
        for (label, values) in matchers(selector) {
            for value in values.split('|') {
                let wanted = format!("{label}=\"{value}\"");
                assert!(samples.iter().any(|line| line.contains(&wanted)), "{selector}: no {wanted}");
            }
        }
    }
}

/// Returns the metrics of services with different flags, each with the flags that add metrics.
pub(crate) fn scrapes() -> [(&'static str, String); 8] {
    let store = servers::Server::start(Software::Redis);
    [
        ("", text(Server::start(&["--limit", "5/1d"]).admin_get("/metrics"))),
        ("--config", text(ByFile::start("file", POLICIES, &[]).server.admin_get("/metrics"))),
        ("--store", text(on_store(&store).server.admin_get("/metrics"))),
        ("--tokens", scrape_with_tokens()),
        ("--tls-cert", scrape_with_tls()),
        ("--import envoy-ratelimit", scrape_with_domains(&[])),
        ("--xds", scrape_over_xds()),
        ("--metric-aliases envoy-ratelimit", scrape_with_domains(&["--metric-aliases", "envoy-ratelimit"])),
    ]
}

/// Returns each series with its labels.
fn exported(server: &Server) -> Vec<String> {
    let text = text(server.admin_get("/metrics"));
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

/// Returns the metrics of a service with principals, one of which has sent a request.
fn scrape_with_tokens() -> String {
    let tokens = std::env::temp_dir().join(format!("tollgate-metrics-tokens-{}", std::process::id()));
    // printf %s tg_test | sha256sum
    let digest = "c1dc8d287249431ce1a2dd041861bd5ea00208850e9174f85d9327c49cfdea92";
    let line = format!(r#"{{"name": "test", "sha256": "{digest}", "scopes": ["check"]}}"#);
    fs::write(&tokens, line).expect("it can be written");
    let path = tokens.display().to_string();
    let server = Server::start(&["--limit", "5/1d", "--tokens", &path, "--metrics-listen", "127.0.0.1:0"]);
    let check =
        b"GET /v1/check?user=alice HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tg_test\r\n\r\n";
    assert_eq!(server.connect().ask(check).status, 200);
    let metrics = server.metrics.expect("metrics have a listener");
    fs::remove_file(&tokens).expect("it is there");
    text(Connection::open(metrics).ask(&crate::support::get("/metrics")))
}

/// The metrics of a service by files of envoyproxy/ratelimit.
fn scrape_with_domains(more: &[&str]) -> String {
    let folder = crate::support::folder::Folder::new();
    let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
    let below = format!("{{ key: path, value: /a, {limit} }}");
    folder.write(
        "shop.yaml",
        &format!("domain: shop\ndescriptors: [{{ key: user, descriptors: [{below}] }}]\n"),
    );
    let path = folder.root().to_str().expect("text");
    text(Server::start(&[&["--import", "envoy-ratelimit", path], more].concat()).admin_get("/metrics"))
}

/// The metrics of a service whose limits come over xDS, with the first ones.
fn scrape_over_xds() -> String {
    let ads = Ads::start();
    let url = format!("http://{}", ads.address);
    let server = Server::start(&["--import", "envoy-ratelimit", "--xds", &url]);
    ads.hear();
    ads.publish_valid("1", &[]);
    text(server.admin_get("/metrics"))
}

fn scrape_with_tls() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let Identity { certificate, key } = authority.server(folder.path(), "server");
    let files = [certificate, key].map(|path| path.display().to_string());
    let server = Server::start(&["--limit", "5/1d", "--tls-cert", &files[0], "--tls-key", &files[1]]);
    let (status, reply) = Client::new(&authority, None).get(server.admin, "/metrics").expect("metrics");
    assert_eq!(status, 200, "{reply}");
    reply.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

fn text(metrics: Reply) -> String {
    String::from_utf8(metrics.body).expect("metrics are text")
}

/// Returns the metrics in the rules, with their matchers.
fn expressions(rules: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in rules.match_indices("tollgate_") {
        let rest = &rules[start..];
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()));
        let name = &rest[..end.unwrap_or(rest.len())];
        let matchers = rest[name.len()..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
        found.push(matchers.map_or(name.to_owned(), |(matchers, _)| format!("{name}{{{matchers}}}")));
    }
    found
}

fn name(series: &str) -> &str {
    series.split(['{', '[']).next().unwrap_or(series)
}

/// Labels, and the values that match or do not.
fn matchers(selector: &str) -> Vec<(&str, &str)> {
    let inside = selector.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}')).unwrap_or_default();
    inside
        .split(',')
        .filter_map(|matcher| {
            let (label, value) = matcher.split_once(['=', '!'])?;
            Some((label.trim(), value.trim_matches(['=', '~', '"'])))
        })
        .collect()
}

/// Returns the name of a metric; all series of a histogram share it.
pub(crate) fn family(name: &str) -> String {
    let parts = ["_bucket", "_sum", "_count"];
    parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned()
}

/// A request for plain text was answered with OpenMetrics, which tools for the older format misread.
#[test]
fn serves_metrics_in_the_requested_format() {
    let server = Server::start(&["--limit", "5/1d@first_hit"]);
    server.get("/v1/check?user=alice");
    let ask = |accept: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        let reply = crate::support::Connection::open(server.admin).ask(request.as_bytes());
        let kind = reply.header("content-type").expect("a type").to_owned();
        (kind, String::from_utf8(reply.body).expect("text"))
    };
    let (kind, plain) = ask("text/plain");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    assert!(!plain.contains("# EOF") && !plain.contains("# UNIT"), "{plain}");
    // Each sample is of a kind that was said before, by its own name.
    let mut said = std::collections::BTreeMap::new();
    for line in plain.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(said.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().expect("a name");
            let histogram = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
            let is_said = said.contains_key(name)
                || histogram.is_some_and(|name| said.get(name).is_some_and(|kind| kind == "histogram"));
            assert!(is_said, "{line}");
        }
    }
    assert_eq!(said.get("tollgate_decisions_total").map(String::as_str), Some("counter"));
    assert_eq!(said.get("tollgate_build_info").map(String::as_str), Some("gauge"));
    assert!(
        plain.contains("\ntollgate_decisions_total{policy=\"default\",verdict=\"allowed\"} 1\n"),
        "{plain}"
    );
    for accept in ["*/*", "application/openmetrics-text; version=1.0.0, text/plain; q=0.5"] {
        let (kind, open) = ask(accept);
        assert!(kind.starts_with("application/openmetrics-text") && open.ends_with("# EOF\n"), "{accept}");
    }
}
