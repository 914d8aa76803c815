//! All that stands around the lines of a log, layer by layer.
//!
//! Layers compose as they do in life: nginx in Docker, JSON in syslog, a container's line in an event of CloudWatch
//! Logs.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use super::envelope;
use super::parts::{LinePart, Parts};
use super::prefix::Prefix;
use crate::reason::{Kind, Reason};

/// The prefixes of each line, from the outside in. Most logs have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wrapping(Vec<Prefix>);

/// The most layers that are looked for.
const MOST: usize = 3;

/// The most ways that are tried. Each takes the time of all formats, and members of JSON may be nested on purpose.
const MOST_WAYS: usize = 16;

/// The ways in which lines may be wrapped. Each is looked for when it is asked for: most logs need only the first.
pub(super) struct Ways {
    /// Remaining work, with the next item at the end.
    steps: Vec<Step>,
    /// Digests of the lines inside, of which the same are tried once.
    seen: HashSet<u64>,
    left: usize,
}

/// What is done with lines.
enum Step {
    Give(Wrapping, Rc<Vec<Vec<u8>>>),
    TakeOff(Wrapping, Rc<Vec<Vec<u8>>>, Prefix),
}

/// A layer, and its memory between lines.
#[derive(Debug)]
pub(crate) struct Layer {
    prefix: Prefix,
    parts: Parts,
    /// The text of the line that was read last, if it had to be rewritten.
    buffer: Vec<u8>,
}

/// The inside of a line.
pub(super) enum Inside<'l> {
    Line(&'l [u8]),
    /// Nothing whole: a part of a line, or a message of another kind.
    Nothing(Kind),
}

impl Wrapping {
    /// Returns the ways in which these lines may be wrapped, likeliest first, each with the lines inside. At least
    /// half of the lines have each layer.
    pub(super) fn ways(lines: &[&[u8]]) -> Ways {
        let lines = lines.iter().map(|line| line.to_vec()).collect();
        let mut ways = Ways { steps: Vec::new(), seen: HashSet::new(), left: MOST_WAYS };
        ways.go_into(Self::default(), lines);
        ways
    }

    /// Returns the text about it that follows the name of a format.
    pub(super) fn suffix(&self) -> String {
        self.0.iter().rev().map(|prefix| format!(" in {}", prefix.name())).collect()
    }

    /// Returns the text of a line inside of all layers, if it has them.
    pub(super) fn inside(&self, line: &[u8]) -> Option<Vec<u8>> {
        self.layers().iter_mut().try_fold(line.to_vec(), |line, layer| match layer.take_off(&line) {
            Ok(Inside::Line(text)) => Some(text.to_vec()),
            _ => None,
        })
    }

    pub(super) fn layers(&self) -> Vec<Layer> {
        let layer = |&prefix| Layer { prefix, parts: Parts::default(), buffer: Vec::new() };
        self.0.iter().map(layer).collect()
    }

    /// Whether the outermost layer is JSON.
    pub(super) fn is_json(layers: &[Layer]) -> bool {
        layers.first().is_some_and(|layer| matches!(layer.prefix, Prefix::Docker | Prefix::Member(_)))
    }
}

impl Ways {
    fn go_into(&mut self, wrapping: Wrapping, lines: Vec<Vec<u8>>) {
        let mut hasher = DefaultHasher::new();
        lines.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return;
        }
        let lines = Rc::new(lines);
        let is_deepest = wrapping.0.len() == MOST;
        let take_off = |&prefix| Step::TakeOff(wrapping.clone(), Rc::clone(&lines), prefix);
        let possible = Prefix::POSSIBLE.iter().rev().filter(|_| !is_deepest).map(take_off);
        let certain = Prefix::CERTAIN.iter().rev().filter(|_| !is_deepest).map(take_off);
        let give = [Step::Give(wrapping.clone(), Rc::clone(&lines))];
        self.steps.extend(possible.chain(give).chain(certain));
    }
}

impl Iterator for Ways {
    type Item = (Wrapping, Rc<Vec<Vec<u8>>>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        loop {
            match self.steps.pop()? {
                Step::Give(wrapping, lines) => return Some((wrapping, lines)),
                Step::TakeOff(Wrapping(mut prefixes), lines, prefix) => {
                    if let Some(inside) = inside(&lines, prefix) {
                        prefixes.push(prefix);
                        self.go_into(Wrapping(prefixes), inside);
                    }
                }
            }
        }
    }
}

/// The lines inside of this prefix, if at least half of the lines have it.
fn inside(lines: &[Vec<u8>], prefix: Prefix) -> Option<Vec<Vec<u8>>> {
    let mut buffer = Vec::new();
    let mut count = 0;
    let mut all = Vec::new();
    for line in lines {
        if let Some(LinePart { text, is_last, .. }) = prefix.piece(line, &mut buffer) {
            count += 1;
            all.extend(is_last.then(|| text.to_vec()));
        }
    }
    (count > 0 && count * 2 >= lines.len()).then_some(all)
}

impl Layer {
    /// How many lines have begun whose last part is missing.
    pub(super) fn begun(&self) -> usize {
        self.parts.begun()
    }

    /// Takes this layer off a line.
    pub(super) fn take_off<'l>(&'l mut self, line: &'l [u8]) -> Result<Inside<'l>, Reason> {
        let Self { prefix, parts, buffer } = self;
        match prefix.piece(line, buffer) {
            Some(LinePart { text, is_last: true, .. }) if parts.is_empty() => Ok(Inside::Line(text)),
            Some(LinePart { text, stream, is_last: true }) => Ok(Inside::Line(parts.end(stream, text)?)),
            Some(LinePart { text, stream, is_last: false }) => {
                parts.push(stream, text);
                Ok(Inside::Nothing(Kind::Other))
            }
            None if line.trim_ascii().is_empty() => Ok(Inside::Nothing(Kind::Other)),
            None if matches!(prefix, Prefix::Member(_)) && envelope::is_object(line) => {
                Ok(Inside::Nothing(Kind::Unknown))
            }
            None => Err(Reason::Prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(line: &str) -> Vec<String> {
        Wrapping::ways(&[line.as_bytes()]).map(|(wrapping, _)| wrapping.suffix()).collect()
    }

    /// An object in each member of an object, and so on. Numbers tell them apart.
    fn nested(depth: usize, path: &str) -> String {
        let names = ["log", "message", "MESSAGE", "textPayload", "jsonPayload"].iter().enumerate();
        let members = names.filter(|_| depth > 0).map(|(place, name)| {
            let inside = nested(depth - 1, &format!("{path}{place}"));
            format!("\"{name}\":{inside},")
        });
        format!("{{{}\"of\":\"{path}\"}}", members.collect::<String>())
    }

    #[test]
    fn ways_are_few_and_the_likeliest_is_first() {
        assert_eq!(ways("a"), [""]);
        assert_eq!(ways("web-1 | a"), [" in compose", ""]);
        assert_eq!(
            ways(r#"{"log":"a","message":"web-1 | b"}"#),
            ["", " in log", " in compose in message", " in message"]
        );
        // The same lines are tried once, and nested ones for a bounded time: it was half a minute.
        let same = nested(4, "").replace(char::is_numeric, "");
        assert_eq!(ways(&same), ["", " in log", " in log in log", " in log in log in log"]);
        assert_eq!(ways(&nested(4, "")).len(), MOST_WAYS);
    }
}
