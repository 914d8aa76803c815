//! Policies by the values of one attribute.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use smallvec::SmallVec;

use super::table::Table;
use super::trie::Trie;
use super::{Candidate, Candidates};
use crate::{Network, Pattern, Test, Value, condition};

/// Policies by the values of one attribute, for look-ups.
#[derive(Debug)]
pub(super) struct Values {
    exact: Table<CandidateGroup>,
    /// Those that several have.
    lists: Box<[Box<[Candidate]>]>,
    prefixes: Trie,
    networks: Trie,
    scanned: Box<[(Test, Candidate)]>,
    /// Those that match a value that no key can use, as they match a missing one.
    unusable: Box<[Candidate]>,
    /// All of these, each once and none of them sure.
    all: Box<[Candidate]>,
}

/// The candidates under a text: usually one.
#[derive(Debug, Clone, Copy)]
enum CandidateGroup {
    One(Candidate),
    List(u32),
}

/// The same while it is collected.
#[derive(Debug, Default)]
pub(super) struct FiledCandidate<'a> {
    exact: HashMap<&'a str, Vec<Candidate>>,
    prefixes: Vec<(Box<[u8]>, Candidate)>,
    networks: Vec<(Box<[u8]>, Candidate)>,
    scanned: Vec<(Test, Candidate)>,
    unusable: Vec<Candidate>,
    absent: Vec<Candidate>,
}

/// A value under which a policy can be filed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place<'a> {
    Exact(&'a str),
    Prefix(&'a str),
    /// The beginning of a glob, whose rest must still be tested.
    Start(&'a str),
    Network(Network),
}

/// The places where a condition has to be filed to be found by every value for which it holds; `None` if there
/// are no such places.
pub(crate) fn places(test: &Test) -> Option<Vec<Place<'_>>> {
    match test {
        Test::OneOf(patterns) => patterns.iter().map(place).collect(),
        Test::Within(networks) => Some(networks.iter().copied().map(Place::Network).collect()),
        Test::IgnoringCase(_)
        | Test::Matches(_)
        | Test::In(_)
        | Test::All(_)
        | Test::Present
        | Test::Absent
        | Test::Not(_) => None,
    }
}

fn place(pattern: &Pattern) -> Option<Place<'_>> {
    match pattern {
        Pattern::Exact(text) => Some(Place::Exact(text)),
        Pattern::Prefix(prefix) => Some(Place::Prefix(prefix)),
        Pattern::Glob(glob) => {
            glob.split(['*', '?']).next().filter(|start| !start.is_empty()).map(Place::Start)
        }
    }
}

impl<'a> FiledCandidate<'a> {
    /// Files a policy under all places of one condition; `is_alone` if that is its only one.
    pub(super) fn file(&mut self, number: u32, is_alone: bool, places: Vec<Place<'a>>) {
        let candidate = Candidate::new(number, is_alone);
        for place in places {
            match place {
                Place::Exact(text) => self.exact.entry(text).or_default().push(candidate),
                Place::Prefix(text) => self.prefixes.push((text.as_bytes().into(), candidate)),
                Place::Start(text) => {
                    self.prefixes.push((text.as_bytes().into(), Candidate::new(number, false)));
                }
                Place::Network(network) => {
                    self.networks.extend(nibbles_of(network).map(|nibbles| (nibbles, candidate)));
                }
            }
        }
    }

    /// Makes a condition be tested on every value, and notes whether it holds for a missing one.
    pub(super) fn scan(&mut self, candidate: Candidate, test: &Test) {
        if test.holds(None) {
            self.absent.push(candidate);
        }
        match test {
            Test::Absent => self.unusable.push(candidate),
            test => self.scanned.push((test.clone(), candidate)),
        }
    }

    fn all(&self) -> Box<[Candidate]> {
        let texts = self.exact.values().flatten();
        let beginnings = self.prefixes.iter().chain(&self.networks).map(|(_, candidate)| candidate);
        let scanned = self.scanned.iter().map(|(_, candidate)| candidate).chain(&self.absent);
        let numbers = texts.chain(beginnings).chain(scanned).map(|candidate| candidate.number());
        numbers.collect::<BTreeSet<u32>>().into_iter().map(Candidate::doubtful).collect()
    }

