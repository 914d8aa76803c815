//! The file as a tree of texts, lists and mappings with their places.
//!
//! Scalars stay as they are written: a file means `1.10` and `no` as texts where a text is expected.

use std::ops::Range;

use crate::position::Position;
use crate::problem::ProblemKind;

/// A value and its place.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// The earliest place at which the next item can begin: the end of a list or a mapping, but the beginning of a
    /// scalar.
    pub end: Position,
    /// The actual value.
    pub value: NodeValue,
}

/// The value at a place in a file.
#[derive(Debug)]
pub enum NodeValue {
    /// There is nothing, or `null` or `~`.
    Nothing,
    /// A word, number or text. Messages repeat the text as written, because the values of variables may be secret.
    Scalar {
        /// With variables replaced by their values.
        text: Box<str>,
        /// As written in the file.
        written: Box<str>,
        /// Whether it is written without quotes.
        is_plain: bool,
        /// The bytes of the text that come from variables.
        filled: Box<[Range<usize>]>,
    },
    /// Its nodes, in their order.
    List(Vec<Node>),
    /// The contents of a file that is named here.
    Lines {
        /// Its name.
        file: Box<str>,
        /// Its lines without comments and empty ones.
        lines: Vec<Node>,
    },
    /// Its entries, in their order.
    Mapping(Vec<MappingEntry>),
}

/// One line of a mapping.
#[derive(Debug)]
pub struct MappingEntry {
    /// Its key.
    pub key: Box<str>,
    /// Where the key stands.
    pub at: Position,
    /// Its value.
    pub node: Node,
}

/// The expected value where a file is named.
const FILE_EXAMPLE: &str = "the name of a file in the same folder, such as tenants.csv";

/// Bytes of a value that messages quote, at most.
const MAX_QUOTED: usize = 64;

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
    #[must_use]
    pub fn is_filled(&self) -> bool {
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

    /// Returns the name of a file in the same folder. It has no variables, because files are read before these are
    /// looked up.
    ///
    /// # Errors
    ///
    /// If no file can have the name.
    pub fn file_name(&self) -> Result<&str, ProblemKind> {
        let name = self.text(FILE_EXAMPLE)?;
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
        if is_name && !self.is_filled() { Ok(name) } else { Err(self.expected(FILE_EXAMPLE)) }
    }

    /// Returns the name and the lines of the file that is named here.
    ///
    /// # Errors
    ///
    /// If no file is named here.
    pub fn lines(&self) -> Result<(&str, &[Self]), ProblemKind> {
        match &self.value {
            NodeValue::Lines { file, lines } => Ok((file, lines)),
            _ => Err(self.expected(FILE_EXAMPLE)),
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
    pub fn mapping(&self, expected: &str) -> Result<&[MappingEntry], ProblemKind> {
        match &self.value {
            NodeValue::Mapping(entries) => Ok(entries),
            _ => Err(self.expected(expected)),
        }
    }

    /// Returns a description of the value, for a message.
    #[must_use]
    pub fn describe(&self) -> Box<str> {
        match &self.value {
            NodeValue::Nothing => "nothing".into(),
            // It may hold a password.
            NodeValue::Scalar { written, .. } if written.contains("://") => "a URL".into(),
            // Nobody needs it whole, and it may be a file that was meant for something else.
            NodeValue::Scalar { written, .. } if written.len() > MAX_QUOTED => "a long text".into(),
            NodeValue::Scalar { written, .. } => format!("`{written}`").into(),
            NodeValue::List(_) => "a list".into(),
            NodeValue::Lines { .. } => "a file".into(),
            NodeValue::Mapping(_) => "a mapping".into(),
        }
    }

    /// Returns the problem of an unexpected node.
    #[must_use]
    pub fn expected(&self, expected: &str) -> ProblemKind {
        ProblemKind::Expected { expected: expected.into(), found: self.describe() }
    }
}
