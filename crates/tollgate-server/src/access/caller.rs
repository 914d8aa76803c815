//! Callers: the policies that the caller of a request may use, and the series that it counts.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tollgate_policy::{Attributes, Policy};

use crate::access::counted_series::CountedSeries;

/// The caller of an authorized request, and the policies that it may use: these, or all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    policies: Option<Arc<BTreeSet<Box<str>>>>,
    /// Its own, if it is a principal who counts.
    series: Option<Arc<CountedSeries>>,
    /// Its name, if it is a principal that changes something.
    principal: Option<Arc<str>>,
    /// Whether it has the scope `keys`.
    sees_keys: bool,
}

/// The attributes of a request, and the policies that its caller may use. The engine accepts nothing else, so that no
/// operation can forget the caller.
pub(crate) struct CallerAttributes<'a>(Attributes<'a>);

/// The request concerns a policy that the caller may not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherPolicy;

/// The request concerns all policies, and the caller may use only some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OnlySomePolicies;

impl Caller {
    pub(crate) fn new(policies: Option<Arc<BTreeSet<Box<str>>>>) -> Self {
        Self { policies, ..Self::default() }
    }

    /// Adds the series that it counts.
    pub(crate) fn counting(self, series: Arc<CountedSeries>) -> Self {
        Self { series: Some(series), ..self }
    }

    /// Adds its name.
    pub(crate) fn named(self, principal: Arc<str>) -> Self {
        Self { principal: Some(principal), ..self }
    }

    /// Adds whether it may see keys of others.
    pub(crate) fn seeing_keys(self, sees_keys: bool) -> Self {
        Self { sees_keys, ..self }
    }

    /// Returns whether it may see keys of others. Only a principal can.
    pub(crate) const fn sees_keys(&self) -> bool {
        self.sees_keys
    }

    /// Returns its name, if it is a principal and acts under a scope that changes counters or limits.
    pub(crate) fn principal(&self) -> Option<&Arc<str>> {
        self.principal.as_ref()
    }

    /// Returns the series that it counts; `None` if it is no principal.
    pub(crate) fn series(&self) -> Option<&CountedSeries> {
        self.series.as_deref()
    }

    /// Returns a request of this caller.
    pub(crate) fn asks<'a>(&'a self, attributes: Attributes<'a>) -> CallerAttributes<'a> {
        CallerAttributes(match self.policies.as_deref() {
            Some(policies) => attributes.within(policies),
            None => attributes,
        })
    }

    /// Returns whether the caller may use this policy, or a caller's own limits under its name.
    pub(crate) fn may_touch(&self, policy: &str) -> bool {
        self.policies.as_ref().is_none_or(|policies| policies.contains(Policy::base_name(policy)))
    }

    /// Returns the policies that the caller may use, in the order of their names; `None` if it may use all.
    pub(crate) fn policies(&self) -> Option<impl Iterator<Item = &str>> {
        self.policies.as_deref().map(|policies| policies.iter().map(|name| &**name))
    }

    /// Checks that the caller may use all policies.
    ///
    /// # Errors
    ///
    /// If it may use only some.
    pub(crate) fn may_touch_all(&self) -> Result<(), OnlySomePolicies> {
        if self.policies.is_none() { Ok(()) } else { Err(OnlySomePolicies) }
    }
}

impl<'a> CallerAttributes<'a> {
    pub(crate) const fn as_attributes(&self) -> &Attributes<'a> {
        &self.0
    }
}

/// Leaves out the attributes, which are often persons or secrets.
impl fmt::Debug for CallerAttributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerAttributes").finish_non_exhaustive()
    }
}
