//! The limits of all domains, read from files and compiled to an index.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Key, PolicyQuota, QuotaErrorKind};
use tollgate_yaml::{At, ConfigError, FilePlace, Position, ProblemKind, Problems, Sources};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::file::{self, RawDescriptor, RawFile};
use crate::hits::{self, HitTable, Series};
use crate::rule::Rule;
use crate::verdicts::Verdicts;
use crate::wildcards::Wildcards;
use crate::{DomainVerdicts, Entry, Unit, Warning, WarningKind, stand_in, warning};

/// The limits of all domains.
///
/// # Which limit applies
///
/// The entries of a request are searched level by level. At each level, the first of these that exists is used:
///
/// 1. the descriptor with the entry's key and value
/// 2. the first descriptor in the file with the key and a matching wildcard: `*` in a value matches any characters
/// 3. the descriptor with the key and no value
///
/// A limit applies only if it is at the level of the request's last entry. Keys and values are compared as pairs: the
/// key `a` with the value `b_c` is not the key `a_b` with the value `c`.
///
/// # Examples
///
/// ```
/// use tollgate_envoy::{Domains, SameDomain};
/// use tollgate_policy::Sources;
///
/// let text = "
/// domain: shop
/// descriptors:
///   - key: path
///     value: /login
///     rate_limit: { unit: minute, requests_per_unit: 5 }
/// ";
/// let domains = Domains::parse(&Sources::of("shop.yaml", text), SameDomain::Refuse)?;
/// assert_eq!(domains.names().collect::<Vec<_>>(), ["shop"]);
///
/// let text = text.replace("minute", "minutes");
/// let error = Domains::parse(&Sources::of("shop.yaml", text), SameDomain::Refuse).unwrap_err();
/// assert_eq!(error.to_string(), "shop.yaml:6:25: unknown unit `minutes`: did you mean `minute`?");
/// # Ok::<(), tollgate_policy::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Domains {
    by_name: HashMap<Box<str>, Domain>,
    warnings: Box<[Warning]>,
}

/// Whether several files may have the same domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SameDomain {
    /// That is an error.
    #[default]
    Refuse,
    /// Their descriptors are merged.
    Merge,
}

/// The limits of one domain.
#[derive(Debug)]
pub(crate) struct Domain {
    name: Box<str>,
    /// Where it stands first.
    at: Position,
    /// The quotas without limits, in the order of [`Unit::ALL`].
    quotas: [PolicyQuota; 7],
    /// The root comes first.
    nodes: Vec<Node>,
    /// The descriptors of the outermost level.
    seen: Seen,
    /// Until all files are read.
    warnings: Vec<(Position, WarningKind)>,
    /// Kept when the limits are replaced.
    verdicts: Arc<Verdicts>,
}

/// A descriptor of the configuration.
#[derive(Debug, Default, PartialEq)]
struct Node {
    rule: Option<Rule>,
    /// The pattern that replaces the request's value in the counter's key.
    shared: Option<Box<str>>,
    /// Its name in metrics.
    name: Box<str>,
    /// Whether metrics have the value of the request instead (`value_to_metric`).
    tells_value: bool,
    children: Table<Values>,
}

/// The descriptors of one level with the same key.
#[derive(Debug, Default, PartialEq)]
struct Values {
    /// With the pattern as well: a value that is written like a pattern means that one.
    exact: Table<u32>,
    wildcards: Wildcards,
    any: Option<u32>,
}

/// Keys are texts of the configuration only, so clients cannot create collisions; the hash is unkeyed.
type Table<V> = HashMap<Box<str>, V, Xxh3DefaultBuilder>;

/// The places of a level's descriptors, by key and value.
type Seen = HashMap<(Box<str>, Box<str>), Position>;

/// The patterns that replace values, one for each entry.
type Shared<'a> = SmallVec<[Option<&'a str>; 3]>;

impl Domains {
    /// Reads the texts of files, one domain each.
    ///
    /// # Errors
    ///
    /// If a text is not valid; then every problem is named.
    pub fn parse(sources: &Sources, same_domain: SameDomain) -> Result<Self, ConfigError> {
        let files: Box<[Box<str>]> = sources.names().map(Into::into).collect();
        let mut problems = Problems::with_advice(|word, _| {
            QuotaErrorKind::of_algorithm(word).map(|kind| kind.to_string().into())
        });
        let mut domains = Self { by_name: HashMap::new(), warnings: Box::default() };
        for (number, text) in (0..).zip(sources.policies()) {
            if let Some(root) = file::read(text, number, &mut problems) {
                domains.add(root, same_domain, &files, &mut problems);
            }
        }
        if problems.is_empty() {
            domains.warn(&files);
            return Ok(domains);
        }
        Err(ConfigError::Invalid { files, problems: problems.into_sorted() })
    }

