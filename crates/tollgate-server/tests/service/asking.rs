//! Requests besides plain checks: records, and limits of callers.
//!
//! Windows are days that start at the first hit, so that none ends during a test.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};

use crate::support::{Server, quotas};

const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

/// Writes a file of policies for a test, and returns its path.
fn policies(name: &str, text: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("asking-{name}.yaml"));
    std::fs::write(&file, text).expect("it can be written");
    file.to_str().expect("a path in UTF-8").to_owned()
}

/// Returns the used units of each quota.
fn used(reply: &Value) -> Vec<u64> {
    quotas(reply).iter().filter_map(|quota| quota["used"].as_u64()).collect()
}

/// The error for a caller without both attributes named only the first, although the second is enough.
#[test]
fn names_every_choice_of_the_key_if_all_are_missing() {
    let text = "policies: [{ name: any, key: { first_of: [user, ip] }, quotas: [5/1d@first_hit] }]";
    let server = Server::start(&["--config", &policies("first-of", text)]);
    let refused = server.get("/v1/check?path=/search");
    refused.assert_problem(400, Some("query"));
    let detail = "policy `any`: the request has no key: none of [user, ip] is there";
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

/// Set and reset changed all quotas of a request, and could not select one.
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

/// A wrong policy was blamed on `quota`, and nobody learned which quotas there are.
#[test]
fn a_change_of_nothing_names_the_wrong_field_and_the_quotas_that_there_are() {
    let text = "policies:
  - { name: a, key: [user], quotas: [5/1d@first_hit] }
  - { name: fixed, key: global, cost: 2, quotas: [9/2d@first_hit] }
";
    let server = Server::start(&["--config", &policies("wrong", text)]);
    let assert_refused = |path: &str, mut body: Value, more: Value, field: &str| {
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let reply = server.admin_post(path, &body.to_string());
        reply.assert_problem(409, Some(field));
        let changed = "nothing was changed: there are 5/1d@first_hit of a, 9/2d@first_hit of fixed";
        assert_eq!(reply.json()["detail"], changed, "{more}");
    };
    for (path, used) in [("/v1/set", json!({ "used": 1 })), ("/v1/reset", json!({}))] {
        let mut body = json!({ "attributes": { "user": "alice" } });
        body.as_object_mut().expect("an object").extend(used.as_object().expect("an object").clone());
        assert_refused(path, body.clone(), json!({ "policy": "b" }), "policy");
        assert_refused(path, body.clone(), json!({ "quota": "5/3d" }), "quota");
        assert_refused(path, body, json!({ "policy": "a", "quota": "5/3d" }), "quota");
    }

    for (more, field) in [(json!({ "version": 1 }), "windows"), (json!({ "windows": [] }), "version")] {
        let mut body = json!({ "attributes": { "user": "alice" } });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.admin_post("/v1/refund", &body.to_string()).assert_problem(400, Some(field));
    }
}

/// A quota in another limiter's words was answered with an example, not with the reason, and a text instead of a list
/// with a word of Rust.
#[test]
fn wrong_limits_of_a_call_say_why() {
    let server = Server::start(&["--limit", "5/1d", "--key", "user", "--caller-quotas"]);
    for (quotas, field, detail) in [
        (
            json!(["10/1s gcra"]),
            "quotas[0]",
            "expected a quota such as 5/1m: write the kind of a quota after its window, ",
        ),
        (json!(["5/1y"]), "quotas[0]", "expected a quota such as 5/1m: unknown unit: "),
        (json!("5/1m"), "quotas", "expected a list"),
    ] {
        let body = json!({ "attributes": { "user": "alice" }, "quotas": quotas });
        let reply = server.post("/v1/check", &body.to_string());
        reply.assert_problem(400, Some(field));
        assert!(
            reply.json()["detail"].as_str().is_some_and(|said| said.starts_with(detail)),
            "{:?}",
            reply.json()
        );
    }
}

#[test]
fn limits_given_with_the_call_are_counted_apart() {
    let text = "policies: [{ name: api, key: [user], quotas: [5/1d@first_hit] }]";
    let server = Server::start(&["--config", &policies("caller", text), "--caller-quotas"]);
    let ask = |path: &str, policy: &str, quotas: &[&str]| {
        let body = json!({ "attributes": { "user": "alice" }, "policy": policy, "quotas": quotas });
        server.post(path, &body.to_string())
    };
    // The same name and windows as a policy of the file, and counters of their own.
    assert_eq!(server.get("/v1/check?user=alice").json()["used"], 1);
    let first = ask("/v1/check", "api", &["2/1d@first_hit"]);
    let body = first.json();
    assert_eq!((first.status, &body["policy"], &body["used"]), (200, &json!("api:caller"), &json!(1)));
    assert_eq!(first.header("ratelimit-policy"), Some(r#""api:caller";q=2;w=86400"#));
    assert_eq!(ask("/v1/peek", "api", &["2/1d@first_hit"]).json()["used"], 1);
    assert_eq!(ask("/v1/check", "api", &["2/1d@first_hit"]).status, 200);
    let denied = ask("/v1/check", "api", &["2/1d@first_hit"]);
    assert_eq!((denied.status, &denied.json()["violated-policies"]), (429, &json!(["api:caller"])));
    // Another limit goes on with the same counter, another name has its own.
    assert_eq!(ask("/v1/check", "api", &["9/1d@first_hit"]).json()["used"], 3);
    assert_eq!(used(&ask("/v1/check", "other", &["2/1d@first_hit", "7/2d@first_hit"]).json()), [1, 1]);
    assert_eq!(server.get("/v1/check?user=alice").json()["used"], 2);
    // What they come to is no figure of a policy.
    let allowed = r#"tollgate_decisions_total{policy="api",verdict="allowed"}"#;
    assert_eq!(
        (server.metric(allowed), server.metric(r#"tollgate_checks_total{source="store"}"#)),
        (Some(2.0), Some(7.0))
    );

    let nine: Vec<String> = (1..=9).map(|days| format!("5/{days}d")).collect();
    let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
    for (policy, quotas, field) in [
        ("a:b", &["5/1m"][..], "policy"),
        ("", &["5/1m"], "policy"),
        ("a", &[], "quotas"),
        ("a", &nine, "quotas"),
        ("a", &["5/1m", "6/1m"], "quotas"),
        ("a", &["5/1m", "often"], "quotas[1]"),
    ] {
        ask("/v1/check", policy, quotas).assert_problem(400, Some(field));
    }
    let half = |more: Value| server.post("/v1/check", &more.to_string());
    half(json!({ "attributes": { "user": "a" }, "policy": null })).assert_problem(400, Some("policy"));
    half(json!({ "attributes": { "user": "a" }, "receipt": true })).assert_problem(400, Some("receipt"));
    half(json!({ "attributes": { "user": "a" }, "policy": "a" })).assert_problem(400, Some("quotas"));
    half(json!({ "attributes": { "user": "a" }, "quotas": ["5/1m"] })).assert_problem(400, Some("policy"));
    half(json!({ "attributes": {}, "policy": "a", "quotas": ["5/1m"] }))
        .assert_problem(400, Some("attributes"));
    // A policy has its own setting, and only memory of the service could count locally.
    half(json!({ "attributes": { "user": "a" }, "on_store_failure": "closed" }))
        .assert_problem(400, Some("on_store_failure"));
    for setting in [json!("local"), json!(null), json!(true)] {
        let limits = json!({ "attributes": { "user": "a" }, "policy": "a", "quotas": ["5/1m"], "on_store_failure": setting });
        half(limits).assert_problem(400, Some("on_store_failure"));
    }

    let batch = json!({ "requests": [
        { "attributes": { "user": "bob" } },
        { "attributes": { "user": "bob" }, "policy": "x:y", "quotas": ["1/1d@first_hit"] },
        { "attributes": { "user": "bob" }, "policy": "x", "quotas": ["1/1d@first_hit"] },
        { "attributes": { "user": "bob" }, "policy": "x", "quotas": ["1/1d@first_hit"] },
        { "attributes": {} },
    ] });
    let decisions = server.post("/v1/check/batch", &batch.to_string()).json()["decisions"].clone();
    let told: Vec<(&Value, &Value)> =
        decisions.as_array().expect("decisions").iter().map(|one| (&one["allowed"], &one["field"])).collect();
    let (yes, no, nothing) = (&json!(true), &json!(false), &Value::Null);
    let (policy, user) = (&json!("requests[1].policy"), &json!("requests[4].attributes.user"));
    assert_eq!(told, [(yes, nothing), (nothing, policy), (yes, nothing), (no, nothing), (nothing, user)]);
}

#[test]
fn limits_given_with_the_call_need_the_flag() {
    let server = Server::start(&["--limit", "5/1d@first_hit"]);
    let body = r#"{"attributes": {"user": "alice"}, "policy": "a", "quotas": ["5/1m"]}"#;
    for path in ["/v1/check", "/v1/peek", "/v1/reserve"] {
        let refused = server.post(path, body);
        refused.assert_problem(400, Some("quotas"));
        assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("--caller-quotas")));
    }
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
    let output = crate::support::tollgate()
        .args(["serve", "--limit", "5/1m", "--key", "user", "--listen", "192.0.2.1:1", "--caller-quotas"])
        .args(["--store", "redis://127.0.0.1", "--store-layout", "user-rate-limit", "--count-denied"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2)
            && said.contains("`--caller-quotas` cannot be used with a key layout"),
        "{said}"
    );
}

/// A request with a misspelled name matched no policy and was silently admitted.
#[test]
fn unmatched_requests_are_denied_admitted_or_logged() {
    let text = |more: &str| {
        format!(
            "{more}policies:\n  - {{ name: api, match: {{ name: api }}, key: [user], quotas: [5/1d] }}\n  \
             - {{ name: tried, match: {{ name: tried }}, key: [user], quotas: [5/1d], mode: shadow }}\n  \
             - {{ name: skipped, match: {{ name: skip }}, key: [id], quotas: [5/1d], on_missing_key: skip }}\n  \
             - {{ name: health, match: {{ name: health }}, exempt: true }}\n"
        )
    };
    let statuses = |server: &Server| {
        ["api", "tried", "health", "apl", "skip"]
            .map(|name| server.get(&format!("/v1/check?user=a&name={name}")).status)
    };
    let warned = |server: Server| {
        server.signal("TERM");
        server.wait().1.matches("no policy matches a request").count()
    };
    let start = |name: &str, more: &str| Server::start(&["--config", &policies(name, &text(more))]);

    let server = start("unmatched-deny", "unmatched: deny\n");
    assert_eq!(statuses(&server), [200, 200, 200, 403, 403]);
    let denied = server.get("/v1/check?user=a&name=apl");
    let body = denied.json();
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!(
        (&body["allowed"], &body["ground"], &body["reason"]),
        (&json!(false), &json!("unmatched"), &json!("unmatched"))
    );
    assert_eq!(
        (body["type"].as_str(), denied.header("retry-after")),
        (Some("urn:problem-type:tollgate:unmatched"), None)
    );
    let batch =
        r#"{"requests": [{"attributes": {"user": "a"}}, {"attributes": {"user": "a", "name": "api"}}]}"#;
    let decisions = server.post("/v1/check/batch", batch).json()["decisions"].clone();
    assert_eq!((&decisions[0]["allowed"], &decisions[1]["allowed"]), (&json!(false), &json!(true)));
    assert_eq!(server.metric("tollgate_unmatched_denials_total"), Some(4.0));
    assert_eq!(server.admin_get("/v1/policies").json()["unmatched"], "deny");
    assert!(
        server.admin_get("/openapi.json").json()["paths"]["/v1/check"]["post"]["responses"]["403"]
            .is_object()
    );
    // What changes alone is live after a reload.
    std::fs::write(policies("unmatched-deny", ""), text("unmatched: allow\n")).expect("it can be written");
    let reloaded = server.admin_post("/v1/policies/reload", "");
    assert_eq!((reloaded.status, &reloaded.json()["replaced"]), (200, &json!(true)));
    assert_eq!(statuses(&server), [200; 5]);
    assert_eq!(warned(server), 0);

    let server = start("unmatched-shadow", "unmatched: deny\nmode: shadow\n");
    assert_eq!(statuses(&server), [200; 5]);
    assert_eq!(warned(server), 0);
    let server = start("unmatched-unsaid", "");
    assert_eq!(statuses(&server), [200; 5]);
    assert_eq!(warned(server), 1);
}

/// A list in shadow mode left no trace, so nobody saw whom it would deny.
#[test]
fn trial_denials_are_in_the_answer_the_metrics_and_the_log() {
    let text = "mode: shadow\ndeny: { user: [mallory] }\npolicies:\n  \
                - { name: api, key: [account], on_missing_key: deny, quotas: [1/1d] }\n";
    let server = Server::start(&["--config", &policies("would-deny", text)]);
    let trials = |query: &str| {
        let reply = server.get(&format!("/v1/check?{query}"));
        assert_eq!(reply.status, 200);
        reply.json()["trials"].clone()
    };
    let denies = |policy| json!({ "policy": policy, "kind": "shadow", "answer": "denied" });
    assert_eq!(trials("user=mallory"), json!([denies("deny"), denies("api")]));
    assert_eq!(trials("user=mallory"), json!([denies("deny"), denies("api")]));
    assert_eq!(trials("account=7")[0]["answer"], "allowed");
    assert_eq!(trials("account=7")[0]["used"], 1, "a quota on trial has figures");
    let denied = |policy: &str| {
        server.metric(&format!(r#"tollgate_trials_total{{policy="{policy}",kind="shadow",answer="denied"}}"#))
    };
    assert_eq!((denied("deny"), denied("api")), (Some(2.0), Some(3.0)));
    server.signal("TERM");
    let log = server.wait().1;
    let told: Vec<&str> = log.lines().filter(|line| line.contains("would have denied")).collect();
    // One line a minute for each policy, unless the clock has come to the next minute.
    assert!(matches!(told.len(), 2..=4), "{log}");
    assert!(["deny", "api"].iter().all(|name| told.iter().any(|line| line.contains(name))), "{log}");
    assert!(!log.contains("no policy matches"), "{log}");
}

/// Old clients read the old headers while new ones read the new headers.
#[test]
fn a_policy_sends_headers_in_several_formats() {
    let text = "policies:\n  \
                - { name: api, match: { name: api }, key: [user], quotas: [1/1d], headers: [github, draft-11] }\n  \
                - { name: old, match: { name: old }, key: [user], quotas: [1/1d], headers: envoy }\n";
    let server = Server::start(&["--config", &policies("formats", text)]);
    for (status, remaining, used) in [(200, "0", "1"), (429, "0", "1")] {
        let reply = server.get("/v1/check?user=a&name=api");
        assert_eq!((reply.status, reply.header("ratelimit-policy")), (status, Some("\"api\";q=1;w=86400")));
        let names =
            ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-used", "x-ratelimit-resource"];
        assert_eq!(
            names.map(|name| reply.header(name)),
            [Some("1"), Some(remaining), Some(used), Some("api")]
        );
        assert!(reply.header("x-ratelimit-reset").is_some() && reply.header("ratelimit").is_some());
    }
    for (status, is_limited) in [(200, None), (429, Some("true"))] {
        let reply = server.get("/v1/check?user=a&name=old");
        assert_eq!((reply.status, reply.header("x-envoy-ratelimited")), (status, is_limited));
        assert_eq!(reply.header("x-ratelimit-limit"), Some("1, 1;w=86400;name=\"old\""));
        assert_eq!(reply.header("ratelimit"), None);
    }
    let told = server.admin_get("/v1/policies").json()["policies"][0]["settings"]["headers"].clone();
    assert_eq!(told, "[draft-11, github]");
}
