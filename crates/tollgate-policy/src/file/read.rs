//! From the tree to typed sections: every problem is noted, and reading continues.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::tree::{Entry, Node, NodeValue};
use crate::problem::Problems;
use crate::{Position, ProblemKind};

/// A value that can be read from a place in a file. `None` only with a problem noted.
pub trait Read: Sized {
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
pub(crate) struct OneOrMany<T>(pub(crate) Vec<At<T>>);

/// A text, and its form in messages, which do not show the values of variables.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: Box<str>,
    pub(crate) written: Box<str>,
}

/// The expected value where a file is named.
pub(crate) const FILE_BESIDE: &str = "the name of a file in the same folder, such as tenants.csv";

/// The name of a file in the same folder, if it can be one. Files are read before variables are looked up.
pub(crate) fn name_of_file(node: &Node) -> Result<&str, ProblemKind> {
    let name = node.text(FILE_BESIDE)?;
    let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
    if is_name && !node.is_filled() { Ok(name) } else { Err(node.expected(FILE_BESIDE)) }
}

impl Node {
    /// Returns the text of a scalar.
    ///
    /// # Errors
    ///
    /// If it is not one.
    pub fn text(&self, expected: &str) -> Result<&str, ProblemKind> {
        match &self.value {
            NodeValue::Scalar { text, .. } => Ok(text),
            _ => Err(self.expected(expected)),
        }
    }

    /// Returns the scalar as written in the file, for a message.
    #[must_use]
    pub fn written(&self) -> &str {
        match &self.value {
            NodeValue::Scalar { written, .. } => written,
            _ => "",
        }
    }

    /// Returns whether the scalar contains values of variables: no message may repeat it then.
    pub(crate) fn is_filled(&self) -> bool {
        matches!(&self.value, NodeValue::Scalar { filled, .. } if !filled.is_empty())
    }

    /// Returns the text parsed with `read`, which returns `None` for an unexpected one.
    ///
    /// # Errors
    ///
    /// If there is no text, or an unexpected one.
    pub fn parsed<T>(&self, expected: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, ProblemKind> {
        read(self.text(expected)?).ok_or_else(|| self.expected(expected))
    }

    /// Returns the name and the lines of the file that is named here.
    pub(crate) fn lines(&self) -> Result<(&str, &[Self]), ProblemKind> {
        match &self.value {
            NodeValue::Lines { file, lines } => Ok((file, lines)),
            _ => Err(self.expected(FILE_BESIDE)),
        }
    }

    /// Returns the nodes of a list.
    ///
    /// # Errors
    ///
    /// If it is not one.
    pub fn list(&self, expected: &str) -> Result<&[Self], ProblemKind> {
        match &self.value {
            NodeValue::List(nodes) => Ok(nodes),
            _ => Err(self.expected(expected)),
        }
    }

    /// Returns the entries of a mapping.
    ///
    /// # Errors
    ///
    /// If it is not one.
    pub fn mapping(&self, expected: &str) -> Result<&[Entry], ProblemKind> {
        match &self.value {
            NodeValue::Mapping(entries) => Ok(entries),
            _ => Err(self.expected(expected)),
        }
    }
}

impl<T: Read> Read for At<T> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        T::read(node, problems).map(|value| Self { at: node.at, end: node.end, value })
    }
}

/// A list; entries that cannot be read are left out.
impl<T: Read> Read for Vec<At<T>> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let nodes = problems.take(node.at, node.list("a list, with `- ` before each entry"))?;
        Some(nodes.iter().filter_map(|node| Read::read(node, problems)).collect())
    }
}

impl<T: Read> Read for OneOrMany<T> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            NodeValue::List(nodes) if nodes.is_empty() => {
                problems.add(node.at, ProblemKind::Empty("value"));
                None
            }
            NodeValue::List(_) => Read::read(node, problems).map(Self),
            _ => At::read(node, problems).map(|one| Self(vec![one])),
        }
    }
}

