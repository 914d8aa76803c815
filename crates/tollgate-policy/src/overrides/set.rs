//! All overrides, under one version.

use std::fmt;
use std::sync::Arc;

use tollgate::{Clock, Key, Timestamp};

use super::context::Context;
use super::policy_overrides::{Compiler, PolicyOverrides};
use super::tree::{Tree, TreeRow};
use super::{
    InertReason, OverrideDigest, OverrideEntry, OverrideFit, OverrideKey, OverrideName, OverrideRecord,
    OverridesLoad, OverridesVersion,
};
use crate::{Policies, Policy};

/// All overrides, under one version.
///
/// A set never changes: each change makes another one, which shares with it what stays. So a change takes a few
/// microseconds, and a clone a few nanoseconds, however many overrides there are.
///
/// A set belongs to the policies under which it was made. Under others, make it [fit them](Self::for_policies) first.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use tollgate::{Key, Quota, SystemClock, Timestamp};
/// use tollgate_policy::{
///     OverrideLimits, OverrideRecord, OverrideSet, OverrideState, Policies, Policy,
/// };
///
/// let policies = Policies::of([Policy::builder("search").quota(Quota::per_minute(100)).build()?])?;
/// let digest = |key: &Key<'_>| u128::from(key.canonical_bytes().len() as u64); // A real one is a hash.
/// let set = OverrideSet::new(Arc::new(digest), Arc::new(SystemClock));
/// let record = OverrideRecord {
///     name: "search:tenant=acme".parse()?,
///     key: "global".into(),
///     limits: OverrideLimits::of(["500/1m"]),
///     until: None,
///     label: Some("acme".into()),
///     note: None,
///     by: None,
///     at: Timestamp::from_unix_millis(0),
///     version: 1,
/// };
/// let name = record.name.clone();
/// let changed = set.with(record, &policies);
/// assert_eq!(changed.get(&name).map(|entry| entry.state()), Some(OverrideState::Active));
/// assert!(set.get(&name).is_none() && changed.without(&name).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OverrideSet {
    context: Arc<Context>,
    version: Option<OverridesVersion>,
    parts: Tree<PartRow>,
    /// The same parts by the places of their policies, for requests. Those without a policy are left out.
    places: Tree<PlaceRow>,
    len: usize,
}

#[derive(Clone)]
struct PartRow {
    name: Arc<str>,
    part: Arc<PolicyOverrides>,
}

#[derive(Clone)]
struct PlaceRow {
    place: u32,
    part: Arc<PolicyOverrides>,
}

impl TreeRow for PartRow {
    type Key = Arc<str>;

    fn key(&self) -> &Arc<str> {
        &self.name
    }
}

impl TreeRow for PlaceRow {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.place
    }
}

impl OverrideSet {
    /// Creates an empty set without a version. Overrides find their keys by this digest, and end by this clock, which
    /// should be close to that of the store that counts.
    #[must_use]
    pub fn new(digest: Arc<dyn OverrideDigest>, clock: Arc<dyn Clock>) -> Self {
        Self::empty(Arc::new(Context::new(digest, clock)))
    }

    /// Returns an empty set, for a store that cannot count everything. An override with limits that it cannot count
    /// is [inert](InertReason::Store).
    #[must_use]
    pub fn with_fit(self, fit: Arc<dyn OverrideFit>) -> Self {
        Self::empty(Arc::new(self.context.with_fit(fit)))
    }

    fn empty(context: Arc<Context>) -> Self {
        Self { context, version: None, parts: Tree::default(), places: Tree::default(), len: 0 }
    }

    /// Returns a set without overrides and without a version, with the digest, the clock and the fit of this one.
    #[must_use]
    pub fn cleared(&self) -> Self {
        Self::empty(Arc::clone(&self.context))
    }

    /// Returns a set of exactly these overrides, with the digest, the clock and the fit of this one. If a name is there
    /// twice, the last one counts.
    #[must_use]
    pub fn of_all(&self, records: impl IntoIterator<Item = OverrideRecord>, policies: &Policies) -> Self {
        let mut loading = self.loading(policies);
        records.into_iter().for_each(|record| loading.set(record));
        loading.finish()
    }

