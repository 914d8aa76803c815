//! All policies of a file, compiled: from attributes to charges.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

use tollgate::Timestamp;

use crate::content;
use crate::index::{Candidate, Candidates, Index};
use crate::matched::{Entry, Lack, MatchedPolicy, NeededValues, Needs};
use crate::overrides::{EndSlack, OverrideFinder, OverridesAt};
use crate::reading::Readings;
use crate::{
    Changes, Generation, MatchedPolicies, Mode, Outcome, OverrideSet, Policy, PolicyError, PolicyKind,
    Refusal, SentReading, UndecidedValue, UnknownValue, View,
};

/// All policies of a file, or of a program.
///
/// Policies are independent: all that match apply, all or nothing. If an exempt one matches, nothing is counted.
#[derive(Debug)]
pub struct Policies {
    /// By kind. Those that exempt and those that deny by name, because the first that matches is the answer; those that
    /// count in the order of the file, because all that match count.
    policies: Box<[Policy]>,
    index: Index,
    unmatched: Option<UnmatchedRequests>,
    /// Computed once somebody asks for it.
    generation: OnceLock<Generation>,
}

/// The state of a match, policy by policy.
struct Progress<'a> {
    matched: MatchedPolicies<'a>,
    /// The policy that denies the request because it lacks the policy's key, with its answer; of several, the first by
    /// name. A later policy that finds the request in error overrides it, so the order of policies does not matter.
    denial: Option<(&'a str, Outcome<'a>)>,
    /// The same for an override that denies, which decides before anything that a policy lacks.
    denial_by_override: Option<(MatchedPolicy<'a>, Option<Timestamp>)>,
    /// The first error, if an override may still deny the request.
    refusal: Option<Box<Refusal>>,
    /// A policy that exempts or denies needs this value, which is not known. Another policy of the same kind may still
    /// decide without it.
    undecided: Option<(PolicyKind, UndecidedValue<'a>)>,
    /// The readings of the request that policies match.
    covered: Readings,
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
        policies.sort_by(|a, b| {
            let by_name = || if a.kind == PolicyKind::Count { Ordering::Equal } else { a.name.cmp(&b.name) };
            a.kind.cmp(&b.kind).then_with(by_name)
        });
        let mut names = HashSet::new();
        policies.iter_mut().for_each(|policy| policy.identity.share_names(&mut names));
        Self {
            index: Index::new(&policies),
            policies: policies.into(),
            unmatched: None,
            generation: OnceLock::new(),
        }
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
        Self { unmatched: Some(unmatched), generation: OnceLock::new(), ..self }
    }

    /// Returns what happens to a request that no policy matches, if it is set; by default, the request is admitted.
    #[must_use]
    pub const fn unmatched(&self) -> Option<UnmatchedRequests> {
        self.unmatched
    }

    /// Returns the same policies without limits in flight: for requests of which nobody knows when they end.
    #[must_use]
    pub fn without_in_flight(self) -> Self {
        let unmatched = self.unmatched;
        let mut policies = self.policies.into_vec();
        policies.iter_mut().for_each(Policy::remove_in_flight);
        Self { unmatched, ..Self::new(policies) }
    }

    /// Returns all policies: those that exempt, then those that deny, both by name, then those that count, in the order of
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
        self.outcome(view, cost, NeededValues::Limits, OverridesAt::NONE)
    }

    /// Like [`charges`](Self::charges), but under [overrides](OverrideSet) that were made for these policies, at a time of
    /// the store's clock. Without a time, overrides with limits are found for two seconds longer than they apply if the
    /// outcome is [`Outcome::Charge`]: compare their [ends](MatchedPolicies::overridden) with the store's time when it
    /// charges, and match again if one has come.
    ///
    /// # Errors
    ///
    /// The same as [`charges`](Self::charges). An override that denies decides before a request fails for something that
    /// another policy needs.
    pub fn charges_under<'a, V: View>(
        &'a self,
        overrides: &'a OverrideSet,
        at: Option<Timestamp>,
        view: &'a V,
        cost: u32,
    ) -> Result<Outcome<'a>, Refusal> {
        self.outcome(view, cost, NeededValues::Limits, OverridesAt { set: Some(overrides), at })
    }

    /// Like [`charges_under`](Self::charges_under), but for which no more than this has to be known of the request.
    pub(crate) fn outcome<'a, V: View>(
        &'a self,
        view: &'a V,
        cost: u32,
        needed: NeededValues<'_>,
        overrides: OverridesAt<'a>,
    ) -> Result<Outcome<'a>, Refusal> {
        let needs = |slack| Needs { values: needed, overrides: OverrideFinder::new(overrides, slack) };
        // Without limits, nothing is charged that compares an end.
        if needed != NeededValues::Limits {
            return self.outcome_by(view, cost, &needs(EndSlack::None));
        }
        let kept = needs(EndSlack::Kept);
        let outcome = self.outcome_by(view, cost, &kept);
        // Neither is anything charged for a denial or an error.
        if !matches!(outcome, Ok(Outcome::Charge(_))) && kept.overrides.has_kept_one() {
            return self.outcome_by(view, cost, &needs(EndSlack::None));
        }
        outcome
    }

    fn outcome_by<'a, V: View>(
        &'a self,
        view: &'a V,
        cost: u32,
        needs: &Needs<'a, '_>,
    ) -> Result<Outcome<'a>, Refusal> {
        let mut progress = Progress::default();
        let sent = SentReading::of(view);
        for candidate in self.candidates(view) {
            let Some(policy) = self.policy(candidate.number()) else { continue };
            progress.expect_decided_before(policy.kind)?;
            let readings = policy.readings_as(candidate, view, sent.as_ref());
            let readings = match progress.applicable(policy, readings) {
                Ok(Some(readings)) => readings,
                Ok(None) => continue,
                Err(refusal) => {
                    progress.refuse(refusal, needs)?;
                    continue;
                }
            };
            // A policy that counts nothing has nothing to touch.
            if policy.kind == PolicyKind::Count && !view.may_touch(&policy.name) {
                progress.refuse(Refusal::OtherPolicy { policy: policy.name.clone() }, needs)?;
                continue;
            }
            let matching = MatchedPolicy::new(policy, candidate.number());
            match policy.kind {
                PolicyKind::Exempt => return Ok(Outcome::Exempt(matching)),
                PolicyKind::Deny if policy.mode == Mode::Enforce => return Ok(Outcome::Deny(matching)),
                PolicyKind::Deny => progress.matched.would_deny.push((policy, candidate.number())),
                PolicyKind::Count if !needs.values.is_about(policy) => continue,
                PolicyKind::Count => {
                    let entry = Entry::of(policy, candidate.number(), view, readings, cost, needs);
                    match progress.add(matching, entry) {
                        Ok(true) => {}
                        Ok(false) => continue,
                        Err(refusal) => progress.refuse(refusal, needs)?,
                    }
                }
            }
            progress.covered = progress.covered.or(readings);
            progress.matched.is_any = true;
        }
        progress.outcome(self.unmatched)
    }

    /// Returns the policies that may match.
    #[inline]
    fn candidates<V: View>(&self, view: &V) -> Candidates {
        match view.only_policy() {
            None => self.index.candidates(view),
            Some(only) => self.only(only),
        }
    }

    /// Returns the policy of this name, if it still counts by the same key. It has matched.
    #[cold]
    fn only(&self, only: &Policy) -> Candidates {
        let is_same = |policy: &Policy| policy.name == only.name && policy.identity == only.identity;
        let numbers = (0..).zip(&self.policies).filter(|(_, policy)| is_same(policy));
        numbers.map(|(number, _)| Candidate::sure(number)).collect()
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
        self.candidates(view).into_iter().filter_map(move |candidate| {
            let policy = self.policy(candidate.number())?;
            let readings = policy.readings_as(candidate, view, sent.as_ref());
            readings.is_ok_and(|readings| policy.applies_in(readings)).then_some(policy)
        })
    }

    /// Returns their generation, which is the same for the same policies in any order and from any files. The first call
    /// computes it, and takes as long as reading all policies, their tables and their lists once.
    #[must_use]
    pub fn generation(&self) -> Generation {
        let unmatched = self.unmatched.unwrap_or_default();
        *self.generation.get_or_init(|| content::generation(unmatched.name(), &self.policies))
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

impl Default for Progress<'_> {
    fn default() -> Self {
        Self {
            matched: MatchedPolicies::default(),
            denial: None,
            denial_by_override: None,
            refusal: None,
            undecided: None,
            covered: Readings::NONE,
        }
    }
}

