//! Values that are checked by themselves.

use schemars::JsonSchema;
use serde_json::{Map, Number, Value};
use tollgate_yaml::{FromNode, Node, NodeValue, ProblemKind, Problems};

use crate::Unit;

/// A text, number or word, as it is written.
#[derive(Debug, Clone, JsonSchema)]
pub(crate) struct Scalar(pub(crate) Box<str>);

/// True or false, in the words of YAML 1.1.
#[derive(Debug, Clone, Copy, JsonSchema)]
pub(crate) struct Flag(pub(crate) bool);

/// The requests of a limit.
#[derive(Debug, Clone, Copy, JsonSchema)]
pub(crate) struct Requests(pub(crate) u32);

/// The unit of a limit.
#[derive(Debug, Clone, Copy, JsonSchema)]
pub(crate) struct UnitWord(#[schemars(with = "String")] pub(crate) Unit);

/// The metadata for Envoy about requests that a descriptor admits.
#[derive(Debug, Clone, JsonSchema)]
pub(crate) struct Metadata(pub(crate) Map<String, Value>);

const UNITS: &[&str] = &["second", "minute", "hour", "day", "week", "month", "year"];

impl FromNode for Scalar {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        problems.take(node.at, node.text("a text")).map(|text| Self(text.into()))
    }
}

impl FromNode for Flag {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        problems.take(node.at, node.parsed("true or false", boolean)).map(Self)
    }
}

impl FromNode for Requests {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        // In YAML 1.1, such a number is octal.
        let is_octal = |text: &str| text.len() > 1 && text.starts_with('0');
        let expected = if is_octal(node.written()) {
            "a whole number without a zero before it"
        } else {
            "a whole number from 0 to 4294967295"
        };
        // Go's reader takes `_` between digits.
        let number = |text: &str| text.replace('_', "").parse().ok().filter(|_| !is_octal(text));
        let number = node.parsed(expected, number);
        problems.take(node.at, number).map(Self)
    }
}

impl FromNode for UnitWord {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let name = problems.take(node.at, node.text("a unit of time"))?;
        let unit = Unit::from_name(name);
        if unit.is_none() {
            let (written, hint) = (node.written().into(), problems.hint(name, UNITS));
            problems.add(node.at, ProblemKind::UnknownWord { what: "unit", written, hint });
        }
        unit.map(Self)
    }
}

impl FromNode for Metadata {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match value(node) {
            Value::Object(map) => Some(Self(map)),
            _ => {
                problems.add(node.at, node.expected("a mapping for the metadata"));
                None
            }
        }
    }
}

/// Parses a boolean of YAML 1.1.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// The node as JSON has it. Numbers and words without quotes get their types.
fn value(node: &Node) -> Value {
    match &node.value {
        NodeValue::Nothing => Value::Null,
        NodeValue::Scalar { text, is_plain: true, .. } => plain(text),
        NodeValue::Scalar { text, .. } => Value::String(text.as_ref().into()),
        NodeValue::List(nodes) => nodes.iter().map(value).collect(),
        NodeValue::Mapping(entries) => {
            let pairs = entries.iter().map(|entry| (entry.key.as_ref().into(), value(&entry.node)));
            Value::Object(pairs.collect())
        }
        // Only files of policies have them.
        NodeValue::Lines { .. } => Value::Null,
    }
}

fn plain(text: &str) -> Value {
    if let Some(flag) = boolean(text) {
        return Value::Bool(flag);
    }
    // `.5` and `1e3` are numbers, `inf` and `nan` are words.
    let is_numeric = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        && text.ends_with(|last: char| last.is_ascii_digit() || last == '.');
    let number = text.parse::<i64>().ok().map(Number::from);
    let number = number.or_else(|| text.parse().ok().and_then(Number::from_f64));
    match number.filter(|_| is_numeric) {
        Some(number) => Value::Number(number),
        None => Value::String(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_keeps_the_types_of_its_values() {
        let text = "a: 1\nb: 1.5\nc: yes\nd: 'yes'\ne: '7'\nf: [x, ~, {g: -2}]\nh: 1.2.3\ni: inf\nj: +\n";
        let (mut problems, node) =
            (Problems::default(), Node::parse_plain(text, 0, &mut Problems::default()));
        let metadata = Metadata::read(&node.unwrap(), &mut problems).unwrap();
        assert_eq!(
            Value::Object(metadata.0),
            json!({
                "a": 1, "b": 1.5, "c": true, "d": "yes", "e": "7", "f": ["x", null, { "g": -2 }],
                "h": "1.2.3", "i": "inf", "j": "+",
            })
        );
    }
}