    /// Begins a set without a version, with the digest, the clock and the fit of this one and no overrides. It is for
    /// many overrides: each takes less time and memory than if it was [added](Self::with) to a set.
    #[must_use]
    pub fn loading<'a>(&self, policies: &'a Policies) -> OverridesLoad<'a> {
        OverridesLoad::new(self.cleared(), policies)
    }

    /// Returns the same overrides with this one, which replaces another of its name.
    #[must_use]
    pub fn with(&self, record: OverrideRecord, policies: &Policies) -> Self {
        let compiler = Compiler { context: &self.context, policies, by_name: None };
        let part = match self.part(&record.name.policy) {
            Some(part) => part.with(compiler, record),
            None => PolicyOverrides::new(compiler, &record.name.policy).with(compiler, record),
        };
        self.with_part(part)
    }

    /// Returns the same overrides without the one of this name.
    #[must_use]
    pub fn without(&self, name: &OverrideName) -> Self {
        let part = self.part(&name.policy).and_then(|part| part.without(&name.target));
        part.map_or_else(|| self.clone(), |part| self.with_part(part))
    }

    /// Returns the same overrides under this version.
    #[must_use]
    pub fn at_version(self, version: OverridesVersion) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Returns the same overrides for other policies. What means the same there is shared.
    #[must_use]
    pub fn for_policies(&self, policies: &Policies) -> Self {
        let by_name = Compiler::names(policies);
        let compiler = Compiler { context: &self.context, policies, by_name: Some(&by_name) };
        let empty = Self { version: self.version, ..Self::empty(Arc::clone(&self.context)) };
        self.parts.iter().fold(empty, |set, row| set.with_part(row.part.under(compiler)))
    }

    /// Returns the same overrides with those of one policy replaced.
    pub(super) fn with_part(&self, part: PolicyOverrides) -> Self {
        let (name, place, len) = (Arc::clone(&part.name), part.place, part.len());
        let by_name = |other: &Arc<str>| other.cmp(&name);
        let before = self.part(&name).map_or(0, |part| part.len());
        let mut set = Self { len: self.len - before + len, ..self.clone() };
        if len == 0 {
            set.parts = set.parts.without(by_name).map_or(set.parts, |(parts, _)| parts);
            if let Some(place) = place {
                let without = set.places.without(|other| other.cmp(&place));
                set.places = without.map_or(set.places, |(places, _)| places);
            }
            return set;
        }
        let part = Arc::new(part);
        set.parts = set.parts.with(PartRow { name, part: Arc::clone(&part) }).0;
        if let Some(place) = place {
            set.places = set.places.with(PlaceRow { place, part }).0;
        }
        set
    }

    pub(super) fn part(&self, policy: &str) -> Option<&Arc<PolicyOverrides>> {
        self.parts.get(|name| (**name).cmp(policy)).map(|row| &row.part)
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &PolicyOverrides> {
        self.parts.iter().map(|row| &*row.part)
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Returns whether a policy that exists has overrides.
    pub(super) const fn has_placed_parts(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns the overrides of the policy at this place.
    pub(super) fn part_at(&self, place: u32, policy: &Policy) -> Option<&PolicyOverrides> {
        let row = self.places.get(|other| other.cmp(&place))?;
        // Under other policies than those of the set, another one may be there.
        Some(&*row.part).filter(|part| *part.name == *policy.name())
    }

    /// Fails if this override would be [inert](super::OverrideState::Inert) under these policies.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn expect_fit(&self, record: &OverrideRecord, policies: &Policies) -> Result<(), InertReason> {
        let compiler = Compiler { context: &self.context, policies, by_name: None };
        PolicyOverrides::new(compiler, &record.name.policy).expect_fit(compiler, record.clone())
    }

    /// Returns the override of this name.
    #[must_use]
    pub fn get(&self, name: &OverrideName) -> Option<OverrideEntry<'_>> {
        let part = self.part(&name.policy)?;
        let target = part.get(&name.target)?;
        Some(OverrideEntry { context: &self.context, part, target })
    }

    /// Returns the overrides behind this name, or all, of this policy or of all, in the order of their names.
    pub fn after<'a>(
        &'a self,
        name: Option<&'a OverrideName>,
        policy: Option<&'a str>,
    ) -> impl Iterator<Item = OverrideEntry<'a>> {
        let first = name.map(|name| &*name.policy).max(policy);
        let parts = match first {
            Some(first) => self.parts.rows_from(|name| (**name).cmp(first)),
            None => self.parts.iter(),
        };
        let parts = parts.take_while(move |row| policy.is_none_or(|policy| *row.name == *policy));
        parts.flat_map(move |PartRow { part, .. }| {
            let after = name.filter(|name| *name.policy == *part.name).map(|name| &name.target);
            let context = &*self.context;
            part.after(after).map(move |target| OverrideEntry { context, part, target })
        })
    }

    /// Returns the policies of which overrides are [inert](super::OverrideState::Inert), each with the reason of one of
    /// them.
    pub fn inert(&self) -> impl Iterator<Item = (&str, InertReason)> {
        self.parts.iter().filter_map(|PartRow { name, part }| Some((&**name, part.inert()?)))
    }

    /// Returns how many overrides there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns their version; `None` if they have none.
    #[must_use]
    pub const fn version(&self) -> Option<OverridesVersion> {
        self.version
    }

    /// Returns the digest of a key.
    #[must_use]
    pub fn key(&self, key: &Key<'_>) -> OverrideKey {
        OverrideKey(self.context.digest(key))
    }

    /// Returns what computes the digests of keys.
    #[must_use]
    pub fn digest(&self) -> &dyn OverrideDigest {
        &*self.context
    }

    /// Returns the time by which they end.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.context.now()
    }
}

/// Without the overrides, which may be many.
impl fmt::Debug for OverrideSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.map(|version| version.to_string());
        f.debug_struct("OverrideSet")
            .field("version", &version)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
