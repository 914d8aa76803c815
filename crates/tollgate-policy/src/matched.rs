//! The policies that match a request.

use std::ops::Deref;

use smallvec::SmallVec;
use thiserror::Error;
use tollgate::{Charge, InFlightCharge, Key, PolicyInFlight, PolicyQuota, Timestamp};

use crate::cost::CostError;
use crate::file_overrides::ListPlace;
use crate::limit::QuotaLists;
use crate::overrides::{ByOverride, OverrideFinder, OverrideQuotas};
use crate::reading::Readings;
use crate::value::PATH;
use crate::{
    Identity, KeyFault, LimitError, Mode, NoKey, OnMissingKey, Policy, Texts, UndecidedValue, UnknownValue,
    View,
};

/// The result of matching a request.
#[derive(Debug)]
#[must_use = "a request that is denied must not go on"]
pub enum Outcome<'a> {
    /// These charges decide; without any the request is admitted.
    Charge(MatchedPolicies<'a>),
    /// The request is admitted without a count, by this policy.
    Exempt(MatchedPolicy<'a>),
    /// The request is denied, by this policy.
    Deny(MatchedPolicy<'a>),
    /// The request is denied, because it lacks the policy's key.
    DenyUnknown {
        /// The policy, whose `on_missing_key` is `deny`.
        policy: MatchedPolicy<'a>,
        /// The attribute that yields no key, and why.
        no_key: NoKey<'a>,
    },
    /// The request is denied, because [no policy matches it](crate::UnmatchedRequests).
    DenyUnmatched,
    /// The request is denied, by an [override](crate::OverrideSet) of this policy.
    DenyOverride {
        /// The policy. Of several, the one whose name comes first.
        policy: MatchedPolicy<'a>,
        /// The override's end, if it has one.
        until: Option<Timestamp>,
    },
}

/// A policy that matches a request.
#[derive(Debug, Clone, Copy)]
pub struct MatchedPolicy<'a> {
    pub(crate) policy: &'a Policy,
    /// Its place among all.
    pub(crate) place: u32,
}

impl<'a> MatchedPolicy<'a> {
    pub(crate) const fn new(policy: &'a Policy, place: u32) -> Self {
        Self { policy, place }
    }
}

impl Deref for MatchedPolicy<'_> {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        self.policy
    }
}

/// A request that cannot be decided. The caller's fault, unless a value is not known yet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request has no key attribute.
    #[error("policy `{policy}`: {no_key}")]
    MissingKey {
        /// The policy's name.
        policy: Box<str>,
        /// The attribute that yields no key; empty if any attribute would do.
        attribute: Box<str>,
        /// Why it cannot be a key.
        fault: KeyFault,
        /// The same in words, with all the attributes that would have done.
        no_key: Box<str>,
        /// Whether other attributes would also be enough, and none is present.
        is_choice: bool,
    },
    /// The request does not contain its cost.
    #[error("policy `{policy}`: {error}")]
    Cost {
        /// The policy's name.
        policy: Box<str>,
        /// The problem.
        error: CostError,
    },
    /// The request does not contain its limit.
    #[error("policy `{policy}`: {error}")]
    Limit {
        /// The policy's name.
        policy: Box<str>,
        /// The problem.
        error: LimitError,
    },
    /// A policy would count the request that it [may not touch](crate::Attributes::within).
    #[error("policy `{policy}` matches, but the caller may not use it")]
    OtherPolicy {
        /// The policy's name.
        policy: Box<str>,
    },
    /// The value of an attribute is [longer](crate::PolicyLimiter::max_value_bytes) than it may be.
    #[error("`{attribute}` is longer than {max} bytes")]
    LongValue {
        /// The attribute.
        attribute: Box<str>,
        /// Bytes that it may have.
        max: usize,
    },
    /// The decision depends on an attribute whose value the [view](crate::View) does not know. If it is [not known
    /// yet](UnknownValue::NotYet), the caller finds it and retries.
    #[error("`{attribute}` {unknown}")]
    Undecided {
        /// The attribute.
        attribute: Box<str>,
        /// Why its value is not known.
        unknown: UnknownValue,
    },
}

impl From<UndecidedValue<'_>> for Refusal {
    fn from(UndecidedValue { attribute, unknown }: UndecidedValue<'_>) -> Self {
        Self::Undecided { attribute: attribute.into(), unknown }
    }
}