    /// Returns the names of the domains, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(AsRef::as_ref)
    }

    /// Returns the probable mistakes in the files, in their order.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of limits.
    #[must_use]
    pub fn limits(&self) -> usize {
        self.by_name.values().map(Domain::limits).sum()
    }

    /// Returns the number of limits of each domain, in no particular order.
    pub fn limits_by_name(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_name.iter().map(|(name, domain)| (name.as_ref(), domain.limits()))
    }

    /// Returns whether both have the same limits in the same order.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let mut domains = self.by_name.values();
        self.by_name.len() == other.by_name.len()
            && domains.all(|own| other.domain(&own.name).is_some_and(|other| own.nodes == other.nodes))
    }

    /// Returns how many requests of each domain were decided, since the domain is there, in no particular order.
    pub fn verdicts(&self) -> impl Iterator<Item = (&str, DomainVerdicts)> {
        self.by_name.iter().map(|(name, domain)| (name.as_ref(), domain.verdicts.counts()))
    }

    pub(crate) fn domain(&self, name: &str) -> Option<&Domain> {
        self.by_name.get(name)
    }

    /// Continues the verdicts of existing domains.
    pub(crate) fn keep_verdicts(&mut self, before: &Self) {
        for (name, domain) in &mut self.by_name {
            if let Some(known) = before.by_name.get(name) {
                domain.verdicts = Arc::clone(&known.verdicts);
            }
        }
    }

    /// Lets each limit count its hits in this table, which keeps no series of other limits.
    pub(crate) fn count_hits(&mut self, table: &HitTable) {
        self.by_name.values_mut().for_each(|domain| domain.count_hits(table));
        let rules =
            self.by_name.values().flat_map(|domain| &domain.nodes).filter_map(|node| node.rule.as_ref());
        let limits = rules.filter_map(|rule| rule.series.as_ref()).collect();
        let domains = self.by_name.keys().map(|name| Series::new(name, []).domain).collect();
        table.keep(&limits, &domains);
    }

    fn add(&mut self, root: At<RawFile>, same: SameDomain, files: &[Box<str>], problems: &mut Problems) {
        let At { at, value: root, .. } = root;
        root.need(&["domain"], at, problems);
        let Some(name) = root.domain else { return };
        if name.value.0.is_empty() {
            problems.add(name.at, ProblemKind::Other("the name of the domain is empty".into()));
            return;
        }
        if let (Some(known), SameDomain::Refuse) = (self.by_name.get(&name.value.0), same) {
            let first = FilePlace::seen_from(name.at, known.at, files);
            let problem = format!(
                "duplicate domain `{}`, already given in {first}: write it once, or set MERGE_DOMAIN_CONFIG=true",
                name.value.0
            );
            problems.add(name.at, ProblemKind::Other(problem.into()));
            return;
        }
        let domain =
            self.by_name.entry(name.value.0.clone()).or_insert_with(|| Domain::new(&name.value.0, name.at));
        let mut seen = std::mem::take(&mut domain.seen);
        if let Some(descriptors) = root.descriptors {
            domain.fill(0, descriptors.value, &mut seen, files, problems);
        }
        domain.seen = seen;
    }
}

impl Domains {
    /// Collects the warnings of all domains.
    fn warn(&mut self, files: &[Box<str>]) {
        let mut all = Vec::new();
        for domain in self.by_name.values_mut() {
            let rules = domain.nodes.iter().filter_map(|node| node.rule.as_ref());
            let names: HashSet<&str> = rules.filter_map(|rule| rule.name.as_deref()).collect();
            let is_so = |kind: &WarningKind| match kind {
                WarningKind::ReplacesNothing(name) => !names.contains(&**name),
                _ => true,
            };
            all.extend(domain.warnings.drain(..).filter(|(_, kind)| is_so(kind)));
        }
        all.sort_unstable_by_key(|(at, _)| *at);
        let file = |at: Position| files.get(at.file as usize).cloned().unwrap_or_default();
        self.warnings = all.into_iter().map(|(at, kind)| Warning { file: file(at), at, kind }).collect();
    }
}

impl Domain {
    fn new(name: &str, at: Position) -> Self {
        // No policy's name has a colon, so no policy shares these counters.
        let policy = format!("envoy:{name}");
        let quotas = Unit::ALL.map(|unit| PolicyQuota::new(&policy, unit.quota()));
        Self {
            name: name.into(),
            at,
            quotas,
            nodes: vec![Node::default()],
            seen: Seen::new(),
            warnings: Vec::new(),
            verdicts: Arc::default(),
        }
    }

