//! Decisions by the configuration of envoyproxy/ratelimit.

use prost_types::value::Kind;
use tonic::Code;

use crate::grpc_client::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::grpc_client::{OK, OVER_LIMIT, RateLimitRequest, Wire, request, statuses};
use crate::support::folder::Folder;
use crate::support::{Server, tollgate};

/// The domain is the one of `request`.
const CONFIG: &str = "
domain: shop
descriptors:
- key: user
  rate_limit: { unit: year, requests_per_unit: 3, name: each-user }
  metadata: { tier: [1, free, true, ~, { deep: 0.5 }] }
- key: tokens
  quota_mode: true
  rate_limit: { unit: year, requests_per_unit: 10 }
";

const USER: &[(&str, &str)] = &[("user", "alice")];
const TOKENS: &[(&str, &str)] = &[("tokens", "")];

fn with_config(variables: &[(&str, &str)]) -> (Folder, Server) {
    let folder = Folder::new();
    let server = start(&folder, variables, &[]);
    (folder, server)
}

fn start(folder: &Folder, variables: &[(&str, &str)], more: &[&str]) -> Server {
    folder.write("config.yaml", CONFIG);
    let mut command = tollgate();
    command.envs(variables.iter().copied());
    let root = folder.root().to_str().expect("a path in UTF-8").to_owned();
    let arguments = ["--grpc", "127.0.0.1:0", "--import", "envoy-ratelimit", &root];
    Server::start_by(command, &[&arguments[..], more].concat())
}

/// A token and the line of its principal.
fn new_token(name: &str, more: &[&str]) -> (String, String) {
    let output =
        tollgate().args(["token", "new", "--json", "--name", name, "--scope", "check"]).args(more).output();
    let printed: serde_json::Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    let text = |field: &str| printed[field].as_str().expect("a text").to_owned();
    (text("token"), text("line"))
}

/// Domains are no policies, so whoever may use one policy alone may use none of them.
#[tokio::test]
async fn callers_with_some_policies_have_no_domains() {
    let folder = Folder::new();
    let ((all, all_line), (one, one_line)) = (new_token("all", &[]), new_token("one", &["--policy", "shop"]));
    let tokens = folder.write("tokens.jsonl", &format!("{all_line}\n{one_line}\n"));
    let server = start(&folder, &[], &["--tokens", &tokens]);
    let wire = Wire::open(&server).await;
    let code = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let answer = wire.call_with(request(&[USER]), &[("authorization", &bearer)]).await;
        answer.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    assert_eq!((code(&all).await, code(&one).await), (Code::Ok, Code::PermissionDenied));
}

#[tokio::test]
async fn the_imported_configuration_decides() {
    let (_folder, server) = with_config(&[]);
    let wire = Wire::open(&server).await;
    for left in [2, 1, 0] {
        let response = wire.call(request(&[USER, TOKENS])).await.expect("an answer");
        assert_eq!((response.overall_code, statuses(&response)[0]), (OK, (OK, left)));
        assert!(response.response_headers_to_add.is_empty() && response.dynamic_metadata.is_none());
    }
    let denied = wire.call(request(&[TOKENS, USER])).await.expect("an answer");
    assert_eq!(denied.overall_code, OVER_LIMIT);
    assert_eq!(statuses(&denied), [(OK, 7), (OVER_LIMIT, 0)]);
    const YEAR: i32 = 6;
    let limit = denied.statuses[1].current_limit.clone().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (3, YEAR, "each-user"));
    let reset = denied.statuses[1].duration_until_reset.expect("a time").seconds;
    assert!((1..=31_536_000).contains(&reset), "{reset}");
    // Over HTTP, it is the same limiter.
    let body = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}"#;
    assert_eq!(server.post("/json", body).status, 429);
}