impl Refusal {
    /// Returns the refusal of a request with a value that is longer than this many bytes and has no
    /// [stand-in](View::counted_as), or with a [path that was sent](View::sent_path) in three times as many; `None` for
    /// any other.
    pub fn of_long_value<V: View>(view: &V, max: usize) -> Option<Self> {
        if view.has_any_length() {
            return None;
        }
        let is_long = |texts: Texts<'_>, max| texts.iter().any(|text| text.len() > max);
        let is_refused = |name: &str, value| {
            matches!(value, Ok(Some(texts)) if is_long(texts, max)) && view.counted_as(name).is_none()
        };
        if let Some((attribute, _)) = view.pairs().find(|(name, value)| is_refused(name, *value)) {
            return Some(Self::LongValue { attribute: attribute.into(), max });
        }
        // A path may consist of escapes, of three bytes each. Empty and dot segments could make it much longer.
        let max = max.saturating_mul(3);
        let is_path_long = view.sent_path().is_some_and(|path| is_long(path, max));
        is_path_long.then(|| Self::LongValue { attribute: PATH.into(), max })
    }

    pub(crate) fn missing_key(policy: &Policy, no_key: NoKey<'_>) -> Self {
        let NoKey { attribute, fault, choices } = no_key;
        let (policy, no_key) = (policy.name().into(), no_key.to_string().into());
        Self::MissingKey { policy, attribute: attribute.into(), fault, no_key, is_choice: choices.is_some() }
    }
}

/// The policies that apply to a request, with the request's keys and costs.
#[derive(Debug, Default)]
pub struct MatchedPolicies<'a> {
    entries: SmallVec<[Entry<'a>; 2]>,
    /// Policies in shadow mode that would deny the request whatever the counts, with their places. Usually none would.
    pub(crate) would_deny: Vec<(&'a Policy, u32)>,
    /// Whether any policy matches, including one that is left out because the request lacks something.
    pub(crate) is_any: bool,
}

#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) applied: AppliedList,
    pub(crate) key: Key<'a>,
    pub(crate) cost: u32,
    /// Whether the request's caller gave the cost.
    pub(crate) is_cost_asked: bool,
    /// The override whose limits apply. Those of the list are then only what it replaces.
    pub(crate) by_override: Option<ByOverride<'a>>,
    quotas: &'a QuotaLists,
    /// The quotas in their place, if the request itself sets limits, or its readings lead to two lists.
    limited: Option<Box<LimitedQuotas>>,
}

/// Quotas with the limits of a request.
#[derive(Debug, Default)]
struct LimitedQuotas {
    enforced: Box<[PolicyQuota]>,
    candidates: Box<[PolicyQuota]>,
    in_flight: Option<PolicyInFlight>,
    candidate_in_flight: Option<PolicyInFlight>,
    /// Where the policy has them, if they are of two lists: those that decide, and candidates.
    places: Option<[Box<[QuotaPlace]>; 2]>,
}

/// A list of a policy, and the place of a quota in it.
type QuotaPlace = (ListPlace, u32);

/// The attributes that must be known of a request; each variant includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NeededValues<'a> {
    /// The key of this policy or, if none is named, of all: enough to reset or set a counter.
    Counters { of: Option<&'a str> },
    /// The cost: enough to charge it without asking for room, or to give it back.
    Cost,
    /// The limits.
    Limits,
}

/// What a match needs.
pub(crate) struct Needs<'a, 'b> {
    pub(crate) values: NeededValues<'b>,
    pub(crate) overrides: OverrideFinder<'a>,
}

impl NeededValues<'_> {
    pub(crate) fn is_about(self, policy: &Policy) -> bool {
        match self {
            Self::Counters { of: Some(name) } => name == policy.name(),
            _ => true,
        }
    }
}

/// Why a policy that applies to a request cannot count it: the request lacks an attribute, or an override denies it.
pub(crate) enum Lack<'a> {
    Key(NoKey<'a>),
    Cost(CostError),
    Override(UndecidedValue<'a>),
    Limit(LimitError),
    /// An override denies it, until then.
    Denied(Option<Timestamp>),
}

impl Lack<'_> {
    /// Returns the attribute whose value is not known, if this is the reason.
    pub(crate) fn undecided(&self) -> Option<UndecidedValue<'_>> {
        match self {
            Self::Key(NoKey { attribute, fault: KeyFault::Unknown(unknown), .. }) => {
                Some(UndecidedValue { attribute, unknown: *unknown })
            }
            Self::Cost(CostError::Unknown { name, unknown }) => {
                Some(UndecidedValue { attribute: name, unknown: *unknown })
            }
            Self::Limit(LimitError::Unknown { name, unknown }) => {
                Some(UndecidedValue { attribute: name, unknown: *unknown })
            }
            Self::Override(undecided) => Some(*undecided),
            Self::Key(_) | Self::Cost(_) | Self::Limit(_) | Self::Denied(_) => None,
        }
    }
}

