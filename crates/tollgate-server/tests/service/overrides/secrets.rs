//! Keys of overrides are nowhere but in the caller's own request, and each change has one line in the log.

use serde_json::json;

use super::{Service, of_user};
use crate::support::EVERY_LINE;
use crate::support::folder::Folder;

const KEY: &str = "canary-key";
const NOTE: &str = "canary-note";

#[test]
fn no_key_of_an_override_gets_into_logs_metrics_or_answers() {
    let service = Service::logging(EVERY_LINE);
    let name = json!({ "policy": "search", "attributes": { "user": KEY } });
    let mut set = of_user(KEY, &json!(["50/1h"]));
    set["note"] = json!(NOTE);
    set["label"] = json!("ticket-7");
    let mut answers = Vec::new();
    let id = service.set(&set)["id"].clone();
    answers.push(service.search(KEY).json().to_string());
    answers.push(
        service
            .post("/v1/peek", &json!({ "attributes": { "path": "/search", "user": KEY } }).to_string())
            .json()
            .to_string(),
    );
    answers.push(service.get(&name).json().to_string());
    answers.push(service.list("").to_string());
    // Everything that is refused, with the key in each place that a text has.
    for (field, value) in [
        ("policy", json!(KEY)),
        ("quotas", json!(KEY)),
        ("quotas", json!([KEY])),
        ("until", json!(KEY)),
        ("for", json!(KEY)),
        ("label", json!(format!("{KEY} "))),
        ("note", json!(format!("{KEY}\u{7}"))),
        ("attributes", json!(KEY)),
        ("attributes", json!({ "user": { "like": KEY } })),
        ("attributes", json!({ "user": KEY, "plan": KEY })),
        ("attributes", json!({ "user": [KEY] })),
    ] {
        let mut wrong = set.clone();
        wrong[field] = value;
        let reply = service.put(&wrong);
        assert!(reply.status >= 400, "{field}");
        if field != "policy" {
            answers.push(reply.json().to_string());
        }
    }
    let seen = "If-None-Match: *";
    answers.push(service.admin("PUT", "/v1/overrides", &[seen], &set.to_string()).json().to_string());
    answers.push(
        service
            .admin("POST", "/v1/overrides/get", &[], &format!(r#"{{"id": "search:={KEY}"}}"#))
            .json()
            .to_string(),
    );
    let mut denied = set.clone();
    denied["quotas"] = json!("denied");
    service.set(&denied);
    answers.push(service.search(KEY).json().to_string());
    service.delete(&name);
    answers.push(service.delete(&name).json().to_string());
    let metrics = String::from_utf8(service.admin("GET", "/metrics", &[], "").body).expect("text");
    answers.push(metrics);
    answers.push(service.admin("GET", "/v1/policies", &[], "").json().to_string());
    for answer in &answers {
        assert!(!answer.contains(KEY), "{answer}");
    }

    let state = service.folder.path("state");
    let files = std::fs::read_dir(&state).expect("it is there");
    for file in files {
        let path = file.expect("a file").path();
        let text = String::from_utf8_lossy(&std::fs::read(&path).expect("it is ours")).into_owned();
        assert!(!text.contains(KEY), "{}", path.display());
    }

    service.server.signal("TERM");
    let (_, log) = service.server.wait();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "the log has every level");
    assert!(!log.contains(KEY) && !log.contains(NOTE), "{log}");
    let id = id.as_str().expect("an id");
    let changes: Vec<&str> = log.lines().filter(|line| line.contains("override changed")).collect();
    let [set, denied, deleted] = changes[..] else { panic!("{changes:#?}") };
    for (line, parts) in [
        (set, ["operation=\"set\"", "limits=\"[50/1h]\"", "label=\"ticket-7\""]),
        (denied, ["operation=\"set\"", "limits=\"denied\"", "label=\"ticket-7\""]),
        (deleted, ["operation=\"delete\"", "principal=\"ops\"", "policy=\"search\""]),
    ] {
        for part in parts.into_iter().chain(["principal=\"ops\"", &*format!("override={id}"), "version="]) {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}

/// A change that was refused has changed nothing, and a change that is repeated is one line each time it is made.
#[test]
fn only_changes_have_a_line() {
    let service = Service::start();
    service.put(&of_user("alice", &json!([]))).assert_problem(400, Some("quotas"));
    service.delete(&json!({ "id": "search:user=alice" })).assert_problem(404, None);
    let set = of_user("alice", &json!(["6/1h"])).to_string();
    let first = service.admin("PUT", "/v1/overrides", &["If-None-Match: *"], &set);
    assert_eq!(first.status, 200);
    service.admin("PUT", "/v1/overrides", &["If-None-Match: *"], &set).assert_problem(412, None);
    service.server.signal("TERM");
    let (_, log) = service.server.wait();
    assert_eq!(log.matches("override changed").count(), 1, "{log}");
    let _: Folder = service.folder;
}
