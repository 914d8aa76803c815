//! A request is seen and answered in one way: by the service, however it is asked, by `explain` and by the middleware.
//!
//! The middleware's servers play the same table in `crates/tollgate-tower/tests/middleware/axum/one_view.rs`.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tollgate::MemoryStore;
use tollgate_policy::{Config, PolicyLimiter};
use tollgate_testkit::block_on;
use tollgate_testkit::requests::{BESIDE, ExampleRequest, LIMITS, REQUESTS};
use tollgate_tower::key::Peer;
use tollgate_tower::{AttributeSources, Head, RateLimitLayer, Rule};
use tower_layer::Layer;
use tower_service::Service;

use crate::support::{Reply, Server, folder::Folder, quotas, tollgate};

/// The file with those in its folder, and its path.
fn limits() -> (Folder, String) {
    let folder = Folder::new();
    for (name, text) in BESIDE {
        folder.write(name, text);
    }
    let file = folder.write("limits.yaml", LIMITS);
    (folder, file)
}

fn attributes(asked: &ExampleRequest) -> Vec<(&str, &str)> {
    let own = [("method", asked.method), ("path", asked.path), ("ip", asked.ip)];
    own.into_iter().chain(asked.attributes.iter().copied()).collect()
}

fn body(asked: &ExampleRequest) -> String {
    let own = [("method", asked.method), ("path", asked.path), ("ip", asked.ip)];
    let mut attributes: Map<String, Value> =
        own.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    for (name, texts) in asked.values() {
        let value = if let [text] = texts.as_slice() { json!(text) } else { json!(texts) };
        attributes.insert(name.to_owned(), value);
    }
    json!({ "attributes": attributes }).to_string()
}

fn is_told_alike(asked: &ExampleRequest, reply: &Reply) {
    assert_eq!(reply.status, asked.status, "{asked:?}: {:?}", reply.json());
    let body = reply.json();
    let told: Vec<Value> =
        quotas(&body).iter().map(|it| json!([it["policy"], it["limit"], it["remaining"]])).collect();
    let expected: Vec<Value> = asked.quotas.iter().map(|it| json!([it.policy, it.limit, it.left])).collect();
    assert_eq!(told, expected, "{asked:?}");
}

#[test]
fn a_body_is_seen_as_every_server_sees_the_request() {
    let (_folder, file) = limits();
    let server = Server::start(&["--config", &file]);
    for asked in REQUESTS {
        is_told_alike(asked, &server.post("/v1/check", &body(asked)));
    }
}

#[test]
fn a_query_is_seen_as_every_server_sees_the_request() {
    let (_folder, file) = limits();
    let server = Server::start(&["--config", &file]);
    for asked in REQUESTS {
        let escaped = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pairs = attributes(asked).into_iter().map(|(name, value)| format!("{name}={}", escaped(value)));
        let query = format!("/v1/check?{}", pairs.collect::<Vec<_>>().join("&"));
        if asked.values().all(|(_, texts)| texts.len() == 1) {
            is_told_alike(asked, &server.get(&query));
        } else {
            // A query has no lists. By a body the counters stay those of the table.
            assert_eq!(server.get(&query).status, 400, "{asked:?}");
            is_told_alike(asked, &server.post("/v1/check", &body(asked)));
        }
    }
}

/// What a proxy can say of a request: its method, its target and its client, and no attribute of another name.
#[test]
fn headers_of_a_proxy_are_seen_as_every_server_sees_the_request() {
    let (_folder, file) = limits();
    let server = Server::start(&["--config", &file]);
    let mut described = 0;
    for asked in REQUESTS {
        let ExampleRequest { method, path, ip, attributes, .. } = asked;
        if !attributes.is_empty() {
            // The counters stay those of the table.
            is_told_alike(asked, &server.post("/v1/check", &body(asked)));
            continue;
        }
        described += 1;
        let request = format!(
            "GET /forward-auth HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Method: {method}\r\nX-Forwarded-Uri: \
             {path}?a=/b\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-For: {ip}\r\n\r\n"
        );
        is_told_alike(asked, &server.connect().ask(request.as_bytes()));
    }
    assert!(described > 20, "{described} requests");
}

#[test]
fn explain_sees_the_request_as_every_server_does() {
    let (_folder, file) = limits();
    for asked in REQUESTS {
        let pairs = attributes(asked).into_iter().map(|(name, value)| format!("{name}={value}"));
        let output = tollgate().args(["explain", "--json", &file]).args(pairs).output().expect("it runs");
        let explained: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let policies = explained["policies"].as_array().expect("a list");
        let charges = |policy: &Value| policy["charges"].as_array().cloned().unwrap_or_default();
        let told: Vec<Value> = policies
            .iter()
            .flat_map(|policy| {
                let told = |charge: &Value| json!([policy["policy"], charge["limit"], charge["cost"]]);
                charges(policy).iter().map(told).collect::<Vec<_>>()
            })
            .collect();
        let expected: Vec<Value> =
            asked.quotas.iter().map(|it| json!([it.policy, it.limit, it.cost])).collect();
        assert_eq!(told, expected, "{asked:?}: {explained}");
        let outcomes = match asked.status {
            400 => ["refuse"].as_slice(),
            401 => &["deny"],
            403 if asked.quotas.is_empty() => &["deny"],
            // What can never pass is denied without asking the store.
            _ if asked.quotas.iter().any(|quota| quota.cost > quota.limit) => &["deny"],
            _ => &["charge", "exempt"],
        };
        assert!(outcomes.iter().any(|outcome| explained["outcome"] == *outcome), "{asked:?}: {explained}");
    }
}

