//! Descriptors of the configuration, and those of one level by key and value.

use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::rule::Rule;
use crate::wildcards::Wildcards;

/// A descriptor of the configuration.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DescriptorNode {
    pub(super) rule: Option<Rule>,
    /// The pattern that replaces the request's value in the counter's key.
    pub(super) shared: Option<Box<str>>,
    /// Its name in metrics.
    pub(super) name: Box<str>,
    /// Whether metrics have the value of the request instead (`value_to_metric`).
    pub(super) shows_value: bool,
    pub(super) children: DescriptorTable<SameKeyDescriptors>,
}

/// The descriptors of one level with the same key.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SameKeyDescriptors {
    /// With the pattern as well: a value that is written like a pattern means that one.
    pub(super) exact: DescriptorTable<u32>,
    pub(super) wildcards: Wildcards,
    pub(super) any: Option<u32>,
}

/// Keys are texts of the configuration only, so clients cannot create collisions; the hash is unkeyed.
pub(super) type DescriptorTable<V> = HashMap<Box<str>, V, Xxh3DefaultBuilder>;

impl DescriptorNode {
    /// Returns whether metrics of a rule have its own name instead of the value of a request.
    pub(super) fn is_named(&self, rule: &Rule) -> bool {
        self.shared.is_some() || !rule.is_detailed && !self.shows_value
    }
}

impl SameKeyDescriptors {
    pub(super) fn add(&mut self, value: Box<str>, node: u32) {
        if value.is_empty() {
            self.any = Some(node);
            return;
        }
        if value.contains('*') {
            self.wildcards.add(&value, node);
        }
        self.exact.insert(value, node);
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.exact.values().copied().chain(self.any)
    }

    pub(super) fn find(&self, value: &str) -> Option<u32> {
        self.exact.get(value).copied().or_else(|| self.wildcards.find(value)).or(self.any)
    }
}
