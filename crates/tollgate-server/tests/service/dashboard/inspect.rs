//! What the service says about one request.

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Connection, Server, tollgate};

const POLICIES: &str = "
deny: { user: [mallory] }
policies:
  - { name: office, match: { ip: 192.0.2.1 }, exempt: true }
  - { name: search, match: { path: /search }, key: [user], quotas: [3/1h, 50~in_flight], candidate: [2/1h] }
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1h] }
  - { name: all, key: global, quotas: [1000/1h], on_store_failure: closed }
";

fn start(more: &[&str]) -> (Server, Folder) {
    let folder = Folder::new();
    let file = folder.write("p.yaml", POLICIES);
    (Server::start(&[&["--config", &file], more].concat()), folder)
}

fn inspect(server: &Server, attributes: &Value) -> Value {
    let reply = server.admin_post("/v1/inspect", &json!({ "attributes": attributes }).to_string());
    assert_eq!(reply.status, 200, "{}", reply.json());
    reply.json()
}

fn policy<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut all = list.as_array().expect("a list").iter();
    all.find(|policy| policy["policy"] == name).unwrap_or(&Value::Null)
}

#[test]
fn an_inspection_says_what_applies_and_what_is_used_and_charges_nothing() {
    let (server, _folder) = start(&[]);
    let login = json!({ "path": "/login", "user": "alice", "ip": "192.0.2.9" });
    let check = json!({ "attributes": login, "cost": 4 }).to_string();
    assert_eq!(server.post("/v1/check", &check).status, 200);
    let first = inspect(&server, &login);
    assert_eq!(inspect(&server, &login)["applied"][0]["quotas"][0]["used"], 4, "it charges nothing");

    assert_eq!((&first["verdict"], &first["source"]), (&json!("allowed"), &json!("store")));
    assert_eq!((&first["outcome"], &first["policies_version"]), (&json!("charge"), &json!(1)));
    assert_eq!(first["message"], "allowed: 4 of 5 units of 5/1h of `login` are used");
    let applied = policy(&first["applied"], "login");
    let quota = &applied["quotas"][0];
    assert_eq!(
        (&quota["quota"], &quota["limit"], &quota["remaining"]),
        (&json!("5/1h"), &json!(5), &json!(1))
    );
    assert!(quota["window"]["start"].is_i64() && quota["reset_after_ms"].is_u64(), "{quota}");
    assert_eq!((&applied["role"], &applied["line"]), (&json!("limit"), &json!(6)));
    assert!(applied["counts"].as_str().is_some_and(|counts| counts.contains("192.0.2.9")), "{applied}");
    assert_eq!(policy(&first["applied"], "all")["quotas"][0]["used"], 4);
    let reason =
        |name: &str| policy(&first["not_applied"], name)["reason"].as_str().expect("a reason").to_owned();
    assert_eq!(reason("search"), "path: /search does not match `/login`");
    assert_eq!(
        (first["not_applied"].as_array().map(Vec::len), &first["not_applied_count"]),
        (Some(3), &json!(3))
    );

    // What is used up is denied, as a check would be.
    assert_eq!(server.post("/v1/check", &json!({ "attributes": login }).to_string()).status, 200);
    let denied = inspect(&server, &login);
    assert_eq!((&denied["verdict"], &denied["reason"]), (&json!("denied"), &json!("quota_exceeded")));
    assert_eq!(denied["message"], "denied: 5 of 5 units of 5/1h of `login` are used");
    assert!(denied["retry_after_ms"].is_u64(), "{denied}");
    let check = server.post("/v1/check", &json!({ "attributes": login }).to_string()).json();
    assert_eq!((&check["policy"], &check["used"]), (&json!("login"), &json!(5)));
}

