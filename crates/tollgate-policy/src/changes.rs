//! Changes between two files or sets of policies, for the log of a reload.

use std::collections::HashMap;
use std::fmt;

use tollgate::CountDenied;

#[cfg(feature = "file")]
use crate::Config;
use crate::file_overrides::FileOverrideRule;
use crate::{Policies, Policy, PolicyKind, Printable};

/// The changes between two files, in few words.
///
/// It shows only values that are never secret: names of policies, quotas, and words and numbers in settings. For
/// everything else, such as the values that a policy matches, it only shows that they changed. Moving a policy within
/// the file is not a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes(Box<[Change]>);

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// `store` has changed.
    Store,
    /// `unmatched` has changed.
    Unmatched,
    /// A policy that was not there.
    Added {
        /// Its name.
        policy: Box<str>,
    },
    /// A policy that is not there any more.
    Removed {
        /// Its name.
        policy: Box<str>,
    },
    /// A policy that has changed.
    Changed {
        /// Its name.
        policy: Box<str>,
        /// The changed settings, in the order of the documentation; at least one.
        settings: Box<[ChangedSetting]>,
    },
}

/// A setting that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSetting {
    name: &'static str,
    values: Option<(Box<str>, Box<str>)>,
}

impl Changes {
    #[cfg(feature = "file")]
    pub(crate) fn between(before: &Config, after: &Config) -> Self {
        let store = (before.store != after.store).then_some(Change::Store);
        let policies = Self::between_policies(&before.policies, &after.policies).0;
        Self(store.into_iter().chain(policies).collect())
    }

    pub(crate) fn between_policies(before: &Policies, after: &Policies) -> Self {
        let mut changes = Vec::new();
        if before.unmatched() != after.unmatched() {
            changes.push(Change::Unmatched);
        }
        let (old, new) = (by_name(before), by_name(after));
        for policy in before.as_slice() {
            let name = policy.name.clone();
            match new.get(policy.name()) {
                None => changes.push(Change::Removed { policy: name }),
                Some(new) => {
                    let settings = settings(policy, new);
                    if !settings.is_empty() {
                        changes.push(Change::Changed { policy: name, settings: settings.into() });
                    }
                }
            }
        }
        let added = after.as_slice().iter().filter(|policy| !old.contains_key(policy.name()));
        changes.extend(added.map(|policy| Change::Added { policy: policy.name.clone() }));
        Self(changes.into())
    }

    /// Returns whether both files mean the same.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the differences: the store's, then of the policies that were there before, then those that were added.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }
}

impl ChangedSetting {
    /// Returns the setting's name in the file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the old and the new value, if neither can be a secret.
    #[must_use]
    pub fn values(&self) -> Option<(&str, &str)> {
        self.values.as_ref().map(|(before, after)| (before.as_ref(), after.as_ref()))
    }
}

fn by_name(policies: &Policies) -> HashMap<&str, &Policy> {
    policies.as_slice().iter().map(|policy| (policy.name(), policy)).collect()
}

fn denies(policy: &Policy) -> bool {
    policy.kind == PolicyKind::Deny
}

impl Policy {
    /// Returns the settings in which `after` differs from this policy, except their names and places in the file.
    #[must_use]
    pub fn changed_settings(&self, after: &Self) -> Vec<ChangedSetting> {
        settings(self, after)
    }
}

/// Returns the differences between two policies, except their places in the file.
fn settings(before: &Policy, after: &Policy) -> Vec<ChangedSetting> {
    let mut changed = Vec::new();
    let mut hidden = |name, is_same: bool| {
        if !is_same {
            changed.push(ChangedSetting { name, values: None });
        }
    };
    hidden("description", before.description == after.description);
    hidden("match", before.conditions == after.conditions);
    hidden("key", before.identity == after.identity);
    hidden("cost", before.cost == after.cost);
    hidden("overrides", overrides(before).eq(overrides(after)));

    let (denials_before, denials_after) = (before.count_denied(), after.count_denied());
    let denials = |name, denials: CountDenied| {
        (name, (denials_before == denials).to_string(), (denials_after == denials).to_string())
    };
    let shown = [
        ("exempt", before.is_exempt().to_string(), after.is_exempt().to_string()),
        ("deny", denies(before).to_string(), denies(after).to_string()),
        ("mode", before.mode.to_string(), after.mode.to_string()),
        ("quotas", listed(before.written_limits()), listed(after.written_limits())),
        ("candidate", listed(before.written_candidates()), listed(after.written_candidates())),
        denials("count_denied", CountDenied::Yes),
        denials("overdraft", CountDenied::Overdraft),
        ("overrun", before.overrun.to_string(), after.overrun.to_string()),
        ("on_missing_key", before.on_missing_key.to_string(), after.on_missing_key.to_string()),
        ("on_store_failure", before.on_store_failure.to_string(), after.on_store_failure.to_string()),
        ("headers", before.headers.to_string(), after.headers.to_string()),
        ("deny_status", before.deny_status.to_string(), after.deny_status.to_string()),
    ];
    let shown = shown.into_iter().filter(|(_, before, after)| before != after);
    changed.extend(shown.map(|(name, before, after)| {
        let values = Some((before.into(), after.into()));
        ChangedSetting { name, values }
    }));
    changed
}

/// The overrides without their places. Whether denials count is the policy's, and said once.
fn overrides(policy: &Policy) -> impl Iterator<Item = (&FileOverrideRule, Vec<String>)> {
    policy.overrides.iter().map(|over| {
        let lists = over.lists.iter().flat_map(|list| [&list.enforced, &list.candidates]);
        (&over.rule, lists.map(|specs| listed(specs.written())).collect())
    })
}

fn listed(written: impl Iterator<Item = String>) -> String {
    format!("[{}]", written.collect::<Vec<_>>().join(", "))
}

/// One difference after another, with `; ` between them.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no changes");
        }
        separated(f, &self.0, "; ")
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("changed the store"),
            Self::Unmatched => f.write_str("changed `unmatched`"),
            Self::Added { policy } => write!(f, "added `{policy}`"),
            Self::Removed { policy } => write!(f, "removed `{policy}`"),
            Self::Changed { policy, settings } => {
                write!(f, "changed `{policy}`: ")?;
                separated(f, settings, ", ")
            }
        }
    }
}

impl fmt::Display for ChangedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.values {
            Some((before, after)) => {
                write!(f, "{} {} -> {}", self.name, Printable(before), Printable(after))
            }
            None => f.write_str(self.name),
        }
    }
}

fn separated<T: fmt::Display>(f: &mut fmt::Formatter<'_>, all: &[T], separator: &str) -> fmt::Result {
    for (index, one) in all.iter().enumerate() {
        write!(f, "{}{one}", if index == 0 { "" } else { separator })?;
    }
    Ok(())
}
