//! The counted limits of all domains, by numbers and by names for people.

use super::Domains;
use super::descriptor::SameKeyDescriptors;
use super::domain::Domain;
use crate::rule::Limit;

impl Domains {
    /// Returns the names of all limits that are counted: the domain and the names of the levels, as
    /// `shop: user, path_/login`. Each has a name of its own. A [`CountedKey`](crate::CountedKey) has the place of its
    /// limit among them.
    #[must_use]
    pub fn rule_names(&self) -> &[Box<str>] {
        &self.rule_names
    }

    /// Returns those of one domain.
    #[must_use]
    pub fn rule_names_of(&self, domain: &str) -> &[Box<str>] {
        let places = self.by_name.get(domain).map(|domain| domain.rules.clone());
        places.and_then(|places| self.rule_names.get(places)).unwrap_or_default()
    }

    /// Numbers the limits, and names them.
    pub(super) fn number_rules(&mut self) {
        let mut domains: Vec<&mut Domain> = self.by_name.values_mut().collect();
        // The same numbers for the same files, whatever the order of the table.
        domains.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut names = Vec::new();
        domains.into_iter().for_each(|domain| domain.number_rules(&mut names));
        make_unique(&mut names);
        self.rule_names = names.into();
    }
}

impl Domain {
    fn number_rules(&mut self, names: &mut Vec<Box<str>>) {
        let first = names.len();
        let mut levels: Vec<Option<String>> = vec![None; self.nodes.len()];
        // A descriptor comes after the one that it is in.
        for place in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(place) else { continue };
            let above = levels.get(place).cloned().flatten();
            if let Some(rule) = node.rule.as_mut().filter(|rule| matches!(rule.limit, Limit::Counted(_))) {
                rule.place = names.len();
                names.push(format!("{}: {}", self.name, above.as_deref().unwrap_or_default()).into());
            }
            let children: Vec<u32> = node.children.values().flat_map(SameKeyDescriptors::nodes).collect();
            for child in children {
                let Some(node) = self.nodes.get(child as usize) else { continue };
                let name = match &above {
                    Some(above) => format!("{above}, {}", node.name),
                    None => node.name.to_string(),
                };
                if let Some(level) = levels.get_mut(child as usize) {
                    *level = Some(name);
                }
            }
        }
        self.rules = first..names.len();
    }
}

/// Numbers equal names: those of long levels are cut, and `a_b` may be a key or a key with a value.
fn make_unique(names: &mut [Box<str>]) {
    let mut seen = std::collections::HashMap::<Box<str>, usize>::new();
    for name in names {
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            *name = format!("{name} ({times})").into();
        }
    }
}
