//! Which policies may match: found by a value of one of their conditions, not by trying them all.
//!
//! Each policy is filed under its rarest condition that can be looked up: texts by hash, beginnings of texts and
//! networks by binary search. What is filed nowhere (globs that begin with a star, `not`, presence) is always
//! tried. The index only narrows down; whether a policy matches is decided by all its conditions.

mod nested;

use std::collections::HashMap;

use smallvec::SmallVec;

use self::nested::Nested;
use crate::{Attributes, Network, Pattern, Policy, Test};

/// Policies by what they match; they are numbers, in the order of the policies.
#[derive(Debug)]
pub(crate) struct Index {
    /// Looked up for each attribute of a request, so that the number of names in a file does not matter.
    by_attribute: HashMap<Box<str>, Values>,
    unfiled: Box<[u32]>,
}

/// Policies by the values of one attribute.
#[derive(Debug)]
struct Values {
    exact: HashMap<Box<str>, Vec<u32>>,
    prefixes: Nested<Box<str>>,
    networks: Nested<Network>,
}

/// A value under which a policy can be filed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place<'a> {
    Exact(&'a str),
    Prefix(&'a str),
    Network(Network),
}

/// Those that may match. A request rarely meets more of them.
pub(crate) type Candidates = SmallVec<[u32; 16]>;

impl Index {
    pub(crate) fn new(policies: &[Policy]) -> Self {
        let mut crowds = HashMap::<(&str, Place<'_>), usize>::new();
        for condition in policies.iter().flat_map(|policy| &policy.conditions) {
            for place in places(&condition.test).unwrap_or_default() {
                *crowds.entry((&condition.attribute, place)).or_default() += 1;
            }
        }

        let mut filed = HashMap::<&str, Vec<(Place<'_>, u32)>>::new();
        let mut unfiled = Vec::new();
        for (number, policy) in (0_u32..).zip(policies) {
            let found = policy
                .conditions
                .iter()
                .filter_map(|condition| places(&condition.test).map(|places| (condition, places)));
            match found.min_by_key(|(condition, places)| -> usize {
                let crowd = |place| crowds.get(&(condition.attribute.as_ref(), place)).copied();
                places.iter().cloned().filter_map(crowd).sum()
            }) {
                Some((condition, places)) => {
                    let values = filed.entry(&condition.attribute).or_default();
                    values.extend(places.into_iter().map(|place| (place, number)));
                }
                None => unfiled.push(number),
            }
        }
        let by_attribute = filed.into_iter().map(|(name, filed)| (name.into(), Values::new(filed))).collect();
        Self { by_attribute, unfiled: unfiled.into() }
    }

    /// All that match and few that do not, each once and in order.
    pub(crate) fn candidates(&self, attributes: &Attributes<'_>) -> Candidates {
        let mut candidates = Candidates::from_slice(&self.unfiled);
        for (name, value) in attributes.iter() {
            if let Some(values) = self.by_attribute.get(name) {
                values.add_to(&mut candidates, value);
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates
    }
}

impl Values {
    fn new(filed: Vec<(Place<'_>, u32)>) -> Self {
        let mut exact = HashMap::<Box<str>, Vec<u32>>::new();
        let (mut prefixes, mut networks) = (Vec::new(), Vec::new());
        for (place, number) in filed {
            match place {
                Place::Exact(text) => exact.entry(text.into()).or_default().push(number),
                Place::Prefix(text) => prefixes.push((text.into(), number)),
                Place::Network(network) => networks.push((network, number)),
            }
        }
        Self { exact, prefixes: Nested::new::<str>(prefixes), networks: Nested::new::<Network>(networks) }
    }

    fn add_to(&self, candidates: &mut Candidates, value: &str) {
        if let Some(numbers) = self.exact.get(value) {
            candidates.extend_from_slice(numbers);
        }
        self.prefixes.covering(value, |numbers| candidates.extend_from_slice(numbers));
        // A text is read as an address only where networks are looked for.
        if !self.networks.is_empty()
            && let Some(address) = crate::condition::address(value)
        {
            self.networks.covering(&Network::host(address), |numbers| candidates.extend_from_slice(numbers));
        }
    }
}

/// The places where a condition has to be filed to be found by every value for which it holds; `None` if there
/// are no such places.
fn places(test: &Test) -> Option<Vec<Place<'_>>> {
    match test {
        Test::OneOf(patterns) => patterns.iter().map(place).collect(),
        Test::Within(networks) => Some(networks.iter().copied().map(Place::Network).collect()),
        Test::All(tests) => tests.iter().find_map(places),
        Test::Present | Test::Absent | Test::Not(_) => None,
    }
}

fn place(pattern: &Pattern) -> Option<Place<'_>> {
    match pattern {
        Pattern::Exact(text) => Some(Place::Exact(text)),
        Pattern::Prefix(prefix) => Some(Place::Prefix(prefix)),
        // What stands before the first special character, each value begins with.
        Pattern::Glob(glob) => {
            glob.split(['*', '?']).next().filter(|start| !start.is_empty()).map(Place::Prefix)
        }
    }
}
