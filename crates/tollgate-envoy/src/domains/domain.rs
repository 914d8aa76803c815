//! The limits of one domain.

use std::collections::HashMap;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Key, PolicyQuota};
use tollgate_yaml::{At, Position, ProblemKind, Problems};

use super::descriptor::{DescriptorNode, DescriptorTable};
use crate::digest::stand_in;
use crate::file::RawDescriptor;
use crate::origin::Origin;
use crate::request::Entry;
use crate::rule::Rule;
use crate::series;
use crate::unit::Unit;
use crate::verdicts::Verdicts;
use crate::warning::{self, WarningKind};

/// The limits of one domain.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(super) name: Box<str>,
    /// Where it stands first.
    pub(super) at: Position,
    /// The quotas without limits, in the order of [`Unit::ALL`].
    quotas: [PolicyQuota; 7],
    /// The root comes first.
    pub(super) nodes: Vec<DescriptorNode>,
    /// The places of its counted limits among those of all domains, once they are numbered.
    pub(super) rules: Range<usize>,
    /// The descriptors of the outermost level.
    pub(super) seen: SeenDescriptors,
    /// Until all files are read.
    pub(super) warnings: Vec<(Position, WarningKind)>,
    /// Kept when the limits are replaced.
    pub(super) verdicts: Arc<Verdicts>,
}

/// The places of a level's descriptors, by key and value.
pub(super) type SeenDescriptors = HashMap<(Box<str>, Box<str>), Position>;

/// The patterns that replace values, one for each entry.
type SharedPatterns<'a> = SmallVec<[Option<&'a str>; 3]>;

impl Domain {
    pub(super) fn new(name: &str, at: Position) -> Self {
        // No policy's name has a colon, so no policy shares these counters.
        let policy = format!("envoy:{name}");
        let quotas = Unit::ALL.map(|unit| PolicyQuota::new(&policy, unit.quota()));
        Self {
            name: name.into(),
            at,
            quotas,
            nodes: vec![DescriptorNode::default()],
            rules: 0..0,
            seen: SeenDescriptors::new(),
            warnings: Vec::new(),
            verdicts: Arc::default(),
        }
    }

    /// Adds descriptors below a node.
    pub(super) fn fill(
        &mut self,
        parent: u32,
        descriptors: Vec<At<RawDescriptor>>,
        seen: &mut SeenDescriptors,
        origin: Origin<'_>,
        problems: &mut Problems,
    ) {
        for At { at, value: raw, .. } in descriptors {
            raw.need(&["key"], at, problems);
            self.warnings.extend(warning::of(&raw));
            let rule = Rule::of(&raw, |limit, unit| self.quota(limit, unit), problems);
            let RawDescriptor { key, value, descriptors, share_threshold, value_to_metric, .. } = raw;
            let value = value.map_or_else(Box::default, |value| value.value.0);
            let Some(key) = key.filter(|key| is_key(key.at, &key.value.0, &value, problems)) else {
                continue;
            };
            let key = key.value.0;
            if let Some(first) = seen.get(&(key.clone(), value.clone())) {
                let first = origin.seen_from(at, *first);
                let key = if value.is_empty() { key } else { format!("{key}: {value}").into() };
                problems.add(at, ProblemKind::DuplicateKey { key, first });
                continue;
            }
            seen.insert((key.clone(), value.clone()), at);
            let is_shared = value.contains('*') && share_threshold.is_some_and(|share| share.value.0);
            let shared = is_shared.then(|| value.clone());
            let is_open = value.is_empty() || value.contains('*');
            let shows_value = is_open && value_to_metric.is_some_and(|shows| shows.value.0);
            let name = series::level(&key, &value);
            let node = self.nodes.len() as u32;
            self.nodes.push(DescriptorNode {
                rule,
                shared,
                name,
                shows_value,
                children: DescriptorTable::default(),
            });
            if let Some(parent) = self.nodes.get_mut(parent as usize) {
                parent.children.entry(key).or_default().add(value, node);
            }
            if let Some(descriptors) = descriptors {
                self.fill(node, descriptors.value, &mut SeenDescriptors::new(), origin, problems);
            }
        }
    }

    /// The quota of a limit of the domain. Equal units share counters, whatever the limit.
    pub(crate) fn quota(&self, requests_per_unit: u32, unit: Unit) -> PolicyQuota {
        let [first, ..] = &self.quotas;
        let quota = Unit::ALL.iter().zip(&self.quotas).find(|(known, _)| **known == unit);
        quota.map_or(first, |(_, quota)| quota).with_limit(requests_per_unit.into())
    }

    /// The rule that applies to a request's descriptor, and the key under which it is counted.
    pub(crate) fn find(
        &self,
        entries: &[Entry<'_>],
        max_value_bytes: Option<usize>,
    ) -> Option<(&Rule, Key<'static>)> {
        let path = self.path(entries)?;
        let rule = path.last()?.rule.as_ref()?;
        let shared: SharedPatterns<'_> = path.iter().map(|node| node.shared.as_deref()).collect();
        Some((rule, self.key(entries, &shared, max_value_bytes)))
    }

    /// The nodes that these entries lead to, level by level; `None` if they lead nowhere.
    pub(super) fn path(&self, entries: &[Entry<'_>]) -> Option<SmallVec<[&DescriptorNode; 3]>> {
        let mut node = self.nodes.first()?;
        let mut path = SmallVec::new();
        for entry in entries {
            node = self.nodes.get(node.children.get(entry.key)?.find(entry.value)? as usize)?;
            path.push(node);
        }
        Some(path)
    }

    pub(super) fn limits(&self) -> usize {
        self.nodes.iter().filter(|node| node.rule.is_some()).count()
    }

    pub(crate) fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// The key of a counter: the domain, then the keys and values of the entries in turn, as envoyproxy/ratelimit names
    /// its counters. A pattern is a list, and so is a [stand-in](stand_in), so that no value equals it.
    pub(crate) fn key(
        &self,
        entries: &[Entry<'_>],
        shared: &[Option<&str>],
        max_value_bytes: Option<usize>,
    ) -> Key<'static> {
        let shared = shared.iter().copied().chain(iter::repeat(None));
        let entries = entries.iter().zip(shared).flat_map(|(entry, shared)| {
            let stand_in = || stand_in(entry.value, max_value_bytes?);
            let value = match shared {
                None => stand_in().map_or_else(|| Key::from(entry.value), |digest| Key::parts([digest])),
                Some(pattern) => Key::parts([pattern]),
            };
            [Key::from(entry.key), value]
        });
        Key::parts(iter::once(Key::from(&*self.name)).chain(entries))
    }
}

/// Returns whether a descriptor may have this key with this value.
///
/// Envoy Gateway names a route without a hostname by a text that ends in `/*`, as key and as value. Nothing but its own
/// entry can have that key, so the `*` means itself. Elsewhere it is a wildcard in envoyproxy/ratelimit.
fn is_key(at: Position, key: &str, value: &str, problems: &mut Problems) -> bool {
    let problem = if key.is_empty() {
        "the key of a descriptor is empty"
    } else if key.contains('*') && key != value {
        "a key has a `*` only if its value is the same text: wildcards are for values"
    } else {
        return true;
    };
    problems.add(at, ProblemKind::Other(problem.into()));
    false
}
