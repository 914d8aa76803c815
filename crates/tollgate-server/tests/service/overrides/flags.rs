//! What `--max-overrides` and `--state-dir` allow, and when they would have no effect.

use std::path::Path;

use serde_json::{Value, json};

use super::access::REQUESTS;
use super::{POLICIES, Service, ask, new_token, of_user};
use crate::support::folder::Folder;
use crate::support::{Server, tollgate};

/// Without overrides, nothing is guessed: a list that is empty would mean that there could be some.
#[test]
fn a_service_without_overrides_says_why_at_each_operation() {
    let folder = Folder::new();
    let (token, line) = new_token("ops", &["--scope", "check,metrics,overrides"]);
    let bearer = format!("Authorization: Bearer {token}");
    let (config, tokens) = (folder.write("p.yaml", POLICIES), folder.write("t.jsonl", &line));
    let start = |more: &[&str]| Server::start(&[&["--config", &config, "--tokens", &tokens], more].concat());
    for (flags, reason, said) in [
        (&["--max-overrides", "0"][..], "overrides_off", "(`--max-overrides 0`)"),
        (&[], "no_state_dir", "`--state-dir FOLDER`"),
    ] {
        let server = start(flags);
        for (method, path, body) in REQUESTS {
            let reply = ask(server.admin, method, path, &[&bearer], body);
            reply.assert_problem(409, None);
            let problem = reply.json();
            assert_eq!(problem["reason"], reason, "{method} {path}");
            assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(said)), "{problem}");
        }
        let alice = r#"{"attributes": {"path": "/search", "user": "alice"}}"#;
        let checked = ask(server.public, "POST", "/v1/check", &[&bearer], alice).json();
        assert_eq!(checked["limit"], 5, "{checked}");
        assert!(checked.get("overrides_version").is_none(), "{checked}");
        let metrics = ask(server.admin, "GET", "/metrics", &[&bearer], "").body;
        let metrics = String::from_utf8(metrics).expect("text");
        assert!(metrics.contains("tollgate_decisions_total") && !metrics.contains("tollgate_override"));
    }
}

#[test]
fn a_change_above_the_maximum_is_refused_until_there_is_room() {
    let service = Service::with(POLICIES, &["--max-overrides", "2"]);
    let refused = |body: &Value| {
        let reply = service.put(body);
        reply.assert_problem(409, None);
        let problem = reply.json();
        assert_eq!(problem["reason"], "too_many_overrides", "{problem}");
        let detail = problem["detail"].as_str().expect("a text");
        assert!(detail.contains("2 overrides") && detail.contains("`--max-overrides`"), "{detail}");
    };
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|user| of_user(user, &json!(["7/1h"])));
    let prefix =
        json!({ "policy": "login", "attributes": { "tenant": { "prefix": "a" } }, "quotas": "denied" });
    service.set(&alice);
    let version = service.set(&bob)["overrides_version"].clone();
    refused(&carol);
    refused(&prefix);
    assert_eq!(service.search("carol").json()["limit"], 5);
    assert_eq!(service.list("")["overrides_version"], version, "nothing was changed");
    // One that is there makes no more of them.
    assert_eq!(service.set(&of_user("bob", &json!(["8/1h"])))["replaced"], true);
    refused(&carol);
    let named = |user: &str| json!({ "policy": "search", "attributes": { "user": user } });
    assert_eq!(service.delete(&named("alice")).status, 200);
    service.set(&prefix);
    refused(&carol);
    assert_eq!(service.search("bob").json()["limit"], 8);
}

#[test]
fn flags_that_would_do_nothing_are_errors() {
    let folder = Folder::new();
    let (state, config) = (folder.path("state"), folder.write("p.yaml", POLICIES));
    let stored = format!("store: {{ url: 'redis://127.0.0.1:1' }}\n{POLICIES}");
    let stored = folder.write("stored.yaml", &stored);
    for (config, flags, expected) in [
        (
            &config,
            &["--state-dir", &state, "--max-overrides", "0"][..],
            "`--state-dir` has no effect with `--max-overrides 0`",
        ),
        (
            &config,
            &["--max-overrides", "5"],
            "`--max-overrides` has no effect, because nothing keeps overrides",
        ),
        (&config, &["--recover"], "--state-dir <FOLDER>"),
        (
            &config,
            &["--state-dir", &state, "--store", "redis://127.0.0.1:1"],
            "cannot be used with '--store <URL>'",
        ),
        (&stored, &["--state-dir", &state], "a store is configured: it keeps the overrides itself"),
        (&config, &["--max-overrides", "-1"], "expected a whole number from 0 to 100000000"),
    ] {
        let mut command = tollgate();
        // An address that no host here has, so that a start that should be refused ends in any case.
        command.args(["serve", "--config", config, "--listen", "192.0.2.1:1"]);
        let output = command.args(flags).output().expect("it runs");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(expected), "{flags:?}: {said}");
        assert!(!Path::new(&state).exists(), "no folder for nothing");
    }
}
