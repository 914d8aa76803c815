//! The content of a policy file.

use crate::expression::Expression;
use crate::pattern::Pattern;

#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) mode: Mode,
    pub(crate) denies_unmatched: Option<bool>,
    pub(crate) on_missing_key: Option<OnMissingKey>,
    pub(crate) tiers: Vec<(String, Quotas)>,
    /// Requests that are admitted or denied whatever the policies say; any one line suffices.
    pub(crate) allow: Lines,
    pub(crate) deny: Lines,
    pub(crate) policies: Vec<Policy>,
    /// Which of the possible notations to use.
    pub(crate) style: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) is_enabled: bool,
    pub(crate) conditions: Match,
    /// Set unless the policy is exempt.
    pub(crate) counting: Option<Counting>,
}

#[derive(Debug, Clone)]
pub(crate) struct Counting {
    pub(crate) mode: Mode,
    pub(crate) key: Key,
    pub(crate) on_missing_key: Option<OnMissingKey>,
    pub(crate) cost: Cost,
    pub(crate) overdraft: bool,
    pub(crate) quotas: QuotaChoice,
    pub(crate) candidates: Option<Quotas>,
    pub(crate) overrides: Vec<Override>,
}

/// Lines that must all hold, and alternatives, of which at least one must hold if there are any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Match {
    pub(crate) lines: Lines,
    pub(crate) any: Vec<Lines>,
}

pub(crate) type Lines = Vec<(String, Test)>;

#[derive(Debug, Clone)]
pub(crate) enum Test {
    OneOf(Vec<Pattern>),
    Braces { tests: Vec<Named>, ignores_case: Option<bool> },
}

/// A named test.
#[derive(Debug, Clone)]
pub(crate) enum Named {
    Equal(String),
    OneOf(Vec<Pattern>),
    Prefix(String),
    Glob(Pattern),
    Regex(Expression),
    Cidr(Vec<String>),
    OneOfFrom(Vec<String>),
    CidrFrom(Vec<String>),
    Present,
    Absent,
    Not(Box<Test>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    Global,
    Attribute(String),
    Address { name: String, ipv4: usize, ipv6: usize },
    All(Vec<Key>),
    FirstOf(Vec<Key>),
}

#[derive(Debug, Clone)]
pub(crate) enum QuotaChoice {
    List(Quotas),
    Tier { attribute: String, default: String },
}

/// Empty if there is no limit.
pub(crate) type Quotas = Vec<Quota>;

#[derive(Debug, Clone)]
pub(crate) enum Quota {
    Fixed(Spelling),
    /// An attribute has the limit, up to a maximum.
    By {
        attribute: String,
        on_missing: Option<OnMissingLimit>,
        max: u64,
        windows: Spelling,
    },
}

/// A text in a file, and as Tollgate writes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spelling {
    pub(crate) in_file: &'static str,
    pub(crate) usual: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum OnMissingLimit {
    Error,
    Fixed(u64),
}

#[derive(Debug, Clone)]
pub(crate) enum Override {
    When {
        conditions: Match,
        quotas: Quotas,
        candidates: Option<Quotas>,
    },
    /// The values in the policy file, and those in an additional file.
    Table {
        attribute: String,
        values: Vec<(String, Quotas)>,
        beside: Option<Vec<(String, Quotas)>>,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Cost {
    Asked,
    Fixed(u32),
    Attribute { name: String, min: Option<u32>, max: u32, on_missing: Option<OnMissingCost> },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum OnMissingCost {
    Error,
    Asked,
    Fixed(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Off,
    Shadow,
    Enforce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMissingKey {
    Error,
    Deny,
    Skip,
}

impl File {
    /// Returns the attributes that the key needs.
    pub(crate) fn names(&self) -> Vec<&str> {
        let listed = self.allow.iter().chain(&self.deny).map(|(name, _)| name.as_str());
        listed.chain(self.policies.iter().flat_map(|policy| policy.names(self))).collect()
    }
}

impl Quota {
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self, Self::Fixed(spelling) if spelling.usual.contains("~in_flight"))
    }
}

impl Counting {
    /// Returns whether any of its lists limits units in flight, with these tiers.
    pub(crate) fn has_in_flight(&self, tiers: &[(String, Quotas)]) -> bool {
        let mut lists: Vec<&Quotas> = self.candidates.iter().collect();
        match &self.quotas {
            QuotaChoice::List(quotas) => lists.push(quotas),
            QuotaChoice::Tier { .. } => lists.extend(tiers.iter().map(|(_, quotas)| quotas)),
        }
        for over in &self.overrides {
            match over {
                Override::When { quotas, candidates, .. } => {
                    lists.push(quotas);
                    lists.extend(candidates);
                }
                Override::Table { values, beside, .. } => {
                    lists.extend(values.iter().chain(beside.iter().flatten()).map(|(_, quotas)| quotas));
                }
            }
        }
        lists.into_iter().flatten().any(Quota::is_in_flight)
    }
}

impl Policy {
    /// Returns the attributes that the policy needs.
    pub(crate) fn names<'a>(&'a self, file: &'a File) -> Vec<&'a str> {
        let mut names: Vec<&str> = self.conditions.names().collect();
        let Some(counting) = &self.counting else { return names };
        counting.key.add_names(&mut names);
        if let Cost::Attribute { name, .. } = &counting.cost {
            names.push(name);
        }
        let mut lists: Vec<&Quotas> = counting.candidates.iter().collect();
        match &counting.quotas {
            QuotaChoice::List(quotas) => lists.push(quotas),
            QuotaChoice::Tier { attribute, .. } => {
                names.push(attribute);
                lists.extend(file.tiers.iter().map(|(_, quotas)| quotas));
            }
        }
        for over in &counting.overrides {
            match over {
                Override::When { conditions, quotas, candidates } => {
                    names.extend(conditions.names());
                    lists.push(quotas);
                    lists.extend(candidates);
                }
                Override::Table { attribute, values, .. } => {
                    names.push(attribute);
                    lists.extend(values.iter().map(|(_, quotas)| quotas));
                }
            }
        }
        let limit_attribute = |quota: &'a Quota| match quota {
            Quota::Fixed(_) => None,
            Quota::By { attribute, .. } => Some(attribute.as_str()),
        };
        names.extend(lists.into_iter().flatten().filter_map(limit_attribute));
        names
    }
}

impl Match {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().chain(self.any.iter().flatten()).map(|(name, _)| name.as_str())
    }
}

impl Key {
    fn add_names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Global => {}
            Self::Attribute(name) | Self::Address { name, .. } => names.push(name),
            Self::All(parts) | Self::FirstOf(parts) => parts.iter().for_each(|part| part.add_names(names)),
        }
    }
}
