//! Quotas that are not fixed windows, as callers and administrators meet them.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Reply, Server, charged, tollgate};

const POLICIES: &str = r#"
policies:
  - { name: burst, match: { path: /burst }, key: [user], quotas: ["100/1m~burst:20"] }
  - { name: sliding, match: { path: /sliding }, key: [user], quotas: [20/1m~sliding], headers: draft-06 }
  - { name: log, match: { path: /log }, key: [user], quotas: ["20/1m~log"], headers: x-ratelimit }
  - { name: all, match: { path: /all }, key: [user], quotas: ["100/1m~burst:20", 20/1m~sliding, "20/1m~log", 20/1m] }
"#;

const KINDS: [(&str, &str); 3] = [("burst", "bucket"), ("sliding", "sliding"), ("log", "log")];

fn start() -> (Folder, Server) {
    let folder = Folder::new();
    let file = folder.write("kinds.yaml", POLICIES);
    let server = Server::start(&["--config", &file, "--test-clock"]);
    let now = server.admin_post("/v1/clock", r#"{"advance_ms": 0}"#).json()["now"].as_u64().expect("a time");
    // Sliding windows are those of the clock.
    advance(&server, 60_000 - now % 60_000);
    (folder, server)
}

fn advance(server: &Server, millis: u64) {
    let moved = server.admin_post("/v1/clock", &json!({ "advance_ms": millis }).to_string());
    assert_eq!(moved.status, 200);
}

fn body(path: &str, cost: u32) -> String {
    json!({ "attributes": { "user": "alice", "path": format!("/{path}") }, "cost": cost }).to_string()
}

fn body_of(path: &str) -> String {
    json!({ "attributes": { "user": "alice", "path": format!("/{path}") } }).to_string()
}

fn check(server: &Server, path: &str, cost: u32) -> Reply {
    server.post("/v1/check", &body(path, cost))
}

fn used(server: &Server, path: &str) -> Value {
    server
        .post(
            "/v1/peek",
            &json!({ "attributes": { "user": "alice", "path": format!("/{path}") } }).to_string(),
        )
        .json()["used"]
        .clone()
}

#[test]
fn answers_have_the_kind_and_no_window() {
    let (_folder, server) = start();
    // One unit of each bucket comes back in 600 ms; of the others, all leave together or in the next minute.
    for ((name, algorithm), [next, reset, retry]) in
        KINDS.into_iter().zip([[600, 9_000, 600], [64_000, 120_000, 64_000], [60_000, 60_000, 60_000]])
    {
        let allowed = check(&server, name, 15).json();
        // The burst is no part of the counter's identity, and was missing.
        let written = if name == "burst" { "100/1m~burst:20".to_owned() } else { format!("20/1m~{name}") };
        assert_eq!(allowed["quota"], written.as_str());
        assert_eq!(
            [&allowed["algorithm"], &allowed["limit"], &allowed["used"], &allowed["window"]],
            [&json!(algorithm), &json!(20), &json!(15), &Value::Null],
            "{allowed}"
        );
        assert_eq!([&allowed["next_after_ms"], &allowed["reset_after_ms"]], [&json!(next), &json!(reset)]);
        assert!(allowed["mark"].is_u64() && allowed["retry_after_ms"].is_null(), "{allowed}");
        // Five are left, and six are asked for.
        let denied = check(&server, name, 6);
        let problem = denied.json();
        assert_eq!((denied.status, &problem["retry_after_ms"]), (429, &json!(retry)), "{problem}");
        assert_eq!(denied.header("retry-after"), Some(&*(retry as u64).div_ceil(1_000).to_string()));
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains("; enough is free in ") && !detail.contains("window"), "{detail}");
        assert_eq!(used(&server, name), json!(15));
        let never = check(&server, name, 21).json();
        assert_eq!(never["reason"], "cost_exceeds_limit", "{never}");
        assert!(never["retry_after_ms"].is_null(), "{never}");
    }
}

