//! Prefixes and networks: values that lie within each other or apart, and never overlap.

use std::borrow::Borrow;

use crate::Network;

/// Values in order; each knows the nearest that it lies within.
///
/// All that cover a value lie within each other, and the last one that is not behind the value, or one that this
/// lies within, is the narrowest of them: whatever stands between a covering value and the covered one is covered
/// by it as well. So one binary search and one walk outwards find all.
#[derive(Debug)]
pub(super) struct Nested<T>(Box<[Nest<T>]>);

#[derive(Debug)]
struct Nest<T> {
    value: T,
    within: Option<usize>,
    numbers: Vec<u32>,
}

/// An order in which values come before everything that they cover, and nothing else comes between.
pub(super) trait Cover: Ord {
    fn covers(&self, other: &Self) -> bool;
}

impl Cover for str {
    fn covers(&self, other: &Self) -> bool {
        other.as_bytes().starts_with(self.as_bytes())
    }
}

impl Cover for Network {
    fn covers(&self, other: &Self) -> bool {
        Self::covers(self, other)
    }
}

impl<T> Nested<T> {
    pub(super) fn new<Q: Cover + ?Sized>(mut filed: Vec<(T, u32)>) -> Self
    where
        T: Borrow<Q>,
    {
        filed.sort_by(|(a, _), (b, _)| a.borrow().cmp(b.borrow()));
        let mut nests: Vec<Nest<T>> = Vec::new();
        for (value, number) in filed {
            match nests.last_mut() {
                Some(last) if last.value.borrow() == value.borrow() => last.numbers.push(number),
                _ => {
                    let last = nests.len().checked_sub(1);
                    let within =
                        walk(&nests, last).find(|(_, nest)| nest.value.borrow().covers(value.borrow()));
                    let within = within.map(|(index, _)| index);
                    nests.push(Nest { value, within, numbers: vec![number] });
                }
            }
        }
        Self(nests.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives the numbers of everything that covers the value.
    pub(super) fn covering<Q: Cover + ?Sized>(&self, value: &Q, mut found: impl FnMut(&[u32]))
    where
        T: Borrow<Q>,
    {
        let behind = self.0.partition_point(|nest| nest.value.borrow() <= value);
        for (_, nest) in walk(&self.0, behind.checked_sub(1)) {
            if nest.value.borrow().covers(value) {
                found(&nest.numbers);
            }
        }
    }
}

/// From one outwards.
fn walk<T>(nests: &[Nest<T>], from: Option<usize>) -> impl Iterator<Item = (usize, &Nest<T>)> {
    let at = |index: usize| nests.get(index).map(|nest| (index, nest));
    std::iter::successors(from.and_then(at), move |(_, nest)| nest.within.and_then(at))
}