impl<'a> Progress<'a> {
    /// Fails if a policy of an earlier kind could not be decided. Policies are ordered by their kinds.
    fn expect_decided_before(&self, kind: PolicyKind) -> Result<(), Refusal> {
        match self.undecided {
            Some((earlier, undecided)) if earlier != kind => Err(undecided.into()),
            _ => Ok(()),
        }
    }

    /// Returns the readings of the request that the policy matches, or `None` if it does not apply, or not known to.
    fn applicable(
        &mut self,
        policy: &Policy,
        readings: Result<Readings, UndecidedValue<'a>>,
    ) -> Result<Option<Readings>, Refusal> {
        match readings {
            Ok(readings) if policy.applies_in(readings) => Ok(Some(readings)),
            Ok(readings) => {
                self.covered = self.covered.or(readings);
                Ok(None)
            }
            Err(other) if policy.does_without(other) => Ok(None),
            Err(other) if policy.kind != PolicyKind::Count => {
                let sooner = self.undecided.map_or(other, |(_, earlier)| earlier.sooner(other));
                self.undecided = Some((policy.kind, sooner));
                Ok(None)
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Adds the quotas of a policy that counts, or what it does without a key, a cost or a limit. Returns whether the
    /// policy applies.
    fn add(
        &mut self,
        policy: MatchedPolicy<'a>,
        entry: Result<Entry<'a>, Lack<'a>>,
    ) -> Result<bool, Refusal> {
        let lack = match entry {
            Ok(entry) => {
                self.matched.push(entry);
                return Ok(true);
            }
            Err(lack) => lack,
        };
        match lack.undecided() {
            Some(other) if !policy.does_without(other) => return Err(other.into()),
            _ if policy.mode != Mode::Enforce => {
                if lack.is_denied_by(&policy) {
                    self.matched.would_deny.push((policy.policy, policy.place));
                }
            }
            _ => {
                let name = policy.policy.name();
                let Some(denial) = lack.answered_by(policy)? else { return Ok(false) };
                if let Outcome::DenyOverride { policy, until } = denial {
                    if self.denial_by_override.is_none_or(|(earlier, _)| name < earlier.name()) {
                        self.denial_by_override = Some((policy, until));
                    }
                } else if self.denial.as_ref().is_none_or(|(earlier, _)| name < *earlier) {
                    self.denial = Some((name, denial));
                }
            }
        }
        Ok(true)
    }

    /// Notes an error of a policy. It ends the match, unless an override of another policy may deny the request.
    fn refuse(&mut self, refusal: Refusal, needs: &Needs<'_, '_>) -> Result<(), Refusal> {
        if !needs.overrides.has_any() {
            return Err(refusal);
        }
        // A value that can still be found may show that an override denies the request.
        let can_be_found =
            |refusal: &Refusal| matches!(refusal, Refusal::Undecided { unknown: UnknownValue::NotYet, .. });
        match &self.refusal {
            Some(earlier) if can_be_found(earlier) || !can_be_found(&refusal) => {}
            _ => self.refusal = Some(refusal.into()),
        }
        Ok(())
    }

    fn outcome(self, unmatched: Option<UnmatchedRequests>) -> Result<Outcome<'a>, Refusal> {
        if let Some((policy, until)) = self.denial_by_override {
            return Ok(Outcome::DenyOverride { policy, until });
        }
        if let Some(refusal) = self.refusal {
            return Err(*refusal);
        }
        if let Some((_, undecided)) = self.undecided {
            return Err(undecided.into());
        }
        if !self.covered.all() && unmatched == Some(UnmatchedRequests::Deny) {
            return Ok(Outcome::DenyUnmatched);
        }
        Ok(self.denial.map_or(Outcome::Charge(self.matched), |(_, denial)| denial))
    }
}
