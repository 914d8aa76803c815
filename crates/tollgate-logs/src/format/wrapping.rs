//! All that stands around the lines of a log, layer by layer.
//!
//! Layers compose as they do in life: nginx in Docker, JSON in syslog, a container's line in an event of CloudWatch Logs.

use super::envelope;
use super::parts::Parts;
use super::prefix::{Piece, Prefix};
use crate::reason::{Kind, Reason};

/// The prefixes of each line, from the outside in. Most logs have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wrapping(Vec<Prefix>);

/// The most layers that are looked for.
const MOST: usize = 3;

/// A layer, and its memory between lines.
#[derive(Debug)]
pub(crate) struct Layer {
    prefix: Prefix,
    parts: Parts,
    /// The text of the line that was read last, if it had to be written anew.
    buffer: Vec<u8>,
}

/// The inside of a line.
pub(super) enum Inside<'l> {
    Line(&'l [u8]),
    /// Nothing whole: a part of a line, or a message of another kind.
    Nothing(Kind),
}

impl Wrapping {
    /// Returns the ways in which these lines may be wrapped, likeliest first, each with the lines inside. At least half of
    /// the lines have each layer.
    pub(super) fn ways(lines: &[&[u8]]) -> Vec<(Self, Vec<Vec<u8>>)> {
        let mut ways = Vec::new();
        Self::default().add_ways(lines.iter().map(|line| line.to_vec()).collect(), &mut ways);
        ways
    }

    fn add_ways(&self, lines: Vec<Vec<u8>>, ways: &mut Vec<(Self, Vec<Vec<u8>>)>) {
        let add_deeper = |lines: &[Vec<u8>], prefixes: &[Prefix], ways: &mut Vec<_>| {
            for &prefix in prefixes.iter().filter(|_| self.0.len() < MOST) {
                if let Some(inside) = inside(lines, prefix) {
                    let deeper = self.0.iter().copied().chain([prefix]);
                    Self(deeper.collect()).add_ways(inside, ways);
                }
            }
        };
        add_deeper(&lines, &Prefix::CERTAIN, ways);
        let place = ways.len();
        add_deeper(&lines, &Prefix::POSSIBLE, ways);
        ways.insert(place, (self.clone(), lines));
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

/// The lines inside of this prefix, if at least half of the lines have it.
fn inside(lines: &[Vec<u8>], prefix: Prefix) -> Option<Vec<Vec<u8>>> {
    let mut buffer = Vec::new();
    let mut count = 0;
    let mut all = Vec::new();
    for line in lines {
        if let Some(Piece { text, is_last, .. }) = prefix.piece(line, &mut buffer) {
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
            Some(Piece { text, is_last: true, .. }) if parts.is_empty() => Ok(Inside::Line(text)),
            Some(Piece { text, stream, is_last: true }) => Ok(Inside::Line(parts.end(stream, text)?)),
            Some(Piece { text, stream, is_last: false }) => {
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
