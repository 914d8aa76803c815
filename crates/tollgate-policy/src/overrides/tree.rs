//! Sorted rows that share what stays: a change copies the nodes from the root to one leaf, and nothing else.
//!
//! All leaves are equally deep. Nodes have no spare room, because most rows of a large tree never change.

use std::cmp::Ordering;
use std::sync::Arc;
use std::{fmt, slice};

use smallvec::SmallVec;

/// Rows of a leaf, at most: a change copies them, and each further leaf costs a header. With its header, a leaf of 31 rows
/// of 64 bytes, and one that is loaded with 23, hardly leave room in the block that an allocator has for them.
pub(super) const MAX_ROWS: usize = 31;

/// Children of a branch, at most: a change raises the count of references of each.
const MAX_CHILDREN: usize = 16;

/// The part of a node that is filled when many rows are loaded at once: later rows find room in some leaves.
const FILLED: (usize, usize) = (3, 4);

/// What a tree has, each with a key of its own.
pub(super) trait TreeRow: Clone {
    type Key: Clone + Ord;

    fn key(&self) -> &Self::Key;
}

/// Rows in the order of their keys. Clones share them.
#[derive(Clone)]
pub(super) struct Tree<R: TreeRow> {
    root: TreeNode<R>,
    len: usize,
}

enum TreeNode<R: TreeRow> {
    Leaf(Arc<[R]>),
    Branch(Arc<[Child<R>]>),
}

/// A part of a branch, with a key that none of its rows is below; only those of the first child may be.
#[derive(Clone)]
struct Child<R: TreeRow> {
    least: R::Key,
    node: TreeNode<R>,
}

/// Rows of a tree from one on.
pub(super) struct Rows<'a, R: TreeRow> {
    branches: SmallVec<[slice::Iter<'a, Child<R>>; 8]>,
    leaf: slice::Iter<'a, R>,
}

impl<R: TreeRow> Tree<R> {
    /// Creates a tree of rows that are sorted by their keys, each of which is there once. They come in lists, of which each
    /// is freed before the next one is asked for.
    pub(super) fn of_sorted(lists: impl IntoIterator<Item = Vec<R>>) -> Self {
        let (mut level, mut rest, mut len) = (Vec::new(), Vec::new(), 0);
        for list in lists {
            len += list.len();
            rest.extend(list);
            let whole = rest.len() / filled(MAX_ROWS) * filled(MAX_ROWS);
            let mut rows = rest.drain(..whole);
            while rows.len() > 0 {
                let leaf = rows.by_ref().take(filled(MAX_ROWS)).collect();
                level.extend(Child::of(TreeNode::Leaf(leaf)));
            }
        }
        level.extend(Child::of(TreeNode::Leaf(rest.into())));
        while level.len() > 1 {
            let mut branches = Vec::with_capacity(level.len() / filled(MAX_CHILDREN) + 1);
            let mut children = level.into_iter().peekable();
            while children.peek().is_some() {
                let branch = children.by_ref().take(filled(MAX_CHILDREN)).collect();
                branches.extend(Child::of(TreeNode::Branch(branch)));
            }
            level = branches;
        }
        let root = level.pop().map_or_else(TreeNode::empty, |child| child.node);
        Self { root, len }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the row whose key is in this order to the sought one: less, equal or greater.
    pub(super) fn get(&self, order: impl Fn(&R::Key) -> Ordering) -> Option<&R> {
        let mut node = &self.root;
        loop {
            match node {
                TreeNode::Leaf(rows) => {
                    let place = rows.binary_search_by(|row| order(row.key())).ok()?;
                    return rows.get(place);
                }
                TreeNode::Branch(children) => node = &children.get(place_in(children, &order))?.node,
            }
        }
    }

    /// Returns the same with this row, and the row that had its key.
    pub(super) fn with(&self, row: R) -> (Self, Option<R>) {
        let Insertion { node, sibling, replaced } = self.root.with(row);
        let root = match sibling {
            None => node,
            Some(sibling) => TreeNode::Branch(Child::of(node).into_iter().chain([sibling]).collect()),
        };
        (Self { root, len: self.len + usize::from(replaced.is_none()) }, replaced)
    }

    /// Returns the same without the row whose key is in the order `Equal` to the sought one, and that row; `None` if
    /// there is none.
    pub(super) fn without(&self, order: impl Fn(&R::Key) -> Ordering) -> Option<(Self, R)> {
        let (root, removed) = self.root.without(&order)?;
        let mut root = root.unwrap_or_else(TreeNode::empty);
        while let TreeNode::Branch(children) = &root
            && let [only] = &**children
        {
            root = only.node.clone();
        }
        Some((Self { root, len: self.len - 1 }, removed))
    }

    /// Returns a tree in which a row of the same key replaces each.
    pub(super) fn map(&self, mut row: impl FnMut(&R) -> R) -> Self {
        Self { root: self.root.map(&mut row), len: self.len }
    }

    /// Returns all rows, in order.
    pub(super) fn iter(&self) -> Rows<'_, R> {
        self.rows_from(|_| Ordering::Greater)
    }

