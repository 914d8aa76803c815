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

/// Which of two has found a key; the numbers are part of it and never change.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Way {
    First = 0,
    Second = 1,
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
            Identity::Known(key) => return Ok(apart(Way::First, key).into()),
        };
        Ok(match self.second.extract(head)? {
            Identity::Missing(other) => missing.or(other).into(),
            Identity::Known(key) => apart(Way::Second, key).into(),
        })
    }

    fn counts_peers(&self) -> bool {
        self.first.counts_peers() || self.second.counts_peers()
    }
}

/// The key of both, if both are known; else what is missing first.
pub(super) fn together<'r>(first: Identity<'r>, second: Identity<'r>) -> Identity<'r> {
    match (first, second) {
        (Identity::Known(first), Identity::Known(second)) => Key::from((first, second)).into(),
        (missing @ Identity::Missing(_), _) | (_, missing) => missing,
    }
}

/// The key as one that was found in this way and not in the other. Both are marked: a key that stood for itself could
/// look like one that is marked. The mark is one byte, so that an address or a hash beside it needs no allocation.
pub(super) fn apart(way: Way, key: Key<'_>) -> Key<'_> {
    Key::from((&[way as u8], key))
}
