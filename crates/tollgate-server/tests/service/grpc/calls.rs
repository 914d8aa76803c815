//! Checks of descriptors.

use tonic::Code;

use crate::grpc_client::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::grpc_client::{
    OK, OVER_LIMIT, RateLimitRequest, RateLimitResponse, Wire, descriptor, request, start, statuses,
};
use crate::support::Server;
use crate::support::folder::Folder;

const POLICIES: &str = "
policies:
  - { name: users, match: { user: '*' }, key: [domain, user], quotas: [3/1d] }
  - { name: search, match: { path: /search }, key: global, quotas: [10/1h] }
  - { name: odd, match: { odd: '*' }, key: global, quotas: [5/7m] }
  - { name: none, match: { none: '*' }, exempt: true }
";

const USER: &[(&str, &str)] = &[("user", "alice")];
const SEARCH: &[(&str, &str)] = &[("path", "/search")];

fn with_policies(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::new();
    let file = folder.write("p.yaml", POLICIES);
    let server = start(&[&["--config", &file], more].concat());
    (folder, server)
}

async fn call(wire: &Wire, request: RateLimitRequest) -> RateLimitResponse {
    wire.call(request).await.expect("an answer")
}

#[tokio::test]
async fn every_descriptor_has_a_status_in_its_place() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    let all: &[&[(&str, &str)]] = &[SEARCH, USER, &[("odd", "1")], &[("none", "1")], &[("unknown", "1")]];
    let response = call(&wire, request(all)).await;
    assert_eq!(response.overall_code, OK);
    assert_eq!(statuses(&response), [(OK, 9), (OK, 2), (OK, 4), (OK, 0), (OK, 0)]);
    let limits: Vec<_> = response.statuses.iter().map(|status| status.current_limit.clone()).collect();
    let limits: Vec<_> =
        limits.iter().flatten().map(|it| (it.requests_per_unit, it.unit, &*it.name)).collect();
    const HOUR: i32 = 3;
    const DAY: i32 = 4;
    assert_eq!(limits, [(10, HOUR, "search"), (3, DAY, "users"), (5, 0, "odd")]);
    let resets = response.statuses.iter().map(|status| status.duration_until_reset.map(|it| it.seconds));
    let resets: Vec<_> = resets.collect();
    assert!(resets[0].is_some_and(|seconds| (1..=3_600).contains(&seconds)), "{resets:?}");
    assert!(resets[1].is_some_and(|seconds| (1..=86_400).contains(&seconds)), "{resets:?}");
    assert_eq!(resets[3..], [None, None]);
}

/// With the manual's first example, a client that changed its address within its network had the whole limit again.
#[tokio::test]
async fn the_first_example_of_the_manual_counts_an_ipv6_client_by_its_network() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grpc.md"));
    let page = page.expect("the page is there");
    let policies = page.split("```").find(|block| block.starts_with("yaml\n# limits.yaml\n"));
    let folder = Folder::new();
    // No window ends during the test.
    let policies = policies.expect("the example is there").trim_start_matches("yaml").replace("/1m]", "/1d]");
    let server = start(&["--config", &folder.write("limits.yaml", &policies)]);
    let wire = Wire::open(&server).await;
    let ask = async |address: &str| {
        let asked = RateLimitRequest { hits_addend: 60, ..request(&[&[("remote_address", address)]]) };
        call(&wire, asked).await.overall_code
    };
    assert_eq!(ask("2001:db8::1").await, OK);
    assert_eq!(ask("2001:db8::ffff:2").await, OVER_LIMIT);
    assert_eq!([ask("2001:db8:0:1::1").await, ask("192.0.2.1").await], [OK; 2]);
}

#[tokio::test]
async fn a_request_that_one_descriptor_denies_takes_nothing_of_the_others() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    for left in [2, 1, 0] {
        let response = call(&wire, request(&[USER, SEARCH])).await;
        assert_eq!(statuses(&response)[0], (OK, left));
    }
    for _ in 0..3 {
        let response = call(&wire, request(&[USER, SEARCH])).await;
        assert_eq!(response.overall_code, OVER_LIMIT);
        assert_eq!(statuses(&response), [(OVER_LIMIT, 0), (OK, 7)]);
    }
    assert_eq!(statuses(&call(&wire, request(&[SEARCH])).await), [(OK, 6)]);
    // Another domain is another user.
    let other = RateLimitRequest { domain: "other".to_owned(), ..request(&[USER]) };
    assert_eq!(statuses(&call(&wire, other).await), [(OK, 2)]);
}

