//! Talkers: who asks most, without saying who it is.

use std::collections::BTreeMap;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use serde_json::{Value, json};

use super::ask;
use crate::support::folder::Folder;
use crate::support::{EVERY_LINE, Server, tollgate};

const POLICIES: &str = "
policies:
  - { name: staff, match: { user: root }, exempt: true }
  - { name: search, match: { path: /search }, key: [user], quotas: [5/1d] }
  - { name: all, key: [ip], quotas: [1000/1d] }
  - { name: quiet, match: { path: /quiet }, key: [user], quotas: [5/1d], mode: shadow }
";

/// What a canary is found by.
const CANARY: &str = "canary";

fn body(path: &str, user: &str) -> String {
    json!({ "attributes": { "path": path, "user": user, "ip": "192.0.2.77" } }).to_string()
}

/// A service, and tokens for it.
struct Guarded {
    server: Server,
    check: String,
    tokens: BTreeMap<&'static str, String>,
}

impl Guarded {
    fn start(talkers: &str) -> Self {
        let folder = Folder::new();
        let mut lines = String::new();
        let mut tokens = BTreeMap::new();
        for (name, scopes) in [
            ("check", &["--scope", "check,peek"][..]),
            ("reader", &["--scope", "read"]),
            ("owner", &["--scope", "read,keys"]),
            ("keys", &["--scope", "keys"]),
            ("search", &["--scope", "read,keys", "--policy", "search"]),
        ] {
            let command = [&["token", "new", "--json", "--name", name], scopes].concat();
            let Output { status, stdout, .. } = tollgate().args(command).output().expect("it runs");
            assert!(status.success());
            let printed: Value = serde_json::from_slice(&stdout).expect("JSON");
            lines += &format!("{}\n", printed["line"].as_str().expect("a line"));
            tokens.insert(name, printed["token"].as_str().expect("a token").to_owned());
        }
        let (config, file) = (folder.write("p.yaml", POLICIES), folder.write("t.jsonl", &lines));
        let mut command = tollgate();
        command.env("RUST_LOG", EVERY_LINE);
        let flags = ["--config", &config, "--tokens", &file, "--talkers", talkers];
        let server = Server::start_by(command, &flags);
        let check = tokens["check"].clone();
        Self { server, check, tokens }
    }

    fn post(&self, path: &str, body: &str) {
        let mut connection = self.server.connect();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n", self.check);
        let length = body.len();
        connection.send(
            format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
                .as_bytes(),
        );
        let reply = connection.reply().expect("an answer comes");
        assert!(matches!(reply.status, 200 | 429), "{}", reply.json());
    }

    fn read(&self, who: &str, path: &str) -> crate::support::Reply {
        ask(self.server.admin, "GET", path, &format!("Authorization: Bearer {}\r\n", self.tokens[who]))
    }

    /// The rows of both periods together: five minutes may end between a request and this question.
    fn rows(&self, who: &str, query: &str) -> Vec<Value> {
        let both = ["current", "last"].into_iter().flat_map(|period| {
            let reply = self.read(who, &format!("/v1/talkers?{query}&period={period}")).json();
            reply["rows"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
        });
        let mut by_id = BTreeMap::<String, Value>::new();
        for row in both {
            let known = by_id.entry(row["id"].to_string()).or_insert_with(|| {
                let mut row = row.clone();
                row["count"] = json!(0);
                row
            });
            known["count"] =
                json!(known["count"].as_u64().expect("a count") + row["count"].as_u64().expect("a count"));
        }
        let mut rows: Vec<Value> = by_id.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row["count"].as_u64()));
        rows
    }
}

