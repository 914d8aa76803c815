//! What answers say about policies, to callers and administrators.

use serde_json::{Value, json};

use super::{limit, serve};
use crate::support::folder::Folder;
use crate::support::{Server, charged, tollgate};

const SHOP: &str = "
defaults: { deny_status: 403 }
policies:
  - name: search
    match: { path: /search }
    key: [user]
    quotas: [3/1d@first_hit, 100/2d@first_hit]
    candidate: [1/1d@first_hit]
    overrides: [{ when: { tier: gold }, quotas: [5/1d@first_hit] }]
  - { name: all, key: [user], on_missing_key: deny, deny_status: 401, headers: none, quotas: [4/1d@first_hit] }
  - { name: dark, mode: shadow, key: global, quotas: [2/1d@first_hit] }
  - { name: health, match: { path: /healthz }, exempt: true }
";

#[test]
fn answers_name_the_policy_and_the_version() {
    let folder = Folder::new();
    let server = serve(&folder.write("t.yaml", SHOP), &[]);
    let first = server.get("/v1/check?user=alice&path=/search");
    let body = first.json();
    assert_eq!((first.status, &body["policy"], &body["version"]), (200, &json!("search"), &json!(1)));
    let named = |body: &Value| -> Vec<String> {
        let name = |quota: &Value| format!("{} {}", quota["policy"], quota["quota"]).replace('"', "");
        body["quotas"].as_array().expect("quotas").iter().map(name).collect()
    };
    assert_eq!(named(&body), ["search 3/1d@first_hit", "search 100/2d@first_hit", "all 4/1d@first_hit"]);
    let told = first.header("ratelimit").unwrap_or_default();
    assert!(told.contains(r#""search/3/1d@first_hit";r=2"#) && told.contains(r#""all";r=3"#), "{told}");
    assert_eq!(
        body["trials"],
        json!([
            { "policy": "search", "kind": "candidate", "answer": "allowed", "limit": 1, "used": 1 },
            { "policy": "dark", "kind": "shadow", "answer": "allowed", "limit": 2, "used": 1 },
        ])
    );

    let verdicts: Vec<(u16, Value)> = (0..3)
        .map(|_| server.get("/v1/check?user=alice&path=/search"))
        .map(|reply| (reply.status, reply.json()["trials"][0]["answer"].clone()))
        .collect();
    assert_eq!(verdicts, [(200, json!("denied")), (200, json!("denied")), (403, json!("denied"))]);
    let denied = server.get("/v1/check?user=alice&path=/search").json();
    assert_eq!(
        (&denied["status"], &denied["violated-policies"]),
        (&json!(403), &json!(["search/3/1d@first_hit"]))
    );

    // A change of tier counts at once, on the same counter; then the other policy denies, in its own way.
    assert_eq!(server.get("/v1/check?user=alice&path=/search&tier=gold").json()["quotas"][0]["used"], 4);
    let denied = server.get("/v1/check?user=alice&path=/");
    assert_eq!((denied.status, &denied.json()["policy"]), (401, &json!("all")));
    assert_eq!((denied.header("ratelimit"), denied.header("retry-after").is_some()), (None, true));

    let metric = |name: &str| server.metric(name);
    assert_eq!(metric(r#"tollgate_decisions_total{policy="search",verdict="denied"}"#), Some(2.0));
    assert_eq!(metric(r#"tollgate_decisions_total{policy="all",verdict="denied"}"#), Some(1.0));
    assert_eq!(
        metric(r#"tollgate_trials_total{policy="search",kind="candidate",answer="denied"}"#),
        Some(4.0)
    );
    assert_eq!(metric(r#"tollgate_trials_total{policy="dark",kind="shadow",answer="allowed"}"#), Some(2.0));
    assert_eq!(metric(r#"tollgate_decisions_total{policy="dark",verdict="denied"}"#), None);
}

#[test]
fn an_answer_without_a_quota_names_the_ground() {
    let folder = Folder::new();
    let policies = "policies:
  - { name: api, match: { path: /api/* }, key: [user], on_missing_key: deny, deny_status: 401, quotas: [1/1d] }
  - { name: strict, match: { path: /strict }, key: [user], quotas: [1/1d] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    let server = serve(&folder.write("t.yaml", policies), &[]);
    let free = server.get("/v1/check?path=/");
    assert_eq!(free.json(), json!({ "allowed": true, "version": 1, "ground": "unlimited" }));
    assert_eq!((free.status, free.header("ratelimit")), (200, None));
    let exempt = server.get("/v1/check?path=/healthz").json();
    assert_eq!((&exempt["ground"], &exempt["policy"]), (&json!("exempt"), &json!("health")));
    let unknown = server.post("/v1/check", r#"{"attributes": {"path": "/api/a"}}"#);
    let body = unknown.json();
    assert_eq!(
        (unknown.status, &body["reason"], &body["allowed"]),
        (401, &json!("missing_key"), &json!(false))
    );
    assert_eq!(body["type"], "urn:problem-type:tollgate:missing-key");
    server.get("/v1/check?path=/strict").assert_problem(400, Some("query.user"));
    let batch = r#"{"requests": [{"attributes": {"path": "/strict"}}, {"attributes": {"path": "/"}}]}"#;
    let batch = server.post("/v1/check/batch", batch).json();
    assert_eq!(batch["decisions"][0]["field"], "requests[0].attributes.user");
    assert_eq!(batch["decisions"][1]["ground"], "unlimited");
    assert_eq!(server.metric("tollgate_unlimited_checks_total"), Some(2.0));
}

#[test]
fn administrators_change_every_quota_that_applies() {
    let folder = Folder::new();
    let server = serve(&folder.write("t.yaml", SHOP), &[]);
    let alice = json!({ "user": "alice", "path": "/search" });
    let decision = server.post("/v1/check", &json!({ "attributes": alice, "cost": 2 }).to_string()).json();
    let windows = charged(&decision);
    let refund = json!({ "attributes": alice, "cost": 1, "version": 1, "windows": windows }).to_string();
    let refunded = server.admin_post("/v1/refund", &refund).json();
    assert_eq!((&refunded["version"], &refunded["quotas"][2]["policy"]), (&json!(1), &json!("all")));
    let used = |quotas: &Value| -> Vec<u64> {
        quotas.as_array().expect("quotas").iter().filter_map(|quota| quota["used"].as_u64()).collect()
    };
    assert_eq!(used(&refunded["quotas"]), [1, 1, 1]);
    let set = json!({ "attributes": alice, "used": 3 }).to_string();
    assert_eq!(used(&server.admin_post("/v1/set", &set).json()["quotas"]), [3, 3, 3]);
    let reset = json!({ "attributes": alice }).to_string();
    assert_eq!(used(&server.admin_post("/v1/reset", &reset).json()["quotas"]), [0, 0, 0]);

    // The same request under a file with as many other quotas.
    folder.write("t.yaml", &SHOP.replace("100/2d@first_hit", "100/3d@first_hit"));
    assert_eq!(server.admin_post("/v1/policies/reload", "").status, 200);
    assert_eq!(used(&server.admin_post("/v1/set", &set).json()["quotas"]), [3, 3, 3]);
    server.admin_post("/v1/refund", &refund).assert_problem(409, Some("windows[1]"));
    assert_eq!(used(&server.post("/v1/peek", &reset).json()["quotas"]), [3, 3, 3]);
}

/// The error for `ip=unknown` said that `ip` is missing.
#[test]
fn the_error_of_a_request_without_a_key_names_the_attribute() {
    let folder = Folder::new();
    let policies = "policies:
- { name: asked, match: { path: /asked }, key: [ip], quotas: [5/1d] }
- { name: either, match: { path: /either }, key: { first_of: [user, ip] }, quotas: [5/1d] }
- { name: denied, match: { path: /denied }, key: [ip], on_missing_key: deny, quotas: [5/1d] }
";
    let server = serve(&folder.write("t.yaml", policies), &[]);
    for (request, status, wrong) in [
        ("path=/asked", 400, "`ip` is missing"),
        ("path=/asked&ip=", 400, "`ip` is empty"),
        ("path=/asked&ip=unknown", 400, "`ip` is not an address"),
        ("path=/either&ip=unknown", 400, "`ip` is not an address"),
        ("path=/denied&ip=unknown", 429, "`ip` is not an address"),
    ] {
        let reply = server.get(&format!("/v1/check?{request}"));
        assert_eq!(reply.status, status, "{request}");
        let body = reply.json();
        assert!(body["detail"].as_str().is_some_and(|detail| detail.ends_with(wrong)), "{request}: {body}");
        let field = wrong.split('`').nth(1).map(|name| format!("query.{name}"));
        assert_eq!(body["field"].as_str(), field.as_deref().filter(|_| status == 400), "{request}");
    }
    let neither = server.get("/v1/check?path=/either");
    neither.assert_problem(400, Some("query"));
    assert!(
        neither.json()["detail"]
            .as_str()
            .is_some_and(|detail| detail.ends_with("none of [user, ip] is there"))
    );
}

#[test]
fn administrators_see_the_policies_and_no_value_that_may_be_secret() {
    let folder = Folder::new();
    let text = format!(
        "{SHOP}  - name: partner
    match: {{ token: hunter2 }}
    key: global
    quotas: [9/1d]
    overrides: [{{ when: {{ tier: gold }}, quotas: unlimited }}]
"
    );
    let file = folder.write("t.yaml", &text);
    let server = serve(&file, &[]);
    let reply = server.admin_get("/v1/policies");
    assert!(!String::from_utf8_lossy(&reply.body).contains("hunter2"));
    let body = reply.json();
    assert_eq!((&body["version"], body["source"].as_str()), (&json!(1), Some(&*file)));
    assert!(body["age_ms"].as_u64().is_some_and(|age| age < 60_000));
    let names: Vec<&str> = body["policies"]
        .as_array()
        .expect("policies")
        .iter()
        .filter_map(|policy| policy["name"].as_str())
        .collect();
    assert_eq!(names, ["health", "search", "all", "dark", "partner"]);
    let search = &body["policies"][1];
    assert_eq!(
        (&search["line"], &search["match"], &search["key"]),
        (&json!(4), &json!(["path"]), &json!("user"))
    );
    assert_eq!(search["overrides"][0]["quotas"], json!(["5/1d@first_hit"]));
    assert_eq!(search["settings"]["on_store_failure"], "open");
    assert_eq!(search["overrides"][0]["unlimited"], false);
    assert_eq!(body["policies"][3]["mode"], "shadow");
    let partner = &body["policies"][4];
    assert_eq!((&partner["unlimited"], &partner["overrides"][0]["unlimited"]), (&json!(false), &json!(true)));
    assert_eq!(partner["overrides"][0]["quotas"], json!([]));

    let schema = server.admin_get("/v1/policies/schema").json();
    assert!(schema["properties"]["policies"].is_object(), "{schema}");
    for path in ["/v1/policies", "/v1/policies/schema"] {
        server.get(path).assert_problem(404, None);
    }
    server.post("/v1/policies/reload", "").assert_problem(404, None);
    let flags = Server::start(&["--limit", "5/1d"]);
    flags.admin_post("/v1/policies/reload", "").assert_problem(409, None);
    assert_eq!(flags.admin_get("/v1/policies").json()["source"], "flags");
}

#[test]
fn exits_with_2_if_the_file_is_not_valid() {
    let folder = Folder::new();
    let fails = |arguments: &[&str]| {
        let output = tollgate().arg("serve").args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = folder.write("t.yaml", "policies: [{ name: a b, key: global, quotas: [5/1mm] }]\n");
    let file = &*file;
    let error = fails(&["--config", file]);
    assert!(error.contains("is not valid") && error.matches("t.yaml:1:").count() == 2, "{error}");
    assert!(fails(&["--config", "/nowhere/t.yaml"]).contains("cannot read /nowhere/t.yaml"));
    let secret =
        folder.write("store.yaml", &format!("store: {{ url: \"redis://:hunter2@h:x\" }}\n{}", limit(1)));
    let error = fails(&["--config", &secret]);
    assert!(error.contains("store") && !error.contains("hunter2"), "{error}");
    for conflicting in [&["--limit", "5/1m"][..], &["--key", "user"], &["--count-denied"]] {
        assert!(fails(&[&["--config", file], conflicting].concat()).contains("cannot be used with"));
    }
    assert!(fails(&["--config", file, "--on-store-failure", "closed"]).contains("cannot be used with"));
    assert!(fails(&[]).contains("--limit"));
}
