//! Combinations of two extractors.

use tollgate::Key;

use super::{ExtractedIdentity, Extraction, Identity, KeyExtractor, MissingIdentity};
use crate::head::Head;

/// The keys of two extractors together: see [`KeyExtractor::and`].
#[derive(Debug, Clone, Copy)]
pub struct And<A, B> {
    first: A,
    second: B,
}

/// The key of the first extractor, or else of the second: see [`KeyExtractor::or_else`].
#[derive(Debug, Clone, Copy)]
pub struct OrElse<A, B> {
    first: A,
    second: B,
}

/// Which of two has found a key; the numbers are part of it and never change.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum KeyBranch {
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
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        match (self.first.extract(head), self.second.extract(head)) {
            (Extraction::Now(first), Extraction::Now(second)) => Extraction::Now(together(first, second)),
            (first, second) => {
                Extraction::Later(Box::pin(async move { together(first.await, second.await) }))
            }
        }
    }

    fn counts_peers(&self) -> bool {
        self.first.counts_peers() || self.second.counts_peers()
    }
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for OrElse<A, B> {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        match self.first.extract(head) {
            Extraction::Now(first) => self.after(first, head),
            Extraction::Later(first) => {
                Extraction::Later(Box::pin(async move { self.after(first.await, head).await }))
            }
        }
    }

    fn counts_peers(&self) -> bool {
        self.first.counts_peers() || self.second.counts_peers()
    }
}

impl<A, B: KeyExtractor> OrElse<A, B> {
    /// Returns the first extractor's result or, if it is missing, the second's.
    fn after<'r>(&'r self, first: ExtractedIdentity<'r>, head: Head<'r>) -> Extraction<'r> {
        match first {
            Ok(Identity::Missing(missing)) => match self.second.extract(head) {
                Extraction::Now(second) => Extraction::Now(instead(missing, second)),
                Extraction::Later(second) => {
                    Extraction::Later(Box::pin(async move { instead(missing, second.await) }))
                }
            },
            Ok(Identity::Known(key)) => Extraction::Now(Ok(apart(KeyBranch::First, key).into())),
            Err(invalid) => Extraction::Now(Err(invalid)),
        }
    }
}

/// The key of both, if both are known; else the first missing one. An invalid value stays invalid, even next to a
/// missing one.
fn together<'r>(first: ExtractedIdentity<'r>, second: ExtractedIdentity<'r>) -> ExtractedIdentity<'r> {
    Ok(match (first?, second?) {
        (Identity::Known(first), Identity::Known(second)) => Key::from((first, second)).into(),
        (missing @ Identity::Missing(_), _) | (_, missing) => missing,
    })
}

/// Returns the second extractor's result, if the first's is missing.
fn instead<'r>(missing: MissingIdentity<'r>, second: ExtractedIdentity<'r>) -> ExtractedIdentity<'r> {
    Ok(match second? {
        Identity::Missing(other) => missing.or(other).into(),
        Identity::Known(key) => apart(KeyBranch::Second, key).into(),
    })
}

/// The key as one that was found in this way and not in the other. Both are marked: a key that stood for itself could
/// look like one that is marked. The mark is one byte, so that an address or a hash next to it needs no allocation.
fn apart(way: KeyBranch, key: Key<'_>) -> Key<'_> {
    Key::from((&[way as u8], key))
}
