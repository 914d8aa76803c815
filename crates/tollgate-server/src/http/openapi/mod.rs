//! The description of the service that `/openapi.json` answers with.
//!
//! Replies are described from their types in `wire` and `policies`. Requests and statuses depend on the policies that
//! are live; the schemas of requests are in `requests`.

mod requests;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tollgate_policy::{HeaderFormat, Policy, PolicySet};
use tollgate_tower::headers;
use utoipa::{PartialSchema, ToSchema};

use super::answers::{Description, System};
use super::policies::{PoliciesBody, ReloadReply};
use super::route::Listener;
use super::wire::{BatchReply, CountsReply, DecisionBody, DeniedBody, ProblemBody, RefundReply};
use crate::metrics::Scrape;

/// The document, while these policies are live and the service answers as this system besides.
pub(super) fn document(live: &PolicySet, answers: Option<&System>) -> Bytes {
    let policies = live.policies();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate",
            "description": "Exact fixed-window rate limiting. Operations tagged `public` are answered on the \
                            listener for checks, those tagged `admin` on the one for administrators.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [
            { "url": "http://127.0.0.1:8080", "description": "public, unless `--listen` says otherwise" },
            { "url": "http://127.0.0.1:8090", "description": "admin, unless `--admin-listen` says otherwise" },
        ],
        "tags": [
            { "name": "public", "description": "A caller's own checks" },
            { "name": "admin", "description": "What reads or changes more than the caller's own check" },
        ],
        "paths": paths(policies.as_slice(), answers),
        "components": { "schemas": schemas(live) },
    });
    document.to_string().into()
}

fn paths(policies: &[Policy], answers: Option<&System>) -> Value {
    let (public, admin) = (&[Listener::Public][..], &[Listener::Admin][..]);
    let both = &[Listener::Public, Listener::Admin][..];
    let is_told = policies.iter().any(|policy| policy.headers() == HeaderFormat::Draft11);
    let always_told = matches!(policies, [policy] if is_told && policy.conditions().is_empty());
    let decision = |description| decision(description, always_told);
    let decided = || {
        let mut replies = replies([(200, decision("Admitted")), (500, uncountable()), (503, unavailable())]);
        let statuses = policies.iter().map(|policy| policy.deny_status().to_string());
        replies.extend(statuses.map(|status| (status, denied(always_told))));
        replies
    };
    let mut paths = json!({
        "/v1/check": {
            "get": operation(public, "checkByQuery", "Take units, asked in the query", json!({
                "parameters": requests::query(),
                "responses": with_bad_request(decided()),
            })),
            "post": operation(public, "check", "Take units, if every quota has room", json!({
                "requestBody": body("CheckRequest"),
                "responses": with_bad_body(decided()),
            })),
        },
        "/v1/peek": { "post": operation(public, "peek", "Answer as a check would, and take nothing", json!({
            "requestBody": body("CheckRequest"),
            "responses": with_bad_body(replies([
                (200, decision("The verdict")),
                (500, uncountable()),
                (503, unavailable()),
            ])),
        })) },
        "/v1/check/batch": { "post": operation(public, "checkBatch", "Check many requests, each for itself", json!({
            "requestBody": body("BatchRequest"),
            "responses": with_bad_body(replies([(200, answer("BatchReply", "An entry for each request"))])),
        })) },
        "/v1/refund": { "post": operation(admin, "refund", "Give back units of windows that are still open", json!({
            "requestBody": body("RefundRequest"),
            "responses": refunded(),
        })) },
        "/v1/reset": { "post": operation(admin, "reset", "Forget what is used", json!({
            "requestBody": body("ResetRequest"),
            "responses": changed("CountsReply"),
        })) },
        "/v1/set": { "post": operation(admin, "set", "Set what is used in the current windows", json!({
            "requestBody": body("SetRequest"),
            "responses": changed("CountsReply"),
        })) },
        "/v1/policies": read(admin, "policies", "The policies that are live", replies([
            (200, answer("Policies", "Which they are, since when, and where they are from")),
        ])),
        "/v1/policies/reload": { "post": operation(admin, "reload", "Read the file of policies again", json!({
            "responses": replies([
                (200, answer("ReloadReply", "The file is valid, and live")),
                (400, problem("What the request says cannot be")),
                (409, problem("The policies are from flags")),
                (422, problem("The file cannot be read or is not valid; nothing has changed")),
                (503, problem("The reload was cut short")),
            ]),
        })) },
        "/v1/policies/schema": read(admin, "policySchema", "The JSON Schema of a file of policies", replies([(200, json!({
            "description": "JSON Schema 2020-12",
            "headers": no_store(),
            "content": { "application/json": { "schema": { "type": "object" } } },
        }))])),
        "/metrics": read(admin, "metrics", "Metrics for Prometheus", replies([(200, text(Scrape::CONTENT_TYPE))])),
        "/openapi.json": read(admin, "openapi", "This document", replies([(200, json!({
            "description": "OpenAPI 3.1",
            "headers": no_store(),
            "content": { "application/json": { "schema": { "type": "object" } } },
        }))])),
        "/healthz": read(both, "healthz", "Whether the process lives", replies([(200, text(super::reply::PLAIN))])),
        "/readyz": read(both, "readyz", "Whether requests are decided: not during a drain", replies([
            (200, text(super::reply::PLAIN)),
            (503, problem("The service is about to stop, or no server of its store answers and checks are refused then")),
        ])),
    });
    if let (Some(system), Value::Object(paths)) = (answers, &mut paths) {
        paths.insert(system.path.to_owned(), other(system, decided()));
    }
    paths
}

