//! The fields of requests and of answers.

use serde_json::{Value, json};

use super::{Service, of_user};
use crate::openapi::assert_described;

#[test]
fn an_override_is_set_got_and_deleted() {
    let service = Service::start();
    let body = json!({
        "policy": "search", "attributes": { "user": "alice" }, "quotas": ["50/60m", "20~in_flight"],
        "until": "2100-01-01T00:00:00+01:00", "note": "until the audit", "label": "ticket-7",
    });
    let reply = service.put(&body);
    let mut set = reply.json();
    assert_eq!(reply.status, 200, "{set}");
    let version = set["version"].as_str().expect("a version").to_owned();
    assert_eq!(reply.header("etag"), Some(&*format!("\"{version}\"")));
    let id = set["id"].as_str().expect("an id").to_owned();
    let digest = id.strip_prefix("search:=").expect("the digest of a key").to_owned();
    assert_eq!((digest.len(), &set["target"]), (22, &json!({ "key": digest })));
    assert!(set["changed"].take().as_str().is_some_and(|changed| changed.ends_with('Z')), "{set}");
    assert_eq!(
        set,
        json!({
            "id": id, "policy": "search", "key": "user", "target": { "key": digest },
            "quotas": ["50/1h", "20~in_flight"], "until": "2099-12-31T23:00:00Z", "label": "ticket-7",
            "note": "until the audit", "by": "ops", "changed": null, "version": version, "state": "active",
            "replaced": false, "overrides_version": version,
        })
    );

    let name = json!({ "policy": "search", "attributes": { "user": "alice" } });
    for named in [&name, &json!({ "id": id })] {
        let reply = service.get(named);
        let got = reply.json();
        assert_eq!((reply.status, reply.header("etag")), (200, Some(&*format!("\"{version}\""))), "{got}");
        assert_eq!(
            (&got["quotas"], &got["stale"], &got["overrides_version"]),
            (&set["quotas"], &json!(false), &set["version"])
        );
    }
    let again = service.set(&of_user("alice", &json!("unlimited")));
    assert_eq!(
        (&again["replaced"], &again["quotas"], &again["id"]),
        (&json!(true), &json!("unlimited"), &json!(id))
    );
    assert!(
        again.get("until").is_none() && again.get("note").is_none() && again.get("label").is_none(),
        "{again}"
    );

    let deleted = service.delete(&name);
    let body = deleted.json();
    assert_eq!(
        (deleted.status, &body["id"], &body["deleted"]["quotas"]),
        (200, &json!(id), &json!("unlimited")),
        "{body}"
    );
    assert_ne!(body["overrides_version"], again["overrides_version"]);
    for reply in [service.get(&name), service.delete(&name), service.delete(&json!({ "id": id }))] {
        reply.assert_problem(404, None);
        assert_eq!(reply.json()["reason"], "no_override");
    }
}

