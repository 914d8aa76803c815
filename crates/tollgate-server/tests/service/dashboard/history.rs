//! The last reloads, and the warnings of the live file.

use serde_json::{Value, json};

use crate::support::Server;
use crate::support::folder::Folder;

fn reload(server: &Server) -> u16 {
    server.admin_post("/v1/policies/reload", "{}").status
}

#[test]
fn reloads_are_listed_with_what_they_changed_and_why_they_failed() {
    let folder = Folder::new();
    let policies = |quotas: &str| format!("policies: [{{ name: search, key: [user], quotas: {quotas} }}]\n");
    let file = folder.write("p.yaml", &policies("[5/1m, 9000/1h]"));
    let server = Server::start(&["--config", &file]);
    let history = || server.admin_get("/v1/policies/history").json();
    let first = history();
    assert_eq!(first["reloads"], json!([]));
    let warning = &first["warnings"][0];
    assert_eq!((&warning["code"], &warning["policy"]), (&json!("quota-never-binds"), &json!("search")));
    assert_eq!(first["warnings_count"], 1);

    folder.write("p.yaml", &policies("[6/1m]"));
    assert_eq!(reload(&server), 200);
    folder.write("p.yaml", "policies: [{ name: search }]\n");
    assert_eq!(reload(&server), 422);
    let last = history();
    // The watch may have seen the files first.
    let of = |outcome: &str| -> Value {
        let reloads = last["reloads"].as_array().expect("a list").iter();
        reloads.clone().find(|reload| reload["outcome"] == outcome).expect("it is there").clone()
    };
    let (replaced, failed) = (of("replaced"), of("failed"));
    assert_eq!(replaced["version"], 2);
    assert!(replaced["changes"][0].as_str().is_some_and(|change| change.contains("6/1m")), "{replaced}");
    assert!(failed["failure"].as_str().is_some_and(|failure| failure.contains("p.yaml")), "{failed}");
    assert_eq!(
        (&last["warnings"], &last["warnings_count"]),
        (&json!([]), &json!(0)),
        "the live file has none"
    );
    let live = server.admin_get("/v1/live").json();
    assert_eq!((&live["in_step"], &live["policies_version"]), (&json!(false), &json!(2)));
    assert!(live["failure"].as_str().is_some_and(|failure| failure.contains("p.yaml")), "{live}");
}

#[test]
fn limits_of_flags_have_no_history() {
    let server = Server::start(&["--limit", "5/1m,9000/1h"]);
    let history = json!({ "reloads": [], "warnings": [], "warnings_count": 0 });
    assert_eq!(server.admin_get("/v1/policies/history").json(), history);
    let live = server.admin_get("/v1/live").json();
    assert_eq!((&live["source"], &live["in_step"]), (&json!("flags"), &json!(true)));
}
