//! A policy: what it matches, its key and its quotas.

use std::fmt;

use smallvec::SmallVec;
use tollgate::{CountDenied, InFlight, OnStoreFailure, PolicyInFlight, PolicyQuota, Quota};
use tollgate_http::HeaderFormats;

use crate::file_overrides::ListPlace;
use crate::implied::implies;
use crate::index::Candidate;
use crate::limit::{QuotaLists, QuotaSpecs};
use crate::matched::NeededValues;
use crate::overlap::overlap;
use crate::reading::Readings;
use crate::{
    Condition, Conditions, Cost, FileOverride, Identity, Overrun, PolicyBuilder, PolicyError, Position,
    QuotaSpec, SentReading, UndecidedValue, UnknownValue, View,
};

/// The name under which a policy's candidates are counted; no policy can have it.
pub(crate) fn candidate_name(policy: &str) -> String {
    format!("{policy}:candidate")
}

/// The suffix of the names under which callers' limits are counted; no policy in a file can have it.
const OF_CALLER: &str = ":caller";

/// One named rule, checked: from a file, with its defaults filled in, or [built in code](Policy::builder).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) name: Box<str>,
    /// In line 0 if it is not from a file.
    pub(crate) at: Position,
    pub(crate) description: Option<Box<str>>,
    pub(crate) conditions: Conditions,
    pub(crate) kind: PolicyKind,
    pub(crate) mode: Mode,
    pub(crate) identity: Identity,
    pub(crate) on_missing_key: OnMissingKey,
    pub(crate) cost: Cost,
    pub(crate) quotas: QuotaLists,
    pub(crate) overrides: Box<[FileOverride]>,
    /// What a denial charges, of all its quotas and of those of overrides.
    pub(crate) count_denied: CountDenied,
    pub(crate) overrun: Overrun,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) headers: HeaderFormats,
    pub(crate) deny_status: u16,
}

/// The effect of a policy on requests that it matches. In this order, of those that match, the first decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PolicyKind {
    /// It is admitted without a count.
    Exempt,
    /// They are denied, whatever the quotas.
    Deny,
    /// Its quotas decide, with those of all other policies that match and count.
    #[default]
    Count,
}

/// The mode of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Mode {
    /// It matches nothing.
    Off,
    /// It is counted after the decision and never changes it.
    Shadow,
    /// It decides.
    #[default]
    Enforce,
}

/// The handling of requests without a key attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnMissingKey {
    /// It is the caller's error.
    #[default]
    Error,
    /// It is denied.
    Deny,
    /// The policy does not apply. If an attribute [is not an address](crate::KeyFault::NoAddress) where one is needed,
    /// the request is denied nevertheless.
    Skip,
}

impl Mode {
    /// Returns its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }
}