#[tokio::test]
async fn a_counter_of_two_descriptors_is_charged_for_both() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    assert_eq!(statuses(&call(&wire, request(&[USER, USER])).await)[1], (OK, 1));
    assert_eq!(call(&wire, request(&[USER, USER])).await.overall_code, OVER_LIMIT);
    assert_eq!(statuses(&call(&wire, request(&[USER])).await), [(OK, 0)]);
}

#[tokio::test]
async fn the_hits_of_a_descriptor_replace_those_of_the_request() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    let hits = |request_hits, descriptor_hits| {
        let mut request = request(&[SEARCH]);
        (request.hits_addend, request.descriptors[0].hits_addend) = (request_hits, descriptor_hits);
        request
    };
    assert_eq!(statuses(&call(&wire, hits(4, None)).await), [(OK, 6)]);
    assert_eq!(statuses(&call(&wire, hits(4, Some(2))).await), [(OK, 4)]);
    assert_eq!(statuses(&call(&wire, hits(4, Some(0))).await), [(OK, 4)], "0 only looks");
    assert_eq!(statuses(&call(&wire, hits(0, None)).await), [(OK, 3)], "0 is 1");
    assert_eq!(statuses(&call(&wire, hits(4, None)).await), [(OVER_LIMIT, 0)]);
    assert_eq!(statuses(&call(&wire, hits(3, None)).await), [(OK, 0)], "the denial took nothing");
    let status = wire.call(hits(0, Some(1 << 32))).await.expect_err("more than a cost can be");
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_descriptor_may_bring_its_limit_where_callers_may() {
    let limited = |requests_per_unit, unit| {
        let mut request = request(&[&[("plan", "free"), ("user", "bob")]]);
        request.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit, unit });
        request
    };
    const MONTH: i32 = 5;
    let (_folder, server) = with_policies(&["--caller-quotas"]);
    let wire = Wire::open(&server).await;
    assert_eq!(statuses(&call(&wire, limited(2, MONTH)).await), [(OK, 1)]);
    assert_eq!(statuses(&call(&wire, limited(2, MONTH)).await), [(OK, 0)]);
    let denied = call(&wire, limited(2, MONTH)).await;
    assert_eq!(statuses(&denied), [(OVER_LIMIT, 0)]);
    let limit = denied.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit), (2, MONTH));
    assert_eq!(
        statuses(&call(&wire, request(&[&[("user", "bob")]])).await),
        [(OK, 2)],
        "apart from policies"
    );
    for unit in [0, 8, -1] {
        let status = wire.call(limited(2, unit)).await.expect_err("no such unit");
        assert_eq!(status.code(), Code::InvalidArgument);
    }

    let (_folder, server) = with_policies(&[]);
    let status = Wire::open(&server).await.call(limited(2, MONTH)).await.expect_err("it may not");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("--caller-quotas"), "{status}");
}