/// How another system is asked: a check, of which the bodies are its own. Where it has no words, they are ours.
fn other(system: &System, mut decided: Map<String, Value>) -> Value {
    let Description { operation: id, parameters, allowed, denied } = (system.description)();
    for (status, reply) in &mut decided {
        if !is_problem(status) && system.headers == Some(headers::HeaderFormat::Draft06) {
            tell_by_draft_06(&mut reply["headers"]);
        }
        match (status.as_str(), &mut reply["content"]) {
            ("200", content) => *content = allowed.clone(),
            (status, _) if is_problem(status) => {}
            (_, Value::Object(content)) => {
                for (kind, body) in denied.as_object().into_iter().flatten() {
                    let body = match content.get(kind) {
                        Some(ours) => json!({ "schema": { "anyOf": [body["schema"], ours["schema"]] } }),
                        None => body.clone(),
                    };
                    content.insert(kind.clone(), body);
                }
            }
            _ => {}
        }
    }
    json!({ "get": operation(&[Listener::Public], id, "Take a unit, asked as in another system", json!({
        "parameters": parameters,
        "responses": with_bad_request(decided),
    })) })
}

/// Whether it is of a request without a decision, among the answers to a check.
fn is_problem(status: &str) -> bool {
    matches!(status, "500" | "503")
}

fn tell_by_draft_06(headers: &mut Value) {
    let Value::Object(headers) = headers else { return };
    headers.remove("RateLimit");
    for (name, description) in [
        ("RateLimit-Policy", "Units and seconds of each quota's window"),
        ("RateLimit-Limit", "Units in a window"),
        ("RateLimit-Remaining", "Units left"),
        ("RateLimit-Reset", "Seconds until the window ends"),
    ] {
        let schema = json!({ "type": "string" });
        headers.insert(name.to_owned(), json!({ "description": description, "schema": schema }));
    }
}

fn operation(listeners: &[Listener], id: &str, summary: &str, rest: Value) -> Value {
    let tags: Vec<&str> = listeners.iter().map(|listener| listener.name()).collect();
    let mut operation = json!({ "operationId": id, "summary": summary, "tags": tags });
    if let (Value::Object(operation), Value::Object(rest)) = (&mut operation, rest) {
        operation.extend(rest);
    }
    operation
}

/// What only reads can be asked by GET and by HEAD.
fn read(listeners: &[Listener], id: &str, summary: &str, responses: Map<String, Value>) -> Value {
    let heads: Map<String, Value> = responses
        .iter()
        .map(|(status, response)| {
            let mut response = response.clone();
            if let Value::Object(response) = &mut response {
                response.remove("content");
            }
            (status.clone(), response)
        })
        .collect();
    json!({
        "get": operation(listeners, id, summary, json!({ "responses": responses })),
        "head": operation(listeners, &format!("{id}Head"), summary, json!({ "responses": heads })),
    })
}

fn body(schema: &str) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": reference(schema) } } })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn replies<const N: usize>(replies: [(u16, Value); N]) -> Map<String, Value> {
    replies.into_iter().map(|(status, reply)| (status.to_string(), reply)).collect()
}

fn changed(schema: &str) -> Map<String, Value> {
    with_bad_body(replies([
        (200, answer(schema, "Where each quota stands")),
        (500, uncountable()),
        (503, unavailable()),
    ]))
}

