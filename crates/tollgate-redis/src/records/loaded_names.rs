//! The names of the records that a load has brought, to know how many there are.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

/// Names, by a hash of each that nobody can foresee.
///
/// If two names have the same one, which a load of a million meets once in thirty million times, there is one too few,
/// and the load begins again with other hashes.
#[derive(Default)]
pub(super) struct LoadedNames {
    hasher: RandomState,
    /// Those that pages have brought.
    scanned: Vec<u64>,
    /// Those that were changed meanwhile, and whether they exist.
    changed: HashMap<u64, bool>,
}

impl LoadedNames {
    /// Makes room for so many names.
    pub(super) fn reserve(&mut self, names: usize) {
        self.scanned.reserve(names);
    }

    /// Adds a name that a page has brought. It may bring one twice.
    pub(super) fn add(&mut self, name: &str) {
        self.scanned.push(self.hasher.hash_one(name));
    }

    /// Notes that all pages are there.
    pub(super) fn end_scan(&mut self) {
        self.scanned.sort_unstable();
        self.scanned.dedup();
    }

    /// Notes a change that followed the pages.
    pub(super) fn change(&mut self, name: &str, exists: bool) {
        self.changed.insert(self.hasher.hash_one(name), exists);
    }

    /// Returns whether a change has followed for this name.
    pub(super) fn has_change(&self, name: &str) -> bool {
        self.changed.contains_key(&self.hasher.hash_one(name))
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        let changed = |name: &u64| self.scanned.binary_search(name).is_ok();
        let before = self.changed.keys().filter(|name| changed(name)).count();
        self.scanned.len() - before + self.changed.values().filter(|exists| **exists).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_counts_once_and_its_last_change_counts() {
        let mut names = LoadedNames::default();
        ["a", "b", "c", "a", "d"].iter().for_each(|name| names.add(name));
        names.end_scan();
        assert_eq!(names.len(), 4);
        for (name, exists, expected) in [
            ("a", true, 4),
            ("b", false, 3),
            ("new", true, 4),
            ("b", true, 5),
            ("new", false, 4),
            ("x", false, 4),
        ] {
            names.change(name, exists);
            assert_eq!(names.len(), expected, "{name}");
        }
        assert!(names.has_change("x") && !names.has_change("c"));
    }
}