impl<'a> Lack<'a> {
    /// Returns whether the policy denies a request because of it, or would, if it were enforced. A request with an
    /// unreadable value is an error, not a denial.
    pub(crate) fn is_denied_by(&self, policy: &Policy) -> bool {
        match self {
            Self::Denied(_) => true,
            Self::Key(no_key) => {
                self.undecided().is_none() && on_missing(no_key, policy) == OnMissingKey::Deny
            }
            Self::Cost(_) | Self::Override(_) | Self::Limit(_) => false,
        }
    }

    /// Returns the answer of this enforced policy: a denial, or `None` if the policy does not apply then.
    pub(crate) fn answered_by(self, policy: MatchedPolicy<'a>) -> Result<Option<Outcome<'a>>, Refusal> {
        match self {
            Self::Key(no_key) => match on_missing(&no_key, &policy) {
                OnMissingKey::Skip => Ok(None),
                OnMissingKey::Deny => Ok(Some(Outcome::DenyUnknown { policy, no_key })),
                OnMissingKey::Error => Err(Refusal::missing_key(&policy, no_key)),
            },
            Self::Cost(error) => Err(Refusal::Cost { policy: policy.name.clone(), error }),
            Self::Limit(error) => Err(Refusal::Limit { policy: policy.name.clone(), error }),
            Self::Override(undecided) => Err(undecided.into()),
            Self::Denied(until) => Ok(Some(Outcome::DenyOverride { policy, until })),
        }
    }
}

/// Returns how the policy handles a request without its key. It does not skip a value that is not an address: no policy
/// for requests without the attribute would count it.
fn on_missing(no_key: &NoKey<'_>, policy: &Policy) -> OnMissingKey {
    match policy.on_missing_key {
        OnMissingKey::Skip if !no_key.fault.is_missing() => OnMissingKey::Deny,
        other => other,
    }
}

/// The policy that applies, by its place among all, and its list of quotas: an entry without the data of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppliedList {
    pub(crate) policy: u32,
    pub(crate) list: ListPlace,
}

/// Quotas on trial: counted all or nothing by themselves, after the decision.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    entry: &'a Entry<'a>,
    quotas: &'a [PolicyQuota],
    in_flight: Option<&'a PolicyInFlight>,
    kind: TrialKind,
}

/// Why quotas are only tried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialKind {
    /// The policy is in shadow mode.
    Shadow,
    /// They are the policy's candidates.
    Candidate,
}

impl<'a> MatchedPolicies<'a> {
    pub(crate) fn push(&mut self, entry: Entry<'a>) {
        self.entries.push(entry);
    }

