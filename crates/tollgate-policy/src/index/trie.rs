//! Beginnings of texts and networks: all that a value begins with are found on one way down.

use std::collections::VecDeque;

use super::Candidate;

/// A trie of bytes in which a path without branches is one step.
///
/// The children of a node are contiguous, and so are the bytes that lead to them, so that one step touches at most
/// three cache lines.
#[derive(Debug)]
pub(super) struct Trie {
    /// The first is the root.
    nodes: Box<[Node]>,
    /// The first byte of the label of each node.
    firsts: Box<[u8]>,
    labels: Box<[u8]>,
    candidates: Box<[Candidate]>,
}

/// Bytes, and the candidates under them.
pub(super) type TrieEntry = (Box<[u8]>, Candidate);

#[derive(Debug, Default)]
struct Node {
    /// The bytes that lead to this node, including the first.
    label: Span,
    children: Span,
    /// The candidates under the path to this node.
    candidates: Span,
}

/// A part of a list.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Trie {
    pub(super) fn new(mut filed: Vec<TrieEntry>) -> Self {
        filed.sort();
        let mut trie = Builder { nodes: vec![Node::default()], firsts: vec![0], ..Builder::default() };
        let mut open = VecDeque::from([(0, filed.as_slice(), 0)]);
        while let Some((node, entries, depth)) = open.pop_front() {
            open.extend(trie.fill(node, entries, depth));
        }
        Self {
            nodes: trie.nodes.into(),
            firsts: trie.firsts.into(),
            labels: trie.labels.into(),
            candidates: trie.candidates.into(),
        }
    }

    /// Returns whether the trie is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Gives everything that is filed under a beginning of the value, the value itself included.
    #[inline]
    pub(super) fn beginnings(&self, value: &[u8], mut found: impl FnMut(&[Candidate])) {
        if self.is_empty() {
            return;
        }
        let (mut next, mut rest) = (0, value);
        while let Some(node) = self.nodes.get(next) {
            let label = node.label.of(&self.labels);
            // The comparison with nothing is slow: the C library reads under a mask where an empty slice points.
            if !label.is_empty() {
                let Some(behind) = rest.strip_prefix(label) else { return };
                rest = behind;
            }
            found(node.candidates.of(&self.candidates));
            let Some(first) = rest.first() else { return };
            let firsts = node.children.of(&self.firsts);
            let Some(child) = firsts.iter().position(|other| other == first) else { return };
            next = node.children.start as usize + child;
        }
    }
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    firsts: Vec<u8>,
    labels: Vec<u8>,
    candidates: Vec<Candidate>,
}

impl Builder {
    /// Creates a node of these entries, which are in order and have the first `depth` bytes in common, and room for
    /// its children. Gives each child's number, its entries, and its depth.
    fn fill<'a>(
        &mut self,
        node: usize,
        entries: &'a [TrieEntry],
        depth: usize,
    ) -> Vec<(usize, &'a [TrieEntry], usize)> {
        let (Some((first, _)), Some((last, _))) = (entries.first(), entries.last()) else {
            return Vec::new();
        };
        let behind = |bytes: &'a [u8]| bytes.get(depth..).unwrap_or_default();
        // What the first and the last have in common, all between them have.
        let common = behind(first).iter().zip(behind(last)).take_while(|(a, b)| a == b).count();
        let depth = depth + common;
        let ending = entries.iter().take_while(|(bytes, _)| bytes.len() == depth).count();
        let (ending, longer) = entries.split_at(ending);

        let label = Span::push(&mut self.labels, behind(first).iter().copied().take(common));
        let candidates = Span::push(&mut self.candidates, ending.iter().map(|(_, candidate)| *candidate));
        let byte = |(bytes, _): &TrieEntry| bytes.get(depth).copied().unwrap_or_default();
        let parts = longer.chunk_by(|a, b| byte(a) == byte(b));
        let children = Span::push(&mut self.firsts, parts.clone().filter_map(|part| part.first()).map(byte));
        self.nodes.resize_with(self.firsts.len(), Node::default);
        if let Some(node) = self.nodes.get_mut(node) {
            *node = Node { label, children, candidates };
        }
        (children.start as usize..).zip(parts).map(|(child, part)| (child, part, depth)).collect()
    }
}

impl Span {
    fn push<T>(list: &mut Vec<T>, more: impl Iterator<Item = T>) -> Self {
        let start = list.len() as u32;
        list.extend(more);
        Self { start, end: list.len() as u32 }
    }

    fn of<T>(self, list: &[T]) -> &[T] {
        list.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(trie: &Trie, value: &str) -> Vec<u32> {
        let mut numbers = Vec::new();
        trie.beginnings(value.as_bytes(), |found| numbers.extend(found.iter().map(|found| found.number())));
        numbers
    }

    #[test]
    fn everything_that_a_value_begins_with_is_found() {
        let texts = ["/api/users/", "/api/", "", "/api/users/", "/static", "/a"];
        let filed = (0..).zip(texts).map(|(number, text)| (text.as_bytes().into(), Candidate::sure(number)));
        let trie = Trie::new(filed.collect());
        assert_eq!(found(&trie, "/api/users/7"), [2, 5, 1, 0, 3]);
        assert_eq!(found(&trie, "/api/users"), [2, 5, 1]);
        assert_eq!(found(&trie, "/static"), [2, 4]);
        assert_eq!(found(&trie, "/stati"), [2]);
        assert_eq!(found(&trie, ""), [2]);
        assert_eq!(found(&Trie::new(Vec::new()), "/api"), [0; 0]);
    }
}