    /// Returns the rows from the first one on that is greater.
    pub(super) fn rows_behind(&self, order: impl Fn(&R::Key) -> Ordering) -> Rows<'_, R> {
        self.rows_from(|key| order(key).then(Ordering::Less))
    }

    /// Returns the rows from the first one on that is not less.
    pub(super) fn rows_from(&self, order: impl Fn(&R::Key) -> Ordering) -> Rows<'_, R> {
        let mut rows = Rows::none();
        let mut node = &self.root;
        loop {
            match node {
                TreeNode::Leaf(leaf) => {
                    let first = leaf.partition_point(|row| order(row.key()) == Ordering::Less);
                    rows.leaf = leaf.get(first..).unwrap_or_default().iter();
                    return rows;
                }
                TreeNode::Branch(children) => {
                    let mut later = children.get(place_in(children, &order)..).unwrap_or_default().iter();
                    // A branch has children.
                    let Some(child) = later.next() else { return rows };
                    rows.branches.push(later);
                    node = &child.node;
                }
            }
        }
    }
}

impl<R: TreeRow> Rows<'_, R> {
    pub(super) fn none() -> Self {
        Self { branches: SmallVec::new(), leaf: [].iter() }
    }
}

impl<R: TreeRow> Default for Tree<R> {
    fn default() -> Self {
        Self { root: TreeNode::empty(), len: 0 }
    }
}

/// A node with a further row.
struct Insertion<R: TreeRow> {
    node: TreeNode<R>,
    /// The second half, if it became too large.
    sibling: Option<Child<R>>,
    replaced: Option<R>,
}

impl<R: TreeRow> TreeNode<R> {
    fn empty() -> Self {
        Self::Leaf([].into())
    }

    fn least(&self) -> Option<&R::Key> {
        match self {
            Self::Leaf(rows) => rows.first().map(TreeRow::key),
            Self::Branch(children) => children.first().map(|child| &child.least),
        }
    }

    fn map(&self, row: &mut impl FnMut(&R) -> R) -> Self {
        match self {
            Self::Leaf(rows) => Self::Leaf(rows.iter().map(row).collect()),
            Self::Branch(children) => {
                let child =
                    |Child { least, node }: &Child<R>| Child { least: least.clone(), node: node.map(row) };
                Self::Branch(children.iter().map(child).collect())
            }
        }
    }

    fn with(&self, row: R) -> Insertion<R> {
        match self {
            Self::Leaf(rows) => match rows.binary_search_by(|other| other.key().cmp(row.key())) {
                Ok(place) => {
                    let replaced = rows.get(place).cloned();
                    let (node, sibling) = (Self::Leaf(spliced(rows, place, 1, [row])), None);
                    Insertion { node, sibling, replaced }
                }
                Err(place) => {
                    let (node, sibling) = halves(spliced(rows, place, 0, [row]), MAX_ROWS, Self::Leaf);
                    Insertion { node, sibling, replaced: None }
                }
            },
            Self::Branch(children) => {
                let place = place_in(children, &|least: &R::Key| least.cmp(row.key()));
                // A branch has children.
                let Some(child) = children.get(place) else { return Self::empty().with(row) };
                let least = child.least.clone().min(row.key().clone());
                let Insertion { node, sibling, replaced } = child.node.with(row);
                let children = match sibling {
                    None => spliced(children, place, 1, [Child { least, node }]),
                    Some(sibling) => spliced(children, place, 1, [Child { least, node }, sibling]),
                };
                let (node, sibling) = halves(children, MAX_CHILDREN, Self::Branch);
                Insertion { node, sibling, replaced }
            }
        }
    }

