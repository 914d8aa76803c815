//! The description of the service at `/openapi.json`: the table of operations, the types of the wire, and the additions
//! of the live policies.

mod security;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, StatusCode};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::map::Entry;
use serde_json::{Map, Value, json};
use tollgate_policy::{HeaderFormat, Identity, Mode, OnMissingKey, Policies, Policy};

use super::dialects::{Content, Dialect, Parameter};
use super::forwarded::{ALL_HEADERS, DENY, DENY_STATUSES};
use super::operation::{InputPlace, Operation, RequestHeader, Success};
use super::problem::ProblemBody;
use super::query::QueryParameter;
use super::wire::{CheckReply, ClientDenial, DeniedReply, KEY_ATTRIBUTES, ReserveReply};
use crate::access::address::ListenAddress;
use crate::access::listener::Listener;
use crate::answer::trials_header::TrialsHeader;
use crate::request::json::CostUnits;

/// Returns the document under these policies, if any decide.
pub(super) fn document<'a>(
    operations: impl Iterator<Item = &'a Operation>,
    listeners: &[Listener],
    policies: Option<&Policies>,
    trials_header: TrialsHeader,
) -> Bytes {
    let mut describer = Describer::new(policies, trials_header);
    let mut paths = Map::new();
    // People open the page; no client is generated from it.
    for operation in operations.filter(|operation| !operation.is_of_page()) {
        let granting: Vec<&Listener> =
            listeners.iter().filter(|listener| listener.grants(operation.scope)).collect();
        let described = describer.operation(operation, &granting);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        for method in operation.methods().skip(1) {
            path[key(method)] = under(method, &described);
        }
        match &mut path[key(&operation.method)] {
            nothing @ Value::Null => *nothing = described,
            // The same operation for callers with another scope. The first description says what those may do.
            first => add_tags(first, &described),
        }
    }
    let servers = listeners.iter().map(|listener| {
        let description = match &listener.address {
            ListenAddress::Tcp(_) => listener.name.to_owned(),
            ListenAddress::Unix(path) => format!("{} at {path}", listener.name),
        };
        json!({ "url": listener.url(), "description": description })
    });
    let tags = listeners.iter().map(|it| json!({ "name": it.name, "description": it.purpose }));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate",
            "description": "Exact rate limiting. Each operation is available on the listeners that it \
             is tagged with.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": servers.collect::<Vec<_>>(),
        "tags": tags.collect::<Vec<_>>(),
        "paths": paths,
        "components": { "schemas": describer.schemas() },
    });
    let schemes = security::schemes(listeners);
    if !schemes.is_empty() {
        document["components"]["securitySchemes"] = schemes.into();
    }
    document.to_string().into()
}

/// Describes operations under the live policies, and collects the types that they use.
struct Describer<'a> {
    policies: Option<&'a Policies>,
    trials_header: TrialsHeader,
    /// The formats of headers that policies send, each once.
    formats: Vec<HeaderFormat>,
    /// Whether every decision has the headers of the default format.
    is_always_told: bool,
    asked: SchemaGenerator,
    answered: SchemaGenerator,
}

impl<'a> Describer<'a> {
    fn new(policies: Option<&'a Policies>, trials_header: TrialsHeader) -> Self {
        let is_always_told = matches!(as_slice(policies), [policy] if policy.conditions().is_empty() && !policy.quotas().is_empty() && policy.headers().has(HeaderFormat::Draft11));
        let is_used = |format: &HeaderFormat| as_slice(policies).iter().any(|it| it.headers().has(*format));
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        let answered = settings.clone().for_serialize().with_transform(RecursiveTransform(absent_not_null));
        Self {
            policies,
            trials_header,
            formats: HeaderFormat::ALL.into_iter().filter(is_used).collect(),
            is_always_told,
            asked: settings
                .for_deserialize()
                .with_transform(RecursiveTransform(without_null_default))
                .into_generator(),
            answered: answered.into_generator(),
        }
    }

