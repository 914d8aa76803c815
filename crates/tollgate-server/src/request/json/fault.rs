//! Finds the error in a body: parses it once more into a tree, whose errors have a place and repeat no value.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    self, Deserialize, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

/// A JSON value. Objects keep the order of their fields, and repeated names.
pub(super) enum Node {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Fields(Vec<(String, Node)>),
}

/// Why a value is not the expected one. It never repeats the value, which may be secret.
#[derive(Debug)]
pub(super) struct FieldFault {
    /// For example `requests[1].attributes.user`; empty for the whole value.
    pub(super) path: String,
    pub(super) detail: String,
}

impl Node {
    /// Reads a value of this type from the tree.
    ///
    /// # Errors
    ///
    /// If the tree has another form.
    pub(super) fn read<'de, T: Deserialize<'de>>(&self) -> Result<T, FieldFault> {
        serde_path_to_error::deserialize(self).map_err(|error| {
            let outer = if error.path().iter().len() == 0 { String::new() } else { error.path().to_string() };
            let FieldFault { path: inner, detail } = error.into_inner();
            let separator = if outer.is_empty() || inner.is_empty() { "" } else { "." };
            FieldFault { path: format!("{outer}{separator}{inner}"), detail }
        })
    }
}

impl FieldFault {
    fn new(detail: impl fmt::Display) -> Self {
        Self { path: String::new(), detail: detail.to_string() }
    }
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for FieldFault {}

impl de::Error for FieldFault {
    fn custom<T: fmt::Display>(detail: T) -> Self {
        Self::new(detail)
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // Serde says "a sequence" for what JSON calls a list.
        let expected = expected.to_string();
        Self::new(format_args!("expected {}", if expected == "a sequence" { "a list" } else { &expected }))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format_args!("expected {expected}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self { path: field.to_owned(), ..Self::new(format_args!("missing field `{field}`")) }
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self { path: field.to_owned(), ..Self::new(format_args!("duplicate field `{field}`")) }
    }

    /// The path to the name of a field ends with that name.
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let expected: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
        let expected = if expected.is_empty() { "none".to_owned() } else { expected.join(" or ") };
        Self::new(format_args!("unknown field `{field}`, expected {expected}"))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Anything;

        impl<'de> Visitor<'de> for Anything {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Bool(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Unsigned(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Signed(value))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Float(value))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Node::Fields(fields))
            }
        }

        deserializer.deserialize_any(Anything)
    }
}

/// It does not lend data, so that types that borrow from a body can also be read from it.
impl<'de> Deserializer<'de> for &Node {
    type Error = FieldFault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldFault> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Unsigned(value) => visitor.visit_u64(*value),
            Node::Signed(value) => visitor.visit_i64(*value),
            Node::Float(value) => visitor.visit_f64(*value),
            Node::Text(text) => visitor.visit_str(text),
            Node::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            Node::Fields(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.as_str(), value));
                visitor.visit_map(MapDeserializer::new(fields))
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl IntoDeserializer<'_, FieldFault> for &Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
