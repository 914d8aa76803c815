//! Two extractors as one.

use tollgate::Key;

use super::{Extracted, Identity, KeyExtractor};
use crate::Head;

/// Whoever both find together: see [`KeyExtractor::and`].
#[derive(Debug, Clone, Copy)]
pub struct And<A, B> {
    first: A,
    second: B,
}

/// Whoever the first finds, or else the second: see [`KeyExtractor::or_else`].
#[derive(Debug, Clone, Copy)]
pub struct OrElse<A, B> {
    first: A,
    second: B,
}

impl<A, B> And<A, B> {
    pub(super) const fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A, B> OrElse<A, B> {
    pub(super) const fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for And<A, B> {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extracted<'r> {
        Ok(together(self.first.extract(head)?, self.second.extract(head)?))
    }

    fn counts_peers(&self) -> bool {
        self.first.counts_peers() || self.second.counts_peers()
    }
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for OrElse<A, B> {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extracted<'r> {
        let missing = match self.first.extract(head)? {
            Identity::Missing(missing) => missing,
            known => return Ok(known),
        };
        Ok(match self.second.extract(head)? {
            Identity::Missing(other) => missing.or(other).into(),
            Identity::Known(key) => apart(self.first.ways(), key).into(),
        })
    }

    fn counts_peers(&self) -> bool {
        self.first.counts_peers() || self.second.counts_peers()
    }

    fn ways(&self) -> u64 {
        self.first.ways() + self.second.ways()
    }
}

/// The key of both, if both are known; else what is missing first.
pub(super) fn together<'r>(first: Identity<'r>, second: Identity<'r>) -> Identity<'r> {
    match (first, second) {
        (Identity::Known(first), Identity::Known(second)) => Key::from((first, second)).into(),
        (missing @ Identity::Missing(_), _) | (_, missing) => missing,
    }
}

/// The key as one that was found in this way and no other. The first way stands for itself, so that the usual key is
/// borrowed; the others count from one, as a chain of `or_else` has them.
pub(super) fn apart(way: u64, key: Key<'_>) -> Key<'_> {
    Key::from((way, key))
}