    fn operation(&mut self, operation: &Operation, listeners: &[&Listener]) -> Value {
        let asks_principals = listeners.iter().any(|listener| listener.asks_principals());
        let mut described = json!({
            "operationId": operation.id,
            "summary": operation.summary,
            "tags": listeners.iter().map(|listener| listener.name).collect::<Vec<_>>(),
            "responses": self.responses(operation, asks_principals),
        });
        if let Some(required) = security::requirements(listeners, operation.scope) {
            described["security"] = required;
        }
        match operation.asked {
            InputPlace::Path => {}
            InputPlace::Query => described["parameters"] = query(&mut self.asked),
            InputPlace::Dialect(dialect) => {
                described["parameters"] = dialect.parameters.iter().map(parameter).collect();
            }
            InputPlace::Parameters(parameters) => {
                described["parameters"] = parameters.iter().map(optional).collect();
            }
            InputPlace::Forwarded => described["parameters"] = forwarded(),
            InputPlace::Body(schema) | InputPlace::OfAnyType(schema) => {
                let schema = schema(&mut self.asked);
                let content = json!({ "application/json": { "schema": schema } });
                described["requestBody"] = json!({ "required": true, "content": content });
            }
        }
        let headers = operation.headers.iter().map(|RequestHeader { name, description }| {
            json!({ "name": name, "in": "header", "required": false, "description": description, "schema": { "type": "string" } })
        });
        match described["parameters"].as_array_mut() {
            Some(parameters) => parameters.extend(headers),
            None if operation.headers.is_empty() => {}
            None => described["parameters"] = headers.collect(),
        }
        described
    }

    fn responses(&mut self, operation: &Operation, asks_principals: bool) -> Map<String, Value> {
        let mut responses = self.successes(operation.success);
        for (status, description) in operation.rejections(asks_principals) {
            let schema = self.answered.subschema_for::<ProblemBody<'_>>();
            let content = json!({ "application/problem+json": { "schema": schema } });
            let problem = json!({ "description": description, "headers": no_store(), "content": content });
            match responses.entry(status.as_str()) {
                Entry::Vacant(place) => drop(place.insert(problem)),
                // A policy denies with this status as well, or two rejections share it.
                Entry::Occupied(mut denial) => add(denial.get_mut(), &problem),
            }
        }
        responses
    }

    /// Describes the replies other than rejections, including denials with a status of their own.
    fn successes(&mut self, success: Success) -> Map<String, Value> {
        let ok = StatusCode::OK.as_str();
        let plain = |description: &str, kind: &str, schema: Value| {
            let content = json!({ kind: { "schema": schema } });
            json!({ "description": description, "headers": no_store(), "content": content })
        };
        let reply = match success {
            Success::Decision(description) => {
                let denied = self.denied::<DeniedReply<'_>>();
                let mut decided = self.denials(&denied);
                decided.insert(ok.to_owned(), self.admitted(description));
                return decided;
            }
            Success::Reservation(description) => {
                let denied = self.denied::<DeniedReply<'_>>();
                let mut decided = self.denials(&denied);
                let mut admitted = self.admitted(description);
                let schema = self.answered.subschema_for::<ReserveReply<'_>>();
                admitted["content"] = json!({ "application/json": { "schema": schema } });
                decided.insert(ok.to_owned(), admitted);
                return decided;
            }
            Success::Dialect(dialect) => return self.successes_in(dialect),
            Success::Forwarded => return self.successes_for_proxies(),
            Success::Envoy => {
                let json = |description| plain(description, "application/json", json!({ "type": "object" }));
                let denied = StatusCode::TOO_MANY_REQUESTS.as_str().to_owned();
                let replies = [(ok.to_owned(), json("No limit denies")), (denied, json("A limit denies"))];
                return Map::from_iter(replies);
            }
            Success::Verdict(description) => self.decision(description),
            Success::Json(schema, description) => {
                plain(description, "application/json", schema(&mut self.answered).to_value())
            }
            Success::Tagged(schema, description) => {
                let mut reply = plain(description, "application/json", schema(&mut self.answered).to_value());
                reply["headers"]["ETag"] = json!({
                    "description": "The version of the override, for `If-Match`",
                    "required": true,
                    "schema": { "type": "string" },
                });
                reply
            }
            Success::Shared(schema, description) => {
                let mut reply = plain(description, "application/json", schema(&mut self.answered).to_value());
                let tag = json!({ "description": "Names this answer, for `If-None-Match`", "required": true, "schema": { "type": "string" } });
                reply["headers"]["ETag"] = tag.clone();
                let mut known = json!({ "description": "The caller has this answer", "headers": no_store() });
                known["headers"]["ETag"] = tag;
                let unchanged = StatusCode::NOT_MODIFIED.as_str().to_owned();
                return Map::from_iter([(ok.to_owned(), reply), (unchanged, known)]);
            }
            Success::Document(description) => {
                plain(description, "application/json", json!({ "type": "object" }))
            }
            Success::Page => return Map::new(),
            Success::Text(media_types) => {
                let mut reply = plain("Text", "", Value::Null);
                let schema = json!({ "schema": { "type": "string" } });
                let contents = media_types.iter().map(|kind| ((*kind).to_owned(), schema.clone()));
                reply["content"] = contents.collect();
                reply
            }
        };
        Map::from_iter([(ok.to_owned(), reply)])
    }