/// What `tollgate explain` prints about the same request.
#[test]
fn an_inspection_says_what_explain_says() {
    let (server, folder) = start(&[]);
    for attributes in [
        json!({ "path": "/search", "user": "alice", "ip": "192.0.2.9" }),
        json!({ "path": "/search", "user": "mallory" }),
        json!({ "path": "/login", "ip": "192.0.2.1" }),
        json!({ "path": "/search" }),
        json!({}),
    ] {
        let mut explain = tollgate();
        explain.args(["explain", "--json", &folder.path("p.yaml")]);
        for (name, value) in attributes.as_object().expect("an object") {
            explain.arg(format!("{name}={}", value.as_str().expect("a text")));
        }
        let printed = explain.output().expect("it runs").stdout;
        let printed: Value = serde_json::from_slice(&printed).expect("JSON");
        let found = inspect(&server, &attributes);
        assert_eq!(found["outcome"], printed["outcome"], "{attributes}");
        for explained in printed["policies"].as_array().expect("a list") {
            let name = explained["policy"].as_str().expect("a name");
            let (applied, other) = (policy(&found["applied"], name), policy(&found["not_applied"], name));
            let because = explained["because"].as_array().map(|reasons| {
                let reasons: Vec<&str> = reasons.iter().filter_map(Value::as_str).collect();
                reasons.join("; ")
            });
            assert_eq!(other["reason"].as_str(), because.as_deref(), "{name} of {attributes}");
            for field in ["policy", "line", "mode", "counts", "quotas_from"] {
                let expected = if because.is_some() { &Value::Null } else { &explained[field] };
                assert_eq!(&applied[field], expected, "{field} of {name} of {attributes}");
            }
            // Windows may have changed in between.
            let quotas = |charges: &Value| -> Vec<Value> {
                let charges = charges.as_array().into_iter().flatten();
                charges.map(|charge| json!([charge["quota"], charge["limit"], charge["cost"]])).collect()
            };
            if because.is_none() {
                assert_eq!(quotas(&applied["charges"]), quotas(&explained["charges"]), "{name}");
                let tried = |from: &Value| quotas(&from["trials"][0]["charges"]);
                assert_eq!(tried(applied), tried(explained), "{name} of {attributes}");
            }
        }
    }
}

#[test]
fn what_needs_no_counter_is_said_too() {
    let (server, _folder) = start(&[]);
    let said = |attributes: Value| {
        let found = inspect(&server, &attributes);
        let text = |field: &str| found[field].as_str().unwrap_or("none").to_owned();
        [text("outcome"), text("verdict"), text("source"), text("reason")]
    };
    assert_eq!(said(json!({ "path": "/", "user": "mallory" })), ["deny", "denied", "policies", "denied"]);
    assert_eq!(said(json!({ "path": "/", "ip": "192.0.2.1" })), ["exempt", "allowed", "policies", "none"]);
    // A check would be the caller's error, which is no trouble of the counters.
    assert_eq!(said(json!({ "path": "/login" })), ["refuse", "none", "none", "none"]);
    assert_eq!(inspect(&server, &json!({ "path": "/login" }))["peek_failed"], Value::Null);

    let search = json!({ "path": "/search", "user": "alice" });
    assert_eq!(server.post("/v1/reserve", &json!({ "attributes": search }).to_string()).status, 200);
    let found = inspect(&server, &search);
    let applied = policy(&found["applied"], "search");
    let held = json!({ "written": "50~in_flight", "limit": 50, "held": 1, "remaining": 49 });
    assert_eq!((&found["outcome"], &applied["in_flight"]), (&json!("hold"), &held));
    assert!(found["message"].as_str().is_some_and(|message| message.contains("needs_hold")), "{found}");
    assert_eq!(applied["trials"][0]["kind"], "candidate");
    assert_eq!(applied["quotas"][0]["used"], 1);

    let wrong = server.admin_post("/v1/inspect", r#"{"attributes": {}, "policy": "search"}"#);
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("policy")));
}

