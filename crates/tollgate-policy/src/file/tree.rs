//! The file as a tree of texts, lists and mappings with their places.
//!
//! Scalars stay as they are written: a file means `1.10` and `no` as texts where a text is expected.

use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use super::listed::FROM;
use super::read::name_of_file;
use super::syntax;
use super::variables::{self, Expanded, Variables};
use crate::problem::Problems;
use crate::{Place, Position, ProblemKind, Sources};

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
    Mapping(Vec<Entry>),
}

/// One line of a mapping.
#[derive(Debug)]
pub struct Entry {
    /// Its key.
    pub key: Box<str>,
    /// Where the key stands.
    pub at: Position,
    /// Its value.
    pub node: Node,
}

/// Sources of values other than the text of the file.
#[derive(Clone, Copy)]
pub(crate) struct Extras<'a> {
    /// The files that it may name.
    pub(crate) sources: &'a Sources,
    /// The meaning of `${NAME}`.
    pub(crate) variables: &'a Variables<'a>,
}

/// The keys that name files of lines.
const LISTS: &[&str] = &["one_of_from", "cidr_from"];

/// The keys of a file under which each key that ends in `_from` names one.
pub(crate) const LISTED: &[&str] = &["allow", "deny"];

/// No setting is nested half as deep.
const MAX_DEPTH: usize = 32;

impl Node {
    /// Reads one document without variables and named files. `None` only with a problem that ended the reading.
    pub fn parse_plain(text: &str, file: u32, problems: &mut Problems) -> Option<Self> {
        Self::parse(text, file, None, problems)
    }

    /// Reads one document. `None` only with a problem that ended the reading.
    pub(crate) fn parse(
        text: &str,
        file: u32,
        extras: Option<Extras<'_>>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let parser = Parser::new_from_str(text);
        let mut reader = Reader { parser, file, extras, problems, section: Box::default() };
        let mut root = None;
        loop {
            let (event, span) = reader.next()?;
            let at = reader.position(span);
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    reader.problems.add(at, ProblemKind::SecondDocument);
                    break;
                }
                Event::DocumentStart(..) => {
                    let (event, span) = reader.next()?;
                    root = Some(reader.node(event, span, 0)?);
                }
                _ => {}
            }
        }
        let begin = Position { file, line: 1, column: 1 };
        Some(root.unwrap_or(Self { at: begin, end: begin, value: NodeValue::Nothing }))
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

/// Bytes of a value that messages quote, at most.
const MAX_QUOTED: usize = 64;

struct Reader<'a, 'b> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    /// The number of the file.
    file: u32,
    extras: Option<Extras<'b>>,
    problems: &'b mut Problems,
    /// The key of the file itself whose value is read.
    section: Box<str>,
}

impl<'a> Reader<'a, '_> {
    /// After a syntax error, nothing in the file can be trusted, so reading ends there.
    fn next(&mut self) -> Option<(Event<'a>, Span)> {
        match self.parser.next_event()? {
            Ok(event) => Some(event),
            Err(error) => {
                let marker = error.marker();
                let at = Position { file: self.file, line: marker.line().max(1), column: marker.col() + 1 };
                self.problems.add(at, ProblemKind::Syntax(syntax::explained(&error.info())));
                None
            }
        }
    }

    fn position(&self, span: Span) -> Position {
        Position { file: self.file, line: span.start.line().max(1), column: span.start.col() + 1 }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Option<Node> {
        let at = self.position(span);
        if depth > MAX_DEPTH {
            self.problems.add(at, ProblemKind::TooDeep(MAX_DEPTH));
            return None;
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor != 0 {
            self.problems.add(at, ProblemKind::Unsupported("anchors (`&name`)"));
        }
        if tag {
            self.problems.add(at, ProblemKind::Unsupported("tags (`!name`)"));
        }
        let (value, end) = match event {
            Event::Scalar(text, style, ..) => (self.scalar(&text, style, at), at),
            Event::SequenceStart(..) => {
                let (nodes, end) = self.list(depth)?;
                (NodeValue::List(nodes), end)
            }
            Event::MappingStart(..) => {
                let (entries, end) = self.mapping(depth)?;
                (NodeValue::Mapping(entries), end)
            }
            _ => {
                self.problems.add(at, ProblemKind::Unsupported("aliases (`*name`)"));
                (NodeValue::Nothing, at)
            }
        };
        Some(Node { at, end, value })
    }

    fn scalar(&mut self, written: &str, style: ScalarStyle, at: Position) -> NodeValue {
        if style == ScalarStyle::Plain && matches!(written, "" | "~" | "null") {
            return NodeValue::Nothing;
        }
        let expanded = self.extras.map(|extras| variables::expand(written, extras.variables));
        let expanded = expanded.and_then(|expanded| self.problems.take(at, expanded));
        let plain = || Expanded { text: written.into(), filled: [].into() };
        let Expanded { text, filled } = expanded.unwrap_or_else(plain);
        NodeValue::Scalar { text, written: written.into(), is_plain: style == ScalarStyle::Plain, filled }
    }

    /// The lines of the file that this names, if it names one.
    fn with_lines(&mut self, node: Node) -> Node {
        let (Some(extras), Ok(name)) = (self.extras, name_of_file(&node)) else { return node };
        let value = match extras.sources.table(self.file, name) {
            Ok((number, text)) => {
                let lines = (1..).zip(text.lines()).filter_map(|(line, text)| {
                    let text = text.split_once(" #").map_or(text, |(text, _)| text).trim();
                    let at = Position { file: number, line, column: 1 };
                    let value = NodeValue::Scalar {
                        text: text.into(),
                        written: text.into(),
                        is_plain: true,
                        filled: [].into(),
                    };
                    let is_line = !text.is_empty() && !text.starts_with('#');
                    is_line.then_some(Node { at, end: at, value })
                });
                NodeValue::Lines { file: name.into(), lines: lines.collect() }
            }
            Err(reason) => {
                self.problems.add(node.at, ProblemKind::Table { name: name.into(), reason });
                NodeValue::Nothing
            }
        };
        Node { value, ..node }
    }

    /// The nodes, and where they end.
    fn list(&mut self, depth: usize) -> Option<(Vec<Node>, Position)> {
        let mut nodes = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => return Some((nodes, self.position(span))),
                (event, span) => nodes.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    /// The entries, and where they end.
    fn mapping(&mut self, depth: usize) -> Option<(Vec<Entry>, Position)> {
        let mut entries: Vec<Entry> = Vec::new();
        // A table may have a hundred thousand keys.
        let mut known: HashMap<Box<str>, Position> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            let at = self.position(span);
            let key: Option<Box<str>> = match event {
                Event::MappingEnd => return Some((entries, at)),
                Event::Scalar(key, ..) => Some(key.as_ref().into()),
                other => {
                    let key = self.node(other, span, depth + 1)?;
                    self.problems.add(at, key.expected("a word as key"));
                    None
                }
            };
            if let (0, Some(key)) = (depth, &key) {
                self.section = key.clone();
            }
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            let Some(key) = key else { continue };
            let is_list = LISTS.contains(&&*key) || LISTED.contains(&&*self.section) && key.ends_with(FROM);
            let node = if is_list { self.with_lines(node) } else { node };
            match known.get(&key) {
                Some(first) => {
                    let first = Place::seen_from(at, *first, &[]);
                    self.problems.add(at, ProblemKind::DuplicateKey { key, first });
                }
                None => {
                    known.insert(key.clone(), at);
                    entries.push(Entry { key, at, node });
                }
            }
        }
    }
}
