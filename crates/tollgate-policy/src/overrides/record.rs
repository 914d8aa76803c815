//! Overrides as they are stored and listed.

use std::fmt;
use std::sync::Arc;

use tollgate::Timestamp;

use super::OverrideName;

/// An override, with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideRecord {
    /// Its policy and its requests.
    pub name: OverrideName,
    /// The written form of the policy's key when it was set. If the policy has another key, the override does not
    /// apply.
    pub key: Box<str>,
    /// What replaces the policy's limits.
    pub limits: OverrideLimits,
    /// The time from which on it does not apply any more, by the store's clock; `None` if it has no end.
    pub until: Option<Timestamp>,
    /// A short text to find it by.
    pub label: Option<Arc<str>>,
    /// A text for people.
    pub note: Option<Box<str>>,
    /// Who set it.
    pub by: Option<Arc<str>>,
    /// When it was set.
    pub at: Timestamp,
    /// The [number](crate::OverridesVersion::number) of the change that set it.
    pub version: u64,
}

/// What replaces a policy's limits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OverrideLimits {
    /// These limits, each as it is written in a file: `500/1m`, `20~in_flight`.
    Limits(Box<[Box<str>]>),
    /// Nothing is counted.
    Unlimited,
    /// Every request is denied.
    Denied,
    /// Something that this program cannot read, and why: the override does not apply.
    Unreadable(Box<str>),
}

impl OverrideLimits {
    /// Returns these limits.
    pub fn of<T: Into<Box<str>>>(limits: impl IntoIterator<Item = T>) -> Self {
        Self::Limits(limits.into_iter().map(Into::into).collect())
    }
}

/// As a list in a file, or the word.
impl fmt::Display for OverrideLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limits(limits) => write!(f, "[{}]", limits.join(", ")),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Denied => f.write_str("denied"),
            Self::Unreadable(_) => f.write_str("unreadable"),
        }
    }
}