    /// Describes the replies in another system's format. Where that system has no words, they are ours.
    fn successes_in(&mut self, dialect: &Dialect) -> Map<String, Value> {
        let Content { media_type, schema } = dialect.allowed;
        let mut allowed = self.decision("Admitted");
        allowed["content"] = json!({ media_type: { "schema": schema(&mut self.answered) } });
        let Content { media_type, schema } = dialect.denied;
        let mut denied = self.denied::<DeniedReply<'_>>();
        let theirs = schema(&mut self.answered).to_value();
        let ours = denied["content"][media_type]["schema"].take();
        let both = if ours.is_null() { theirs } else { json!({ "anyOf": [theirs, ours] }) };
        denied["content"][media_type] = json!({ "schema": both });
        if let Some(format) = dialect.headers {
            allowed["headers"] = headers(&[format], false);
            denied["headers"] = with_retry_after(headers(&[format], false));
        }
        self.add_trials(&mut allowed);
        let mut decided = self.denials(&denied);
        decided.insert(StatusCode::OK.as_str().to_owned(), allowed);
        decided
    }

    /// Describes the replies to proxies, whose URL may choose the status of a denial.
    fn successes_for_proxies(&mut self) -> Map<String, Value> {
        let denied = self.denied::<ClientDenial<'_>>();
        let mut decided = self.denials(&denied);
        let chosen = DENY_STATUSES.map(|status| (status.as_str().to_owned(), denied.clone()));
        decided.extend(chosen);
        decided.insert(StatusCode::OK.as_str().to_owned(), self.admitted("Admitted"));
        decided
    }

    /// Describes a denial under each status that a policy chooses.
    fn denials(&self, denied: &Value) -> Map<String, Value> {
        let statuses = as_slice(self.policies).iter().map(|policy| policy.deny_status().to_string());
        // An override denies with it, and so do requests that no policy matches.
        let forbidden = self.policies.is_some().then(|| StatusCode::FORBIDDEN.as_str().to_owned());
        let statuses = statuses.chain(forbidden);
        statuses.map(|status| (status, denied.clone())).collect()
    }

    fn admitted(&mut self, description: &str) -> Value {
        let mut admitted = self.decision(description);
        self.add_trials(&mut admitted);
        admitted
    }

    fn add_trials(&self, admitted: &mut Value) {
        if self.trials_header == TrialsHeader::Sent {
            admitted["headers"]["Tollgate-Trials"] = json!({
                "description": "The policies on trial that would have denied the request; absent if there are none",
                "schema": { "type": "string" },
            });
        }
    }

    fn decision(&mut self, description: &str) -> Value {
        let schema = self.answered.subschema_for::<CheckReply<'_>>();
        let content = json!({ "application/json": { "schema": schema } });
        json!({ "description": description, "headers": headers(&self.formats, self.is_always_told), "content": content })
    }

