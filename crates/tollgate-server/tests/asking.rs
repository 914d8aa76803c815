//! What callers can ask with besides a plain check: records, limits of their own, receipts.
//!
//! Quotas are by the day from the first hit, so that no window ends while a test runs.

#![allow(clippy::expect_used, reason = "this is a test")]

mod support;

use serde_json::{Value, json};
use support::Server;

const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

/// A file of policies of this test.
fn policies(name: &str, text: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("asking-{name}.yaml"));
    std::fs::write(&file, text).expect("it can be written");
    file.to_str().expect("a path in UTF-8").to_owned()
}

/// The used units of each quota.
fn used(reply: &Value) -> Vec<u64> {
    reply["quotas"].as_array().expect("quotas").iter().filter_map(|quota| quota["used"].as_u64()).collect()
}

/// A caller with neither attribute was told to send the first, though the second would have done.
#[test]
fn all_attributes_that_would_do_are_named_if_none_is_there() {
    let text = "policies: [{ name: any, key: { first_of: [user, ip] }, quotas: [5/1d@first_hit] }]";
    let server = Server::start(&["--config", &policies("first-of", text)]);
    let refused = server.get("/v1/check?path=/search");
    refused.assert_problem(400, Some("query"));
    let detail = "policy `any`: no attribute says who is to be counted: none of [user, ip] is there";
    assert_eq!(refused.json()["detail"], detail);
    server.get("/v1/check?ip=").assert_problem(400, Some("query.ip"));
    assert_eq!(server.get("/v1/check?ip=192.0.2.7").status, 200);
}

#[test]
fn a_record_counts_without_asking_for_room() {
    let server = Server::start(&["--limit", "5/1d@first_hit,9/2d@first_hit", "--key", "user"]);
    let record = |body: &str| server.admin_post("/v1/record", body);
    assert_eq!(used(&record(ALICE).json()), [1, 1]);
    let recorded = record(r#"{"attributes": {"user": "alice"}, "cost": 6}"#).json();
    assert_eq!(used(&recorded), [7, 7]);
    assert_eq!(
        (&recorded["quotas"][0]["remaining"], &recorded["quotas"][1]["remaining"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(recorded["quotas"][0]["source"], Value::Null);
    assert_eq!(server.get("/v1/check?user=alice").status, 429);
    record(r#"{"attributes": {}}"#).assert_problem(400, Some("attributes.user"));
    server.post("/v1/record", ALICE).assert_problem(404, None);

    let batch = json!({ "requests": [
        { "attributes": { "user": "bob" }, "cost": 2 },
        { "attributes": {} },
        { "attributes": { "user": "bob" }, "cost": 0 },
    ] });
    let reply = server.admin_post("/v1/record/batch", &batch.to_string());
    let records = reply.json()["records"].clone();
    assert_eq!((reply.status, records.as_array().map(Vec::len)), (200, Some(3)));
    assert_eq!(used(&records[0]), [2, 2]);
    assert_eq!(
        (&records[1]["status"], &records[1]["field"]),
        (&json!(400), &json!("requests[1].attributes.user"))
    );
    assert_eq!(used(&records[2]), [2, 2]);
    server.admin_post("/v1/record/batch", r#"{"requests": []}"#).assert_problem(400, Some("requests"));
}

/// A request of several quotas could have all of them set or forgotten, and never one.
#[test]
fn one_quota_of_several_can_be_set_and_reset() {
    let text = "policies:\n  - { name: a, key: [user], quotas: [5/1d@first_hit, 9/2d@first_hit] }\n  \
                - { name: b, key: [user], quotas: [9/2d@first_hit] }\n";
    let server = Server::start(&["--config", &policies("one", text)]);
    let ask = |path: &str, more: Value| {
        let mut body = json!({ "attributes": { "user": "alice" } });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.admin_post(path, &body.to_string())
    };
    let stands = || used(&server.post("/v1/peek", ALICE).json());
    // Whatever the limit is by now: a counter does not depend on it.
    let set = ask("/v1/set", json!({ "used": 3, "policy": "a", "quota": "1000/2d@first_hit" }));
    assert_eq!((set.status, used(&set.json()), stands()), (200, vec![3], vec![0, 3, 0]));
    assert_eq!(used(&ask("/v1/set", json!({ "used": 4, "quota": "9/2d@first_hit" })).json()), [4, 4]);
    assert_eq!(stands(), [0, 4, 4]);
    assert_eq!(used(&ask("/v1/set", json!({ "used": 1, "policy": "a" })).json()), [1, 1]);
    assert_eq!(stands(), [1, 1, 4]);
    assert_eq!(used(&ask("/v1/reset", json!({ "policy": "b" })).json()), [0]);
    assert_eq!(stands(), [1, 1, 0]);
    for (more, field) in [
        (json!({ "used": 1, "policy": "c" }), "policy"),
        (json!({ "used": 1, "quota": "5/1d" }), "quota"),
        (json!({ "used": 1, "policy": "b", "quota": "5/1d@first_hit" }), "quota"),
    ] {
        ask("/v1/set", more).assert_problem(409, Some(field));
    }
    ask("/v1/set", json!({ "used": 1, "quota": "often" })).assert_problem(400, Some("quota"));
    assert_eq!(stands(), [1, 1, 0]);
    assert_eq!(ask("/v1/reset", json!({})).status, 200);
    assert_eq!(stands(), [0, 0, 0]);
}
