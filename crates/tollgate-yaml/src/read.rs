//! From the tree to typed sections: every problem is noted, and reading continues.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::node::{Node, NodeValue};
use crate::position::Position;
use crate::problem::{ProblemKind, Problems};

/// A value that can be read from a place in a file. `None` only with a problem noted.
pub trait FromNode: Sized {
    /// Reads it, and notes its problems.
    fn read(node: &Node, problems: &mut Problems) -> Option<Self>;
}

/// A value and its place.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// Where it begins.
    pub at: Position,
    /// As that of its [`Node`].
    pub end: Position,
    /// The value.
    pub value: T,
}

/// One value, or a list of them.
#[derive(Debug, Clone)]
pub struct OneOrMany<T>(pub Vec<At<T>>);

/// A text, and its form in messages, which do not show the values of variables.
#[derive(Debug, Clone)]
pub struct WrittenText {
    /// With variables replaced by their values.
    pub text: Box<str>,
    /// As written in the file.
    pub written: Box<str>,
}

impl<T: FromNode> FromNode for At<T> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        T::read(node, problems).map(|value| Self { at: node.at, end: node.end, value })
    }
}

/// A list; entries that cannot be read are left out.
impl<T: FromNode> FromNode for Vec<At<T>> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let nodes = problems.take(node.at, node.list("a list, with `- ` before each entry"))?;
        Some(nodes.iter().filter_map(|node| FromNode::read(node, problems)).collect())
    }
}

impl<T: FromNode> FromNode for OneOrMany<T> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            NodeValue::List(nodes) if nodes.is_empty() => {
                problems.add(node.at, ProblemKind::Empty("value"));
                None
            }
            NodeValue::List(_) => FromNode::read(node, problems).map(Self),
            _ => At::read(node, problems).map(|one| Self(vec![one])),
        }
    }
}

impl FromNode for bool {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let value = node.parsed("true or false", |text| text.parse().ok());
        problems.take(node.at, value)
    }
}

impl FromNode for Box<str> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        problems.take(node.at, node.text("a text")).map(Into::into)
    }
}

impl FromNode for WrittenText {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        Some(Self { text: FromNode::read(node, problems)?, written: node.written().into() })
    }
}

impl JsonSchema for WrittenText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        str::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        str::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}