    /// Returns the charges that decide, all or nothing.
    pub fn enforced(&self) -> impl Iterator<Item = Charge<'_>> {
        self.deciding().flat_map(|entry| entry.charges(entry.quotas()))
    }

    /// Returns the units in flight that a hold of so many takes together with these charges, all or nothing.
    pub fn in_flight(&self, units: u32) -> impl Iterator<Item = InFlightCharge<'_>> {
        self.deciding()
            .filter_map(move |entry| Some(InFlightCharge::new(entry.in_flight()?, &entry.key, units)))
    }

    /// Returns the first policy of those that decide that has a limit in flight.
    #[inline]
    pub(crate) fn limits_in_flight(&self) -> Option<&'a Policy> {
        self.deciding().find(|entry| entry.in_flight().is_some()).map(|entry| entry.policy)
    }

    /// Returns the entries whose quotas decide.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = &Entry<'a>> {
        self.entries.iter().filter(|entry| entry.policy.mode() == Mode::Enforce)
    }

    /// Returns the trials, which are counted after the decision. Each is a separate step: none affects another.
    pub fn trials(&self) -> impl Iterator<Item = Trial<'_>> {
        self.entries.iter().flat_map(|entry| {
            let is_shadow = entry.policy.mode() == Mode::Shadow;
            let shadow = is_shadow.then(|| (entry.quotas(), entry.in_flight(), TrialKind::Shadow));
            let candidates = (entry.candidates(), entry.candidate_in_flight(), TrialKind::Candidate);
            let lists = shadow.into_iter().chain([candidates]);
            let lists = lists.filter(|(quotas, in_flight, _)| !quotas.is_empty() || in_flight.is_some());
            lists.map(move |(quotas, in_flight, kind)| Trial { entry, quotas, in_flight, kind })
        })
    }

    /// Returns the policies in shadow mode that would deny the request if they were enforced, whatever the counts: they
    /// deny everything they match, or requests without a key.
    pub fn would_deny(&self) -> impl Iterator<Item = &'a Policy> {
        self.would_deny.iter().map(|(policy, _)| *policy)
    }

    /// Returns the policies whose limits an override replaces, each with the override's end. An override that denies is
    /// not among them.
    pub fn overridden(&self) -> impl Iterator<Item = (&'a Policy, Option<Timestamp>)> {
        self.entries.iter().filter_map(|entry| Some((entry.policy, entry.by_override?.until())))
    }

    /// Returns the earliest end of the overrides whose limits apply, on trial too.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        let by_override = self.entries.iter().filter_map(|entry| entry.by_override);
        by_override.filter(|found| found.limits().is_some()).filter_map(ByOverride::until).min()
    }

    /// Returns the key of a policy whose quotas apply and that counts by this identity, if there is one.
    pub fn key_of(&self, identity: &Identity) -> Option<&Key<'a>> {
        let entry = self.entries.iter().find(|entry| entry.policy.identity() == identity);
        entry.map(|entry| &entry.key)
    }

    /// Returns the policies whose quotas apply, including shadow policies.
    pub fn policies(&self) -> impl Iterator<Item = &'a Policy> {
        self.entries.iter().map(|entry| entry.policy)
    }
}

impl<'a> Entry<'a> {
    /// Returns the key, the cost and the list of quotas with which the policy counts this request. If limits are
    /// neither needed nor known, quotas have their maximum, and an override that denies has no quotas.
    pub(crate) fn of<V: View>(
        policy: &'a Policy,
        number: u32,
        view: &'a V,
        readings: Readings,
        cost: u32,
        Needs { values: needed, overrides }: &Needs<'a, '_>,
    ) -> Result<Self, Lack<'a>> {
        let needed = *needed;
        let key = policy.identity.key(view).map_err(Lack::Key)?;
        let by_override = overrides.find(policy, number, &key, view).map_err(Lack::Override)?;
        if let Some(denial) = by_override.filter(|found| found.is_denial() && needed == NeededValues::Limits)
        {
            return Err(Lack::Denied(denial.until()));
        }
        let is_cost_asked = policy.cost.is_asked(view);
        let cost = match policy.cost.of(view, cost) {
            Err(_) if needed < NeededValues::Cost => 0,
            cost => cost.map_err(Lack::Cost)?,
        };
        let entry = |list, quotas, limited| {
            let applied = AppliedList { policy: number, list };
            Self { policy, applied, key, cost, is_cost_asked, by_override, quotas, limited }
        };
        let (list, other) = match policy.lists_for(view, readings) {
            Ok(lists) => lists,
            Err(undecided) if by_override.is_some() && policy.can_leave_out_candidates(undecided, needed) => {
                return Ok(entry(ListPlace::OWN, policy.list(ListPlace::OWN), Some(Box::default())));
            }
            Err(undecided) => return Err(Lack::Override(undecided)),
        };
        let limited = |quotas| match LimitedQuotas::of(quotas, view) {
            Err(_) if needed < NeededValues::Limits => Ok(None),
            _ if by_override.is_some() => LimitedQuotas::beside_override(quotas, view).map_err(Lack::Limit),
            limited => limited.map_err(Lack::Limit),
        };
        let quotas = policy.list(list);
        let mut limited_quotas = limited(quotas)?;
        if let Some((place, other)) = other.map(|place| (place, policy.list(place))) {
            limited_quotas = Some(LimitedQuotas::stricter([
                (list, quotas, limited_quotas),
                (place, other, limited(other)?),
            ]));
        }
        Ok(entry(list, quotas, limited_quotas))
    }
}

impl LimitedQuotas {
    /// Returns `None` if no attribute sets a limit, as is usual.
    fn of<V: View>(quotas: &QuotaLists, view: &V) -> Result<Option<Box<Self>>, LimitError> {
        let QuotaLists { enforced, candidates, .. } = quotas;
        if !enforced.are_limited_by_requests() && !candidates.are_limited_by_requests() {
            return Ok(None);
        }
        let enforced = enforced.limited(view)?;
        Self::with_candidates(quotas, enforced, view).map(Some)
    }