#[tokio::test]
async fn errors_name_the_fault_of_a_request() {
    let server = start(&["--limit", "1000/1d"]);
    let wire = Wire::open(&server).await;
    let refused = async |request: RateLimitRequest, named: &str| {
        let status = wire.call(request).await.expect_err("it is wrong");
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(named), "{status}");
    };
    refused(RateLimitRequest { domain: String::new(), ..request(&[USER]) }, "has no domain").await;
    refused(request(&[]), "`descriptors`").await;
    refused(request(&[USER, &[]]), "`descriptors[1].entries`").await;
    refused(request(&[&[("", "x")]]), "`descriptors[0].entries`").await;
    let many: Vec<(&str, &str)> = vec![("a", "x"); 65];
    refused(request(&[&many]), "more than 64 entries with one key").await;
    refused(request(&[&[("domain", "x")]]), "`domain` is given twice").await;
    let mut negative = request(&[USER]);
    negative.descriptors[0].is_negative_hits = true;
    refused(negative, "`descriptors[0].is_negative_hits`").await;
    let many = vec![descriptor(USER); 257];
    refused(RateLimitRequest { descriptors: many, ..request(&[]) }, "257 descriptors").await;
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
    assert_eq!(server.metric(r#"tollgate_http_requests_rejected_total{status="400"}"#), Some(8.0));

    let descriptors = vec![descriptor(USER); 256];
    let response = call(&wire, RateLimitRequest { descriptors, ..request(&[]) }).await;
    assert_eq!((response.overall_code, response.statuses.len()), (OK, 256));
}

/// A client that sent a long path was an error, and Envoy admits what is one.
#[tokio::test]
async fn long_values_are_counted() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: search, match: { path: '/search/*' }, key: [path], quotas: [2/1d] }
  - { name: suffix, match: { tail: '*.png' }, key: [tail], quotas: [2/1d] }
unmatched: allow
";
    let file = folder.write("p.yaml", policies);
    let server = start(&["--config", &file]);
    let wire = Wire::open(&server).await;
    let long = "x".repeat(60_000);
    let ask = async |key: &str, value: &str| {
        let response = call(&wire, request(&[&[(key, value)]])).await;
        (response.overall_code, response.statuses[0].limit_remaining)
    };
    let path = format!("/search/{long}");
    assert_eq!([ask("path", &path).await, ask("path", &path).await], [(OK, 1), (OK, 0)]);
    // Another spelling of the same path, and another path.
    assert_eq!(ask("path", &format!("//search/./{long}")).await, (OVER_LIMIT, 0));
    assert_eq!(ask("path", &format!("/search/y{long}")).await, (OK, 1));
    let tail = format!("{long}.png");
    assert_eq!([ask("tail", &tail).await, ask("tail", &tail).await], [(OK, 1), (OK, 0)]);
    assert_eq!(ask("tail", &tail).await, (OVER_LIMIT, 0));
    // Over HTTP, the client itself is told.
    server
        .post("/v1/check", &serde_json::json!({ "attributes": { "tail": tail } }).to_string())
        .assert_problem(400, Some("attributes.tail"));
}

/// A client that sent an empty header was an error, and Envoy admits what is one.
#[tokio::test]
async fn empty_values_are_counted() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: login, match: { generic_key: login }, key: global, quotas: [2/1d] }
  - { name: users, match: { user: '*' }, key: [domain, user], quotas: [1/1d] }
  - { name: either, match: { token: '*' }, key: { first_of: [token, remote] }, quotas: [1/1d] }
";
    let server = start(&["--config", &folder.write("p.yaml", policies)]);
    let wire = Wire::open(&server).await;
    let ask = async |descriptors: &[&[(&str, &str)]]| call(&wire, request(descriptors)).await.overall_code;
    let login = async |user| ask(&[&[("generic_key", "login")], &[("user", user)]]).await;
    assert_eq!([login("").await, login("").await], [OK, OVER_LIMIT]);
    // sha256sum /dev/null
    let digest = "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(login(digest).await, OK, "a value of a client is no stand-in");
    assert_eq!(login("bob").await, OVER_LIMIT, "the calls with empty values took units of the others");
    // Another identity is better than an empty one.
    let either = async |remote| ask(&[&[("token", ""), ("remote", remote)]]).await;
    assert_eq!([either("a").await, either("b").await, either("a").await], [OK, OK, OVER_LIMIT]);
    assert_eq!([either("").await, either("").await], [OK, OVER_LIMIT]);
}

/// A path that is exempt only once it is normalized may be served as another one.
#[tokio::test]
async fn both_readings_of_a_path_are_matched() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: all, key: global, quotas: [3/1d] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    let server = start(&["--config", &folder.write("p.yaml", policies)]);
    let wire = Wire::open(&server).await;
    for (path, left) in [("/api/..%2fhealthz", 2), ("/healthz", 0), ("/api/../healthz", 1)] {
        let path: &[(&str, &str)] = &[("path", path)];
        assert_eq!(statuses(&call(&wire, request(&[path])).await), [(OK, left)], "{path:?}");
    }
}

