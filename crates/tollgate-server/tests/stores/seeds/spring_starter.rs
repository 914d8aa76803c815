//! The Spring Boot Redis rate limiter starter, whose applications ask the service: decisions, problem bodies, counters
//! and names of metrics.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::instant;
use tollgate_testkit::servers::published::{self, PublishedWindow};
use tollgate_testkit::servers::{self, Settings, Software};

use super::{example, keys, serve, url, written};
use crate::support::{Reply, Server};

const POLICIES: &str = "
policies:
  - { name: invoice-create, match: { name: invoice-create }, key: [key], quotas: [2/1m] }
  - { name: api, match: { name: api }, key: global, quotas: [5/1500ms], on_store_failure: closed }
  - { name: quiet, match: { name: quiet }, key: [key], quotas: [5/1h], headers: none }
  - { name: address, match: { name: invoice-create }, key: [ip], quotas: [9/1m], on_missing_key: skip }
";

fn start(store: &servers::Server, name: &str, more: &[&str]) -> Server {
    let (file, url) = (written(&format!("spring-{name}.yaml"), POLICIES), url(store));
    serve(&[], &[&["--config", &file, "--store", &url], more].concat())
}

/// Starts a server whose clock stands still.
fn redis() -> servers::Server {
    let redis = Settings::new(Software::Redis).steered_clock().start();
    redis.clock().set(instant("2026-03-15T12:00:25.001Z"));
    redis
}

const ALICE: &str = "/evaluate?key=user:alice&name=invoice-create&scope=USER";

fn told(reply: &Reply) -> [Option<&str>; 4] {
    ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]
        .map(|name| reply.header(name))
}

#[test]
fn decisions_have_the_starters_fields_and_denials_its_body() {
    let store = redis();
    let server = start(&store, "answers", &["--answers", "spring-starter"]);
    let allowed = |reply: &Reply, reset_after: u64| {
        let body = json!({
            "allowed": true,
            "remainingTime": 0,
            "retryAfter": null,
            "resetAfter": reset_after,
        });
        assert_eq!((reply.status, reply.json()), (200, body));
    };
    let first = server.get(ALICE);
    allowed(&first, 34_999);
    assert_eq!(told(&first), [None, Some("2"), Some("1"), Some("35")]);
    allowed(&server.get(ALICE), 34_999);
    let denied = server.get(ALICE);
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    // The starter says 34, and a client that waits as long is denied again.
    assert_eq!(told(&denied), [Some("35"), Some("2"), Some("0"), Some("35")]);
    let body = json!({
        "type": "about:blank",
        "title": "Rate limit exceeded",
        "status": 429,
        "detail": "Rate limit exceeded: invoice-create (limit=2, window=PT1M)",
        "timestamp": "2026-03-15T12:00:25.001Z",
        "limit": 2,
        "windowSeconds": 60,
        "name": "invoice-create",
        "retryAfterSeconds": 35,
        "allowed": false,
        "remainingTime": 34_999,
        "retryAfter": 34_999,
        "resetAfter": 34_999,
    });
    assert_eq!(denied.json(), body, "the key is a person, and is not told");
    allowed(&server.get("/evaluate?key=user:bob&name=invoice-create"), 34_999);

    // Everybody together, in a window that is no whole number of seconds: it began at 12:00:24.
    for _ in 0..5 {
        allowed(&server.get("/evaluate?key=any&name=api"), 499);
    }
    let denied = server.get("/evaluate?key=other&name=api").json();
    assert_eq!((&denied["windowSeconds"], &denied["retryAfterSeconds"]), (&json!(1.5), &json!(1)));
    assert_eq!(denied["detail"], "Rate limit exceeded: api (limit=5, window=PT1.5S)");
    // `ratelimiter.include-http-headers` is said by the policy.
    let quiet = server.get("/evaluate?key=any&name=quiet");
    assert_eq!((quiet.status, told(&quiet)), (200, [None; 4]));

    server.get("/evaluate?name=api").assert_problem(400, Some("query.key"));
    server.get("/evaluate?key=&name=api").assert_problem(400, Some("query.key"));
    server.post("/evaluate", "{}").assert_problem(405, None);
    // Our own paths are unchanged.
    let own = server.get("/v1/check?key=user:alice&name=invoice-create");
    assert_eq!((own.status, &own.json()["policy"]), (429, &json!("invoice-create")));
    assert!(own.header("ratelimit").is_some());
    let usual = start(&store, "usual", &[]);
    usual.get(ALICE).assert_problem(404, None);
}

