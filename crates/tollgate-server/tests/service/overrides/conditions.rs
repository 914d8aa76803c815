//! Changes under a condition.

use serde_json::{Value, json};

use super::{Service, of_user};
use crate::support::Reply;

fn put(service: &Service, headers: &[&str], quotas: &Value) -> Reply {
    service.admin("PUT", "/v1/overrides", headers, &of_user("alice", quotas).to_string())
}

/// Two jobs that change one override never overwrite each other, and a repeated change is made once.
#[test]
fn a_change_is_made_only_to_the_version_that_its_caller_has_seen() {
    let service = Service::start();
    let first = put(&service, &["If-None-Match: *"], &json!(["6/1h"]));
    assert_eq!(first.status, 200);
    let tag = first.header("etag").expect("a tag").to_owned();
    let taken = put(&service, &["If-None-Match: *"], &json!(["7/1h"]));
    taken.assert_problem(412, None);
    let problem = taken.json();
    assert_eq!(problem["detail"], "there is an override already; nothing was changed");
    assert_eq!(
        (&problem["reason"], &problem["current"]["quotas"]),
        (&json!("precondition_failed"), &json!(["6/1h"]))
    );
    assert_eq!(
        (&problem["overrides_version"], &problem["current"]["state"]),
        (&first.json()["version"], &json!("active"))
    );

    let seen = format!("If-Match: {tag}");
    let second = put(&service, &[&seen], &json!(["8/1h"]));
    assert_eq!((second.status, &second.json()["replaced"]), (200, &json!(true)));
    // Its caller has not seen the answer, and asks again.
    let repeated = put(&service, &[&seen], &json!(["8/1h"]));
    repeated.assert_problem(412, None);
    let detail = "there is another override than the one that the condition names; nothing was changed";
    assert_eq!(repeated.json()["detail"], detail);
    assert_eq!(repeated.json()["current"]["version"], second.json()["version"]);
    assert_eq!(service.search("alice").json()["limit"], 8);

    let body = json!({ "policy": "search", "attributes": { "user": "alice" } }).to_string();
    service.admin("POST", "/v1/overrides/delete", &[&seen], &body).assert_problem(412, None);
    let now = format!("If-Match: {}", second.header("etag").expect("a tag"));
    let deleted = service.admin("POST", "/v1/overrides/delete", &[&now], &body);
    assert_eq!(deleted.status, 200, "{}", deleted.json());
    // There is none now, so there is no version to have seen.
    let gone = service.admin("POST", "/v1/overrides/delete", &[&now], &body);
    gone.assert_problem(412, None);
    assert!(gone.json().get("current").is_none());
    assert_eq!(gone.json()["detail"], "there is no such override any more, so nothing was changed");
    put(&service, &[&now], &json!(["9/1h"])).assert_problem(412, None);
    assert_eq!(service.search("alice").json()["limit"], 5);
}

/// A guard that was not understood guarded nothing.
#[test]
fn a_condition_that_is_not_one_version_is_refused() {
    let service = Service::start();
    let tag = put(&service, &[], &json!(["6/1h"])).header("etag").expect("a tag").to_owned();
    let body = json!({ "policy": "search", "attributes": { "user": "alice" } }).to_string();
    for value in
        ["*".to_owned(), format!("W/{tag}"), format!("{tag}, {tag}"), tag.replace('"', ""), String::new()]
    {
        let header = format!("If-Match: {value}");
        put(&service, &[&header], &json!("denied")).assert_problem(400, Some("if-match"));
        service
            .admin("POST", "/v1/overrides/delete", &[&header], &body)
            .assert_problem(400, Some("if-match"));
    }
    let (seen, none) = (format!("If-Match: {tag}"), format!("If-None-Match: {tag}"));
    put(&service, &[&seen, &seen], &json!("denied")).assert_problem(400, Some("if-match"));
    put(&service, &[&none], &json!("denied")).assert_problem(400, Some("if-none-match"));
    put(&service, &[&seen, "If-None-Match: *"], &json!("denied")).assert_problem(400, Some("if-none-match"));
    service
        .admin("POST", "/v1/overrides/delete", &["If-None-Match: *"], &body)
        .assert_problem(400, Some("if-none-match"));
    let since = "If-Unmodified-Since: Sat, 29 Oct 1994 19:43:31 GMT";
    put(&service, &[since], &json!("denied")).assert_problem(400, Some("if-unmodified-since"));
    assert_eq!(service.search("alice").json()["limit"], 6);
}
