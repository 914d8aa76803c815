//! The live page of a service whose domains decide.

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Server, until};

const CONFIG: &str = "
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 3 } }
  - key: path
    value: /search
    descriptors:
      - { key: ip, rate_limit: { unit: minute, requests_per_unit: 1000 }, shadow_mode: true }
  - { key: tier, detailed_metric: true, rate_limit: { unlimited: true } }
";

/// Values of requests are not shown, because they may be secret.
#[test]
fn domains_are_shown_with_their_verdicts() {
    let folder = Folder::new();
    folder.write("shop.yaml", CONFIG);
    let root = folder.root().to_str().expect("a path of text").to_owned();
    let server = Server::start(&["--import", "envoy-ratelimit", &root]);
    let hit = |entries: Value| {
        let body = json!({ "domain": "shop", "descriptors": [{ "entries": entries }] });
        server.post("/json", &body.to_string());
    };
    for _ in 0..5 {
        hit(json!([{ "key": "user", "value": "alice" }]));
        hit(json!([{ "key": "tier", "value": "secret-tier" }]));
    }
    hit(json!([{ "key": "path", "value": "/search" }, { "key": "ip", "value": "192.0.2.7" }]));
    let mut live = Value::Null;
    until("all hits are shown", || {
        let reply = server.admin_get("/v1/live");
        if reply.status == 200 {
            live = reply.json();
        }
        live["totals"]["checks"] == 11
    });
    assert_eq!((&live["decided_by"], &live["policies"]), (&json!("domains"), &json!([])));
    assert_eq!((&live["totals"]["allowed"], &live["totals"]["denied"]), (&json!(9), &json!(2)));
    let domains = live["envoy"]["domains"].as_array().expect("domains");
    let [shop] = &domains[..] else { panic!("{live}") };
    assert_eq!((&shop["domain"], &shop["limits"]), (&json!("shop"), &json!(3)));
    assert_eq!((&shop["allowed"], &shop["denied"]), (&json!(9), &json!(2)));
    assert!(!live.to_string().contains("alice") && !live.to_string().contains("secret-tier"), "{live}");
    let series = server.admin_get("/v1/live/series?policy=shop").json();
    let denied = series["series"][0]["denied"].as_array().expect("points");
    assert_eq!(denied.iter().filter_map(Value::as_u64).sum::<u64>(), 2, "{series}");
}
