//! Limits from attributes.

use std::fmt;

use thiserror::Error;
use tollgate::{PolicyInFlight, PolicyQuota};

use crate::cost::number;
use crate::scalar::Scalar;
use crate::{UnknownValue, View};

/// A limit from an attribute, such as a claim of a token.
///
/// A client that can choose the attribute chooses its limit. So it is used only if the [view](View::is_verified) marks
/// it as verified. The quota's own limit is the highest; higher values are cut to it.
///
/// # Examples
///
/// ```
/// use tollgate::Quota;
/// use tollgate_policy::{Attributes, Identity, LimitAttribute, OnMissingLimit, Outcome, Policies, Policy};
///
/// let quota = LimitAttribute::new("quota").with_on_missing(OnMissingLimit::Fixed(100));
/// let api = Policy::builder("api")
///     .key(Identity::Attribute("user".into()))
///     .quota_by(quota, Quota::per_hour(10_000))
///     .build()?;
/// let policies = Policies::of([api])?;
/// let limit = |pairs: &[(&str, &str)]| {
///     let attributes: Attributes<'_> = [("user", "alice")].iter().chain(pairs).copied().collect();
///     let Ok(Outcome::Charge(matched)) = policies.charges(&attributes, 1) else { unreachable!() };
///     matched.enforced().next().map(|charge| charge.limit())
/// };
/// assert_eq!(limit(&[("quota", "500")]), Some(500));
/// assert_eq!(limit(&[("quota", "99999")]), Some(10_000));
/// assert_eq!(limit(&[]), Some(100));
/// # Ok::<(), tollgate_policy::PolicyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LimitAttribute {
    pub(crate) name: Box<str>,
    pub(crate) on_missing: OnMissingLimit,
}

/// The limit if the attribute is missing or not a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnMissingLimit {
    /// It is the caller's error.
    #[default]
    Error,
    /// This many.
    Fixed(u64),
}

/// A request whose limit is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The attribute is missing. The caller's fault.
    #[error("the attribute `{0}`, which sets the limit, is missing")]
    Missing(Box<str>),
    /// The attribute is not a whole number. The caller's fault.
    #[error("the attribute `{0}` sets the limit and must be a whole number")]
    NoNumber(Box<str>),
    /// Clients could invent the attribute. The fault of the service's author.
    #[error("the attribute `{0}` sets the limit, but the client could invent its value")]
    Unverified(Box<str>),
    /// The value of the attribute is not known.
    #[error("the attribute `{name}` sets the limit, but {unknown}")]
    Unknown {
        /// The attribute's name.
        name: Box<str>,
        /// Why it is not known.
        unknown: UnknownValue,
    },
}

/// A quota as a policy has it, displayed as written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaSpec<'a> {
    quota: &'a PolicyQuota,
    limit: Option<&'a LimitAttribute>,
}

/// Quotas that are charged together, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QuotaSpecs {
    pub(crate) quotas: Box<[PolicyQuota]>,
    /// For each quota, the attribute that sets its limit. Empty if there is none, as is usual.
    pub(crate) limits: Box<[Option<LimitAttribute>]>,
    /// The limit in flight, whose units are taken together with the charges.
    pub(crate) in_flight: Option<PolicyInFlight>,
}

/// Quotas that are charged together, all or nothing, and candidates that might replace them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QuotaLists {
    pub(crate) enforced: QuotaSpecs,
    /// Counted on separate counters: with the same windows, a candidate would otherwise use up the quota that it might
    /// replace. A limit in flight on trial takes no units, and is asked about the policy's own ones.
    pub(crate) candidates: QuotaSpecs,
}

