//! The series in which the limits of a domain count their hits.

use super::descriptor::{DescriptorNode, SameKeyDescriptors};
use super::domain::Domain;
use crate::hits::HitTable;
use crate::request::Entry;
use crate::rule::Rule;
use crate::series::{self, Series};

impl Domain {
    pub(super) fn count_hits(&mut self, table: &HitTable) {
        let mut left = vec![(0, Vec::new(), false)];
        while let Some((place, levels, shows_values)) = left.pop() {
            let Some(node) = self.nodes.get_mut(place as usize) else { continue };
            if let Some(rule) = &mut node.rule {
                let series = Series::new(&self.name, levels.iter().cloned());
                let is_named = !rule.is_detailed && !shows_values;
                rule.hits = is_named.then(|| table.configured(series.clone()));
                rule.series = Some(series);
            }
            let places = node.children.values().flat_map(SameKeyDescriptors::nodes).collect::<Vec<_>>();
            for place in places {
                let Some(child) = self.nodes.get(place as usize) else { continue };
                let levels = levels.iter().chain([&child.name]).cloned().collect();
                left.push((place, levels, shows_values || child.shows_value));
            }
        }
    }

    /// Returns the series of a limit whose labels hold values of the request. A limit that came with its descriptor has
    /// only the keys of the entries, because no file asks for their values.
    pub(crate) fn series(&self, entries: &[Entry<'_>], rule: Option<&Rule>) -> Series {
        let Some((rule, path)) = rule.zip(self.path(entries)) else {
            return Series::new(&self.name, entries.iter().map(|entry| series::level(entry.key, "")));
        };
        // As there, which writes a `_` even if the value behind it is empty.
        let is_shared = |(entry, node): (&Entry<'_>, &&DescriptorNode)| {
            node.shared.as_deref().is_some_and(|pattern| pattern != entry.value)
        };
        let joins_all = rule.is_detailed && !entries.iter().zip(&path).any(is_shared);
        let levels = entries.iter().zip(&path).map(|(entry, node)| match entry.value {
            _ if node.is_named(rule) => node.name.clone(),
            "" if joins_all => series::level(&format!("{}_", entry.key), ""),
            value => series::level(entry.key, value),
        });
        Series::new(&self.name, levels)
    }
}