/// The command normalized a path before it sent it, so the service could not read it as it was given.
#[test]
fn the_command_sends_a_path_as_it_is_given() {
    let (_folder, file) = limits();
    let server = Server::start(&["--config", &file]);
    let arguments = ["path=/api/..%2flogin", "ip=192.0.2.1", "method=GET"];
    let output = tollgate()
        .args(["check", "--server", &format!("http://{}", server.public), "--json"])
        .args(arguments)
        .output()
        .expect("it runs");
    let checked: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(names(&json!(quotas(&checked))), ["login", "api"]);
}

/// A test holds of a list if it holds of one of its texts, whoever says it.
#[test]
fn service_explain_and_middleware_read_lists_and_booleans_alike() {
    const ROLES: &str = "
policies:
  - { name: admins, match: { roles: admin }, key: [ip], quotas: [9000/1d] }
  - { name: staff, match: { roles: { prefix: staff-, not: staff-0 } }, key: [ip], quotas: [9000/1d] }
  - { name: others, match: { roles: { not: admin } }, key: [ip], quotas: [9000/1d] }
  - { name: beta, match: { beta: true }, key: [ip], quotas: [9000/1d] }
";
    let folder = Folder::new();
    let file = folder.write("roles.yaml", ROLES);
    let server = Server::start(&["--config", &file]);
    let config = Config::parse("roles.yaml", ROLES).expect("it is valid");
    let limiter = PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "roles.yaml");
    for (roles, beta, policies) in [
        (&["admin", "staff-1"][..], true, &["admins", "staff", "beta"][..]),
        (&["staff-0", "staff-1"], false, &["others"]),
        (&["user"], true, &["others", "beta"]),
    ] {
        let body = json!({ "attributes": { "roles": roles, "beta": beta, "ip": "192.0.2.7" } }).to_string();
        assert_eq!(
            names(&json!(quotas(&server.post("/v1/check", &body).json()))),
            policies,
            "{roles:?}: the service"
        );

        let mut arguments: Vec<String> = roles.iter().map(|role| format!("roles={role}")).collect();
        arguments.extend([format!("beta={beta}"), "ip=192.0.2.7".to_owned()]);
        let output =
            tollgate().args(["explain", "--json", &file]).args(&arguments).output().expect("it runs");
        let explained: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let all = explained["policies"].as_array().expect("a list");
        let charged: Vec<&Value> = all.iter().filter(|policy| policy["charges"] != json!([])).collect();
        assert_eq!(names(&json!(charged)), policies, "{roles:?}: explain");
        let output = tollgate()
            .args(["check", "--server", &format!("http://{}", server.public), "--json"])
            .args(&arguments)
            .output()
            .expect("it runs");
        let checked: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(names(&json!(quotas(&checked))), policies, "{roles:?}: check");

        let mut request = http::Request::new(());
        request.extensions_mut().insert(Peer(std::net::SocketAddr::from(([192, 0, 2, 7], 1))));
        let sources = AttributeSources::new()
            .with_fn("roles", move |_| Some(roles.to_vec().into()))
            .with_fn("beta", move |_| Some(beta.to_string().into()));
        let decision =
            block_on(limiter.check(&sources.view(Head::from(&request)), 1)).expect("it is decided");
        let applied: Vec<&str> = decision.quotas().map(|standing| standing.policy.name()).collect();
        assert_eq!(applied, policies, "{roles:?}: the middleware");
    }
}

/// The same denial had other members and another type, depending on which of the two gave it.
#[test]
fn service_and_middleware_deny_with_the_same_body() {
    const LIMITS: &str = "
unmatched: deny
policies:
  - { name: both, match: { path: /both }, key: global, quotas: [1/1d, '0/1h@first_hit'], headers: none }
  - { name: one, match: { path: /one }, key: [ip], quotas: [0/1d], deny_status: 420 }
  - { name: user, match: { path: /user }, key: [user], quotas: [9/1d], on_missing_key: deny }
";
    let folder = Folder::new();
    let server = Server::start(&["--config", &folder.write("limits.yaml", LIMITS)]);
    let config = Config::parse("limits.yaml", LIMITS).expect("it is valid");
    let limiter = PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "limits.yaml");
    let rule = Rule::policies(&Arc::new(limiter), AttributeSources::new());
    let mut middleware = RateLimitLayer::builder(rule).build().expect("it is valid").layer(Handler);
    for (path, status) in [("/both", 429), ("/one", 420), ("/user", 429), ("/nowhere", 403)] {
        let body = json!({ "attributes": { "method": "GET", "path": path, "ip": "192.0.2.1" } }).to_string();
        let checked = server.post("/v1/check", &body);
        assert_eq!(checked.status, status, "{path}");
        let mut request = http::Request::get(path).body(()).expect("a request");
        request.extensions_mut().insert(Peer(([192, 0, 2, 1], 1).into()));
        let reply = block_on(middleware.call(request)).expect("it never fails");
        assert_eq!(reply.status().as_u16(), status, "{path}");
        let body = block_on(reply.into_body().collect()).expect("it is whole").to_bytes();
        let middleware_answer = serde_json::from_slice(&body).expect("it is JSON");

        // A layer has no version of its policies, and the times of two requests differ.
        let mut service_answer = checked.json();
        assert!(service_answer.as_object_mut().expect("an object").remove("version").is_some());
        assert_eq!(timeless(middleware_answer), timeless(service_answer), "{path}");
    }
}

/// Behind the middleware.
#[derive(Clone)]
struct Handler;

impl Service<http::Request<()>> for Handler {
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<()>) -> Self::Future {
        ready(Ok(http::Response::default()))
    }
}

/// The same with 0 for every member that is a time.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_time = name.ends_with("_ms") || name == "window";
                *member = if is_time { json!(0) } else { timeless(member.take()) };
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| *one = timeless(one.take())),
        _ => {}
    }
    value
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|one| one["policy"].as_str()).collect()
}