impl LimitAttribute {
    /// Returns the attribute of this name. A request without it is the caller's error.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), on_missing: OnMissingLimit::Error }
    }

    /// Sets the limit of requests whose attribute is missing or not a whole number.
    #[must_use]
    pub fn with_on_missing(self, on_missing: OnMissingLimit) -> Self {
        Self { on_missing, ..self }
    }

    /// Returns the attribute's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the limit of requests without the attribute.
    #[must_use]
    pub const fn on_missing(&self) -> OnMissingLimit {
        self.on_missing
    }

    /// Returns whether no request can get a limit above the maximum.
    pub(crate) fn is_within(&self, max: u64) -> bool {
        !matches!(self.on_missing, OnMissingLimit::Fixed(limit) if limit > max)
    }

    fn of<V: View>(&self, view: &V, max: u64) -> Result<u64, LimitError> {
        let name = || self.name.clone();
        if !view.is_verified(&self.name) {
            return Err(LimitError::Unverified(name()));
        }
        let value =
            view.value(&self.name).map_err(|unknown| LimitError::Unknown { name: name(), unknown })?;
        match (number(value), self.on_missing) {
            (Some(limit), _) => Ok(limit.min(max)),
            (None, OnMissingLimit::Fixed(limit)) => Ok(limit),
            (None, OnMissingLimit::Error) if value.is_none() => Err(LimitError::Missing(name())),
            (None, OnMissingLimit::Error) => Err(LimitError::NoNumber(name())),
        }
    }
}

impl LimitError {
    /// Returns the name of the attribute.
    #[must_use]
    pub fn attribute(&self) -> &str {
        match self {
            Self::Missing(name)
            | Self::NoNumber(name)
            | Self::Unverified(name)
            | Self::Unknown { name, .. } => name,
        }
    }
}

impl<'a> QuotaSpec<'a> {
    /// Returns the quota. If an attribute sets the limit, the quota has the maximum limit.
    #[must_use]
    pub const fn quota(&self) -> &'a PolicyQuota {
        self.quota
    }

    /// Returns the attribute that sets the limit, if any.
    #[must_use]
    pub const fn limit_attribute(&self) -> Option<&'a LimitAttribute> {
        self.limit
    }
}

impl QuotaLists {
    /// Returns whether it limits units in flight, on trial or not.
    pub(crate) const fn has_in_flight(&self) -> bool {
        self.enforced.in_flight.is_some() || self.candidates.in_flight.is_some()
    }
}

impl QuotaSpecs {
    pub(crate) fn new(specs: Vec<(PolicyQuota, Option<LimitAttribute>)>) -> Self {
        let (quotas, limits): (Vec<_>, Vec<_>) = specs.into_iter().unzip();
        let is_any = limits.iter().any(Option::is_some);
        let limits = if is_any { limits.into() } else { [].into() };
        Self { quotas: quotas.into(), limits, in_flight: None }
    }

    pub(crate) fn with_in_flight(self, in_flight: Option<PolicyInFlight>) -> Self {
        Self { in_flight, ..self }
    }

    /// Returns its limits as they are written in a file: the quotas, then the limit in flight.
    pub(crate) fn written(&self) -> impl Iterator<Item = String> {
        let in_flight = self.in_flight.iter().map(|in_flight| in_flight.in_flight().to_string());
        self.iter().map(|quota| quota.to_string()).chain(in_flight)
    }

    /// Returns whether attributes set limits.
    pub(crate) fn are_limited_by_requests(&self) -> bool {
        !self.limits.is_empty()
    }

    /// The quotas with the limits of a request.
    pub(crate) fn limited<V: View>(&self, view: &V) -> Result<Box<[PolicyQuota]>, LimitError> {
        let limited = self.iter().map(|QuotaSpec { quota, limit }| match limit {
            Some(limit) => Ok(quota.with_limit(limit.of(view, quota.quota().limit())?)),
            None => Ok(quota.clone()),
        });
        limited.collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = QuotaSpec<'_>> {
        let limits = self.limits.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        self.quotas.iter().zip(limits).map(|(quota, limit)| QuotaSpec { quota, limit })
    }

    /// Returns the names of the attributes that set limits.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().flatten().map(LimitAttribute::name)
    }
}

impl fmt::Display for QuotaSpec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, limit } = self;
        let Some(LimitAttribute { name, on_missing }) = limit else { return quota.quota().fmt(f) };
        write!(f, "{{ limit: {{ attribute: {}", Scalar(name))?;
        if let OnMissingLimit::Fixed(limit) = on_missing {
            write!(f, ", on_missing: {limit}")?;
        }
        // With the burst, which is not among the windows.
        let quota = quota.quota().to_string();
        let (max, window) = quota.split_once('/').unwrap_or((&quota, ""));
        write!(f, " }}, max: {max}, window: {window} }}")
    }
}