#[test]
fn headers_say_when_more_is_there() {
    let (_folder, server) = start();
    let burst = check(&server, "burst", 3);
    assert_eq!(burst.header("ratelimit-policy"), Some(r#""burst";q=100;w=60;tollgate-burst=20"#));
    assert_eq!(burst.header("ratelimit"), Some(r#""burst";r=17;t=1"#));
    let sliding = check(&server, "sliding", 20);
    assert_eq!(sliding.header("ratelimit-policy"), Some("20;w=60"));
    assert_eq!(
        (sliding.header("ratelimit-remaining"), sliding.header("ratelimit-reset")),
        (Some("0"), Some("63"))
    );
    let log = check(&server, "log", 20);
    assert_eq!(log.header("x-ratelimit-limit"), Some("20"));
    let reset: i64 = log.header("x-ratelimit-reset").and_then(|it| it.parse().ok()).expect("a time");
    assert_eq!(reset, log.json()["mark"].as_i64().expect("a time") / 1_000 + 60);
    let all = check(&server, "all", 1);
    assert_eq!(
        all.header("ratelimit-policy"),
        Some(
            "\"all/100/1m~burst:20\";q=100;w=60;tollgate-burst=20, \"all/20/1m~sliding\";q=20;w=60, \
             \"all/20/1m~log\";q=20;w=60, \"all/20/1m\";q=20;w=60"
        )
    );
}

#[test]
fn administrators_give_back_by_mark() {
    let (_folder, server) = start();
    let decision = check(&server, "all", 3).json();
    advance(&server, 600);
    let refund = |windows: &[Value]| {
        let attributes = json!({ "user": "alice", "path": "/all" });
        let body = json!({ "attributes": attributes, "cost": 3, "version": 1, "windows": windows });
        server.admin_post("/v1/refund", &body.to_string())
    };
    let named = charged(&decision);
    for (index, field) in [(0, "mark"), (1, "mark"), (2, "mark"), (3, "start")] {
        let other = if field == "mark" { "start" } else { "mark" };
        let mut wrong = named.clone();
        wrong[index][other] = wrong[index][field].take();
        wrong[index].as_object_mut().expect("an object").remove(field);
        refund(&wrong).assert_problem(400, Some(&format!("windows[{index}].{other}")));
        let mut missing = named.clone();
        missing[index].as_object_mut().expect("an object").remove(field);
        refund(&missing).assert_problem(400, Some(&format!("windows[{index}].{field}")));
    }
    let mut apart = named.clone();
    apart[1]["mark"] = json!(apart[1]["mark"].as_u64().expect("a time") + 1);
    refund(&apart).assert_problem(400, Some("windows[1].mark"));

    let refunded = refund(&named).json();
    let given = |reply: &Value| -> Vec<Value> {
        reply["quotas"].as_array().expect("quotas").iter().map(|it| it["given"].clone()).collect()
    };
    assert_eq!(given(&refunded), [2, 3, 3, 3], "one unit of the bucket has come back: {refunded}");
    assert_eq!(refunded["quotas"][0]["window"], "open");
    advance(&server, 120_000);
    let late = refund(&named).json();
    assert_eq!((given(&late), &late["quotas"][0]["window"]), (vec![json!(0); 4], &json!("closed")), "{late}");
}

#[test]
fn holds_settle_and_batches_count_each_kind() {
    let (_folder, server) = start();
    let settle = |name: &str, cost: u32| {
        let hold = server.post("/v1/reserve", &body(name, 10)).json()["hold"].clone();
        server.post("/v1/settle", &json!({ "hold": hold, "cost": cost }).to_string()).json()["quotas"][0]
            .clone()
    };
    for (name, _) in KINDS {
        let settled = settle(name, 4);
        assert_eq!((&settled["given"], used(&server, name)), (&json!(6), json!(4)), "{settled}");
        assert_eq!((&settle(name, 13)["charged"], used(&server, name)), (&json!(3), json!(17)));
        assert_eq!(server.admin_post("/v1/reset", &body_of(name)).status, 200);
        assert_eq!((&settle(name, 0)["given"], used(&server, name)), (&json!(10), json!(0)));

        let ask = json!({ "attributes": { "user": "alice", "path": format!("/{name}") }, "cost": 8 });
        let batch =
            server.post("/v1/check/batch", &json!({ "requests": [ask, ask, ask] }).to_string()).json();
        let decisions = batch["decisions"].as_array().expect("decisions");
        let allowed = decisions.iter().filter(|decision| decision["allowed"] == true).count();
        assert_eq!((allowed, used(&server, name)), (2, json!(16)), "{batch}");
        let set = json!({ "attributes": { "user": "alice", "path": format!("/{name}") }, "used": 19 });
        assert_eq!(server.admin_post("/v1/set", &set.to_string()).json()["quotas"][0]["used"], 19);
        assert_eq!((check(&server, name, 1).status, check(&server, name, 1).status), (200, 429));
    }
}

/// Answers to changes named neither the kind nor the charge, so nobody could give a record back.
#[test]
fn records_say_how_to_give_them_back() {
    let (_folder, server) = start();
    for (name, algorithm) in KINDS {
        let attributes = json!({ "user": "alice", "path": format!("/{name}") });
        let record = json!({ "attributes": attributes, "cost": 3 });
        let counts = server.admin_post("/v1/record", &record.to_string()).json();
        let recorded = &counts["quotas"][0];
        assert_eq!(
            [&recorded["algorithm"], &recorded["used"], &recorded["window"]],
            [&json!(algorithm), &json!(3), &Value::Null],
            "{counts}"
        );
        let charge = json!({ "policy": name, "quota": recorded["quota"], "mark": recorded["mark"] });
        let refund = json!({ "attributes": attributes, "cost": 3, "version": 1, "windows": [charge] });
        let refunded = server.admin_post("/v1/refund", &refund.to_string()).json();
        assert_eq!(
            (&refunded["quotas"][0]["given"], used(&server, name)),
            (&json!(3), json!(0)),
            "{refunded}"
        );
    }
}

#[test]
fn an_explanation_has_the_bound() {
    let folder = Folder::new();
    let file = folder.write("kinds.yaml", POLICIES);
    let explain = |more: &[&str]| {
        let arguments = ["explain", &file, "path=/all", "user=alice", "--at", "2026-11-21T16:00:00Z"];
        let output = tollgate().args(arguments).args(more).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let expected = "all (line 6) counts user=alice
  takes 1 of 100/1m~burst:20; at most 119 in any minute, 20 at once
  takes 1 of 20/1m~sliding; at most 39 in any minute, 20 at once
  takes 1 of 20/1m~log; at most 20 in any minute
  takes 1 of 20/1m, from 2026-11-21T16:00:00Z to 2026-11-21T16:01:00Z; at most 40 in any minute
";
    let said = explain(&[]);
    assert!(said.contains(expected), "{said}");
    let report: Value = serde_json::from_str(&explain(&["--json"])).expect("JSON");
    let charges = report["policies"][3]["charges"].clone();
    assert_eq!(
        charges[0],
        json!({ "quota": "100/1m~burst:20", "limit": 20, "cost": 1, "most_in_any_window": 119 })
    );
    assert!(charges[3]["window"]["end"].is_u64(), "{charges}");
}
