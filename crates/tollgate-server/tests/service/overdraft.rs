//! Costs that are known only after the work: charged whatever the verdict, or denied with a hint in the log.

use serde_json::json;

use crate::support::Server;
use crate::support::folder::Folder;

const POLICIES: &str = "
policies:
  - name: bytes
    match: { kind: bytes }
    key: [user]
    quotas: [1000/1d@first_hit]
    overdraft: true
  - name: strict
    match: { kind: strict }
    key: [user]
    quotas: [1000/1d@first_hit]
";

fn check(kind: &str, cost: u32) -> String {
    json!({ "attributes": { "kind": kind, "user": "hunter2" }, "cost": cost }).to_string()
}

#[test]
fn bytes_are_charged_until_the_budget_is_used_up() {
    let folder = Folder::new();
    let server = Server::start(&["--config", &folder.write("t.yaml", POLICIES)]);
    let settings = server.admin_get("/v1/policies").json()["policies"][0]["settings"].clone();
    assert_eq!((&settings["overdraft"], &settings["count_denied"]), (&json!(true), &json!(false)));
    let ask = |cost| server.post("/v1/check", &check("bytes", cost));
    for remaining in [600, 200, 0] {
        assert_eq!(ask(0).status, 200);
        assert_eq!(ask(400).json()["remaining"], remaining);
    }
    assert_eq!(ask(0).status, 429);
    // A denial is charged.
    let denied = ask(400);
    assert_eq!((denied.status, &denied.json()["used"]), (429, &json!(1_600)));
    assert_eq!(ask(0).json()["used"], 1_600);
}

/// A budget of bytes that is never used up looks healthy: its policy admits nearly everything, and no metric is wrong.
#[test]
fn a_cost_that_is_denied_although_units_are_left_is_logged_once_without_the_key() {
    let folder = Folder::new();
    let server = Server::start(&["--config", &folder.write("t.yaml", POLICIES)]);
    for cost in [400, 400, 400, 0, 400, 200, 1, 2] {
        let _ = server.post("/v1/check", &check("strict", cost));
    }
    for _ in 0..5 {
        let _ = server.post("/v1/check", &check("bytes", 400));
        let _ = server.post("/v1/peek", &check("strict", 2_000));
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    let hints: Vec<&str> = log.lines().filter(|line| line.contains("although units were left")).collect();
    let [hint] = hints.as_slice() else { panic!("one line: {log}") };
    assert!(hint.contains("strict") && hint.contains("1000/1d@first_hit"), "{hint}");
    assert!(hint.contains("docs/holds-and-refunds.md#overdraft"), "{hint}");
    assert!(!log.contains("hunter2"), "{log}");
}

/// The same for limits of Envoy's service, whose operator may never have seen a policy.
#[test]
fn an_imported_limit_that_denies_although_units_are_left_is_logged_by_its_keys() {
    const LIMITS: &str = "
domain: d
descriptors:
- { key: strict, rate_limit: { unit: year, requests_per_unit: 300 } }
- { key: bytes, rate_limit: { unit: year, requests_per_unit: 300, overdraft: true } }
";
    let folder = Folder::new();
    folder.write("limits.yaml", LIMITS);
    let root = folder.root().to_str().expect("a path in UTF-8").to_owned();
    let server = Server::start(&["--import", "envoy-ratelimit", &root]);
    let ask = |key: &str, cost: u32| {
        let entries = json!([{ "key": key, "value": "hunter2" }]);
        let descriptors = json!([{ "entries": entries, "hitsAddend": cost }]);
        server.post("/json", &json!({ "domain": "d", "descriptors": descriptors }).to_string()).status
    };
    assert_eq!(
        [ask("bytes", 0), ask("bytes", 400), ask("bytes", 0), ask("bytes", 400)],
        [200, 200, 429, 429]
    );
    assert_eq!(
        [ask("strict", 0), ask("strict", 400), ask("strict", 0), ask("strict", 400)],
        [200, 429, 200, 429]
    );
    server.signal("TERM");
    let (_, log) = server.wait();
    let hints: Vec<&str> = log.lines().filter(|line| line.contains("although units were left")).collect();
    let [hint] = hints.as_slice() else { panic!("one line: {log}") };
    assert!(hint.contains("domain=d descriptor=strict"), "{hint}");
    assert!(!log.contains("hunter2"), "{log}");
}

/// During an outage, a share of the limit denies costs for which the limit itself has room. The hint called that a quota
/// which is never used up.
#[test]
fn denials_by_a_share_leave_no_hint_about_units_that_are_left() {
    let folder = Folder::new();
    let limit = "{ key: k, rate_limit: { unit: year, requests_per_unit: 10 } }";
    folder.write("limits.yaml", &format!("domain: d\ndescriptors: [{limit}]\n"));
    let root = folder.root().to_str().expect("a path in UTF-8");
    let down = ["--store", "redis://127.0.0.1:1", "--on-store-failure", "local", "--local-share", "1/2"];
    let policies = Server::start(&[&["--limit", "10/1d@first_hit"][..], &down].concat());
    let denied = policies.post("/v1/check", r#"{"attributes": {"user": "alice"}, "cost": 6}"#);
    assert_eq!((denied.status, &denied.json()["reason"]), (429, &json!("cost_exceeds_share")));
    let domains = Server::start(&[&["--import", "envoy-ratelimit", root][..], &down].concat());
    let entries = json!([{ "key": "k", "value": "v" }]);
    let descriptors = json!([{ "entries": entries, "hitsAddend": 6 }]);
    let denied = domains.post("/json", &json!({ "domain": "d", "descriptors": descriptors }).to_string());
    assert_eq!(denied.status, 429);
    for server in [policies, domains] {
        server.signal("TERM");
        let (_, log) = server.wait();
        assert!(!log.contains("although units were left"), "{log}");
    }
}