    /// Returns the same where an override replaces the quotas that decide, so that their limits do not matter.
    fn beside_override<V: View>(quotas: &QuotaLists, view: &V) -> Result<Option<Box<Self>>, LimitError> {
        if !quotas.candidates.are_limited_by_requests() {
            return Ok(None);
        }
        Self::with_candidates(quotas, quotas.enforced.quotas.clone(), view).map(Some)
    }

    fn with_candidates<V: View>(
        quotas: &QuotaLists,
        enforced: Box<[PolicyQuota]>,
        view: &V,
    ) -> Result<Box<Self>, LimitError> {
        let (in_flight, mut candidate_in_flight) = in_flight_of(quotas);
        let candidates = match quotas.candidates.limited(view) {
            Err(error @ LimitError::Unknown { unknown: UnknownValue::NotYet, .. }) => return Err(error),
            // A trial lets no request fail: it is left out.
            Err(_) => {
                candidate_in_flight = None;
                Box::default()
            }
            Ok(candidates) => candidates,
        };
        Ok(Box::new(Self { enforced, candidates, in_flight, candidate_in_flight, places: None }))
    }

    /// Returns the quotas of two lists together. Of two with the same counters, and of two limits in flight, the one with
    /// the lower limit stays.
    fn stricter(lists: [(ListPlace, &QuotaLists, Option<Box<Self>>); 2]) -> Box<Self> {
        let (mut decide, mut tried) = (Vec::new(), Vec::new());
        for (list, QuotaLists { enforced, candidates }, limited) in &lists {
            let limited = limited.as_deref();
            let enforced = limited.map_or(&enforced.quotas, |limited| &limited.enforced);
            let candidates = limited.map_or(&candidates.quotas, |limited| &limited.candidates);
            add_stricter(&mut decide, *list, enforced);
            add_stricter(&mut tried, *list, candidates);
        }
        let (places, enforced): (Vec<_>, Vec<_>) = decide.into_iter().unzip();
        let (places_of_candidates, candidates): (Vec<_>, Vec<_>) = tried.into_iter().unzip();
        let places = Some([places.into(), places_of_candidates.into()]);
        let limits_in_flight = |(_, list, limited): &(_, &QuotaLists, Option<Box<Self>>)| match limited {
            Some(limited) => (limited.in_flight.clone(), limited.candidate_in_flight.clone()),
            None => in_flight_of(list),
        };
        let (in_flight, candidate_in_flight) = lists.iter().map(limits_in_flight).unzip();
        Box::new(Self {
            enforced: enforced.into(),
            candidates: candidates.into(),
            in_flight: lower(in_flight),
            candidate_in_flight: lower(candidate_in_flight),
            places,
        })
    }
}

/// The limits in flight of a list: the one that decides, and the one on trial.
fn in_flight_of(quotas: &QuotaLists) -> (Option<PolicyInFlight>, Option<PolicyInFlight>) {
    (quotas.enforced.in_flight.clone(), quotas.candidates.in_flight.clone())
}

/// The one with the lower limit.
fn lower(limits: Vec<Option<PolicyInFlight>>) -> Option<PolicyInFlight> {
    limits.into_iter().flatten().min_by_key(|in_flight| in_flight.in_flight().limit())
}

/// Adds the quotas of a list, unless one with the same counters has a limit as low; of equal limits, a burst as low.
fn add_stricter(kept: &mut Vec<(QuotaPlace, PolicyQuota)>, list: ListPlace, quotas: &[PolicyQuota]) {
    for (place, quota) in (0..).zip(quotas) {
        let added = || ((list, place), quota.clone());
        let strictness = |quota: &PolicyQuota| (quota.quota().limit(), quota.quota().capacity());
        match kept.iter_mut().find(|(_, other)| other.shares_counters_with(quota)) {
            None => kept.push(added()),
            Some(other) if strictness(quota) < strictness(&other.1) => *other = added(),
            Some(_) => {}
        }
    }
}

