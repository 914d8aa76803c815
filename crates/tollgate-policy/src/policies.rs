//! All policies of a file, compiled: from attributes to charges.

use std::collections::{BTreeSet, HashSet};

use crate::index::Index;
use crate::matched::{Applied, Entry};
use crate::{Attributes, Changes, Matched, Mode, OnMissingKey, Outcome, Policy, PolicyError, Refusal};

/// All policies of a file, or of a program.
///
/// Policies are independent: every one that matches applies, all or nothing together. An exempt one ends the
/// matter first.
#[derive(Debug)]
pub struct Policies {
    /// Exempt ones first, each kind in the order of the file.
    policies: Box<[Policy]>,
    index: Index,
    unmatched: Option<Unmatched>,
}

/// What becomes of a request that no policy matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unmatched {
    /// It is admitted.
    #[default]
    Allow,
    /// It is denied, with status 403.
    Deny,
}

impl Unmatched {
    /// As it is written in a file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl Policies {
    pub(crate) fn new(mut policies: Vec<Policy>) -> Self {
        policies.sort_by_key(|policy| !policy.is_exempt);
        let mut names = HashSet::new();
        policies.iter_mut().for_each(|policy| policy.identity.share_names(&mut names));
        Self { index: Index::new(&policies), policies: policies.into(), unmatched: None }
    }

    /// Policies made in code; exempt ones go first.
    ///
    /// # Errors
    ///
    /// If two have the same name.
    pub fn of(policies: impl IntoIterator<Item = Policy>) -> Result<Self, PolicyError> {
        let policies: Vec<Policy> = policies.into_iter().collect();
        let mut names = HashSet::new();
        if let Some(again) = policies.iter().find(|policy| !names.insert(&policy.name)) {
            return Err(PolicyError::SameName(again.name.clone()));
        }
        Ok(Self::new(policies))
    }

    /// Sets what becomes of a request that no policy matches. One that a policy passes over
    /// ([`OnMissingKey::Skip`]) is not matched by it.
    #[must_use]
    pub fn with_unmatched(self, unmatched: Unmatched) -> Self {
        Self { unmatched: Some(unmatched), ..self }
    }

    /// What becomes of a request that no policy matches, if that is said; else it is admitted.
    #[must_use]
    pub const fn unmatched(&self) -> Option<Unmatched> {
        self.unmatched
    }

    /// All policies, exempt ones first, each kind in the order of the file.
    #[must_use]
    pub fn as_slice(&self) -> &[Policy] {
        &self.policies
    }

    /// What the policies say of a request, for which its caller says this cost. Cost 0 only looks.
    ///
    /// # Errors
    ///
    /// If an enforced policy needs to know something of the request that its attributes do not say: who is to be
    /// counted, or its cost. What is only tried out never makes a request fail; it is left out then. Also if a policy
    /// matches that the request [may not touch](Attributes::within), whatever its mode.
    pub fn charges<'a>(&'a self, attributes: &'a Attributes<'_>, cost: u32) -> Result<Outcome<'a>, Refusal> {
        let mut matched = Matched::default();
        // A request that is in error is so under whatever other policy it is denied: the order is of no matter.
        let mut unknown = None;
        let mut is_matched = false;
        for (number, policy) in self.numbered(attributes) {
            if !attributes.may_touch(&policy.name) {
                return Err(Refusal::OtherPolicy { policy: policy.name.clone() });
            }
            if policy.is_exempt {
                return Ok(Outcome::Exempt(policy));
            }
            let is_enforced = policy.mode == Mode::Enforce;
            let key = match policy.identity.key(attributes) {
                Ok(key) => key,
                Err(_) if !is_enforced => {
                    is_matched = true;
                    continue;
                }
                Err(no_key) => match policy.on_missing_key {
                    OnMissingKey::Skip => continue,
                    OnMissingKey::Deny => {
                        is_matched = true;
                        unknown.get_or_insert(Outcome::DenyUnknown { policy, no_key });
                        continue;
                    }
                    OnMissingKey::Error => {
                        return Err(Refusal::missing_key(policy, no_key));
                    }
                },
            };
            is_matched = true;
            let cost = match policy.cost.of(attributes, cost) {
                Ok(cost) => cost,
                Err(_) if !is_enforced => continue,
                Err(error) => return Err(Refusal::Cost { policy: policy.name.clone(), error }),
            };
            let applied = Applied { policy: number, list: policy.list_for(attributes) };
            matched.push(Entry { policy, applied, key, cost, quotas: policy.list(applied.list) });
        }
        if !is_matched && self.unmatched == Some(Unmatched::Deny) {
            return Ok(Outcome::DenyUnmatched);
        }
        Ok(unknown.unwrap_or(Outcome::Charge(matched)))
    }

    /// What is different in these other policies.
    #[must_use]
    pub fn changes(&self, after: &Self) -> Changes {
        Changes::between_policies(self, after)
    }

    /// The policies that apply to a request, exempt ones first.
    pub fn matching<'a>(&'a self, attributes: &'a Attributes<'_>) -> impl Iterator<Item = &'a Policy> {
        self.numbered(attributes).map(|(_, policy)| policy)
    }

    /// The names of all attributes that any of them goes by, in order, each once: whoever takes attributes from
    /// requests can tell which it lacks.
    #[must_use]
    pub fn attributes(&self) -> BTreeSet<&str> {
        self.policies.iter().flat_map(Policy::attributes).collect()
    }

    /// The policies that apply, with their places among all.
    fn numbered<'a>(&'a self, attributes: &'a Attributes<'_>) -> impl Iterator<Item = (u32, &'a Policy)> {
        self.index.candidates(attributes).into_iter().filter_map(|candidate| {
            let policy = self.policy(candidate.number())?;
            let matches = match candidate.is_sure() {
                true => policy.mode != Mode::Off,
                false => policy.matches(attributes),
            };
            matches.then_some((candidate.number(), policy))
        })
    }

    pub(crate) fn policy(&self, number: u32) -> Option<&Policy> {
        self.policies.get(number as usize)
    }
}
