//! `/openapi.json` matches the service: every described answer is given, and every answer is described.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Connection, Server};

#[test]
fn every_operation_is_answered_on_its_listener_and_nowhere_else() {
    let server = Server::start(&["--limit", "5/1d,9/2d", "--key", "user"]);
    let document = server.admin_get("/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths");
    let named: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    let expected = [
        "/forward-auth",
        "/v1/check",
        "/v1/peek",
        "/v1/check/batch",
        "/v1/count",
        "/v1/count/batch",
        "/v1/refund",
        "/v1/reserve",
        "/v1/reserve/batch",
        "/v1/renew",
        "/v1/renew/batch",
        "/v1/settle",
        "/v1/settle/batch",
        "/v1/record",
        "/v1/record/batch",
        "/v1/reset",
        "/v1/set",
        "/v1/overrides",
        "/v1/overrides/get",
        "/v1/overrides/delete",
        "/v1/inspect",
        "/v1/live",
        "/v1/live/series",
        "/v1/talkers",
        "/v1/whatif",
        "/v1/policies",
        "/v1/policies/history",
        "/v1/policies/reload",
        "/v1/policies/schema",
        "/metrics",
        "/openapi.json",
        "/healthz",
        "/readyz",
    ];
    assert_eq!(named, BTreeSet::from(expected));
    assert_answered(&server, &document);
}

/// The description had the headers of the default format, whatever the policies set.
#[test]
fn every_header_of_a_decision_is_described() {
    for formats in ["draft-11", "[draft-11, x-ratelimit]", "draft-06", "github", "kong", "envoy", "none"] {
        let folder = Folder::new();
        let policies =
            format!("policies:\n  - {{ name: search, key: ip, quotas: [1/1d], headers: {formats} }}\n");
        let file = folder.write("limits.yaml", &policies);
        let server = Server::start(&["--config", &file]);
        let document = server.admin_get("/openapi.json").json();
        let responses = &document["paths"]["/v1/check"]["get"]["responses"];
        for status in ["200", "429"] {
            let reply = server.get("/v1/check?ip=192.0.2.1");
            assert_eq!(reply.status.to_string(), status);
            let described = responses[status]["headers"].as_object().expect("an object");
            let described: BTreeSet<String> =
                described.keys().map(|name| name.to_ascii_lowercase()).collect();
            let limits = |name: &&str| name.contains("ratelimit") || *name == "retry-after";
            let told: BTreeSet<&str> =
                reply.headers.iter().map(|(name, _)| name.as_str()).filter(limits).collect();
            let undescribed: Vec<_> = told.iter().filter(|name| !described.contains(**name)).collect();
            assert!(undescribed.is_empty(), "{formats}: {undescribed:?} is not in {described:?}");
            assert_eq!(
                described.iter().any(|name| name.contains("ratelimit")),
                formats != "none",
                "{formats}"
            );
        }
    }
}

/// The description includes the path of another system.
#[test]
fn the_path_of_another_system_is_there_while_it_is_answered() {
    let (text, json, problem) = ("text/plain", "application/json", "application/problem+json");
    for (system, query, kinds) in [
        ("rlaas", "/check?userId=alice", [text, text]),
        ("leetdezine", "/api/v1/rate_limit?user_id=a&endpoint=/", [json, json]),
        ("spring-starter", "/evaluate?key=a", [json, problem]),
    ] {
        let path = query.split_once('?').expect("a query").0;
        let server = Server::start(&["--limit", "1/1d@first_hit", "--answers", system]);
        let document = server.admin_get("/openapi.json").json();
        assert_answered(&server, &document);
        let responses = &document["paths"][path]["get"]["responses"];
        for (status, kind) in ["200", "429"].into_iter().zip(kinds) {
            let reply = server.get(query);
            assert_eq!(reply.status.to_string(), status);
            assert!(responses[status]["content"][kind].is_object(), "{responses}");
            assert!(reply.header("content-type").is_some_and(|told| told.starts_with(kind)));
        }
    }
}

#[track_caller]
fn assert_answered(server: &Server, document: &Value) {
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            for (listener, address) in [("checks", server.public), ("admin", server.admin)] {
                let request = format!("{} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n", method.to_uppercase());
                let mut connection = Connection::open(address);
                connection.send(request.as_bytes());
                let reply = connection.head().expect("an answer");
                let tagged = operation["tags"].as_array().is_some_and(|tags| tags.contains(&json!(listener)));
                let documented = operation["responses"].get(reply.status.to_string()).is_some();
                // Of an override, a policy or a talker, it also means that there is none.
                let by_talker =
                    ["/v1/talkers", "/v1/whatif", "/v1/inspect", "/v1/reset", "/v1/set", "/v1/refund"];
                let names_one = path.starts_with("/v1/overrides/") || by_talker.contains(&path.as_str());
                let is_ambiguous = !tagged && reply.status == 404 && names_one;
                assert!(
                    tagged == documented || is_ambiguous,
                    "{method} {path} on {listener}: {}",
                    reply.status
                );
                assert_eq!(tagged, !matches!(reply.status, 404 | 405), "{method} {path} on {listener}");
            }
        }
    }
}