impl OnMissingKey {
    /// Returns its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Deny => "deny",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for OnMissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Policy {
    /// Returns whether a policy can have this name: it has 1 to 64 letters, digits, `-`, `_` and `.`. A `:` is kept for
    /// the names under which candidates are counted.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
    }

    /// Creates a policy from limits that a caller passes with its request, under a name of its choice. All its
    /// attributes together are the key.
    ///
    /// Its name and its counters are those of `NAME:caller`, so they never meet those of other policies.
    ///
    /// # Errors
    ///
    /// If the name is invalid, there is neither a quota nor a limit in flight, or two quotas have the same kind, window,
    /// anchor and zone.
    pub fn of_caller(
        name: &str,
        quotas: impl IntoIterator<Item = Quota>,
        in_flight: Option<InFlight>,
    ) -> Result<Self, PolicyError> {
        let builder = Self::builder(name).key(Identity::Every);
        let builder = in_flight.into_iter().fold(builder, PolicyBuilder::in_flight);
        let mut policy = quotas.into_iter().fold(builder, PolicyBuilder::quota).build()?;
        policy.name = [name, OF_CALLER].concat().into();
        let in_flight = in_flight.map(|in_flight| {
            // The caller chooses the name, and no metric has it.
            let in_flight = PolicyInFlight::new(&policy.name, in_flight).without_expired_units();
            in_flight.with_on_store_failure(policy.on_store_failure)
        });
        let enforced = policy.quotas.enforced.quotas.iter().map(|quota| {
            let quota = PolicyQuota::new(&policy.name, quota.quota().clone());
            (quota.with_on_store_failure(policy.on_store_failure), None)
        });
        policy.quotas.enforced = QuotaSpecs::new(enforced.collect()).with_in_flight(in_flight);
        Ok(policy)
    }

    /// Returns the policy with another setting for outages of the store, which all its quotas and limits in flight have.
    #[must_use]
    pub fn with_on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.on_store_failure = on_store_failure;
        let lists = self.overrides.iter_mut().flat_map(|over| &mut over.lists);
        let lists = [&mut self.quotas].into_iter().chain(lists);
        for specs in lists.flat_map(|list| [&mut list.enforced, &mut list.candidates]) {
            for quota in &mut specs.quotas {
                *quota = quota.clone().with_on_store_failure(on_store_failure);
            }
            if let Some(in_flight) = &mut specs.in_flight {
                *in_flight = in_flight.clone().with_on_store_failure(on_store_failure);
            }
        }
        self
    }

    /// Returns the name to which `name` belongs: `NAME` for `NAME:caller`, the [limits of a caller](Self::of_caller),
    /// and else `name` itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::Policy;
    ///
    /// assert_eq!(Policy::base_name("downloads:caller"), "downloads");
    /// assert_eq!(Policy::base_name("downloads"), "downloads");
    /// ```
    #[must_use]
    pub fn base_name(name: &str) -> &str {
        name.strip_suffix(OF_CALLER).unwrap_or(name)
    }

    /// Returns the name, under which it is counted, logged and reported.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its place in the file, if it is from one.
    #[must_use]
    pub fn at(&self) -> Option<Position> {
        (self.at.line > 0).then_some(self.at)
    }

    /// Returns its description.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns its conditions.
    #[must_use]
    pub const fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Returns whether a request that it matches is admitted without counting.
    #[must_use]
    pub const fn is_exempt(&self) -> bool {
        matches!(self.kind, PolicyKind::Exempt)
    }

    /// Returns its effect on a request that it matches.
    #[must_use]
    pub const fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Returns whether it decides, with the file's mode taken into account.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the key.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns what happens to a request without its key.
    #[must_use]
    pub const fn on_missing_key(&self) -> OnMissingKey {
        self.on_missing_key
    }

    /// Returns the cost of a request, in units.
    #[must_use]
    pub const fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Returns what a denial charges, which is the same for all its quotas.
    #[must_use]
    pub const fn count_denied(&self) -> CountDenied {
        self.count_denied
    }

    /// Returns the quotas where no override holds. If [an attribute](crate::LimitAttribute) sets the limit of one, it
    /// has the maximum.
    #[must_use]
    pub fn quotas(&self) -> &[PolicyQuota] {
        &self.quotas.enforced.quotas
    }

    /// Returns the same quotas as they are written in a file.
    pub fn quota_specs(&self) -> impl Iterator<Item = QuotaSpec<'_>> {
        self.quotas.enforced.iter()
    }

    /// Returns the limit in flight where no override holds. A [check](crate::CheckError::NeedsHold) cannot meet it.
    #[must_use]
    pub const fn in_flight(&self) -> Option<&PolicyInFlight> {
        self.quotas.enforced.in_flight.as_ref()
    }

    /// Returns the limit in flight that is only tried out, where no override holds.
    #[must_use]
    pub const fn candidate_in_flight(&self) -> Option<&PolicyInFlight> {
        self.quotas.candidates.in_flight.as_ref()
    }

    /// Returns whether any of its lists, also those of overrides and candidates, has a limit in flight.
    #[must_use]
    pub fn has_in_flight(&self) -> bool {
        let mut lists = [&self.quotas].into_iter().chain(self.overrides.iter().flat_map(|over| &over.lists));
        lists.any(QuotaLists::has_in_flight)
    }

    pub(crate) fn remove_in_flight(&mut self) {
        let lists = self.overrides.iter_mut().flat_map(|over| &mut over.lists);
        for list in [&mut self.quotas].into_iter().chain(lists) {
            (list.enforced.in_flight, list.candidates.in_flight) = (None, None);
        }
    }

    /// Returns what is limited where no override holds, as it is written in a file: the quotas, then the limit in flight.
    pub fn written_limits(&self) -> impl Iterator<Item = String> {
        self.quotas.enforced.written()
    }

    /// Returns the candidates where no override holds, as they are written in a file, with the limit in flight.
    pub fn written_candidates(&self) -> impl Iterator<Item = String> {
        self.quotas.candidates.written()
    }

    /// Returns what settling a hold charges for a cost above the reserved one.
    #[must_use]
    pub const fn overrun(&self) -> Overrun {
        self.overrun
    }

    /// Returns the candidates where no override holds: counted after the decision, on separate counters.
    #[must_use]
    pub fn candidates(&self) -> &[PolicyQuota] {
        &self.quotas.candidates.quotas
    }

    /// Returns the same quotas as they are written in a file.
    pub fn candidate_specs(&self) -> impl Iterator<Item = QuotaSpec<'_>> {
        self.quotas.candidates.iter()
    }

    /// Returns the policy with another limit, at most [`Quota::MAX_LIMIT`], where this is one of its own quotas or
    /// candidates. Those of overrides stay as they are.
    #[must_use]
    pub fn with_limit(&self, quota: &PolicyQuota, limit: u64) -> Self {
        let mut changed = self.clone();
        let QuotaLists { enforced, candidates } = &mut changed.quotas;
        let all = enforced.quotas.iter_mut().chain(&mut candidates.quotas);
        for same in all.filter(|own| own.shares_counters_with(quota)) {
            *same = same.with_limit(limit);
        }
        changed
    }

    /// Returns the overrides; the first that holds applies.
    #[must_use]
    pub fn overrides(&self) -> &[FileOverride] {
        &self.overrides
    }

    /// Returns what happens while the store cannot answer.
    #[must_use]
    pub const fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    /// Returns the formats of its limit headers.
    #[must_use]
    pub const fn headers(&self) -> HeaderFormats {
        self.headers
    }

    /// Returns the HTTP status of a denial.
    #[must_use]
    pub const fn deny_status(&self) -> u16 {
        self.deny_status
    }

    /// Returns the names of all attributes that it uses; some may appear twice.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &str> {
        let mut names = SmallVec::<[&str; 4]>::new();
        self.identity.names(&mut names);
        if let Cost::Attribute(attribute) = &self.cost {
            names.push(attribute.name());
        }
        let override_names = self.overrides.iter().flat_map(FileOverride::attributes);
        let limit_names =
            [&self.quotas.enforced, &self.quotas.candidates].into_iter().flat_map(QuotaSpecs::attributes);
        let names = names.into_iter().chain(limit_names);
        names.chain(self.conditions.iter().map(Condition::attribute)).chain(override_names)
    }

    /// Returns whether it applies to a request: it is not off, and all its conditions hold. If the request has two
    /// [readings](crate::SentReading), they have to hold in one of them; if the policy is exempt, in both.
    ///
    /// # Errors
    ///
    /// If that depends on an attribute whose value is not known.
    pub fn matches<V: View>(&self, view: &V) -> Result<bool, UndecidedValue<'_>> {
        Ok(self.applies_in(self.readings(view, SentReading::of(view).as_ref())?))
    }

    /// Returns whether it applies to a request whose readings it matches.
    pub(crate) const fn applies_in(&self, matched: Readings) -> bool {
        if self.is_exempt() { matched.all() } else { matched.any() }
    }

    /// Returns the readings of a request that it matches. Both must be known.
    fn readings<V: View>(
        &self,
        view: &V,
        sent: Option<&SentReading<'_, V>>,
    ) -> Result<Readings, UndecidedValue<'_>> {
        if self.mode == Mode::Off {
            return Ok(Readings::NONE);
        }
        let normalized = self.conditions.holds(view);
        let Some(sent) = sent else { return normalized.map(Readings::both) };
        match (normalized, self.conditions.holds(sent)) {
            (Ok(normalized), Ok(sent)) => Ok(Readings { normalized, sent }),
            (Err(undecided), sent) => Err(sent.err().map_or(undecided, |other| undecided.sooner(other))),
            (Ok(_), Err(undecided)) => Err(undecided),
        }
    }

    /// Like `readings`, but for a policy that the index has found.
    #[inline]
    pub(crate) fn readings_as<V: View>(
        &self,
        candidate: Candidate,
        view: &V,
        sent: Option<&SentReading<'_, V>>,
    ) -> Result<Readings, UndecidedValue<'_>> {
        // The index may have found it in one reading only.
        if candidate.is_sure() && sent.is_none() {
            return Ok(Readings::both(self.mode != Mode::Off));
        }
        self.readings(view, sent)
    }

    /// Returns whether it skips a request that lacks this. Trials never make a request fail.
    pub(crate) fn does_without(&self, UndecidedValue { unknown, .. }: UndecidedValue<'_>) -> bool {
        self.mode != Mode::Enforce && unknown == UnknownValue::Wrong
    }

    /// Returns whether a request can be counted without its candidates, which depend on this value. Trials never make a
    /// request fail, but a value that can still be found is waited for.
    pub(crate) fn can_leave_out_candidates(
        &self,
        UndecidedValue { unknown, .. }: UndecidedValue<'_>,
        needed: NeededValues<'_>,
    ) -> bool {
        let mut lists = [&self.quotas].into_iter().chain(self.overrides.iter().flat_map(|over| &over.lists));
        let has_candidates =
            |list: &QuotaLists| !list.candidates.quotas.is_empty() || list.candidates.in_flight.is_some();
        needed == NeededValues::Limits && (unknown == UnknownValue::Wrong || !lists.any(has_candidates))
    }

    /// Returns whether its conditions hold for every request for which those of the other hold, as far as their written
    /// form shows it; it never returns `true` wrongly.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        implies(&other.conditions, &self.conditions)
    }

    /// Returns whether its conditions and those of the other may hold for one request, as far as their written form
    /// shows it. Returns `false` only if they hold for no request that has one value for each attribute; an attribute
    /// with several values, such as a list of roles or a path with two [readings](crate::SentReading), may still meet
    /// both.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::Config;
    ///
    /// let text = "
    /// policies:
    ///   - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }
    ///   - { name: feed, match: { path: /feed/* }, key: [user], quotas: [50/1m] }
    ///   - { name: all, key: global, quotas: [5000/1m] }
    /// ";
    /// let config = Config::parse("tollgate.yaml", text)?;
    /// let [login, feed, all] = config.policies().as_slice() else { unreachable!() };
    /// assert!(all.overlaps(login) && all.overlaps(feed));
    /// assert!(!login.overlaps(feed));
    /// # Ok::<(), tollgate_policy::ConfigError>(())
    /// ```
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        overlap(&self.conditions, &other.conditions)
    }

    /// Returns the override for one reading of a request: the first that holds. If two [readings](crate::SentReading)
    /// match the policy and have different quotas, those of both apply; of two that share counters, the one with the
    /// lower limit.
    ///
    /// # Errors
    ///
    /// If that depends on an attribute whose value is not known.
    pub fn override_for<V: View>(&self, view: &V) -> Result<Option<&FileOverride>, UndecidedValue<'_>> {
        Ok(ListPlace::find(&self.overrides, view)?.of_override(&self.overrides))
    }

    /// The list of quotas for a request: that of its override, else the policy's own. If it matches two readings of the
    /// request that have different lists, also the other.
    pub(crate) fn lists_for<V: View>(
        &self,
        view: &V,
        matched: Readings,
    ) -> Result<(ListPlace, Option<ListPlace>), UndecidedValue<'_>> {
        let find_normalized = || ListPlace::find(&self.overrides, view);
        let sent = if self.overrides.is_empty() { None } else { SentReading::of(view) };
        let Some(sent) = sent.filter(|_| matched.sent) else { return Ok((find_normalized()?, None)) };
        let as_sent = ListPlace::find(&self.overrides, &sent)?;
        if !matched.normalized {
            return Ok((as_sent, None));
        }
        let normalized = find_normalized()?;
        Ok((normalized, (as_sent != normalized).then_some(as_sent)))
    }

    /// A list that this policy gave.
    pub(crate) fn list(&self, list: ListPlace) -> &QuotaLists {
        list.of(&self.overrides, &self.quotas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_limit_changes_that_quota_alone() {
        let policy = Policy::builder("all").quota(Quota::per_minute(5)).quota(Quota::per_hour(50));
        let policy = policy.key(Identity::Global).candidate(Quota::per_minute(7)).build().unwrap();
        let written = |policy: &Policy| {
            let quotas = policy.quota_specs().chain(policy.candidate_specs());
            quotas.map(|quota| quota.to_string()).collect::<Vec<_>>()
        };
        let [per_minute, ..] = policy.quotas() else { panic!("{policy:?}") };
        assert_eq!(written(&policy.with_limit(per_minute, 9)), ["9/1m", "50/1h", "7/1m"]);
        let [candidate] = policy.candidates() else { panic!("{policy:?}") };
        assert_eq!(written(&policy.with_limit(candidate, 9)), ["5/1m", "50/1h", "9/1m"]);
        assert_eq!(policy.with_limit(candidate, u64::MAX).candidates()[0].quota().limit(), Quota::MAX_LIMIT);
    }
}