/// The file of the example has a limit for each name, one of them disabled, and the starter's own keys.
#[test]
fn the_example_limits_by_the_names_of_annotations_beside_the_starter() {
    let store = redis();
    let file = example("spring-starter/tollgate.yaml");
    let arguments = ["--config", &file, "--answers", "spring-starter"];
    let server = serve(&[("REDIS_URL", &url(&store))], &arguments);
    let statuses = |query: &str, times: usize| -> Vec<u16> {
        (0..times).map(|_| server.get(&format!("/evaluate?{query}")).status).collect()
    };
    // It counts denials, and so does the service.
    let (mut application, minute) =
        (store.connection(), PublishedWindow::now(&store, Duration::from_secs(60)));
    assert_eq!(published::spring_starter(&mut application, "alice", minute), 1);
    assert_eq!(statuses("name=invoice-create&key=user:alice", 3), [200, 429, 429]);
    assert_eq!(published::spring_starter(&mut application, "alice", minute), 5);
    assert_eq!(statuses("name=invoice-create&key=user:bob", 1), [200]);

    let billing = statuses("name=billing&key=global:com.example.BillingService", 21);
    assert_eq!(billing, [vec![200; 20], vec![429]].concat());
    assert_eq!(statuses("name=status&key=global:com.example.BillingService%23status", 3), [200, 200, 200]);
    let unlimited = server.get("/evaluate?name=other&key=any").json();
    assert_eq!((&unlimited["allowed"], &unlimited["resetAfter"]), (&json!(true), &Value::Null));
    let counters = ["global:com.example.BillingService", "user:alice", "user:bob"];
    assert_eq!(keys(&store), counters.map(|key| format!("ratelimiter:{key}:1773576000000")));
}

#[test]
fn during_an_outage_times_are_null_or_requests_are_refused() {
    let store = redis();
    let server = start(&store, "trouble", &["--answers", "spring-starter"]);
    assert_eq!(server.get(ALICE).status, 200);
    store.kill();
    let open = server.get(ALICE);
    let body = open.json();
    assert_eq!((open.status, &body["allowed"]), (200, &json!(true)));
    assert_eq!((&body["remainingTime"], &body["retryAfter"]), (&Value::Null, &Value::Null));
    assert!(body["resetAfter"].as_u64().is_some_and(|wait| (1..=60_000).contains(&wait)), "{body}");
    let closed = server.get("/evaluate?key=any&name=api");
    closed.assert_problem(503, None);
    assert_eq!(closed.json()["type"], "urn:problem-type:tollgate:store-unavailable");
}

#[test]
fn exports_its_metrics_if_requested() {
    let store = redis();
    let server = start(&store, "aliases", &["--metric-aliases", "spring-starter"]);
    for _ in 0..3 {
        server.get("/v1/check?key=user:alice&name=invoice-create");
    }
    server.get("/v1/check?key=any&name=api");
    let requests = |name: &str, scope: &str, outcome: &str| {
        let labels = format!("name=\"{name}\",scope=\"{scope}\",outcome=\"{outcome}\"");
        server.metric(&format!("ratelimiter_requests_total{{{labels}}}"))
    };
    assert_eq!(requests("invoice-create", "USER", "allowed"), Some(2.0));
    assert_eq!(requests("invoice-create", "USER", "blocked"), Some(1.0));
    assert_eq!(requests("api", "GLOBAL", "allowed"), Some(1.0));
    assert_eq!(requests("address", "IP", "allowed"), Some(0.0));
    assert_eq!(server.metric("ratelimiter_evaluate_latency_seconds_count"), Some(4.0));
    assert_eq!(server.metric(r#"ratelimiter_evaluate_latency_seconds_bucket{le="+Inf"}"#), Some(4.0));

    store.kill();
    assert_eq!(server.get("/v1/check?key=any&name=api").status, 503);
    let errors =
        r#"ratelimiter_errors_total{name="api",scope="GLOBAL",exception="RateLimiterBackendException"}"#;
    assert_eq!(server.metric(errors), Some(1.0));
    // In addition to ours.
    assert_eq!(server.metric(r#"tollgate_failed_checks_total{policy="api"}"#), Some(1.0));

    let usual = Server::start(&["--limit", "5/1d"]);
    let text = String::from_utf8(usual.admin_get("/metrics").body).expect("metrics are text");
    assert!(text.contains("tollgate_decisions") && !text.contains("ratelimiter_"), "{text}");
}

#[test]
fn logs_variables_of_the_starter_without_effect() {
    let arguments = ["--limit", "5/1d", "--key", "key", "--answers", "spring-starter"];
    let mut command = crate::support::tollgate();
    command.env("RATELIMITER_FAILOPEN", "true");
    let server = Server::start_by(command, &arguments);
    assert_eq!(server.get("/actuator/health").json(), json!({ "status": "UP" }));
    let log = super::log(server);
    assert!(log.contains("variables of the starter that have no effect here: RATELIMITER_FAILOPEN"), "{log}");
}