#[test]
fn every_field_of_an_answer_is_described() {
    let service = Service::start();
    let document = service.admin("GET", "/openapi.json", &[], "").json();
    let schemas = &document["components"]["schemas"];
    let named = json!({ "policy": "search", "attributes": { "user": "alice" } });
    let mut body = of_user("alice", &json!(["50/1h"]));
    body["until"] = json!("2100-01-01T00:00:00Z");
    body["note"] = json!("a note");
    body["label"] = json!("a-label");
    assert_described(schemas, "SetOverrideReply", &service.set(&body));
    assert_described(schemas, "GotOverrideReply", &service.get(&named).json());
    let listed = service.list("?limit=1");
    assert_described(schemas, "OverrideListReply", &listed);
    assert_described(schemas, "Override", &listed["overrides"][0]);
    let taken = service.admin("PUT", "/v1/overrides", &["If-None-Match: *"], &body.to_string()).json();
    assert_described(schemas, "Problem", &taken);
    assert_described(schemas, "Override", &taken["current"]);
    assert_described(schemas, "DeletedOverrideReply", &service.delete(&named).json());

    let operation = |method: &str, path: &str| document["paths"][path][method].clone();
    let parameters = |operation: &Value| -> Vec<String> {
        let all = operation["parameters"].as_array().cloned().unwrap_or_default();
        all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    let put = operation("put", "/v1/overrides");
    assert_eq!(parameters(&put), ["If-Match", "If-None-Match"]);
    assert_eq!(put["responses"]["200"]["headers"]["ETag"]["required"], true);
    assert_eq!(parameters(&operation("post", "/v1/overrides/delete")), ["If-Match"]);
    assert_eq!(parameters(&operation("get", "/v1/overrides")), ["policy", "label", "after", "limit"]);
    for status in ["400", "401", "403", "404", "409", "412", "415", "503"] {
        let is_described = operation("post", "/v1/overrides/delete")["responses"][status].is_object();
        assert!(is_described, "{status}");
    }
}

/// Each form of a target has its own override, and none of them is a key in disguise.
#[test]
fn targets_are_keys_whole_texts_and_prefixes() {
    let service = Service::start();
    let target = |attributes: Value| {
        let set = service.set(&json!({ "policy": "login", "attributes": attributes, "quotas": ["9/1h"] }));
        (set["id"].as_str().expect("an id").to_owned(), set["target"].clone(), set["key"].clone())
    };
    let (id, _, key) = target(json!({ "ip": "192.0.2.7", "tenant": "acme" }));
    assert!(id.starts_with("login:="), "{id}");
    assert_eq!(key, "[ip, tenant]");
    assert_eq!(target(json!({ "ip": "::ffff:192.0.2.7", "tenant": "acme" })).0, id, "it is the same address");
    let whole = target(json!({ "tenant": { "is": "acme/eu 1" } }));
    assert_eq!(whole.0, "login:tenant=acme/eu%201");
    assert_eq!(whole.1, json!({ "attribute": "tenant", "is": "acme/eu 1" }));
    let prefix = target(json!({ "tenant": { "prefix": "acme" } }));
    assert_eq!(
        (&*prefix.0, prefix.1),
        ("login:tenant^acme", json!({ "attribute": "tenant", "prefix": "acme" }))
    );
    assert_eq!(service.list("")["overrides"].as_array().map(Vec::len), Some(3));
}

/// Everything that is wrong has its place, and nothing is guessed.
#[test]
fn a_wrong_field_is_named() {
    let service = Service::start();
    let good = of_user("alice", &json!(["50/1h"]));
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    let for_login =
        |attributes: Value| json!({ "policy": "login", "attributes": attributes, "quotas": ["9/1h"] });
    for (body, field) in [
        (with("policy", json!("")), "policy"),
        (with("policy", json!("search:caller")), "policy"),
        (with("policy", json!(7)), "policy"),
        (with("polices", json!("search")), "polices"),
        (with("attributes", json!({})), "attributes"),
        (with("attributes", json!({ "user": "" })), "attributes.user"),
        (with("attributes", json!({ "user": ["alice"] })), "attributes.user"),
        (with("attributes", json!({ "user": 7 })), "attributes.user"),
        (with("attributes", json!({ "user": null })), "attributes.user"),
        (with("attributes", json!({ "user": "alice", "plan": "gold" })), "attributes.plan"),
        (with("attributes", json!({ "user": { "is": "" } })), "attributes.user"),
        (with("attributes", json!({ "user": { "prefix": "a".repeat(257) } })), "attributes.user"),
        (with("attributes", json!({ "user": {} })), "attributes.user"),
        (with("attributes", json!({ "user": { "is": "a", "prefix": "a" } })), "attributes.user"),
        (with("attributes", json!({ "user": { "suffix": "a" } })), "attributes.user"),
        (with("attributes", json!({ "user": { "is": 7 } })), "attributes.user.is"),
        (with("attributes", json!({ "path": { "is": "/search" } })), "attributes.path"),
        (with("attributes", json!({ "color": { "is": "red" } })), "attributes.color"),
        (for_login(json!({ "tenant": "acme" })), "attributes"),
        (for_login(json!({ "ip": "192.0.2", "tenant": "acme" })), "attributes"),
        (for_login(json!({ "ip": { "prefix": "192." } })), "attributes.ip"),
        (for_login(json!({ "ip": "192.0.2.7", "tenant": { "is": "acme" } })), "attributes.tenant"),
        (with("quotas", json!([])), "quotas"),
        (with("quotas", json!("500/1m")), "quotas"),
        (with("quotas", json!("Denied")), "quotas"),
        (with("quotas", json!(null)), "quotas"),
        (with("quotas", json!([7])), "quotas[0]"),
        (with("quotas", json!(["5/1h", "5/0s"])), "quotas[1]"),
        (with("quotas", json!(["99999999999999999999/1h"])), "quotas[0]"),
        (with("quotas", json!(["0~in_flight:0s"])), "quotas[0]"),
        (with("quotas", json!(["5/1h", "9/60m"])), "quotas"),
        (with("quotas", json!(vec!["5/1h"; 17])), "quotas"),
        (with("until", json!("")), "until"),
        (with("until", json!("tomorrow")), "until"),
        (with("until", json!("2100-01-01")), "until"),
        (with("until", json!("2100-01-01T00:00:00")), "until"),
        (with("until", json!("2100-01-01T00:00:00.0005Z")), "until"),
        (with("until", json!(4102444800_u64)), "until"),
        (with("until", json!(null)), "until"),
        (with("until", json!("2001-01-01T00:00:00Z")), "until"),
        (with("for", json!("0s")), "for"),
        (with("for", json!("2")), "for"),
        (with("for", json!("-2h")), "for"),
        (with("for", json!("3654d")), "for"),
        (with("for", json!("99999999999999999999h")), "for"),
        (with("note", json!("")), "note"),
        (with("note", json!("a".repeat(201))), "note"),
        (with("note", json!("a\u{1b}[31mb")), "note"),
        (with("label", json!("")), "label"),
        (with("label", json!("a b")), "label"),
        (with("label", json!("a".repeat(65))), "label"),
    ] {
        let reply = service.put(&body);
        assert_eq!(reply.status, 400, "{body}: {}", reply.json());
        assert_eq!(reply.json()["field"], field, "{body}: {}", reply.json());
    }
    let mut both = good.clone();
    both["until"] = json!("2100-01-01T00:00:00Z");
    both["for"] = json!("2h");
    service.put(&both).assert_problem(400, Some("for"));
    for missing in ["policy", "attributes", "quotas"] {
        let mut body = good.clone();
        body.as_object_mut().expect("an object").remove(missing);
        service.put(&body).assert_problem(400, Some(missing));
    }
    let twice = r#"{"policy": "search", "policy": "login", "attributes": {"user": "a"}, "quotas": "denied"}"#;
    service.admin("PUT", "/v1/overrides", &[], twice).assert_problem(400, Some("policy"));
    let twice = r#"{"policy": "search", "attributes": {"user": "a", "user": "b"}, "quotas": "denied"}"#;
    service.admin("PUT", "/v1/overrides", &[], twice).assert_problem(400, Some("attributes"));

    let named = json!({ "policy": "search", "attributes": { "user": "a" } });
    let id = json!("search:user=a");
    for body in [
        json!({}),
        json!({ "policy": "search" }),
        json!({ "attributes": { "user": "a" } }),
        json!({ "id": id, "policy": "search" }),
        json!({ "id": id, "policy": "search", "attributes": { "user": "a" } }),
        json!({ "id": "search" }),
        json!({ "id": "search:user=%61" }),
    ] {
        service.get(&body).assert_problem(400, Some("id"));
        service.delete(&body).assert_problem(400, Some("id"));
    }
    let mut more = named;
    more["quotas"] = json!("denied");
    service.delete(&more).assert_problem(400, Some("quotas"));
    assert_eq!(service.list("")["overrides"], json!([]), "nothing of it was set");
    assert!(service.list("").get("overrides_version").is_none());
}

#[test]
fn the_smallest_and_the_largest_are_accepted() {
    let service = Service::start();
    let mut body = of_user("alice", &json!(["5/1h"]));
    body["note"] = json!("ä".repeat(200));
    body["label"] = json!("a".repeat(64));
    body["for"] = json!("3653d");
    let set = service.set(&body);
    assert_eq!((&set["note"], &set["label"]), (&body["note"], &body["label"]));
    let series: Vec<String> = (1..=16).map(|minutes| format!("5/{minutes}m")).collect();
    service.set(&of_user("bob", &json!(series)));
    for prefix in ["a".to_owned(), "a".repeat(256)] {
        let attributes = json!({ "user": { "prefix": prefix } });
        service.set(&json!({ "policy": "search", "attributes": attributes, "quotas": "denied" }));
    }
    service.set(&of_user("carol", &json!([format!("{}/3653d", (1_u64 << 40) - 1)])));
}

/// A policy with a mistake in its name would be an override that does nothing.
#[test]
fn a_policy_that_cannot_have_overrides_is_a_conflict() {
    let service = Service::start();
    let with = |policy: &str| {
        let mut body = of_user("alice", &json!("denied"));
        body["policy"] = json!(policy);
        service.put(&body)
    };
    let reply = with("serch");
    reply.assert_problem(409, Some("policy"));
    let problem = reply.json();
    assert_eq!(problem["reason"], "no_policy");
    assert!(
        problem["detail"].as_str().is_some_and(|detail| detail.contains("did you mean `search`?")),
        "{problem}"
    );
    let reply = with("staff");
    reply.assert_problem(409, Some("policy"));
    assert_eq!(reply.json()["reason"], "counts_nothing");
}

/// Its end is the store's time, exactly.
#[test]
fn an_override_lives_for_its_length() {
    let service = Service::with(super::POLICIES, &["--test-clock"]);
    let advance = |millis: u64| {
        let body = json!({ "advance_ms": millis }).to_string();
        service.admin("POST", "/v1/clock", &[], &body).json()["now"].as_i64().expect("a time")
    };
    let now = advance(0);
    let mut body = of_user("alice", &json!(["50/1h"]));
    body["for"] = json!("2h");
    let until = service.set(&body)["until"].as_str().expect("a time").to_owned();
    let until: jiff::Timestamp = until.parse().expect("a time");
    assert_eq!(until.as_millisecond() - now, 7_200_000, "the clock stands still");
    advance(7_199_999);
    assert_eq!(service.search("alice").json()["limit"], 50);
    advance(1);
    assert_eq!(service.search("alice").json()["limit"], 5);
    let listed = service.list("");
    assert!(matches!(listed["overrides"][0]["state"].as_str(), None | Some("ended")), "{listed}");
    // Its end may not have passed when it is set.
    let passed = jiff::Timestamp::from_millisecond(until.as_millisecond()).expect("a time").to_string();
    body.as_object_mut().expect("an object").remove("for");
    body["until"] = json!(passed);
    let reply = service.put(&body);
    reply.assert_problem(400, Some("until"));
    assert!(reply.json()["detail"].as_str().is_some_and(|detail| detail.contains("by the store's clock")));
}