    /// Describes a denial with a body of this type.
    fn denied<T: JsonSchema>(&mut self) -> Value {
        let headers = with_retry_after(headers(&self.formats, self.is_always_told));
        let schema = self.answered.subschema_for::<T>();
        let content = json!({ "application/problem+json": { "schema": schema } });
        json!({ "description": "Denied", "headers": headers, "content": content })
    }

    /// Returns the types that the operations use, by name.
    fn schemas(mut self) -> Map<String, Value> {
        let mut schemas = self.answered.take_definitions(true);
        schemas.extend(self.asked.take_definitions(true));
        if let (Some(policy), Some(attributes)) =
            (only_policy(self.policies), schemas.get_mut(KEY_ATTRIBUTES))
        {
            require(policy.identity(), attributes);
        }
        schemas
    }
}

fn add_tags(operation: &mut Value, other: &Value) {
    let more = other["tags"].as_array().cloned().unwrap_or_default();
    operation["tags"].as_array_mut().into_iter().for_each(|tags| tags.extend(more.clone()));
}

/// Removes the default `null` of optional fields.
fn without_null_default(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// A missing value is left out, never `null`.
fn absent_not_null(schema: &mut Schema) {
    let is_required = |required: &Option<Value>, name: &str| {
        required.as_ref().and_then(Value::as_array).is_some_and(|names| names.iter().any(|it| it == name))
    };
    let required = schema.get("required").cloned();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(&required, name)) {
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|it| it != "null");
            if let [only] = &types[..] {
                property["type"] = only.clone();
            }
        }
        let Some(Value::Array(choices)) = property.get_mut("anyOf") else { continue };
        choices.retain(|it| *it != json!({ "type": "null" }));
        if let ([Value::Object(only)], Value::Object(property)) = (&choices.clone()[..], property) {
            property.remove("anyOf");
            property.extend(only.clone());
        }
    }
}

/// Returns the policy that counts every request, if it is the only one.
fn as_slice(policies: Option<&Policies>) -> &[Policy] {
    policies.map_or(&[], Policies::as_slice)
}

fn only_policy(policies: Option<&Policies>) -> Option<&Policy> {
    let [policy] = as_slice(policies) else { return None };
    let counts_all = policy.mode() == Mode::Enforce
        && !policy.is_exempt()
        && policy.conditions().is_empty()
        && policy.overrides().is_empty()
        && policy.on_missing_key() == OnMissingKey::Error;
    counts_all.then_some(policy)
}

/// Requires the attributes of the key, none of them empty.
fn require(identity: &Identity, attributes: &mut Value) {
    let text = json!({ "type": "string", "minLength": 1 });
    if *identity == Identity::Every {
        attributes["minProperties"] = 1.into();
        attributes["additionalProperties"] = text;
        return;
    }
    // A policy that needs one of several attributes requires none in particular.
    let names = names(identity);
    attributes["properties"] = names.iter().map(|name| ((*name).to_owned(), text.clone())).collect();
    attributes["required"] = names.into();
}

