//! Patterns of values, indexed by their beginnings and ends.

use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3DefaultBuilder;

/// The patterns of one key, each with a node. `*` matches any characters, or none.
///
/// The cost of a look-up depends on the number of different lengths of the patterns' beginnings and ends, not on the
/// number of patterns. Only patterns with the same beginning, the same end and more than one `*` are compared one by
/// one.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wildcards {
    by_lengths: Vec<PatternLengths>,
    count: u32,
}

/// The patterns whose text before the first `*` and after the last have these lengths, in bytes.
#[derive(Debug, PartialEq)]
struct PatternLengths {
    start: usize,
    end: usize,
    /// By the text before the first `*`, then by the text after the last.
    patterns: BytesTable<BytesTable<Vec<Pattern>>>,
}

type BytesTable<V> = HashMap<Box<[u8]>, V, Xxh3DefaultBuilder>;

#[derive(Debug, PartialEq)]
struct Pattern {
    /// Its place among the patterns of the key: the first that matches decides.
    place: u32,
    /// The texts between two `*`, without empty ones.
    middles: Box<[Box<str>]>,
    node: u32,
}

impl Wildcards {
    /// Adds a pattern behind those that are there. It has a `*`.
    pub(crate) fn add(&mut self, pattern: &str, node: u32) {
        let mut parts: Vec<&str> = pattern.split('*').collect();
        let end = parts.pop().unwrap_or_default().as_bytes();
        let mut parts = parts.into_iter();
        let start = parts.next().unwrap_or_default().as_bytes();
        let middles = parts.filter(|part| !part.is_empty()).map(Into::into).collect();

        let lengths = (start.len(), end.len());
        let known = self.by_lengths.iter().position(|same| (same.start, same.end) == lengths);
        let known = known.unwrap_or_else(|| {
            self.by_lengths.push(PatternLengths {
                start: lengths.0,
                end: lengths.1,
                patterns: BytesTable::default(),
            });
            self.by_lengths.len() - 1
        });
        if let Some(same) = self.by_lengths.get_mut(known) {
            let same_start = same.patterns.entry(start.into()).or_default();
            let patterns = same_start.entry(end.into()).or_default();
            patterns.push(Pattern { place: self.count, middles, node });
        }
        self.count += 1;
    }

    /// Returns the nodes of all patterns, in their order.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        let same_start = self.by_lengths.iter().flat_map(|lengths| lengths.patterns.values());
        let mut patterns: Vec<&Pattern> = same_start.flat_map(HashMap::values).flatten().collect();
        patterns.sort_unstable_by_key(|pattern| pattern.place);
        patterns.into_iter().map(|pattern| pattern.node).collect()
    }

    /// The node of the first pattern that matches the value.
    pub(crate) fn find(&self, value: &str) -> Option<u32> {
        let matching = self.by_lengths.iter().filter_map(|lengths| lengths.find(value));
        matching.min_by_key(|pattern| pattern.place).map(|pattern| pattern.node)
    }
}

impl PatternLengths {
    fn find(&self, value: &str) -> Option<&Pattern> {
        let (start, rest) = value.as_bytes().split_at_checked(self.start)?;
        let (_, end) = rest.split_at_checked(rest.len().checked_sub(self.end)?)?;
        let patterns = self.patterns.get(start)?.get(end)?;
        // Both ends are those of the pattern, so the value can be cut there.
        let middle = value.get(self.start..value.len() - self.end)?;
        patterns.iter().find(|pattern| pattern.has_middles_in(middle))
    }
}

impl Pattern {
    /// Returns whether the texts come one behind the other. Taking the first place of each leaves the most room for the
    /// next.
    fn has_middles_in(&self, mut text: &str) -> bool {
        self.middles.iter().all(|middle| match text.split_once(middle.as_ref()) {
            Some((_, rest)) => {
                text = rest;
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(patterns: &[&str], value: &str) -> Option<u32> {
        let mut wildcards = Wildcards::default();
        (0..).zip(patterns).for_each(|(place, pattern)| wildcards.add(pattern, place));
        wildcards.find(value)
    }

    #[test]
    fn a_star_stands_for_any_characters_anywhere() {
        for (pattern, matching, others) in [
            ("*", &["", "a", "*"][..], &[][..]),
            ("foo*", &["foo", "foobar"], &["fo", "xfoo"]),
            ("*foo", &["foo", "xfoo"], &["foox", "oo"]),
            ("a*a", &["aa", "aba"], &["a", "ab"]),
            ("a*b*c", &["abc", "axbxc", "abbc"], &["ac", "acb"]),
            ("a**b", &["ab", "a*b"], &["a", "b"]),
            ("*a*ab*", &["aab", "a-ab"], &["ab", "aba"]),
            ("é*", &["é", "éa"], &["e", "ê"]),
        ] {
            for value in matching {
                assert_eq!(first(&[pattern], value), Some(0), "{pattern} {value}");
            }
            for value in others {
                assert_eq!(first(&[pattern], value), None, "{pattern} {value}");
            }
        }
    }

    #[test]
    fn the_first_pattern_of_the_file_decides() {
        assert_eq!(first(&["a*", "ab*"], "abc"), Some(0));
        assert_eq!(first(&["ab*", "a*"], "abc"), Some(0));
        assert_eq!(first(&["*z", "a*x*", "a*b*", "*"], "abc"), Some(2));
        assert_eq!(first(&["*z", "a*x*"], "abc"), None);
    }
}