impl Entry<'_> {
    /// The quotas that are charged.
    #[inline]
    pub(crate) fn quotas(&self) -> &[PolicyQuota] {
        match self.by_override {
            None => self.listed_quotas(),
            Some(by_override) => by_override.limits().map_or(&[], OverrideQuotas::quotas),
        }
    }

    /// The quotas of the policy's list.
    fn listed_quotas(&self) -> &[PolicyQuota] {
        self.limited.as_ref().map_or(&self.quotas.enforced.quotas, |limited| &limited.enforced)
    }

    /// The limit in flight of the policy's list.
    #[inline]
    fn listed_in_flight(&self) -> Option<&PolicyInFlight> {
        let listed = || self.quotas.enforced.in_flight.as_ref();
        self.limited.as_ref().map_or_else(listed, |limited| limited.in_flight.as_ref())
    }

    /// Returns the limits of the policy that an override replaces, if one does.
    pub(crate) fn replaced(&self) -> Option<(&[PolicyQuota], Option<&PolicyInFlight>)> {
        self.by_override.map(|_| (self.listed_quotas(), self.listed_in_flight()))
    }

    fn candidates(&self) -> &[PolicyQuota] {
        self.limited.as_ref().map_or(&self.quotas.candidates.quotas, |limited| &limited.candidates)
    }

    /// The limit in flight whose units are taken.
    #[inline]
    pub(crate) fn in_flight(&self) -> Option<&PolicyInFlight> {
        match self.by_override {
            None => self.listed_in_flight(),
            Some(by_override) => by_override.limits()?.in_flight(),
        }
    }

    fn candidate_in_flight(&self) -> Option<&PolicyInFlight> {
        let listed = || self.quotas.candidates.in_flight.as_ref();
        self.limited.as_ref().map_or_else(listed, |limited| limited.candidate_in_flight.as_ref())
    }

    /// Returns where the policy has the quotas that are charged, or that an override replaces.
    pub(crate) fn places(&self) -> impl Iterator<Item = QuotaPlace> {
        self.places_in(self.places_in_two_lists().map(|[enforced, _]| &**enforced))
    }

    fn places_in_two_lists(&self) -> Option<&[Box<[QuotaPlace]>; 2]> {
        self.limited.as_ref()?.places.as_ref()
    }

    /// Returns these places, or else all in the list that applies.
    fn places_in(&self, places_in_two: Option<&[QuotaPlace]>) -> impl Iterator<Item = QuotaPlace> {
        let list = self.applied.list;
        let places_in_list = places_in_two.is_none().then(|| (0..).map(move |place| (list, place)));
        places_in_two.into_iter().flatten().copied().chain(places_in_list.into_iter().flatten())
    }

    /// Returns whether its quotas are not simply a list of the policy.
    pub(crate) const fn is_limited(&self) -> bool {
        self.limited.is_some() || self.by_override.is_some()
    }

    fn charges<'a>(&'a self, quotas: &'a [PolicyQuota]) -> impl Iterator<Item = Charge<'a>> {
        quotas.iter().map(|quota| Charge::new(quota, &self.key, self.cost))
    }
}

impl<'a> Trial<'a> {
    /// Returns the policy of the quotas.
    #[must_use]
    pub const fn policy(&self) -> &'a Policy {
        self.entry.policy
    }

    /// The place of the policy.
    pub(crate) const fn place(&self) -> u32 {
        self.entry.applied.policy
    }

    /// Returns why they are on trial.
    #[must_use]
    pub const fn kind(&self) -> TrialKind {
        self.kind
    }

    /// Returns the charges, all or nothing.
    pub fn charges(&self) -> impl Iterator<Item = Charge<'a>> + use<'a> {
        self.entry.charges(self.quotas)
    }

    /// Returns the units in flight that a hold of so many is looked at for: a trial never takes them.
    #[must_use]
    pub fn in_flight(&self, units: u32) -> Option<InFlightCharge<'a>> {
        Some(InFlightCharge::new(self.in_flight?, &self.entry.key, units))
    }

    /// The quotas of the charges as the policies have them: if an attribute says a limit, that of the quota is the most
    /// that it may be.
    pub fn declared(&self) -> impl Iterator<Item = &'a PolicyQuota> {
        let Self { entry, kind, quotas, .. } = *self;
        // An override has them as they are charged.
        let is_override = kind == TrialKind::Shadow && entry.by_override.is_some();
        let override_quotas = if is_override { quotas } else { &[] };
        let places_in_two = entry.places_in_two_lists().map(|[enforced, candidates]| match kind {
            TrialKind::Shadow => &**enforced,
            TrialKind::Candidate => &**candidates,
        });
        let listed = entry.places_in(places_in_two).map_while(move |(list, place)| {
            let QuotaLists { enforced, candidates } = entry.policy.list(list);
            let quotas = if kind == TrialKind::Shadow { enforced } else { candidates };
            quotas.quotas.get(place as usize)
        });
        override_quotas.iter().chain(listed.filter(move |_| !is_override))
    }
}