#[tokio::test]
async fn limits_units_and_refunds_of_descriptors_are_taken() {
    let folder = Folder::new();
    let server = start(&folder, &[], &["--caller-quotas"]);
    let wire = Wire::open(&server).await;
    let asked = |change: fn(&mut RateLimitRequest)| {
        let mut asked = request(&[TOKENS]);
        change(&mut asked);
        asked
    };
    let call = async |asked: RateLimitRequest| {
        let response = wire.call(asked).await.expect("an answer");
        statuses(&response)[0]
    };
    assert_eq!(call(asked(|it| it.hits_addend = 4)).await, (OK, 6));
    assert_eq!(call(asked(|it| it.descriptors[0].hits_addend = Some(0))).await, (OK, 6));
    assert_eq!(call(asked(|it| it.descriptors[0].hits_addend = Some(7))).await, (OVER_LIMIT, 0));
    let back = |it: &mut RateLimitRequest| {
        it.descriptors[0].hits_addend = Some(3);
        it.descriptors[0].is_negative_hits = true;
    };
    assert_eq!(call(asked(back)).await, (OK, 9));
    let limit = |it: &mut RateLimitRequest| {
        it.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 4 });
    };
    assert_eq!(call(asked(limit)).await, (OK, 1));
    let wrong =
        asked(|it| it.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 9 }));
    let error = wire.call(wrong).await.expect_err("no answer");
    let message = "`descriptors[0].limit`: the limit of descriptor 1 has the unknown unit 9";
    assert_eq!((error.code(), error.message()), (Code::InvalidArgument, message));
    for (wrong, message) in [
        (
            RateLimitRequest { domain: String::new(), ..request(&[USER]) },
            "`domain`: the request has no domain",
        ),
        (request(&[]), "`descriptors`: the request has no descriptors"),
    ] {
        let error = wire.call(wrong).await.expect_err("no answer");
        assert_eq!((error.code(), error.message()), (Code::InvalidArgument, message));
    }
}

/// With policies, limits of callers need the flag; so they do here, over both protocols.
#[tokio::test]
async fn limits_of_descriptors_need_the_flag() {
    let (_folder, server) = with_config(&[]);
    let mut limited = request(&[USER, TOKENS]);
    limited.descriptors[1].limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 4 });
    let status = Wire::open(&server).await.call(limited).await.expect_err("it may not");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("`descriptors[1].limit`"), "{status}");
    let body = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}],
        "limit": {"requestsPerUnit": 2, "unit": "DAY"}}]}"#;
    let reply = server.post("/json", body);
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!((reply.status, text.contains("--caller-quotas")), (400, true), "{text}");
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
}

/// A client could send a header so long that the call was refused, and Envoy admits what is refused.
#[tokio::test]
async fn one_long_header_in_two_descriptors_is_counted() {
    let (_folder, server) = with_config(&[]);
    let long = "x".repeat(60 * 1024);
    let both = || request(&[&[("user", &long)], &[("agent", &long)]]);
    let wire = Wire::open(&server).await;
    for left in [2, 1, 0] {
        assert_eq!(statuses(&wire.call(both()).await.expect("an answer"))[0], (OK, left));
    }
    assert_eq!(wire.call(both()).await.expect("an answer").overall_code, OVER_LIMIT);
}

/// Clients choose headers, and Envoy copies an empty one.
#[tokio::test]
async fn empty_values_are_counted() {
    let (_folder, server) = with_config(&[]);
    let wire = Wire::open(&server).await;
    let call = async |user| {
        let response = wire.call(request(&[TOKENS, &[("user", user)]])).await.expect("an answer");
        (response.overall_code, statuses(&response)[1].1)
    };
    assert_eq!([call("").await, call("").await, call("").await], [(OK, 2), (OK, 1), (OK, 0)]);
    assert_eq!(call("").await, (OVER_LIMIT, 0));
    assert_eq!(call("alice").await, (OK, 2));
}

/// Neither was in any metric.
#[tokio::test]
async fn a_full_memory_and_files_that_cannot_be_used_are_told() {
    let folder = Folder::new();
    let server = start(&folder, &[], &["--max-counters", "1"]);
    let wire = Wire::open(&server).await;
    for user in 0..50 {
        let _ = wire.call(request(&[&[("user", &user.to_string())]])).await;
    }
    assert!(server.metric("tollgate_store_full_total").is_some_and(|full| full > 0.0));
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(1.0));
    folder.write("config.yaml", "domain: shop\ndescriptors: [{ ky: user }]\n");
    let reply = server.admin_post("/v1/policies/reload", "{}");
    assert_eq!(reply.status, 422);
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(0.0));
}

