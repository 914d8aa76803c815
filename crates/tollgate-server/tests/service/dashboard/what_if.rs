//! What another quota would have done.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::Server;
use crate::support::folder::Folder;

// Windows that begin with a key's first request end at no midnight.
const POLICIES: &str = "
deny: { ip: 192.0.2.99 }
policies:
  - { name: staff, match: { user: root }, exempt: true }
  - { name: search, match: { path: /search }, key: [user], quotas: ['5/1d@first_hit'] }
  - { name: quiet, match: { path: /quiet }, key: [user], quotas: [5/1d], mode: shadow }
  - { name: old, match: { path: /old }, key: [user], quotas: [5/1d], mode: off }
  - { name: idle, match: { path: /idle }, key: [user], quotas: [5/1d] }
";

fn start(flags: &[&str]) -> Server {
    let folder = Folder::new();
    let config = folder.write("p.yaml", POLICIES);
    Server::start(&[&["--config", &config], flags].concat())
}

/// Asks as a client that comes again when it is told to.
fn ask(server: &Server, query: &str) -> Value {
    loop {
        let reply = server.admin_get(&format!("/v1/whatif?{query}"));
        match reply.status {
            200 => return reply.json(),
            503 => assert_eq!(reply.header("retry-after"), Some("1")),
            status => panic!("{status}: {}", reply.json()),
        }
    }
}

/// By the test's own ledger of what it has sent.
#[test]
fn the_curve_is_that_of_the_requests() {
    let server = start(&[]);
    let ledger = BTreeMap::from([("canary-a", 9_u64), ("canary-b", 4), ("canary-c", 1), ("canary-d", 4)]);
    let denied: u64 = ledger.values().map(|requests| requests.saturating_sub(5)).sum();
    for (user, requests) in &ledger {
        let body = json!({ "attributes": { "path": "/search", "user": user } }).to_string();
        (0..*requests).for_each(|_| drop(server.post("/v1/check", &body)));
        // None of these takes a unit.
        server.post("/v1/peek", &body);
        let free = json!({ "attributes": { "path": "/search", "user": user }, "cost": 0 });
        assert_eq!(server.post("/v1/check", &free.to_string()).json()["policy"], "search");
        server.post("/v1/check", r#"{"attributes": {"path": "/search", "user": "root"}}"#);
    }
    for (quota, basis) in [("3/1d@first_hit", "calculated"), ("3/1d~log", "replayed")] {
        let answer = ask(&server, &format!("policy=search&quota={quota}"));
        assert_eq!(
            (&answer["policy"], &answer["quota"], &answer["basis"]),
            (&json!("search"), &json!(quota), &json!(basis))
        );
        assert_eq!(answer["exact"], basis == "calculated", "{answer}");
        assert_eq!((&answer["requests"], &answer["keys"]), (&json!(18), &json!(4)));
        assert_eq!((&answer["denied_requests"], &answer["skipped"]), (&json!(denied), &json!(0)));
        assert!(answer.get("sampled").is_none() && answer["span_seconds"].as_f64() >= Some(0.0));
        assert_eq!(answer["candidate"], format!("candidate: [{quota}]"));
        let curve = answer["curve"].as_array().expect("points");
        assert!(curve.iter().any(|point| point["limit"] == 3), "{answer}");
        for point in curve {
            let limit = point["limit"].as_u64().expect("a limit");
            let refused: u64 = ledger.values().map(|requests| requests.saturating_sub(limit)).sum();
            let users = ledger.values().filter(|requests| **requests > limit).count();
            assert_eq!(
                (&point["refused_requests"], &point["refused_keys"]),
                (&json!(refused), &json!(users)),
                "{point}"
            );
            assert_eq!(point["share_requests"], json!(refused as f64 / 18.0));
            assert_eq!(point["share_keys"], json!(users as f64 / 4.0));
        }
        let kinds = answer["kinds"].as_array().expect("kinds");
        assert!(kinds.iter().any(|kind| kind["quota"] == "3/1d~burst"), "{answer}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
}

#[test]
fn what_has_no_sample_says_why() {
    let server = start(&[]);
    let idle = ask(&server, "policy=idle&quota=60/1m");
    assert_eq!((&idle["requests"], &idle["curve"], &idle["exact"]), (&json!(0), &json!([]), &json!(true)));
    assert!(idle.get("since").is_none() && idle.get("says").is_none(), "{idle}");
    let refused = |query: &str, status, field| {
        let reply = server.admin_get(&format!("/v1/whatif?{query}"));
        reply.assert_problem(status, field);
        reply.json()["detail"].as_str().expect("a sentence").to_owned()
    };
    assert!(refused("policy=unknown&quota=60/1m", 404, Some("query.policy")).contains("GET /v1/policies"));
    refused("policy=search", 400, Some("query.quota"));
    assert!(refused("policy=search&quota=60/1x", 400, Some("query.quota")).contains("column"));
    for (policy, word) in
        [("staff", "exempts"), ("deny", "denies"), ("quiet", "shadow mode"), ("old", "is off")]
    {
        let detail = refused(&format!("policy={policy}&quota=60/1m"), 409, Some("query.policy"));
        assert!(detail.contains(word), "{policy}: {detail}");
    }
    for (flag, word) in [("--talkers", "--talkers off"), ("--dashboard", "--dashboard off")] {
        let reply = start(&[flag, "off"]).admin_get("/v1/whatif?policy=search&quota=60/1m");
        assert_eq!(reply.status, 404);
        assert!(reply.json()["detail"].to_string().contains(word), "{}", reply.json());
    }
    let folder = Folder::new();
    folder.write(
        "shop.yaml",
        "domain: shop\ndescriptors:\n- { key: user, rate_limit: { unit: day, requests_per_unit: 2 } }\n",
    );
    let root = folder.root().to_str().expect("a path of text").to_owned();
    let reply =
        Server::start(&["--import", "envoy-ratelimit", &root]).admin_get("/v1/whatif?policy=shop&quota=5/1m");
    assert_eq!(reply.status, 404);
    assert!(reply.json()["detail"].to_string().contains("Envoy's limits decide"), "{}", reply.json());
}