    /// Returns the candidates whose condition holds for a missing value. Candidates under values need one.
    pub(super) fn absent(&self) -> Box<[Candidate]> {
        self.absent.as_slice().into()
    }
}

impl Values {
    pub(super) fn new(filed: FiledCandidate<'_>) -> Self {
        let all = filed.all();
        let mut lists = Vec::new();
        let exact: Vec<(&str, CandidateGroup)> = filed
            .exact
            .into_iter()
            .map(|(text, candidates)| match candidates.as_slice() {
                [one] => (text, CandidateGroup::One(*one)),
                _ => {
                    lists.push(candidates.into());
                    (text, CandidateGroup::List(lists.len() as u32 - 1))
                }
            })
            .collect();
        Self {
            exact: Table::new(exact),
            lists: lists.into(),
            prefixes: Trie::new(filed.prefixes),
            networks: Trie::new(filed.networks),
            scanned: filed.scanned.into(),
            unusable: filed.unusable.into(),
            all,
        }
    }

    /// Adds all that any value may match.
    pub(super) fn add_all_to(&self, candidates: &mut Candidates) {
        candidates.extend_from_slice(&self.all);
    }

    /// Adds all that the value may match.
    pub(super) fn add_to(&self, candidates: &mut Candidates, value: Value<'_>) {
        for text in value.texts() {
            self.add_filed_to(candidates, text);
        }
        if !value.is_present() {
            candidates.extend_from_slice(&self.unusable);
        }
        for (test, candidate) in &self.scanned {
            if test.holds(Some(value)) {
                candidates.push(*candidate);
            }
        }
    }

    /// Adds all that are filed under the text.
    fn add_filed_to(&self, candidates: &mut Candidates, text: &str) {
        match self.exact.get(text) {
            None => {}
            Some(CandidateGroup::One(candidate)) => candidates.push(*candidate),
            Some(CandidateGroup::List(list)) => {
                candidates.extend_from_slice(self.lists.get(*list as usize).map_or(&[], Box::as_ref));
            }
        }
        self.prefixes.beginnings(text.as_bytes(), |found| candidates.extend_from_slice(found));
        // A text is read as an address only where networks are looked for.
        if !self.networks.is_empty()
            && let Some(address) = condition::address(text)
        {
            let nibbles = nibbles(address.to_canonical());
            self.networks.beginnings(&nibbles, |found| candidates.extend_from_slice(found));
        }
    }
}

/// An address in halves of bytes, after one that tells IPv4 and IPv6 apart.
type Nibbles = SmallVec<[u8; 33]>;

fn nibbles(address: IpAddr) -> Nibbles {
    let halves = |bytes: &[u8], family: u8| {
        let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        std::iter::once(family).chain(halves).collect()
    };
    match address {
        IpAddr::V4(address) => halves(&address.octets(), 4),
        IpAddr::V6(address) => halves(&address.octets(), 6),
    }
}

/// Returns the common prefixes of all addresses of a network. A network whose length is no multiple of four is up to
/// eight that have such a length; so the trie need not know of bits.
fn nibbles_of(network: Network) -> impl Iterator<Item = Box<[u8]>> {
    let whole = usize::from(network.prefix() / 4);
    let nibbles = nibbles(network.first());
    let start: Nibbles = nibbles.iter().copied().take(1 + whole).collect();
    let rest = network.prefix() % 4;
    let last = nibbles.get(1 + whole).copied().unwrap_or_default();
    let ends = (rest > 0).then(|| last..last + (16 >> rest));
    let longer = ends.into_iter().flatten().map({
        let start = start.clone();
        move |end| start.iter().copied().chain([end]).collect()
    });
    let itself = (rest == 0).then(|| start.iter().copied().collect());
    itself.into_iter().chain(longer)
}
