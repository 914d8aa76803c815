//! The version of the overrides in answers.

use serde_json::json;

use super::{Service, of_user};

/// A decision was made under one version of the policies and one of the overrides, and it named only the first.
#[test]
fn every_decision_and_change_names_both_versions() {
    let service = Service::start();
    let alice = r#"{"attributes": {"path": "/search", "user": "alice"}}"#;
    let before = service.search("alice").json();
    assert!(before.get("overrides_version").is_none() && before.get("override").is_none(), "{before}");
    let mut body = of_user("alice", &json!(["50/1h", "70/1d"]));
    body["until"] = json!("2100-01-01T00:00:00Z");
    let version = service.set(&body)["overrides_version"].clone();
    let until = json!({ "until": "2100-01-01T00:00:00Z" });

    let batch = format!(r#"{{"requests": [{alice}]}}"#);
    let bearer = |path: &str, body: &str| service.admin("POST", path, &[], body).json();
    for answer in [
        service.post("/v1/check", alice).json(),
        service.post("/v1/peek", alice).json(),
        service.post("/v1/reserve", alice).json(),
        service.post("/v1/check/batch", &batch).json()["decisions"][0].clone(),
    ] {
        assert_eq!((&answer["version"], &answer["overrides_version"]), (&json!(1), &version), "{answer}");
        assert_eq!(answer["override"], until, "{answer}");
        for quota in answer["quotas"].as_array().expect("two quotas") {
            assert_eq!(quota["override"], until, "{answer}");
        }
    }
    // Another's limits are not by an override, but decided under the same version.
    let bob = service.search("bob").json();
    assert_eq!(bob["overrides_version"], version);
    assert!(bob.get("override").is_none(), "{bob}");

    let window = service.post("/v1/check", alice).json()["quotas"][0]["window"]["start"].clone();
    let refund = json!({
        "attributes": { "path": "/search", "user": "alice" }, "version": 1,
        "windows": [{ "policy": "search", "quota": "50/1h", "start": window }],
    });
    for (path, body) in [
        ("/v1/refund", refund.to_string()),
        ("/v1/record", alice.to_owned()),
        ("/v1/set", r#"{"attributes": {"path": "/search", "user": "alice"}, "used": 3}"#.to_owned()),
        ("/v1/reset", alice.to_owned()),
    ] {
        let answer = bearer(path, &body);
        assert_eq!(
            (&answer["version"], &answer["overrides_version"]),
            (&json!(1), &version),
            "{path}: {answer}"
        );
    }
    let records = bearer("/v1/record/batch", &batch);
    assert_eq!(records["records"][0]["overrides_version"], version, "{records}");
}

/// `unlimited` counts nothing, and the answer says why.
#[test]
fn an_unlimited_request_says_by_what() {
    let service = Service::start();
    service.set(&of_user("alice", &json!("unlimited")));
    for _ in 0..7 {
        let answer = service.search("alice");
        assert_eq!(answer.status, 200);
        assert_eq!((&answer.json()["ground"], &answer.json()["override"]), (&json!("unlimited"), &json!({})));
    }
    assert_eq!(service.search("bob").json()["limit"], 5);
}