    /// Adds descriptors below a node.
    fn fill(
        &mut self,
        parent: u32,
        descriptors: Vec<At<RawDescriptor>>,
        seen: &mut Seen,
        files: &[Box<str>],
        problems: &mut Problems,
    ) {
        for At { at, value: raw, .. } in descriptors {
            raw.need(&["key"], at, problems);
            self.warnings.extend(warning::of(&raw));
            let rule = Rule::of(&raw, |limit, unit| self.quota(limit, unit), problems);
            let RawDescriptor { key, value, descriptors, share_threshold, value_to_metric, .. } = raw;
            let Some(key) = key.filter(|key| is_key(key.at, &key.value.0, problems)) else { continue };
            let (key, value) = (key.value.0, value.map_or_else(Box::default, |value| value.value.0));
            if let Some(first) = seen.get(&(key.clone(), value.clone())) {
                let first = FilePlace::seen_from(at, *first, files);
                let key = if value.is_empty() { key } else { format!("{key}: {value}").into() };
                problems.add(at, ProblemKind::DuplicateKey { key, first });
                continue;
            }
            seen.insert((key.clone(), value.clone()), at);
            let is_shared = value.contains('*') && share_threshold.is_some_and(|share| share.value.0);
            let shared = is_shared.then(|| value.clone());
            let is_open = value.is_empty() || value.contains('*');
            let tells_value = is_open && value_to_metric.is_some_and(|tells| tells.value.0);
            let name = hits::level(&key, &value);
            let node = self.nodes.len() as u32;
            self.nodes.push(Node { rule, shared, name, tells_value, children: Table::default() });
            if let Some(parent) = self.nodes.get_mut(parent as usize) {
                parent.children.entry(key).or_default().add(value, node);
            }
            if let Some(descriptors) = descriptors {
                self.fill(node, descriptors.value, &mut Seen::new(), files, problems);
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
        let shared: Shared<'_> = path.iter().map(|node| node.shared.as_deref()).collect();
        Some((rule, self.key(entries, &shared, max_value_bytes)))
    }

    /// The nodes that these entries lead to, level by level; `None` if they lead nowhere.
    fn path(&self, entries: &[Entry<'_>]) -> Option<SmallVec<[&Node; 3]>> {
        let mut node = self.nodes.first()?;
        let mut path = SmallVec::new();
        for entry in entries {
            node = self.nodes.get(node.children.get(entry.key)?.find(entry.value)? as usize)?;
            path.push(node);
        }
        Some(path)
    }

    fn limits(&self) -> usize {
        self.nodes.iter().filter(|node| node.rule.is_some()).count()
    }

    pub(crate) fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    fn count_hits(&mut self, table: &HitTable) {
        let mut left = vec![(0, Vec::new(), false)];
        while let Some((place, levels, tells_values)) = left.pop() {
            let Some(node) = self.nodes.get_mut(place as usize) else { continue };
            if let Some(rule) = &mut node.rule {
                let series = Series::new(&self.name, levels.iter().cloned());
                let is_named = !rule.is_detailed && !tells_values;
                rule.hits = is_named.then(|| table.configured(series.clone()));
                rule.series = Some(series);
            }
            let places = node.children.values().flat_map(Values::nodes).collect::<Vec<_>>();
            for place in places {
                let Some(child) = self.nodes.get(place as usize) else { continue };
                let levels = levels.iter().chain([&child.name]).cloned().collect();
                left.push((place, levels, tells_values || child.tells_value));
            }
        }
    }

    /// Returns the series of a limit whose labels hold values of the request. A limit that came with its descriptor has
    /// only the keys of the entries, because no file asks for their values.
    pub(crate) fn series(&self, entries: &[Entry<'_>], rule: Option<&Rule>) -> Series {
        let Some((rule, path)) = rule.zip(self.path(entries)) else {
            return Series::new(&self.name, entries.iter().map(|entry| hits::level(entry.key, "")));
        };
        // As there, which writes a `_` even if the value behind it is empty.
        let is_shared = |(entry, node): (&Entry<'_>, &&Node)| {
            node.shared.as_deref().is_some_and(|pattern| pattern != entry.value)
        };
        let joins_all = rule.is_detailed && !entries.iter().zip(&path).any(is_shared);
        let levels = entries.iter().zip(&path).map(|(entry, node)| match entry.value {
            _ if node.is_named(rule) => node.name.clone(),
            "" if joins_all => hits::level(&format!("{}_", entry.key), ""),
            value => hits::level(entry.key, value),
        });
        Series::new(&self.name, levels)
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

impl Node {
    /// Returns whether metrics of a rule have its own name instead of the value of a request.
    fn is_named(&self, rule: &Rule) -> bool {
        self.shared.is_some() || !rule.is_detailed && !self.tells_value
    }
}

impl Values {
    fn add(&mut self, value: Box<str>, node: u32) {
        if value.is_empty() {
            self.any = Some(node);
            return;
        }
        if value.contains('*') {
            self.wildcards.add(&value, node);
        }
        self.exact.insert(value, node);
    }

    fn nodes(&self) -> impl Iterator<Item = u32> {
        self.exact.values().copied().chain(self.any)
    }

    fn find(&self, value: &str) -> Option<u32> {
        self.exact.get(value).copied().or_else(|| self.wildcards.find(value)).or(self.any)
    }
}

fn is_key(at: Position, key: &str, problems: &mut Problems) -> bool {
    let problem = if key.is_empty() {
        "the key of a descriptor is empty"
    } else if key.contains('*') {
        "a key has no `*`: wildcards are for values"
    } else {
        return true;
    };
    problems.add(at, ProblemKind::Other(problem.into()));
    false
}