/// The check was told as one that the store counted, because its first limit was.
#[tokio::test]
async fn a_check_of_which_a_limit_found_no_room_is_told_as_uncounted() {
    let folder = Folder::new();
    let server = start(&folder, &[], &["--max-counters", "1", "--count-denied", "--when-full", "allow"]);
    let wire = Wire::open(&server).await;
    for user in 0..50 {
        wire.call(request(&[&[("user", &user.to_string())]])).await.expect("an answer");
    }
    let uncounted = || server.metric(r#"tollgate_checks_total{source="fallback_open"}"#).expect("a figure");
    let before = uncounted();
    wire.call(request(&[&[("user", "0")], &[("user", "new")]])).await.expect("an answer");
    assert_eq!(uncounted(), before + 1.0);
}

/// Its dashboards ask for these names and labels.
#[tokio::test]
async fn metrics_have_the_names_of_envoyproxy_ratelimit_if_that_is_wanted() {
    let folder = Folder::new();
    let server = start(&folder, &[("NEAR_LIMIT_RATIO", "0.5")], &["--metric-aliases", "envoy-ratelimit"]);
    let wire = Wire::open(&server).await;
    for _ in 0..3 {
        wire.call(request(&[USER])).await.expect("an answer");
    }
    let body = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}"#;
    assert_eq!(server.post("/json", body).status, 429);
    let elsewhere = RateLimitRequest { domain: "else-where".to_owned(), ..request(&[USER]) };
    wire.call(elsewhere).await.expect("an answer");
    wire.call(request(&[])).await.expect_err("no answer");
    let mut limited = request(&[USER]);
    limited.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 4 });
    wire.call(limited).await.expect_err("it may not");
    // Envoy's calls are counted, and no others.
    for _ in 0..2 {
        assert_eq!(server.get("/healthcheck").status, 200);
    }
    folder.write("config.yaml", "domain: shop\ndescriptors: [{ ky: user }]\n");
    assert_eq!(server.admin_post("/v1/policies/reload", "{}").status, 422);
    let labels = r#"{domain="shop",key1="user"}"#;
    for (series, figure) in [
        (&*format!("ratelimit_service_rate_limit_total_hits{labels}"), 4.0),
        (&format!("ratelimit_service_rate_limit_within_limit{labels}"), 3.0),
        (&format!("ratelimit_service_rate_limit_near_limit{labels}"), 2.0),
        (&format!("ratelimit_service_rate_limit_over_limit{labels}"), 1.0),
        (r#"ratelimit_service_rate_limit_total_hits{domain="shop",key1="tokens"}"#, 0.0),
        (r#"ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}"#, 7.0),
        (r#"ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"}"#, 5.0),
        (r#"ratelimit_service_should_rate_limit_error{err_type="service_error"}"#, 2.0),
        (r#"ratelimit_service_should_rate_limit_error{err_type="redis_error"}"#, 0.0),
        ("ratelimit_service_config_load_success", 1.0),
        // One of its rules for Prometheus is missing, so these names hold what would be labels.
        ("ratelimit_service_rate_limit_else_where_domain_not_found", 1.0),
        ("ratelimit_service_global_shadow_mode", 0.0),
        (r#"tollgate_domain_decisions_total{domain="shop",verdict="allowed"}"#, 3.0),
        (r#"tollgate_domain_decisions_total{domain="shop",verdict="denied"}"#, 1.0),
        ("tollgate_unknown_domain_checks_total", 1.0),
    ] {
        assert_eq!(server.metric(series), Some(figure), "{series}");
    }
    // The service itself may have looked at the file as well.
    assert!(server.metric("ratelimit_service_config_load_error").is_some_and(|count| count >= 1.0));
}

#[tokio::test]
async fn headers_and_dynamic_metadata_are_sent() {
    let variables = [("LIMIT_RESPONSE_HEADERS_ENABLED", "true"), ("RESPONSE_DYNAMIC_METADATA", "true")];
    let (_folder, server) = with_config(&variables);
    let wire = Wire::open(&server).await;
    let response = wire.call(request(&[USER])).await.expect("an answer");
    let headers: Vec<_> = response.response_headers_to_add.iter().map(|it| (&*it.key, &*it.value)).collect();
    assert_eq!(headers[..2], [("RateLimit-Limit", "3"), ("RateLimit-Remaining", "2")]);
    assert_eq!((headers.len(), headers[2].0), (3, "RateLimit-Reset"));
    let metadata = response.dynamic_metadata.expect("metadata").fields;
    assert_eq!(metadata["domain"].kind, Some(Kind::StringValue("shop".to_owned())));
    let Some(Kind::StructValue(own)) = &metadata["metadata"].kind else { panic!("{metadata:?}") };
    let Some(Kind::ListValue(list)) = &own.fields["tier"].kind else { panic!("{own:?}") };
    let kinds: Vec<_> = list.values.iter().map(|value| value.kind.clone().expect("a value")).collect();
    assert_eq!(kinds[0], Kind::NumberValue(1.0));
    assert_eq!(kinds[1], Kind::StringValue("free".to_owned()));
    assert_eq!(kinds[2..4], [Kind::BoolValue(true), Kind::NullValue(0)]);
    let Kind::StructValue(deep) = &kinds[4] else { panic!("{kinds:?}") };
    assert_eq!(deep.fields["deep"].kind, Some(Kind::NumberValue(0.5)));
}
