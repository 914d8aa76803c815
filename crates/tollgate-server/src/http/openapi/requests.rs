//! Schemas of what is asked: with the attributes that are required, where one policy says so for every request.

use serde_json::{Map, Value, json};
use tollgate_policy::{Attributes, Identity, Mode, OnMissingKey, Policies, Policy};

use super::super::json::{Cost, StartMillis, Used};
use super::super::wire::BatchRequest;
use super::reference;
use crate::attributes;

/// The schemas of all request bodies, by name.
pub(super) fn schemas(policies: &Policies) -> Map<String, Value> {
    let only = only_policy(policies);
    let windows = json!({
        "type": "array",
        "description": "The windows that were charged, of each quota at most one",
        "items": reference("RefundWindow"),
    });
    let used = json!({
        "type": "integer",
        "description": "Units that shall be used in each quota's window; may be above the limit",
        "minimum": 0,
        "maximum": Used::MAX,
    });
    let requests = json!({
        "type": "array",
        "items": reference("BatchEntryRequest"),
        "minItems": 1,
        "maxItems": BatchRequest::MAX,
    });
    let attributes = || ("attributes", reference("Attributes"));
    let any = ("attributes", reference("AnyAttributes"));
    [
        ("Attributes", only.map_or_else(any_attributes, |policy| identifying(policy.identity()))),
        ("AnyAttributes", any_attributes()),
        ("CheckRequest", object(&["attributes"], [attributes(), ("cost", cost())])),
        ("BatchEntryRequest", object(&["attributes"], [any, ("cost", cost())])),
        ("BatchRequest", object(&["requests"], [("requests", requests)])),
        (
            "RefundRequest",
            object(&["attributes", "windows"], [attributes(), ("cost", given()), ("windows", windows)]),
        ),
        ("RefundWindow", refund_window()),
        ("ResetRequest", object(&["attributes"], [attributes()])),
        ("SetRequest", object(&["attributes", "used"], [attributes(), ("used", used)])),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect()
}

/// The policy that counts every request, if there is one alone.
fn only_policy(policies: &Policies) -> Option<&Policy> {
    let [policy] = policies.as_slice() else { return None };
    let counts_all = policy.mode() == Mode::Enforce
        && !policy.is_exempt()
        && policy.conditions().is_empty()
        && policy.overrides().is_empty()
        && policy.on_missing_key() == OnMissingKey::Error;
    counts_all.then_some(policy)
}

/// The parameters of a check in the query: every name but `cost` is an attribute.
pub(super) fn query() -> Value {
    let attributes = json!({
        "name": "attributes",
        "in": "query",
        "required": true,
        "description": "Who asks: each attribute as a parameter of its own name, which is not `cost`",
        "style": "form",
        "explode": true,
        "schema": {
            "allOf": [reference("Attributes")],
            "propertyNames": { "not": { "const": "cost" } },
        },
    });
    json!([attributes, { "name": "cost", "in": "query", "required": false, "schema": cost() }])
}

fn cost() -> Value {
    units("Units to take; 0 takes none and answers as 1 would")
}

fn given() -> Value {
    units("Units to give back; at most what is used")
}

fn refund_window() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let start = json!({
        "type": "integer",
        "description": "`window.start` of that entry",
        "minimum": 0,
        "maximum": StartMillis::MAX,
    });
    let policy = text("`policy` of an entry of the check's `quotas`");
    let quota = text("`quota` of that entry; its limit may have changed since");
    object(&["policy", "quota", "start"], [("policy", policy), ("quota", quota), ("start", start)])
}

fn units(description: &str) -> Value {
    json!({
        "type": "integer",
        "description": description,
        "minimum": 0,
        "maximum": Cost::MAX,
        "default": 1,
    })
}

fn object<const N: usize>(required: &[&str], properties: [(&str, Value); N]) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

fn any_attributes() -> Value {
    json!({
        "type": "object",
        "description": "What the caller says of its request",
        "additionalProperties": { "type": "string" },
        "propertyNames": { "minLength": 1, "maxLength": Attributes::MAX_NAME },
        "maxProperties": attributes::MAX,
    })
}

/// What says who is counted may be neither missing nor empty.
fn identifying(identity: &Identity) -> Value {
    let mut schema = any_attributes();
    let Value::Object(fields) = &mut schema else { return schema };
    let text = json!({ "type": "string", "minLength": 1 });
    match identity {
        Identity::Every => {
            fields.insert("minProperties".to_owned(), 1.into());
            fields.insert("additionalProperties".to_owned(), text);
        }
        // A policy that can do with one of several requires none of them.
        _ => {
            let names = names(identity);
            let named: Map<String, Value> =
                names.iter().map(|name| ((*name).to_owned(), text.clone())).collect();
            fields.insert("properties".to_owned(), named.into());
            fields.insert("required".to_owned(), names.into());
        }
    }
    schema
}

/// The attributes that have to be there.
fn names(identity: &Identity) -> Vec<&str> {
    match identity {
        Identity::Attribute(name) | Identity::Address(name, _) => vec![name],
        Identity::All(parts) => parts.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}