    /// Returns the node without the row, or nothing if it was the only one; and the row.
    fn without(&self, order: &impl Fn(&R::Key) -> Ordering) -> Option<(Option<Self>, R)> {
        match self {
            Self::Leaf(rows) => {
                let place = rows.binary_search_by(|row| order(row.key())).ok()?;
                let removed = rows.get(place)?.clone();
                let rest = (rows.len() > 1).then(|| Self::Leaf(spliced(rows, place, 1, [])));
                Some((rest, removed))
            }
            Self::Branch(children) => {
                let place = place_in(children, order);
                let child = children.get(place)?;
                let (node, removed) = child.node.without(order)?;
                let children = match node {
                    None => spliced(children, place, 1, []),
                    Some(node) => joined(children, place, Child { least: child.least.clone(), node }),
                };
                Some(((!children.is_empty()).then_some(Self::Branch(children)), removed))
            }
        }
    }

    /// Returns both as one node, if they fit.
    fn join(&self, next: &Self) -> Option<Self> {
        match (self, next) {
            (Self::Leaf(one), Self::Leaf(next)) => together(one, next, MAX_ROWS).map(Self::Leaf),
            (Self::Branch(one), Self::Branch(next)) => together(one, next, MAX_CHILDREN).map(Self::Branch),
            // All leaves are equally deep.
            _ => None,
        }
    }
}

impl<R: TreeRow> Clone for TreeNode<R> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(rows) => Self::Leaf(Arc::clone(rows)),
            Self::Branch(children) => Self::Branch(Arc::clone(children)),
        }
    }
}

impl<R: TreeRow> Child<R> {
    /// Returns the node with its least key; `None` if it is empty.
    fn of(node: TreeNode<R>) -> Option<Self> {
        let least = node.least()?.clone();
        Some(Self { least, node })
    }
}

/// Returns how many of a node's places are filled when many rows are loaded.
pub(super) const fn filled(max: usize) -> usize {
    max * FILLED.0 / FILLED.1
}

/// Returns the place of the child that has the sought key, if any has it.
fn place_in<R: TreeRow>(children: &[Child<R>], order: &impl Fn(&R::Key) -> Ordering) -> usize {
    let next = children.partition_point(|child| order(&child.least) != Ordering::Greater);
    next.saturating_sub(1)
}

/// Returns the list with these instead of so many.
fn spliced<T: Clone, const N: usize>(list: &[T], place: usize, replaced: usize, by: [T; N]) -> Arc<[T]> {
    let before = list.get(..place).unwrap_or_default();
    let after = list.get(place + replaced..).unwrap_or_default();
    before.iter().cloned().chain(by).chain(after.iter().cloned()).collect()
}

/// Returns the list as one node or, if it is too long for one, as two.
fn halves<T: Clone, R: TreeRow>(
    list: Arc<[T]>,
    max: usize,
    node: fn(Arc<[T]>) -> TreeNode<R>,
) -> (TreeNode<R>, Option<Child<R>>) {
    if list.len() <= max {
        return (node(list), None);
    }
    let (one, other) = list.split_at(list.len() / 2);
    (node(one.into()), Child::of(node(other.into())))
}

/// Returns the children with this one in its place, together with a neighbour if one node has room for both.
fn joined<R: TreeRow>(children: &[Child<R>], place: usize, child: Child<R>) -> Arc<[Child<R>]> {
    let neighbours = [place.checked_sub(1).map(|before| (before, true)), Some((place + 1, false))];
    for (other_place, is_before) in neighbours.into_iter().flatten() {
        let Some(other) = children.get(other_place) else { continue };
        let (one, next) = if is_before { (other, &child) } else { (&child, other) };
        if let Some(node) = one.node.join(&next.node) {
            let both = Child { least: one.least.clone(), node };
            return spliced(children, place.min(other_place), 2, [both]);
        }
    }
    spliced(children, place, 1, [child])
}

/// Returns both lists as one of at most three quarters of the maximum: a row that comes and goes
/// shall not split and join each time.
fn together<T: Clone>(one: &[T], next: &[T], max: usize) -> Option<Arc<[T]>> {
    (one.len() + next.len() <= filled(max)).then(|| one.iter().chain(next).cloned().collect())
}

impl<'a, R: TreeRow> Iterator for Rows<'a, R> {
    type Item = &'a R;