/// Two `generic_key` actions of Envoy make two entries with one key.
#[tokio::test]
async fn entries_with_one_key_are_a_list() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: both, match: { generic_key: b }, key: global, quotas: [3/1d] }
unmatched: allow
";
    let server = start(&["--config", &folder.write("p.yaml", policies)]);
    let wire = Wire::open(&server).await;
    let keys: &[(&str, &str)] = &[("generic_key", "a"), ("user", "x"), ("generic_key", "b")];
    assert_eq!(statuses(&call(&wire, request(&[keys])).await), [(OK, 2)]);
    assert_eq!(statuses(&call(&wire, request(&[&keys[..2]])).await), [(OK, 0)], "without a limit");
    assert_eq!(statuses(&call(&wire, request(&[&keys[2..]])).await), [(OK, 1)]);
}

/// Envoy lets such requests through, and nothing else reports it.
#[tokio::test]
async fn a_refused_call_is_logged_once_a_minute_without_values() {
    let server = start(&["--limit", "5/1d"]);
    let wire = Wire::open(&server).await;
    for _ in 0..3 {
        wire.call(request(&[&[("domain", "canary")]])).await.expect_err("it is wrong");
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    assert_eq!(log.matches("a call was refused").count(), 1, "{log}");
    assert!(log.contains("descriptors[0].entries") && log.contains("`domain` is given twice"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}

#[tokio::test]
async fn messages_may_be_compressed() {
    let server = start(&["--limit", "5/1d"]);
    let wire = Wire::open(&server).await;
    let response = wire.call_compressed(request(&[USER])).await.expect("an answer");
    assert_eq!(statuses(&response), [(OK, 4)]);
    let status = wire.call_with(request(&[USER]), &[("grpc-encoding", "zstd")]).await;
    let status = status.expect_err("nobody reads it");
    assert_eq!(status.code(), Code::Unimplemented);
    let known = status.metadata().get("grpc-accept-encoding").expect("it says what it reads");
    assert_eq!(known, "identity,gzip");
}

#[tokio::test]
async fn limit_headers_go_to_the_client_if_that_is_wanted() {
    let (_folder, server) = with_policies(&["--grpc-limit-headers"]);
    let wire = Wire::open(&server).await;
    let headers = async || {
        let response = call(&wire, request(&[SEARCH, USER])).await;
        let headers = response.response_headers_to_add.into_iter();
        headers.map(|header| (header.key, header.value)).collect::<Vec<_>>()
    };
    let allowed = headers().await;
    assert!(
        allowed.iter().any(|(name, value)| name == "ratelimit" && value.contains("\"users\";r=2;")),
        "{allowed:?}"
    );
    let _ = (headers().await, headers().await);
    let denied = headers().await;
    assert!(denied.iter().any(|(name, _)| name == "retry-after"), "{denied:?}");

    let (_folder, server) = with_policies(&[]);
    let response = call(&Wire::open(&server).await, request(&[USER])).await;
    assert_eq!(response.response_headers_to_add, []);
}

#[tokio::test]
async fn the_trials_that_would_have_denied_a_call_are_named_if_that_is_wanted() {
    let folder = Folder::new();
    let tried = "policies: [{ name: tried, match: { user: { present: true } }, key: [user], \
                 quotas: [1/1d@first_hit], mode: shadow }]";
    let file = folder.write("p.yaml", tried);
    for (flags, expected) in [(&["--trials-header"][..], Some("\"tried\"")), (&[], None)] {
        let server = start(&[&["--config", &file], flags].concat());
        let wire = Wire::open(&server).await;
        let first = call(&wire, request(&[USER])).await;
        assert_eq!(first.response_headers_to_add, []);
        // Two descriptors, and one header for both.
        let second = call(&wire, request(&[SEARCH, USER, &[("user", "bob")]])).await;
        let names: Vec<_> = second.response_headers_to_add.iter().map(|it| (&*it.key, &*it.value)).collect();
        let expected: Vec<_> = expected.into_iter().map(|value| ("tollgate-trials", value)).collect();
        assert_eq!(names, expected);
    }
}
