//! Contents that are not in a file, as the tree that a file would have.

use serde_json::Value;
use tollgate_yaml::{MappingEntry, Node, NodeValue, Position};

use crate::origin::{PlaceStep, ValuePlaces};

/// Returns the tree of a value that messages call `name`.
pub(super) fn root(value: Value, name: &str, places: &mut ValuePlaces) -> Node {
    let at = places.add_value(name);
    node(value, at, places)
}

fn node(value: Value, at: Position, places: &mut ValuePlaces) -> Node {
    let value = match value {
        Value::Null => NodeValue::Nothing,
        Value::Bool(flag) => scalar(flag.to_string(), true),
        Value::Number(number) => scalar(number.to_string(), true),
        Value::String(text) => scalar(text, false),
        Value::Array(values) => {
            let nodes = values.into_iter().enumerate().map(|(index, value)| {
                let at = places.add(at, PlaceStep::Index(index));
                node(value, at, places)
            });
            NodeValue::List(nodes.collect())
        }
        Value::Object(members) => {
            let entries = members.into_iter().map(|(key, value)| {
                let key: Box<str> = key.into();
                let at = places.add(at, PlaceStep::Key(key.clone()));
                MappingEntry { key, at, node: node(value, at, places) }
            });
            NodeValue::Mapping(entries.collect())
        }
    };
    Node { at, end: at, value }
}

fn scalar(text: String, is_plain: bool) -> NodeValue {
    let text: Box<str> = text.into();
    NodeValue::Scalar { written: text.clone(), text, is_plain, filled: [].into() }
}
