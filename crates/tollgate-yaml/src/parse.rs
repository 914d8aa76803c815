//! From the parser's events to a tree of nodes.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::named_file::names_lines;
use crate::node::{MappingEntry, Node, NodeValue};
use crate::position::Position;
use crate::problem::{FilePlace, ProblemKind, Problems};
use crate::sources::Sources;
use crate::syntax;
use crate::variables::{self, ExpandedText, VariableLookup};

/// Sources of values other than the text of the file.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds a function")]
pub struct Extras<'a> {
    /// The files that it may name.
    pub sources: &'a Sources,
    /// The meaning of `${NAME}`.
    pub variables: &'a VariableLookup<'a>,
}

/// No setting is nested half as deep.
const MAX_DEPTH: usize = 32;

impl Node {
    /// Reads one document without variables and named files. `None` only with a problem that ended the reading.
    pub fn parse_plain(text: &str, file: u32, problems: &mut Problems) -> Option<Self> {
        Self::parse(text, file, None, problems)
    }

    /// Reads one document. `None` only with a problem that ended the reading.
    pub fn parse(text: &str, file: u32, extras: Option<Extras<'_>>, problems: &mut Problems) -> Option<Self> {
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
}

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
        let plain = || ExpandedText { text: written.into(), filled: [].into() };
        let ExpandedText { text, filled } = expanded.unwrap_or_else(plain);
        NodeValue::Scalar { text, written: written.into(), is_plain: style == ScalarStyle::Plain, filled }
    }

    /// The lines of the file that this names, if it names one.
    fn with_lines(&mut self, node: Node) -> Node {
        let (Some(extras), Ok(name)) = (self.extras, node.file_name()) else { return node };
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
    fn mapping(&mut self, depth: usize) -> Option<(Vec<MappingEntry>, Position)> {
        let mut entries: Vec<MappingEntry> = Vec::new();
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
            let node = if names_lines(&key, &self.section) { self.with_lines(node) } else { node };
            match known.get(&key) {
                Some(first) => {
                    let first = FilePlace::seen_from(at, *first, &[]);
                    self.problems.add(at, ProblemKind::DuplicateKey { key, first });
                }
                None => {
                    known.insert(key.clone(), at);
                    entries.push(MappingEntry { key, at, node });
                }
            }
        }
    }
}