    fn next(&mut self) -> Option<&'a R> {
        loop {
            if let Some(row) = self.leaf.next() {
                return Some(row);
            }
            let Some(child) = self.branches.last_mut()?.next() else {
                self.branches.pop();
                continue;
            };
            match &child.node {
                TreeNode::Leaf(rows) => self.leaf = rows.iter(),
                TreeNode::Branch(children) => self.branches.push(children.iter()),
            }
        }
    }
}

impl<R: TreeRow> fmt::Debug for Tree<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Pair(u16, u32);

    impl TreeRow for Pair {
        type Key = u16;

        fn key(&self) -> &u16 {
            &self.0
        }
    }

    type Model = BTreeMap<u16, u32>;

    fn rows(tree: &Tree<Pair>) -> Vec<Pair> {
        tree.iter().cloned().collect()
    }

    fn pairs(model: &Model) -> Vec<Pair> {
        model.iter().map(|(key, value)| Pair(*key, *value)).collect()
    }

    fn lists(model: &Model) -> Vec<Vec<Pair>> {
        pairs(model).chunks(1_000).map(<[Pair]>::to_vec).collect()
    }

    /// The depth of the node, whose rows and children are neither none nor too many, and in order.
    fn depth(node: &TreeNode<Pair>) -> usize {
        match node {
            TreeNode::Leaf(rows) => {
                assert!(
                    (1..=MAX_ROWS).contains(&rows.len()) && rows.is_sorted_by(|one, next| one.0 < next.0)
                );
                0
            }
            TreeNode::Branch(children) => {
                assert!((1..=MAX_CHILDREN).contains(&children.len()));
                assert!(children.is_sorted_by(|one, next| one.least < next.least));
                let depths: Vec<usize> = children.iter().map(|child| depth(&child.node)).collect();
                assert!(depths.iter().all(|depth| *depth == depths[0]), "{depths:?}");
                depths[0] + 1
            }
        }
    }

    fn expect_same(tree: &Tree<Pair>, model: &Model, random: &mut fastrand::Rng) {
        assert_eq!((tree.len(), rows(tree)), (model.len(), pairs(model)));
        if !tree.is_empty() {
            depth(&tree.root);
        }
        for _ in 0..20 {
            let key = random.u16(..2_000);
            assert_eq!(tree.get(|other| other.cmp(&key)).map(|pair| pair.1), model.get(&key).copied());
            let later = model.range(key..).next().map(|(key, value)| Pair(*key, *value));
            assert_eq!(tree.rows_from(|other| other.cmp(&key)).next().cloned(), later);
        }
    }

    /// Grows to a few thousand rows and shrinks to none, three times, and looks at all earlier trees again at the end.
    #[test]
    fn a_tree_has_what_a_map_has_and_never_changes() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut model: Model = (0..random.u16(..2_000)).map(|key| (key, 0)).collect();
            let mut tree = Tree::of_sorted(lists(&model));
            let mut earlier = Vec::new();
            for change in 0..6_000_u32 {
                let (key, grows) = (random.u16(..2_000), change / 1_000 % 2 == 0);
                if random.u8(..10) < if grows { 7 } else { 1 } {
                    let (next, replaced) = tree.with(Pair(key, change));
                    assert_eq!(replaced.map(|pair| pair.1), model.insert(key, change));
                    tree = next;
                } else {
                    let removed = tree.without(|other| other.cmp(&key));
                    assert_eq!(removed.as_ref().map(|(_, pair)| pair.1), model.remove(&key));
                    tree = removed.map_or(tree, |(next, _)| next);
                }
                if change % 300 == 0 {
                    expect_same(&tree, &model, &mut random);
                    earlier.push((tree.clone(), model.clone()));
                }
            }
            for key in model.keys().copied().collect::<Vec<_>>() {
                tree = tree.without(|other| other.cmp(&key)).unwrap().0;
            }
            assert!(tree.is_empty() && tree.iter().next().is_none());
            for (tree, model) in earlier {
                expect_same(&tree, &model, &mut random);
            }
        }
    }

    #[test]
    fn many_rows_are_loaded_at_once() {
        let mut random = fastrand::Rng::with_seed(1);
        for len in [0, 1, 23, 24, 25, 287, 288, 289, 40_000] {
            let model: Model = (0..len).map(|key| (key, u32::from(key))).collect();
            expect_same(&Tree::of_sorted(lists(&model)), &model, &mut random);
        }
    }
}