#[test]
fn every_reference_resolves() {
    let server = Server::start(&["--limit", "5/1d"]);
    let document = server.admin_get("/openapi.json").json();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    assert!(references.len() > 10);
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("in the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn the_needed_credentials_follow_the_flags() {
    let server = Server::start(&["--limit", "5/1d,9/2d", "--key", "tenant,user"]);
    let schemas = server.admin_get("/openapi.json").json()["components"]["schemas"].clone();
    assert_eq!(schemas["Attributes"]["required"], json!(["tenant", "user"]));
    assert_eq!(schemas["CheckRequest"]["properties"]["cost"]["maximum"], 4_294_967_295_u32);
    assert_eq!(schemas["CheckRequest"]["additionalProperties"], false);
}

#[test]
fn every_field_of_an_answer_is_described() {
    let server = Server::start(&["--limit", "1/1d@first_hit"]);
    let schemas = server.admin_get("/openapi.json").json()["components"]["schemas"].clone();
    let check = || server.get("/v1/check?user=alice");
    assert_described(&schemas, "Decision", &check().json());
    let denied = check().json();
    assert_described(&schemas, "QuotaExceeded", &denied);
    assert_described(&schemas, "Problem", &server.get("/v1/check").json());
    let several = Server::start(&["--limit", "1/1d@first_hit,2/2d@first_hit"]);
    let several = several.get("/v1/check?user=alice").json();
    assert_described(&schemas, "Quota", &several["quotas"][0]);
    let full = Server::start(&["--limit", "1/1d@first_hit", "--max-counters", "1"]);
    assert_eq!(full.get("/v1/check?user=alice").status, 200);
    assert_described(&schemas, "Problem", &full.get("/v1/check?user=bob").json());
    assert_eq!(
        schemas["ProblemReason"]["enum"],
        json!([
            "id_conflict",
            "hold_ended",
            "needs_hold",
            "too_many_names",
            "store_full",
            "store_unavailable",
            "outcome_unknown",
            "uncountable",
            "precondition_failed",
            "no_override",
            "no_policy",
            "counts_nothing",
            "no_state_dir",
            "overrides_off",
            "too_many_overrides",
        ])
    );
    let body =
        r#"{"attributes": {"user": "bob"}, "policy": "own", "quotas": ["1~in_flight", "1/1d@first_hit"]}"#;
    let own = Server::start(&["--limit", "1/1d@first_hit", "--caller-quotas"]);
    let reserved = own.post("/v1/reserve", body).json();
    assert_described(&schemas, "Reservation", &reserved);
    assert_described(&schemas, "Quota", &reserved["quotas"][1]);
    assert_described(&schemas, "QuotaExceeded", &own.post("/v1/reserve", body).json());
    let count = r#"{"attributes": {"user": "bob"}, "policy": "own", "quotas": ["1/1d@first_hit", "9/2d"], "cost": 2}"#;
    let counted = own.post("/v1/count", count).json();
    assert_described(&schemas, "Count", &counted);
    assert_described(&schemas, "CountFigures", &counted["quotas"][0]);
    let window = r#"{"attributes": {"user": "bob"}, "policy": "own", "window": "1d"}"#;
    assert_described(&schemas, "Count", &own.post("/v1/count", window).json());
    let hold = |more: Value| {
        let mut body = json!({ "hold": reserved["hold"] });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body.to_string()
    };
    assert_described(&schemas, "RenewReply", &own.post("/v1/renew", &hold(json!({}))).json());
    let settled = own.post("/v1/settle", &hold(json!({ "cost": 0 }))).json();
    assert_described(&schemas, "SettleReply", &settled);
    assert_described(&schemas, "SettledQuota", &settled["quotas"][0]);
    let reset = server.admin_post("/v1/reset", r#"{"attributes": {"user": "alice"}}"#).json();
    assert_described(&schemas, "CountsReply", &reset);
    assert_described(&schemas, "QuotaCount", &reset["quotas"][0]);
    let refund = r#"{"attributes": {"user": "alice"}, "version": 1,
        "windows": [{"policy": "default", "quota": "1/1d@first_hit", "start": 0}]}"#;
    assert_described(&schemas, "RefundedQuota", &server.admin_post("/v1/refund", refund).json()["quotas"][0]);
}

/// A problem with the status of a denial was not described.
#[test]
fn a_status_of_denials_and_problems_is_described_as_both() {
    let file = std::env::temp_dir().join(format!("tollgate-openapi-{}.yaml", std::process::id()));
    let policy = |name: &str, status: u16| {
        format!("{{ name: {name}, key: [key], deny_status: {status}, quotas: [1/1d] }}")
    };
    let policies = [policy("a", 400), policy("b", 500), policy("c", 503), policy("d", 429)].join(", ");
    std::fs::write(&file, format!("policies: [{policies}]")).expect("written");
    let server = Server::start(&["--config", file.to_str().expect("text"), "--answers", "spring-starter"]);
    let document = server.admin_get("/openapi.json").json();
    for path in ["/v1/check", "/evaluate"] {
        let responses = &document["paths"][path]["get"]["responses"];
        for (status, is_problem) in [("400", true), ("500", true), ("503", true), ("429", false)] {
            let response = &responses[status];
            let mut references = BTreeSet::new();
            collect(&response["content"]["application/problem+json"]["schema"], &mut references);
            let has = |name: &str| references.iter().any(|it| it.ends_with(&format!("/{name}")));
            assert_eq!((has("QuotaExceeded"), has("Problem")), (true, is_problem), "{path} {status}");
            assert_eq!(response["headers"]["Cache-Control"]["required"], true, "{path} {status}");
        }
    }
    std::fs::remove_file(file).expect("removed");
}

/// The description forbade a batch with an entry like this one, but only its entry is answered with an error.
#[test]
fn a_batch_may_set_what_its_entries_may_set() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--key", "user", "--caller-quotas"]);
    let schemas = server.admin_get("/openapi.json").json()["components"]["schemas"].clone();
    let fields = |name: &str| {
        let properties = &schemas[name]["properties"];
        (properties["quotas"]["minItems"].clone(), properties["policy"]["pattern"].is_string())
    };
    let entry = |policy: &str, quotas: &str| {
        format!(r#"{{"attributes": {{"user": "alice"}}, "policy": "{policy}", "quotas": {quotas}}}"#)
    };
    for wrong in [entry("own", "[]"), entry("a b", r#"["5/1d"]"#)] {
        assert_eq!(server.post("/v1/check", &wrong).status, 400, "{wrong}");
        let batch = format!(r#"{{"requests": [{wrong}, {{"attributes": {{"user": "alice"}}}}]}}"#);
        let reply = server.post("/v1/check/batch", &batch);
        assert_eq!(reply.status, 200, "{wrong}");
        let decisions = reply.json()["decisions"].clone();
        assert_eq!(
            (&decisions[0]["status"], &decisions[1]["allowed"]),
            (&json!(400), &json!(true)),
            "{wrong}"
        );
        assert_described(&schemas, "Problem", &decisions[0]);
    }
    assert_eq!(fields("CheckRequest"), (json!(1), true));
    assert_eq!(fields("BatchEntryRequest"), (Value::Null, false));
}

/// Every operation with a body can be answered 503 because memory is used up, but batches had no 503 in the
/// description.
#[test]
fn describes_503_when_memory_is_used_up() {
    let server = Server::start(&["--limit", "1/1d", "--key", "user"]);
    let document = server.admin_get("/openapi.json").json();
    let operations = document["paths"]
        .as_object()
        .expect("paths")
        .values()
        .flat_map(|path| [path.get("post"), path.get("put")]);
    let operations = operations.flatten();
    let with_body: Vec<&Value> =
        operations.filter(|operation| operation.get("requestBody").is_some()).collect();
    assert!(!with_body.is_empty());
    for operation in with_body {
        let unavailable = &operation["responses"]["503"];
        let said = unavailable["description"].as_str().unwrap_or_default();
        assert!(said.contains("--body-memory"), "{}: {said}", operation["operationId"]);
        let problem = &unavailable["content"]["application/problem+json"]["schema"];
        assert_eq!(problem["$ref"], "#/components/schemas/Problem", "{}", operation["operationId"]);
    }
}

/// Asserts that the schema has every field of the answer, and the answer every required field.
#[track_caller]
pub(crate) fn assert_described(schemas: &Value, name: &str, answer: &Value) {
    let (mut fields, mut required) = (BTreeSet::new(), BTreeSet::new());
    let schema = &schemas[name];
    let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    for part in parts {
        let part = match part["$ref"].as_str() {
            Some(reference) => schemas[reference.rsplit('/').next().unwrap_or_default()].clone(),
            None => part,
        };
        fields.extend(part["properties"].as_object().expect("properties").keys().cloned());
        let names = part["required"].as_array().expect("required fields").iter();
        required.extend(names.filter_map(Value::as_str).map(str::to_owned));
    }
    let answered: BTreeSet<String> = answer.as_object().expect("an object").keys().cloned().collect();
    assert!(answered.is_subset(&fields), "{name}: {answered:?} in {fields:?}");
    assert!(required.is_subset(&answered), "{name}: {required:?} in {answered:?}");
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

/// An optional field had the default `null`, which its type does not allow.
#[test]
fn no_default_is_null() {
    fn check(value: &Value) {
        match value {
            Value::Object(fields) => {
                assert!(fields.get("default").is_none_or(|default| !default.is_null()), "{value}");
                fields.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&Server::start(&["--limit", "5/1d"]).admin_get("/openapi.json").json());
}