fn refunded() -> Map<String, Value> {
    let mut responses = changed("RefundReply");
    let gone =
        "A quota that is named does not apply under the policies that are live; nothing was given back";
    responses.extend(replies([(409, problem(gone))]));
    responses
}

fn with_bad_request(mut responses: Map<String, Value>) -> Map<String, Value> {
    responses.extend(replies([(400, problem("What the request says cannot be; `field` names where"))]));
    responses
}

fn with_bad_body(responses: Map<String, Value>) -> Map<String, Value> {
    let mut responses = with_bad_request(responses);
    responses.extend(replies([
        (408, problem("The body did not arrive in time")),
        (413, problem("The body is larger than 64 KiB")),
        (415, problem("The body is not JSON")),
    ]));
    responses
}

fn answer(schema: &str, description: &str) -> Value {
    let content = json!({ "application/json": { "schema": reference(schema) } });
    json!({ "description": description, "headers": no_store(), "content": content })
}

fn decision(description: &str, always_told: bool) -> Value {
    let content = json!({ "application/json": { "schema": reference("Decision") } });
    json!({ "description": description, "headers": limit_headers(always_told), "content": content })
}

fn denied(always_told: bool) -> Value {
    let mut headers = limit_headers(always_told);
    if let Value::Object(headers) = &mut headers {
        let seconds = json!({ "type": "integer", "minimum": 1 });
        let description = "Whole seconds to wait; absent if the cost can never pass";
        headers.insert("Retry-After".to_owned(), json!({ "description": description, "schema": seconds }));
    }
    let content = json!({ "application/problem+json": { "schema": reference("QuotaExceeded") } });
    json!({ "description": "Denied", "headers": headers, "content": content })
}

fn problem(description: &str) -> Value {
    let content = json!({ "application/problem+json": { "schema": reference("Problem") } });
    json!({ "description": description, "headers": no_store(), "content": content })
}

fn unavailable() -> Value {
    problem(
        "The store could not answer: it is full and the key has no counter (`reason` is `store_full`), or it is in \
         trouble, and the policy for that is to refuse",
    )
}

fn uncountable() -> Value {
    problem(
        "The store can never count this request, and a retry does not help (`reason` is `uncountable`): on a Cluster, \
         say, its policies count different keys",
    )
}

fn text(content_type: &str) -> Value {
    let content = json!({ content_type: { "schema": { "type": "string" } } });
    json!({ "description": "Text", "headers": no_store(), "content": content })
}

fn no_store() -> Value {
    json!({ "Cache-Control": { "required": true, "schema": { "type": "string", "const": "no-store" } } })
}

fn limit_headers(always_told: bool) -> Value {
    let header = |description: &str, pattern: &str| {
        // Other policies have other formats of the same names, or none.
        let schema = if always_told {
            json!({ "type": "string", "pattern": pattern })
        } else {
            json!({ "type": "string" })
        };
        json!({ "description": description, "required": always_told, "schema": schema })
    };
    let mut headers = no_store();
    if let Value::Object(headers) = &mut headers {
        let policy = header("Units and seconds of each quota's window", r#"^"[^"]+";q=\d+;w=\d+"#);
        let limit = header("Units left, and seconds until the window ends", r#"^"[^"]+";r=\d+;t=\d+"#);
        headers.insert("RateLimit-Policy".to_owned(), policy);
        headers.insert("RateLimit".to_owned(), limit);
        let source = json!({ "type": "string", "enum": ["local", "fallback"] });
        let description = "Where the decision came from; absent if from the store";
        headers.insert("Tollgate-Source".to_owned(), json!({ "description": description, "schema": source }));
    }
    headers
}

fn schemas(live: &PolicySet) -> Map<String, Value> {
    let mut schemas = Vec::new();
    collect::<DecisionBody<'_>>(&mut schemas);
    collect::<DeniedBody<'_>>(&mut schemas);
    collect::<ProblemBody<'_>>(&mut schemas);
    collect::<BatchReply<'_>>(&mut schemas);
    collect::<RefundReply<'_>>(&mut schemas);
    collect::<CountsReply<'_>>(&mut schemas);
    collect::<PoliciesBody<'_>>(&mut schemas);
    collect::<ReloadReply>(&mut schemas);
    let value = |schema| serde_json::to_value(schema).unwrap_or_default();
    let replies = schemas.into_iter().map(|(name, schema)| (name, value(schema)));
    replies.chain(requests::schemas(live.policies())).collect()
}

type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>;

fn collect<T: ToSchema + PartialSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}
