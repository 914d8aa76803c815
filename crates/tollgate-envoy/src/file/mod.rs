//! The contents of a file of envoyproxy/ratelimit, as written, or the same contents as a [`value`](self::value).
//!
//! Every value is checked by itself here. Conflicts between values are in [`domains`](crate::domains).

mod value;
mod values;

use serde_json::Value;
use tollgate_yaml::{At, FromNode, Node, NodeValue, Problems, section};

pub(crate) use self::values::{Flag, Metadata, Requests, Scalar, UnitWord};
use crate::origin::ValuePlaces;

section! {
    /// The limits of a domain.
    RawFile("the file") {
        "domain" domain: Scalar,
        // The name of the resource if the file was written for xDS. It has no effect there either.
        "name" name: Scalar,
        "descriptors" descriptors: Vec<At<RawDescriptor>>,
    }
}

section! {
    /// The limit of a key, or of a key and its value, and the descriptors that may follow it in a request.
    RawDescriptor("a descriptor", "{ key: path, value: /login, rate_limit: { unit: minute, requests_per_unit: 5 } }") {
        "key" key: Scalar,
        "value" value: Scalar,
        "rate_limit" rate_limit: RawRateLimit,
        "descriptors" descriptors: Vec<At<RawDescriptor>>,
        "shadow_mode" shadow_mode: Flag,
        "quota_mode" quota_mode: Flag,
        "detailed_metric" detailed_metric: Flag,
        "value_to_metric" value_to_metric: Flag,
        "share_threshold" share_threshold: Flag,
        "metadata" metadata: Metadata,
    }
}

section! {
    /// A limit.
    RawRateLimit("rate_limit", "{ unit: minute, requests_per_unit: 5 }") {
        "unit" unit: UnitWord,
        "requests_per_unit" requests_per_unit: Requests,
        "unlimited" unlimited: Flag,
        // Not of envoyproxy/ratelimit, which refuses it.
        "overdraft" overdraft: Flag,
        "name" name: Scalar,
        "replaces" replaces: Vec<At<RawReplaced>>,
    }
}

section! {
    /// A limit that another one replaces.
    RawReplaced("an entry of replaces", "{ name: default }") {
        "name" name: Scalar,
    }
}

/// Reads the text of a file. `None` only with a problem noted.
pub(crate) fn read(text: &str, file: u32, problems: &mut Problems) -> Option<At<RawFile>> {
    read_node(Node::parse_plain(text, file, problems)?, problems)
}

/// Reads the contents of a file as a value that messages call `name`. `None` only with a problem noted.
pub(crate) fn read_value(
    value: Value,
    name: &str,
    places: &mut ValuePlaces,
    problems: &mut Problems,
) -> Option<At<RawFile>> {
    read_node(value::root(value, name, places), problems)
}

fn read_node(mut root: Node, problems: &mut Problems) -> Option<At<RawFile>> {
    remove_nothing(&mut root);
    At::read(&root, problems)
}

/// Removes keys without a value, which envoyproxy/ratelimit reads as if they were not there.
fn remove_nothing(node: &mut Node) {
    match &mut node.value {
        NodeValue::List(nodes) => nodes.iter_mut().for_each(remove_nothing),
        NodeValue::Mapping(entries) => {
            entries.retain(|entry| !matches!(entry.node.value, NodeValue::Nothing));
            // Metadata is passed on as it is.
            let others = entries.iter_mut().filter(|entry| entry.key.as_ref() != "metadata");
            others.for_each(|entry| remove_nothing(&mut entry.node));
        }
        NodeValue::Nothing | NodeValue::Scalar { .. } | NodeValue::Lines { .. } => {}
    }
}