/// Returns the required attributes.
fn names(identity: &Identity) -> Vec<&str> {
    match identity {
        Identity::Attribute(name) | Identity::Address(name, _) => vec![name],
        Identity::All(parts) => parts.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

/// Describes the query of a check: every name but `cost` is an attribute.
fn query(schemas: &mut SchemaGenerator) -> Value {
    let attributes = json!({
        "name": "attributes",
        "in": "query",
        "required": true,
        "description": "Attributes of the request, each as a parameter with its own name; `cost` is not an attribute",
        "style": "form",
        "explode": true,
        "schema": {
            "allOf": [{ "$ref": format!("#/components/schemas/{KEY_ATTRIBUTES}") }],
            "propertyNames": { "not": { "const": "cost" } },
        },
    });
    let mut cost = schemas.subschema_for::<CostUnits>();
    cost.insert("default".to_owned(), 1.into());
    json!([attributes, { "name": "cost", "in": "query", "required": false, "schema": cost }])
}

fn optional(&QueryParameter { name, description }: &QueryParameter) -> Value {
    parameter(&Parameter { name, description, is_required: false })
}

fn parameter(&Parameter { name, description, is_required }: &Parameter) -> Value {
    let mut schema = json!({ "type": "string" });
    if is_required {
        schema["minLength"] = 1.into();
    }
    json!({ "name": name, "in": "query", "required": is_required, "description": description, "schema": schema })
}

/// Describes the requests of proxies. They have one of two forms, which a schema cannot express, so no header is
/// required.
fn forwarded() -> Value {
    let statuses = DENY_STATUSES.map(|status| status.as_u16());
    let deny = json!({
        "name": DENY,
        "in": "query",
        "required": false,
        "description": "The status of denials; by default, the policy's",
        "schema": { "type": "integer", "enum": statuses },
    });
    let headers = ALL_HEADERS.map(
        |name| json!({ "name": name, "in": "header", "required": false, "schema": { "type": "string" } }),
    );
    std::iter::once(deny).chain(headers).collect()
}

/// Adds a problem to the denial with the same status. A header is only required if both have it.
fn add(denial: &mut Value, problem: &Value) {
    let text = |reply: &Value| reply["description"].as_str().unwrap_or_default().to_owned();
    denial["description"] = format!("{}. Or: {}", text(denial), text(problem)).into();
    for (name, header) in denial["headers"].as_object_mut().into_iter().flatten() {
        if problem["headers"].get(name).is_none() {
            header["required"] = false.into();
        }
    }
    for (kind, body) in problem["content"].as_object().into_iter().flatten() {
        let ours = denial["content"][kind]["schema"].take();
        let theirs = &body["schema"];
        let is_new = !ours.is_null() && ours != *theirs;
        let either = if is_new { json!({ "anyOf": [ours, theirs] }) } else { theirs.clone() };
        denial["content"][kind] = json!({ "schema": either });
    }
}

/// Describes the same operation under another method.
fn under(method: &Method, operation: &Value) -> Value {
    let mut other = operation.clone();
    let (first, rest) = method.as_str().split_at(1);
    let id = operation["operationId"].as_str().unwrap_or_default();
    other["operationId"] = format!("{id}{first}{}", rest.to_ascii_lowercase()).into();
    if method == Method::HEAD {
        for response in other["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            response.as_object_mut().and_then(|response| response.remove("content"));
        }
    }
    other
}

/// The name of a method in the description of a path.
fn key(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

/// Describes the headers of a decision in these formats.
fn headers(formats: &[HeaderFormat], is_always_told: bool) -> Value {
    // One name can have several meanings in different formats.
    let mut meanings = BTreeMap::<&str, Vec<&str>>::new();
    for (name, meaning) in formats.iter().flat_map(|format| format.headers()) {
        let meanings = meanings.entry(name).or_default();
        if !meanings.contains(meaning) {
            meanings.push(meaning);
        }
    }
    let mut headers = no_store();
    for (name, meanings) in meanings {
        headers[name] = json!({ "description": meanings.join(", or "), "schema": { "type": "string" } });
    }
    if is_always_told {
        for (name, pattern) in
            [("RateLimit-Policy", r#"^"[^"]+";q=\d+;w=\d+"#), ("RateLimit", r#"^"[^"]+";r=\d+;t=\d+"#)]
        {
            headers[name]["required"] = true.into();
            headers[name]["schema"]["pattern"] = pattern.into();
        }
    }
    headers["Tollgate-Source"] = json!({
        "description": "Where the decision came from; absent if it came from the store",
        "schema": { "type": "string", "enum": ["local", "fallback"] },
    });
    headers
}

fn with_retry_after(mut headers: Value) -> Value {
    headers["Retry-After"] = json!({
        "description": "Whole seconds to wait; absent if the cost can never be admitted, or only after an outage",
        "schema": { "type": "integer", "minimum": 1 },
    });
    headers
}

fn no_store() -> Value {
    json!({ "Cache-Control": { "required": true, "schema": { "type": "string", "const": "no-store" } } })
}
