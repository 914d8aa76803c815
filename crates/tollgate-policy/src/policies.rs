//! All policies of a file, compiled: from attributes to charges.

use std::collections::{BTreeSet, HashSet};

use crate::index::Index;
use crate::matched::{Entry, MatchedPolicy, NeededValues};
use crate::reading::Readings;
use crate::{
    Changes, MatchedPolicies, Mode, Outcome, Policy, PolicyError, PolicyKind, Refusal, SentReading,
    UndecidedValue, View,
};

/// All policies of a file, or of a program.
///
/// Policies are independent: all that match apply, all or nothing. If an exempt one matches, nothing is counted.
#[derive(Debug)]
pub struct Policies {
    /// By kind, each kind in the order of the file.
    policies: Box<[Policy]>,
    index: Index,
    unmatched: Option<UnmatchedRequests>,
}

/// The handling of requests that no policy matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UnmatchedRequests {
    /// It is admitted.
    #[default]
    Allow,
    /// It is denied, with status 403.
    Deny,
}

impl UnmatchedRequests {
    /// Returns its name in files.
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
        policies.sort_by_key(|policy| policy.kind);
        let mut names = HashSet::new();
        policies.iter_mut().for_each(|policy| policy.identity.share_names(&mut names));
        Self { index: Index::new(&policies), policies: policies.into(), unmatched: None }
    }

    /// Creates a set of policies; exempt ones come first.
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

    /// Sets what happens to a request that no policy matches. One that a policy passes over
    /// ([`OnMissingKey::Skip`](crate::OnMissingKey::Skip)) is not matched by it. A request with two
    /// [readings](crate::SentReading) is denied if no policy matches one of them.
    #[must_use]
    pub fn with_unmatched(self, unmatched: UnmatchedRequests) -> Self {
        Self { unmatched: Some(unmatched), ..self }
    }

    /// Returns what happens to a request that no policy matches, if it is set; by default, the request is admitted.
    #[must_use]
    pub const fn unmatched(&self) -> Option<UnmatchedRequests> {
        self.unmatched
    }

    /// Returns all policies: those that exempt, then those that deny, then those that count, each kind in the order of
    /// the file.
    #[must_use]
    pub fn as_slice(&self) -> &[Policy] {
        &self.policies
    }

    /// Matches a request against the policies, at the cost that its caller gives. Cost 0 only peeks.
    ///
    /// # Errors
    ///
    /// If the request lacks something that an enforced policy needs: its key, its cost or its limit. Policies on trial
    /// never make a request fail: they are skipped then, or report a denial if their `on_missing_key` is `deny`. Also
    /// if a policy that the caller [may not use](crate::Attributes::within) would count the request, whatever its mode;
    /// and if the decision depends on a value that the view [does not know](Refusal::Undecided).
    pub fn charges<'a, V: View>(&'a self, view: &'a V, cost: u32) -> Result<Outcome<'a>, Refusal> {
        self.outcome(view, cost, NeededValues::Limits)
    }

    /// Like [`charges`](Self::charges), but for which no more than this has to be known of the request.
    pub(crate) fn outcome<'a, V: View>(
        &'a self,
        view: &'a V,
        cost: u32,
        needed: NeededValues<'_>,
    ) -> Result<Outcome<'a>, Refusal> {
        let mut matched = MatchedPolicies::default();
        // A request that is in error is so under whatever other policy it is denied: the order is of no matter.
        let mut unknown = None;
        // If one policy exempts the request, what another one would need to know does not matter; nor if one denies it.
        let mut undecided: Option<(PolicyKind, UndecidedValue<'_>)> = None;
        let sent = SentReading::of(view);
        // The readings of the request that a policy matches.
        let mut covered = Readings::NONE;
        for candidate in self.index.candidates(view) {
            let Some(policy) = self.policy(candidate.number()) else { continue };
            if let Some((kind, undecided)) = undecided
                && kind != policy.kind
            {
                return Err(undecided.into());
            }
            let readings = match policy.readings_as(candidate, view, sent.as_ref()) {
                Ok(readings) if policy.applies_in(readings) => readings,
                Ok(readings) => {
                    covered = covered.or(readings);
                    continue;
                }
                Err(other) if policy.does_without(other) => continue,
                Err(other) if policy.kind != PolicyKind::Count => {
                    let sooner = undecided.map_or(other, |(_, earlier)| earlier.sooner(other));
                    undecided = Some((policy.kind, sooner));
                    continue;
                }
                Err(other) => return Err(other.into()),
            };
            // A policy that counts nothing has nothing to touch.
            if policy.kind == PolicyKind::Count && !view.may_touch(&policy.name) {
                return Err(Refusal::OtherPolicy { policy: policy.name.clone() });
            }
            let matching = MatchedPolicy::new(policy, candidate.number());
            match policy.kind {
                PolicyKind::Exempt => return Ok(Outcome::Exempt(matching)),
                PolicyKind::Deny if policy.mode == Mode::Enforce => return Ok(Outcome::Deny(matching)),
                PolicyKind::Deny => {
                    matched.would_deny.push((policy, candidate.number()));
                    covered = covered.or(readings);
                    matched.is_any = true;
                    continue;
                }
                PolicyKind::Count if !needed.is_about(policy) => continue,
                PolicyKind::Count => {}
            }
            match Entry::of(policy, candidate.number(), view, readings, cost, needed) {
                Ok(entry) => matched.push(entry),
                Err(lack) => match lack.undecided() {
                    Some(other) if !policy.does_without(other) => return Err(other.into()),
                    _ if policy.mode != Mode::Enforce => {
                        if lack.is_denied_by(policy) {
                            matched.would_deny.push((policy, candidate.number()));
                        }
                    }
                    _ => match lack.answered_by(matching)? {
                        Some(denial) => _ = unknown.get_or_insert(denial),
                        // The policy does not apply.
                        None => continue,
                    },
                },
            }
            covered = covered.or(readings);
            matched.is_any = true;
        }
        if let Some((_, undecided)) = undecided {
            return Err(undecided.into());
        }
        if !covered.all() && self.unmatched == Some(UnmatchedRequests::Deny) {
            return Ok(Outcome::DenyUnmatched);
        }
        match unknown {
            Some(denial) => Ok(denial),
            None => Ok(Outcome::Charge(matched)),
        }
    }

    /// Returns the differences of these other policies.
    #[must_use]
    pub fn changes(&self, after: &Self) -> Changes {
        Changes::between_policies(self, after)
    }

    /// Returns the policies that apply to a request, exempt ones first. One that depends on a value that is not known
    /// is not among them.
    pub fn matching<'a, V: View>(&'a self, view: &'a V) -> impl Iterator<Item = &'a Policy> {
        let sent = SentReading::of(view);
        self.index.candidates(view).into_iter().filter_map(move |candidate| {
            let policy = self.policy(candidate.number())?;
            let readings = policy.readings_as(candidate, view, sent.as_ref());
            readings.is_ok_and(|readings| policy.applies_in(readings)).then_some(policy)
        })
    }

    /// Returns the names of all attributes that the policies use, in order, each once. Code that extracts attributes
    /// from requests can use it to see which ones it lacks.
    #[must_use]
    pub fn attributes(&self) -> BTreeSet<&str> {
        self.policies.iter().flat_map(Policy::attributes).collect()
    }

    pub(crate) fn policy(&self, number: u32) -> Option<&Policy> {
        self.policies.get(number as usize)
    }
}