fn load(service: &Guarded) {
    for user in [format!("{CANARY}-a"), "<img src=x onerror=alert(1)>".to_owned()] {
        for _ in 0..7 {
            service.post("/v1/check", &body("/search", &user));
        }
    }
    let long = format!("{CANARY}-{}", "x".repeat(300));
    service.post("/v1/reserve", &body("/search", &long));
    let batch = format!(r#"{{"requests": [{}]}}"#, body("/search", &format!("{CANARY}-a")));
    service.post("/v1/check/batch", &batch);
    // A peek takes nothing.
    service.post("/v1/peek", &body("/search", "peeker"));
    service.post("/v1/check", &body("/search", "root"));
    service.post("/v1/check", &body("/quiet", "b"));
}

/// Only the scope `keys` shows keys, and it shows nothing else.
#[test]
fn keys_are_for_principals_with_the_scope_alone() {
    let service = Guarded::start("plain");
    load(&service);
    let rows = service.rows("owner", "policy=search");
    let keys: Vec<_> =
        rows.iter().map(|row| (row["key"].as_str().expect("a key"), row["count"].as_u64())).collect();
    let [(first, Some(8)), (second, Some(7)), (long, Some(1))] = keys[..] else { panic!("{rows:?}") };
    assert_eq!((first, second), ("user=canary-a", "user=<img src=x onerror=alert(1)>"));
    assert!(long.starts_with("user=canary-xxx") && long.ends_with("xxx…") && long.len() < 140, "{long}");
    let denied = service.rows("owner", "policy=search&by=denied");
    let counts: Vec<_> = denied.iter().map(|row| row["count"].as_u64()).collect();
    assert_eq!(counts, [Some(3), Some(2)], "{denied:?}");
    assert_eq!(service.rows("owner", "policy=all")[0]["key"], "ip=192.0.2.77/32");
    for policy in ["staff", "quiet"] {
        assert!(service.rows("owner", &format!("policy={policy}")).is_empty(), "{policy}");
    }

    let seen = service.rows("reader", "policy=search");
    assert!(seen.iter().all(|row| row.get("key").is_none()), "{seen:?}");
    let ids = |rows: &[Value]| rows.iter().map(|row| row["id"].to_string()).collect::<Vec<_>>();
    assert_eq!(ids(&seen), ids(&rows));
    let id = seen[0]["id"].as_str().expect("an id");
    assert!(id.len() == 12 && id.starts_with("k_"), "{id}");

    service.read("keys", "/v1/talkers?policy=search").assert_problem(403, None);
    service.read("search", "/v1/talkers?policy=all").assert_problem(403, None);
    assert_eq!(service.rows("search", "policy=search").len(), 3);
    let unknown = service.read("reader", "/v1/talkers?policy=unknown");
    unknown.assert_problem(404, Some("query.policy"));
    service.read("reader", "/v1/talkers").assert_problem(400, Some("query.policy"));
}

#[test]
fn an_answer_says_what_it_counts_and_how_exactly() {
    let server = Server::start(&["--limit", "5/1d", "--key", "user"]);
    for number in 0..10 {
        server
            .post("/v1/check", &json!({ "attributes": { "user": format!("u{}", number % 2) } }).to_string());
    }
    let reply = server.admin_get("/v1/talkers?policy=default&limit=1").json();
    let last = server.admin_get("/v1/talkers?policy=default&limit=1&period=last").json();
    assert_eq!(reply["total"].as_u64().expect("a count") + last["total"].as_u64().expect("a count"), 10);
    for answer in [&reply, &last] {
        assert_eq!(
            answer["counted"],
            json!(answer["total"].as_u64().expect("a count") - answer["skipped"].as_u64().expect("a count"))
        );
    }
    assert_eq!(
        (&reply["policy"], &reply["by"], &reply["period"], &reply["names"]),
        (&json!("default"), &json!("checks"), &json!("current"), &json!("hashed"))
    );
    assert_eq!((&reply["counters"], &reply["max_error"]), (&json!(128), &json!(0)));
    if let Some([row]) = reply["rows"].as_array().map(Vec::as_slice) {
        let share = row["count"].as_f64().expect("a count") / reply["counted"].as_f64().expect("a count");
        assert_eq!((&row["share"], &row["error"]), (&json!(share), &json!(0)));
    }
    assert!(reply["memory_bytes"].as_u64() < Some(64 << 10), "{reply}");
}

/// A key is a person or a secret. With hashed talkers, it leaves the process nowhere.
#[test]
fn no_key_of_a_talker_gets_into_answers_metrics_or_the_log() {
    let service = Guarded::start("hashed");
    load(&service);
    let mut answers = Vec::new();
    for path in [
        "/v1/talkers?policy=search",
        "/v1/talkers?policy=search&by=denied",
        "/v1/talkers?policy=all",
        "/v1/whatif?policy=search&quota=5/1d",
        "/v1/live",
        "/v1/live/series?policy=search",
        "/v1/policies/history",
        "/v1/policies",
        "/metrics",
        "/openapi.json",
        "/v1/talkers?policy=canary",
        "/v1/talkers?policy=search&by=canary",
        "/v1/talkers?canary=1",
    ] {
        let reply = service.read("owner", path);
        let text = String::from_utf8(reply.body).expect("text");
        // What the caller has sent itself may come back as the name of a field.
        answers.push(text.replace("query.canary", ""));
    }
    assert!(
        answers[0].contains("\"rows\":[{\"id\":\"k_") && !answers[0].contains("\"key\""),
        "{}",
        answers[0]
    );
    service.server.signal("TERM");
    let (_, log) = service.server.wait();
    answers.push(log);
    for answer in &answers {
        for secret in [CANARY, "192.0.2.77", "onerror"] {
            assert!(!answer.contains(secret), "{secret}: {answer}");
        }
    }
}

#[test]
fn services_that_share_the_secret_name_a_key_alike() {
    let folder = Folder::new();
    let (one, other) =
        (folder.write("one", &"00ff".repeat(16)), folder.write("other", &format!("{}\n", "ab".repeat(32))));
    let id_of = |secret: &[&str]| {
        let server = Server::start(&[&["--limit", "5/1d", "--key", "user"], secret].concat());
        server.post("/v1/check", r#"{"attributes": {"user": "alice"}}"#);
        let periods = ["current", "last"].map(|period| {
            server.admin_get(&format!("/v1/talkers?policy=default&period={period}")).json()["rows"][0]["id"].clone()
        });
        periods.into_iter().find(Value::is_string).expect("a row")
    };
    for file in [&one, &other] {
        set_permissions(file, Permissions::from_mode(0o600)).expect("it is ours");
    }
    let shared = id_of(&["--talkers-secret", &one]);
    assert_eq!(shared, id_of(&["--talkers-secret", &one]));
    assert_ne!(shared, id_of(&["--talkers-secret", &other]));
    assert_ne!(id_of(&[]), id_of(&[]), "without a secret, each process has its own");
}

#[test]
fn settings_that_show_keys_to_all_or_do_nothing_are_refused() {
    let folder = Folder::new();
    let (secret, short) = (folder.write("secret", &"00ff".repeat(16)), folder.write("short", "00ff"));
    let public = folder.write("public", &"00ff".repeat(16));
    for (file, mode) in [(&secret, 0o600), (&short, 0o600), (&public, 0o644)] {
        set_permissions(file, Permissions::from_mode(mode)).expect("it is ours");
    }
    for (flags, problem) in [
        (&["--talkers", "plain"][..], "--tokens"),
        (&["--talkers", "names"], "--talkers"),
        (&["--talkers", "off", "--talkers-secret", &secret], "--talkers off"),
        (&["--dashboard", "off", "--talkers-secret", &secret], "--dashboard off"),
        (&["--talkers-secret", &short], "openssl rand -hex 32"),
        (&["--talkers-secret", &public], "chmod 600"),
        (&["--talkers-secret", "/nowhere"], "/nowhere"),
    ] {
        let output = tollgate().args(["serve", "--limit", "5/1d"]).args(flags).output().expect("it runs");
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.contains(problem) && !error.contains("00ff"), "{flags:?}: {error}");
    }
    let server = Server::start(&["--limit", "5/1d", "--talkers", "off"]);
    let reply = server.admin_get("/v1/talkers?policy=default");
    assert_eq!(reply.status, 404);
    assert!(reply.json()["detail"].to_string().contains("--talkers off"));
    assert_eq!(server.admin_get("/v1/live").json()["talkers"], "off");
}

/// Nobody has to ask for a check before a new policy is known, or before what another key has counted is gone.
#[test]
fn talkers_and_samples_are_of_the_live_policies_before_the_first_request() {
    let folder = Folder::new();
    let policies = |rest: &str| format!("policies: [{{ name: search, quotas: [5/1d], {rest} }}]\n");
    let server = Server::start(&["--config", &folder.write("p.yaml", &policies("key: [user]"))]);
    server.post("/v1/check", r#"{"attributes": {"user": "alice"}}"#);
    let total = |policy: &str| {
        let both = ["current", "last"].map(|period| {
            let reply = server.admin_get(&format!("/v1/talkers?policy={policy}&period={period}")).json();
            reply["total"].as_u64().unwrap_or_else(|| panic!("{reply}"))
        });
        both.into_iter().sum::<u64>()
    };
    let sampled = |policy: &str| loop {
        let reply = server.admin_get(&format!("/v1/whatif?policy={policy}&quota=5/1d"));
        // A busy machine may not answer in time.
        if reply.status != 503 {
            break reply.json()["requests"].clone();
        }
    };
    assert_eq!((total("search"), sampled("search")), (1, json!(1)));
    folder.write("p.yaml", &policies("key: [ip] }, { name: new, key: [user], quotas: [5/1d]"));
    assert_eq!(server.admin_post("/v1/policies/reload", "{}").status, 200);
    for policy in ["search", "new"] {
        assert_eq!((sampled(policy), total(policy)), (json!(0), 0), "{policy}");
    }
}

/// Where Envoy's limits decide, each of them has its talkers.
#[test]
fn limits_of_envoy_have_talkers_by_the_names_that_the_page_gets() {
    let folder = Folder::new();
    let limits =
        "domain: shop\ndescriptors:\n- { key: user, rate_limit: { unit: year, requests_per_unit: 2 } }\n";
    folder.write("limits.yaml", limits);
    let root = folder.root().to_str().expect("a path in UTF-8").to_owned();
    let server = Server::start(&["--import", "envoy-ratelimit", &root]);
    for _ in 0..5 {
        let descriptors = json!([{ "entries": [{ "key": "user", "value": CANARY }] }]);
        server.post("/json", &json!({ "domain": "shop", "descriptors": descriptors }).to_string());
    }
    let live = server.admin_get("/v1/live").json();
    assert_eq!(live["envoy"]["domains"][0]["rules"], json!(["shop: user"]), "{live}");
    let counts = |by: &str| {
        let both = ["current", "last"].map(|period| {
            let path = format!("/v1/talkers?rule=shop%3A+user&by={by}&period={period}");
            let reply = server.admin_get(&path).json();
            assert!(!reply.to_string().contains(CANARY) && reply["rule"] == "shop: user", "{reply}");
            reply["rows"][0]["count"].as_u64().unwrap_or_default()
        });
        both.into_iter().sum::<u64>()
    };
    assert_eq!((counts("checks"), counts("denied")), (5, 3));
    assert_eq!(server.admin_get("/v1/talkers?rule=shop").status, 404);
    assert_eq!(server.admin_get("/v1/talkers?policy=shop").status, 404);
}
