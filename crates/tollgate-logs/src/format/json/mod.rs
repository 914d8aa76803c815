//! Lines of JSON: finds the wanted fields, and skips everything else.

mod text;

use memchr::memchr;

pub(super) use self::text::Text;
use crate::attribute::AttributeSource;
use crate::draft::Draft;
use crate::escape::Escape;
use crate::meaning::Meaning;
use crate::plan::{Dialect, FieldUse, Plan};
use crate::reason::{Kind, Reason};
use crate::value::is_absent;

/// The known fields of a server's JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Objects {
    pub(crate) dialect: Dialect,
    /// A field and the value that it has in lines about requests, if it is there.
    pub(crate) only: Option<(&'static str, &'static [u8])>,
    /// Whether the names are those of no one server. Then the user's attributes tell requests as well, or, if no
    /// attribute is in the line, the field that the user says has the time.
    pub(crate) is_open: bool,
}

/// The wanted fields, as a tree of names.
#[derive(Debug)]
pub(crate) struct FieldTree {
    /// The first is the root.
    nodes: Vec<Node>,
    /// In the order in which they are preferred.
    wanted: Vec<FieldUse>,
    /// What a line has of the wanted, and whether it is a string.
    found: Vec<Option<(usize, usize, bool)>>,
    /// The place of `only` among the wanted, and its value.
    only: Option<(usize, &'static [u8])>,
    /// As in [`Objects`].
    is_open: bool,
    /// What is known of the line that was read last.
    covered: u32,
    /// Whether all fields for the client have to be the same.
    pub(crate) is_watched: bool,
}

#[derive(Debug, Default)]
struct Node {
    name: Vec<u8>,
    children: Vec<usize>,
    wanted: Vec<usize>,
    /// Whether an array is wanted whole.
    is_list: bool,
    /// By place in the object: the name that stood there last, as written, and its child.
    last: Vec<(Vec<u8>, Option<usize>)>,
}

/// How many names of an object are remembered, and of how many bytes at most.
const REMEMBERED: usize = 64;
const LONGEST_REMEMBERED: usize = 64;

impl FieldTree {
    /// # Errors
    ///
    /// The header that an attribute asks for, if there is no rule where headers are.
    pub(crate) fn new(objects: &Objects, plan: &Plan) -> Result<Self, String> {
        let mut fields = Self {
            nodes: vec![Node::default()],
            wanted: Vec::new(),
            found: Vec::new(),
            only: None,
            is_open: objects.is_open,
            covered: 0,
            is_watched: false,
        };
        if let Some(time) = &plan.time {
            fields.want(
                &path(&time.field),
                FieldUse { meaning: Some(plan.time_of(time)), ..FieldUse::default() },
            );
        }
        for (name, meaning) in objects.dialect.names {
            fields.want(&path(name), FieldUse { meaning: Some(meaning.clone()), ..FieldUse::default() });
        }
        for (place, attribute) in plan.attributes.iter().enumerate() {
            let path = match &attribute.source {
                AttributeSource::Json(pointer) => path(pointer),
                AttributeSource::Field(name) => vec![name.clone().into_bytes()],
                AttributeSource::Header(header) => match (objects.dialect.header)(header) {
                    Some(name) => path(&name),
                    None if plan.is_strict => return Err(format!("header:{header}")),
                    None => continue,
                },
                AttributeSource::Query(_) | AttributeSource::Xff(_) => continue,
            };
            fields.want(&path, FieldUse { slots: vec![Plan::slot(place)], ..FieldUse::default() });
        }
        if let Some((name, value)) = objects.only {
            fields.only = Some((fields.wanted.len(), value));
            fields.want(&path(name), FieldUse::default());
        }
        fields.found.resize(fields.wanted.len(), None);
        Ok(fields)
    }

    /// Returns how many fields of the line that was read last are known.
    pub(crate) const fn known(&self) -> u32 {
        self.covered.count_ones()
    }

    fn want(&mut self, path: &[Vec<u8>], used: FieldUse) {
        let mut at = 0;
        for name in path {
            let known = self.child(at, name);
            at = known.unwrap_or_else(|| {
                let new = self.nodes.len();
                self.nodes.push(Node { name: name.clone(), ..Node::default() });
                if let Some(node) = self.nodes.get_mut(at) {
                    node.children.push(new);
                }
                new
            });
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.wanted.push(self.wanted.len());
            node.is_list |= used.meaning == Some(Meaning::Forwarded);
        }
        self.wanted.push(used);
    }

    /// Returns the child for the name at this place of an object. Compares it with the name that stood there last,
    /// because most lines have the same names in the same order.
    fn next_child(&mut self, node: usize, place: usize, name: &[u8]) -> Option<usize> {
        if let Some((last, child)) = self.nodes.get(node)?.last.get(place)
            && last == name
        {
            return *child;
        }
        let child = match memchr(b'\\', name) {
            Some(_) => {
                let mut undone = Vec::new();
                Escape::Json.undo(name, &mut undone);
                self.child(node, &undone)
            }
            None => self.child(node, name),
        };
        if place < REMEMBERED && name.len() <= LONGEST_REMEMBERED {
            let last = &mut self.nodes.get_mut(node)?.last;
            if place >= last.len() {
                last.resize_with(place + 1, Default::default);
            }
            let (last, its_child) = last.get_mut(place)?;
            last.clear();
            last.extend_from_slice(name);
            *its_child = child;
        }
        child
    }