impl Read for bool {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let value = node.parsed("true or false", |text| text.parse().ok());
        problems.take(node.at, value)
    }
}

impl Read for Box<str> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        problems.take(node.at, node.text("a text")).map(Into::into)
    }
}

impl Read for Text {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        Some(Self { text: Read::read(node, problems)?, written: node.written().into() })
    }
}

impl JsonSchema for Text {
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

/// A mapping of the file: its keys, and their values. It is the one list of them, for the reader, for the hints and for
/// the JSON Schema.
#[doc(hidden)]
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident ($what:literal $(, $example:literal)?) {
            $( $(#[$field_meta:meta])* $key:literal $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default, schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub(crate) struct $name {
            /// The keys that are there, whether or not their values can be read.
            #[schemars(skip)]
            pub(crate) given: Vec<(&'static str, $crate::Position)>,
            /// The keys that were probably meant by unknown ones.
            #[schemars(skip)]
            meant: Vec<&'static str>,
            $( $(#[$field_meta])* #[schemars(rename = $key)] pub(crate) $field: Option<$crate::yaml::At<$type>>, )*
        }

        impl $crate::yaml::Read for $name {
            fn read(node: &$crate::yaml::Node, problems: &mut $crate::yaml::Problems) -> Option<Self> {
                let expected = concat!("a mapping for ", $what $(, " such as ", $example)?);
                let entries = problems.take(node.at, node.mapping(expected))?;
                let mut section = Self { given: Vec::new(), meant: Vec::new(), $($field: None,)* };
                for entry in entries {
                    match entry.key.as_ref() {
                        $( $key => {
                            section.given.push(($key, entry.at));
                            section.$field = $crate::yaml::Read::read(&entry.node, problems);
                        } )*
                        _ => {
                            let hint = $crate::Hint::new(&entry.key, Self::KEYS);
                            section.meant.extend(hint.meant());
                            let key = entry.key.clone();
                            problems.add(entry.at, $crate::ProblemKind::UnknownKey { key, section: $what, hint });
                        }
                    }
                }
                Some(section)
            }
        }

        impl $name {
            /// All keys that it can have.
            pub(crate) const KEYS: &[&str] = &[$($key),*];

            /// Returns whether the key is present, even if its value cannot be read.
            #[allow(dead_code, reason = "not every section is asked")]
            pub(crate) fn gives(&self, key: &str) -> bool {
                self.given.iter().any(|(given, _)| *given == key)
            }

            /// Notes each of these keys that is missing, but for one that is there misspelt: that is noted already.
            #[allow(dead_code, reason = "not every section has a key that must be there")]
            pub(crate) fn need(&self, keys: &[&'static str], at: $crate::Position, problems: &mut $crate::yaml::Problems) {
                for key in keys {
                    if !self.gives(key) && !self.meant.contains(key) {
                        problems.add(at, $crate::ProblemKind::MissingKey { section: $what, key });
                    }
                }
            }
        }
    };
}

/// One value of several, each written as its name.
macro_rules! words {
    ($name:ty: $what:literal [$($value:expr),*]) => {
        impl Read for $name {
            fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
                const KNOWN: &[&str] = &[$($value.name()),*];
                let text = problems.take(node.at, node.text(concat!("a word for the ", $what)))?;
                let found = [$($value),*].into_iter().find(|value| value.name() == text);
                if found.is_none() {
                    let (written, hint) = (node.written().into(), Hint::new(node.written(), KNOWN));
                    problems.add(node.at, ProblemKind::UnknownWord { what: $what, written, hint });
                }
                found
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $what.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({ "enum": [$($value.name()),*] })
            }
        }
    };
}

/// The form of a value, for editors. Every value that can be written as text may come from an environment variable.
macro_rules! schema {
    ($({$($generics:tt)*})? $type:ty: $name:literal, $generator:ident => $schema:expr) => {
        impl$(<$($generics)*>)? JsonSchema for $type {
            fn inline_schema() -> bool {
                false
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

pub(crate) use {schema, section, words};