/// Nothing listens at this address, so the store never answers.
#[test]
fn counters_that_cannot_be_read_are_not_shown_as_room() {
    let (server, _folder) = start(&["--store", "redis://127.0.0.1:1"]);
    let login = json!({ "path": "/login", "ip": "192.0.2.9" });
    let found = inspect(&server, &login);
    assert!(found["peek_failed"].is_string(), "{found}");
    assert_eq!((&found["verdict"], &found["source"]), (&Value::Null, &Value::Null), "`all` is closed");
    let message = found["message"].as_str().expect("a sentence");
    assert!(message.ends_with("; what is used could not be read"), "{message}");
    let applied = policy(&found["applied"], "login");
    assert_eq!((&applied["quotas"], &applied["charges"][0]["quota"]), (&Value::Null, &json!("5/1h")));

    let folder = Folder::new();
    let open = folder.write("p.yaml", "policies: [{ name: login, key: [ip], quotas: [5/1h] }]");
    let server = Server::start(&["--config", &open, "--store", "redis://127.0.0.1:1"]);
    let found = inspect(&server, &login);
    assert!(found["peek_failed"].is_string(), "{found}");
    assert_eq!((&found["verdict"], &found["source"]), (&json!("allowed"), &json!("fallback")));
    assert_eq!(found["applied"][0]["quotas"], Value::Null);
}

/// A principal reads the policies that it may use, and of no others that there are any.
#[test]
fn a_principal_with_some_policies_reads_no_others_and_overrides_have_their_ids() {
    let folder = Folder::new();
    let token = |name: &str, more: &[&str]| {
        let (text, tokens) = (folder.path(name), folder.path("tokens.jsonl"));
        let mut new = tollgate();
        new.args(["token", "new", "--name", name, "--token-file", &text, "--tokens", &tokens]).args(more);
        assert!(new.output().expect("it runs").status.success());
        let token = std::fs::read_to_string(text).expect("a token");
        format!("Authorization: Bearer {}\r\n", token.trim())
    };
    let root = token("root", &["--scope", "read,overrides"]);
    let bound = token("bound", &["--scope", "read", "--policy", "search"]);
    let policies = "
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [3/1h] }
  - { name: login, match: { path: /login }, key: [user], quotas: [5/1h] }
";
    let (file, tokens) = (folder.write("p.yaml", policies), folder.path("tokens.jsonl"));
    let server =
        Server::start(&["--config", &file, "--tokens", &tokens, "--state-dir", &folder.path("state")]);
    let ask = |method: &str, path: &str, token: &str, body: &Value| {
        let (body, kind) = (body.to_string(), "Content-Type: application/json");
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{token}{kind}\r\n");
        let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
        Connection::open(server.admin).ask(request.as_bytes())
    };
    let set = json!({ "policy": "search", "attributes": { "user": "alice" }, "quotas": ["9/1h"],
        "until": "2999-01-01T00:00:00Z" });
    let set = ask("PUT", "/v1/overrides", &root, &set).json();
    assert!(set["id"].is_string(), "{set}");

    let search = json!({ "attributes": { "path": "/search", "user": "alice" } });
    let found = ask("POST", "/v1/inspect", &root, &search).json();
    let applied = json!({ "id": set["id"], "until": "2999-01-01T00:00:00Z" });
    assert_eq!((&found["applied"][0]["override"], &found["not_applied_count"]), (&applied, &json!(1)));
    assert_eq!(found["applied"][0]["quotas"][0]["limit"], 9);
    assert_eq!(found["overrides_version"], set["overrides_version"]);

    let found = ask("POST", "/v1/inspect", &bound, &search);
    assert!(!String::from_utf8_lossy(&found.body).contains("login"), "{}", found.json());
    assert_eq!(
        (&found.json()["verdict"], &found.json()["not_applied_count"]),
        (&json!("allowed"), &json!(0))
    );
    let login = json!({ "attributes": { "path": "/login", "user": "alice" } });
    assert_eq!(ask("POST", "/v1/inspect", &bound, &login).status, 403);
    let all = ask("GET", "/v1/live", &bound, &json!({}));
    assert_eq!((all.status, all.json()["scope"].is_null()), (403, true));
    assert!(
        all.json()["detail"].as_str().is_some_and(|said| said.contains("all policies")),
        "{}",
        all.json()
    );
}