    fn child(&self, node: usize, name: &[u8]) -> Option<usize> {
        let children = self.nodes.get(node)?.children.iter().copied();
        children.into_iter().find(|&child| self.nodes.get(child).is_some_and(|child| child.name == name))
    }

    pub(crate) fn read(&mut self, plan: &Plan, line: &[u8], draft: &mut Draft) -> Result<Kind, Reason> {
        self.found.fill(None);
        let mut text = Text::new(line);
        text.skip_blanks();
        if text.peek() != Some(b'{') {
            return Err(Reason::Json);
        }
        self.object(&mut text, 0).ok_or(Reason::Json)?;
        text.skip_blanks();
        if text.peek().is_some() {
            return Err(Reason::Json);
        }
        let value = |place: usize| {
            let &(start, end, is_string) = self.found.get(place)?.as_ref()?;
            Some((line.get(start..end)?, if is_string { Escape::Json } else { Escape::None }))
        };
        if self.only.is_some_and(|(place, only)| value(place).is_some_and(|(text, _)| text != only)) {
            // Many programs write messages. Those of this server have its time.
            let is_time = |used: &FieldUse| matches!(used.meaning, Some(Meaning::Time(..)));
            let mut found = self.wanted.iter().zip(&self.found);
            let has_time = found.any(|(used, found)| found.is_some() && is_time(used));
            return Ok(if has_time { Kind::Other } else { Kind::Unknown });
        }
        // A field without a value does not stand in the way of another one, but its line is a request.
        let (mut covered, mut filled) = (0, 0);
        let mut is_named =
            plan.time.is_some() && plan.attributes.iter().all(|other| other.source.is_derived());
        for (place, used) in self.wanted.iter().enumerate() {
            let Some((text, escape)) = value(place) else { continue };
            match &used.meaning {
                Some(meaning) if meaning.covers() & !filled > 0 => {
                    covered |= meaning.covers();
                    if !is_absent(text) {
                        filled |= meaning.covers();
                    }
                    draft.put(plan, used, text, escape)?;
                }
                Some(Meaning::Address) if self.is_watched => draft.watch_client(text, escape),
                Some(_) => {}
                None => {
                    is_named |= !used.slots.is_empty() && !is_absent(text);
                    draft.put(plan, used, text, escape)?;
                }
            }
        }
        self.covered = covered;
        let has = |meaning: Meaning| covered & meaning.covers() > 0;
        let is_request = has(Meaning::Method)
            || has(Meaning::Path)
            || (has(Meaning::Address) && has(Meaning::Status))
            || (self.is_open && is_named && covered & Meaning::TIME > 0);
        Ok(if is_request { Kind::Request } else { Kind::Unknown })
    }

    /// Reads an object whose fields are children of this node. `None` if it is none.
    fn object(&mut self, text: &mut Text<'_>, node: usize) -> Option<()> {
        text.expect(b'{')?;
        if text.ends_with(b'}') {
            return Some(());
        }
        for place in 0.. {
            text.skip_blanks();
            let (start, end) = text.string()?;
            let child = self.next_child(node, place, text.line.get(start..end)?);
            text.skip_blanks();
            text.expect(b':')?;
            self.value(text, child)?;
            if text.ends_with(b'}') {
                return Some(());
            }
            text.expect(b',')?;
        }
        None
    }

    fn array(&mut self, text: &mut Text<'_>, node: usize) -> Option<()> {
        text.expect(b'[')?;
        if text.ends_with(b']') {
            return Some(());
        }
        for place in 0_u32.. {
            let child = self.child(node, place.to_string().as_bytes());
            self.value(text, child)?;
            if text.ends_with(b']') {
                return Some(());
            }
            text.expect(b',')?;
        }
        None
    }

    /// Reads a value. The nesting that is followed is that of the wanted names, and what lies deeper is skipped without
    /// recursion.
    fn value(&mut self, text: &mut Text<'_>, node: Option<usize>) -> Option<()> {
        text.skip_blanks();
        let Some((node, known)) = node.and_then(|node| Some((node, self.nodes.get(node)?))) else {
            return text.skip_value();
        };
        let has_children = !known.children.is_empty();
        let found = match text.peek()? {
            b'{' if has_children => return self.object(text, node),
            b'[' if known.is_list => {
                let start = text.at;
                if has_children {
                    self.array(text, node)?;
                } else {
                    text.skip_value()?;
                }
                Some((start, text.at, true))
            }
            b'[' if has_children => return self.array(text, node),
            b'{' | b'[' => return text.skip_value(),
            b'"' => {
                let (start, end) = text.string()?;
                Some((start, end, true))
            }
            _ => {
                let start = text.at;
                text.skip_value()?;
                let is_null = text.line.get(start..text.at)? == b"null";
                (!is_null).then_some((start, text.at, false))
            }
        };
        for &wanted in &self.nodes.get(node)?.wanted {
            if let Some(place) = self.found.get_mut(wanted) {
                *place = found;
            }
        }
        Some(())
    }
}

/// The steps of a JSON pointer; what begins with no `/` is a name at the top.
fn path(pointer: &str) -> Vec<Vec<u8>> {
    let Some(steps) = pointer.strip_prefix('/') else { return vec![pointer.as_bytes().to_vec()] };
    steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~").into_bytes()).collect()
}
