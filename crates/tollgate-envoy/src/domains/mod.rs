//! The limits of all domains, read from files and compiled to an index.

mod content;
mod descriptor;
mod domain;
mod labels;
mod rule_names;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tollgate::{OnStoreFailure, QuotaErrorKind};
use tollgate_policy::Generation;
use tollgate_yaml::{At, ConfigError, ProblemKind, Problems, Sources};

pub(crate) use self::domain::Domain;
use crate::Settings;
use crate::file::{self, RawFile};
use crate::hits::HitTable;
use crate::origin::{InvalidConfigs, Origin, ValuePlaces};
use crate::series::Series;
use crate::verdicts::DomainVerdicts;
use crate::warning::{Warning, WarningKind};

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
#[derive(Debug, Default)]
pub struct Domains {
    by_name: HashMap<Box<str>, Domain>,
    warnings: Box<[Warning]>,
    /// Those of the limits that are counted, by their places.
    rule_names: Box<[Box<str>]>,
    /// Computed once somebody asks for it.
    generation: OnceLock<Generation>,
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

impl Domains {
    /// Reads the texts of files, one domain each.
    ///
    /// # Errors
    ///
    /// If a text is not valid; then every problem is named.
    pub fn parse(sources: &Sources, same_domain: SameDomain) -> Result<Self, ConfigError> {
        let files: Box<[Box<str>]> = sources.names().map(Into::into).collect();
        let mut problems = problems();
        let mut roots = Vec::new();
        for (number, text) in (0..).zip(sources.policies()) {
            roots.extend(file::read(text, number, &mut problems));
        }
        let domains = Self::of(roots, same_domain, Origin::Files(&files), &mut problems);
        if problems.is_empty() {
            return Ok(domains);
        }
        Err(ConfigError::Invalid { files, problems: problems.into_sorted() })
    }

    /// Reads configurations that are not in files, one domain each, such as resources of xDS. Each has a name for
    /// messages, and the contents that a file would have.
    ///
    /// # Errors
    ///
    /// If a configuration is not valid; then every problem is named.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::json;
    /// use tollgate_envoy::{Domains, SameDomain};
    ///
    /// let config = |unit: &str| {
    ///     let limit = json!({ "unit": unit, "requests_per_unit": 5 });
    ///     ("shop", json!({ "domain": "shop", "descriptors": [{ "key": "user", "rate_limit": limit }] }))
    /// };
    /// let domains = Domains::from_values([config("minute")], SameDomain::Refuse)?;
    /// assert_eq!(domains.limits(), 1);
    ///
    /// let error = Domains::from_values([config("minutes")], SameDomain::Refuse).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "shop: descriptors[0].rate_limit.unit: unknown unit `minutes`: did you mean `minute`?",
    /// );
    /// # Ok::<(), tollgate_envoy::InvalidConfigs>(())
    /// ```
    pub fn from_values<'a>(
        configs: impl IntoIterator<Item = (&'a str, Value)>,
        same_domain: SameDomain,
    ) -> Result<Self, InvalidConfigs> {
        let mut places = ValuePlaces::default();
        let mut problems = problems();
        let mut roots = Vec::new();
        for (name, value) in configs {
            roots.extend(file::read_value(value, name, &mut places, &mut problems));
        }
        let origin = Origin::Values(&places);
        let domains = Self::of(roots, same_domain, origin, &mut problems);
        if problems.is_empty() { Ok(domains) } else { Err(InvalidConfigs::new(problems, origin)) }
    }

    /// Combines configurations, and notes the problems between them.
    fn of(roots: Vec<At<RawFile>>, same: SameDomain, origin: Origin<'_>, problems: &mut Problems) -> Self {
        let mut domains = Self::default();
        roots.into_iter().for_each(|root| domains.add(root, same, origin, problems));
        domains.warn(origin);
        domains.number_rules();
        domains
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

    /// Returns their generation, which is the same for the same limits in any order and from any source. The first call
    /// computes it, and takes as long as reading all of them once.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_envoy::{Domains, SameDomain};
    /// use tollgate_policy::Sources;
    ///
    /// let of = |unit: &str| {
    ///     let text = format!(
    ///         "
    /// domain: shop
    /// descriptors:
    ///   - key: user
    ///     rate_limit: {{ requests_per_unit: 5, unit: {unit} }}
    /// "
    ///     );
    ///     let domains = Domains::parse(&Sources::of("shop.yaml", text), SameDomain::Refuse);
    ///     domains.map(|domains| domains.generation())
    /// };
    /// assert_eq!(of("minute")?, of("MINUTE")?);
    /// assert_ne!(of("minute")?, of("hour")?);
    /// # Ok::<(), tollgate_policy::ConfigError>(())
    /// ```
    #[must_use]
    pub fn generation(&self) -> Generation {
        *self.generation.get_or_init(|| content::generation(self.by_name.values()))
    }

    /// Returns their generation under settings, which is another one if these decide otherwise.
    #[must_use]
    pub fn generation_under(&self, settings: &Settings, on_store_failure: OnStoreFailure) -> Generation {
        content::generation_under(self.generation(), settings, on_store_failure)
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

    fn add(&mut self, root: At<RawFile>, same: SameDomain, origin: Origin<'_>, problems: &mut Problems) {
        let At { at, value: root, .. } = root;
        match origin {
            Origin::Files(_) => root.need(&["domain"], at, problems),
            Origin::Values(_) if !root.gives("domain") => {
                problems.add(at, ProblemKind::MissingKey { section: "the configuration", key: "domain" });
            }
            Origin::Values(_) => {}
        }
        let Some(name) = root.domain else { return };
        if name.value.0.is_empty() {
            problems.add(name.at, ProblemKind::Other("the name of the domain is empty".into()));
            return;
        }
        if let (Some(known), SameDomain::Refuse) = (self.by_name.get(&name.value.0), same) {
            let first = origin.seen_from(name.at, known.at);
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
        // A file has a name for xDS only, where it has no effect either.
        if let (Origin::Values(_), Some(other)) = (origin, &root.name)
            && other.value.0 != domain.name
        {
            domain.warnings.push((other.at, WarningKind::OtherName(domain.name.clone())));
        }
        if let Some(descriptors) = root.descriptors {
            domain.fill(0, descriptors.value, &mut seen, origin, problems);
        }
        domain.seen = seen;
    }
}

impl Domains {
    /// Collects the warnings of all domains.
    fn warn(&mut self, origin: Origin<'_>) {
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
        self.warnings = all.into_iter().map(|(at, kind)| Warning { place: origin.place(at), kind }).collect();
    }
}

fn problems() -> Problems {
    Problems::with_advice(|word, _| QuotaErrorKind::of_algorithm(word).map(|kind| kind.to_string().into()))
}
