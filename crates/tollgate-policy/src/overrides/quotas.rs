//! The limits of an override as its policy counts them.

use thiserror::Error;
use tollgate::{CountDenied, InFlight, OnStoreFailure, PolicyInFlight, PolicyQuota, Quota, QuotaError};

use crate::Policy;
use crate::limit::QuotaSpecs;
use crate::limit_text::LimitText;

/// The limits of an override, under the name and the settings of its policy: what a denial charges, and what happens
/// while the store cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OverrideQuotas {
    pub(crate) specs: QuotaSpecs,
}

/// Limits that a policy cannot have. The fault of the override's author.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OverrideLimitsError {
    /// There is no limit in the list.
    #[error("a list of limits has at least one; without limits, it is `unlimited` or `denied`")]
    Empty,
    /// A text is not a limit.
    #[error(transparent)]
    Text(#[from] QuotaError),
    /// Two quotas would count the same units on the same counter.
    #[error("{second} has the same window as {first}: keep one of them")]
    SameWindow {
        /// The first quota.
        first: Box<Quota>,
        /// The quota that repeats its window.
        second: Box<Quota>,
    },
    /// There are two limits in flight.
    #[error("{second} is a second limit in flight, and {first} the first: keep one of them")]
    SecondInFlight {
        /// The first one.
        first: InFlight,
        /// The second one.
        second: InFlight,
    },
    /// The policy charges denials, which cannot charge units in flight.
    #[error(
        "{limit} does not fit: the policy has `{}`, and a denial cannot charge units in flight",
        .count_denied.setting()
    )]
    DenialsInFlight {
        /// The limit in flight.
        limit: InFlight,
        /// What a denial charges.
        count_denied: DeniedCount,
    },
}

/// What a denial charges, if it charges anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedCount {
    /// The quotas that had no room.
    NoRoom,
    /// All quotas.
    Overdraft,
}

impl DeniedCount {
    const fn setting(self) -> &'static str {
        match self {
            Self::NoRoom => "count_denied",
            Self::Overdraft => "overdraft",
        }
    }

    const fn of(count_denied: CountDenied) -> Option<Self> {
        match count_denied {
            CountDenied::No => None,
            CountDenied::Yes => Some(Self::NoRoom),
            CountDenied::Overdraft => Some(Self::Overdraft),
        }
    }
}

/// What the policy says about all its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitSettings {
    count_denied: CountDenied,
    on_store_failure: OnStoreFailure,
    /// Whether the policy has limits in flight itself: then its setting for denials is a default, which they ignore.
    limits_in_flight: bool,
}

impl LimitSettings {
    pub(super) fn of(policy: &Policy) -> Self {
        let (count_denied, on_store_failure) = (policy.count_denied(), policy.on_store_failure());
        Self { count_denied, on_store_failure, limits_in_flight: policy.has_in_flight() }
    }
}

impl OverrideQuotas {
    /// Reads limits as a policy file does.
    pub(super) fn read(
        policy: &str,
        texts: &[Box<str>],
        settings: LimitSettings,
    ) -> Result<Self, OverrideLimitsError> {
        let LimitSettings { count_denied, on_store_failure, limits_in_flight } = settings;
        let (mut quotas, mut in_flight) = (Vec::<(PolicyQuota, _)>::new(), None);
        for text in texts {
            for limit in LimitText::list(text)? {
                match limit {
                    LimitText::InFlight(second) => match in_flight {
                        None => in_flight = Some(second),
                        Some(first) => return Err(OverrideLimitsError::SecondInFlight { first, second }),
                    },
                    LimitText::Quota(quota) => {
                        if let Some((first, _)) =
                            quotas.iter().find(|(first, _)| first.quota().has_series_of(&quota))
                        {
                            let (first, second) = (first.quota().clone().into(), quota.into());
                            return Err(OverrideLimitsError::SameWindow { first, second });
                        }
                        let quota = PolicyQuota::new(policy, quota)
                            .with_count_denied(count_denied)
                            .with_on_store_failure(on_store_failure);
                        quotas.push((quota, None));
                    }
                }
            }
        }
        if quotas.is_empty() && in_flight.is_none() {
            return Err(OverrideLimitsError::Empty);
        }
        if let (Some(limit), Some(count_denied), false) =
            (in_flight, DeniedCount::of(count_denied), limits_in_flight)
        {
            return Err(OverrideLimitsError::DenialsInFlight { limit, count_denied });
        }
        let in_flight =
            in_flight.map(|limit| PolicyInFlight::new(policy, limit).with_on_store_failure(on_store_failure));
        Ok(Self { specs: QuotaSpecs::new(quotas).with_in_flight(in_flight) })
    }

    /// Returns the quotas, which are charged all or nothing.
    #[must_use]
    pub fn quotas(&self) -> &[PolicyQuota] {
        &self.specs.quotas
    }

    /// Returns the limit in flight.
    #[must_use]
    pub const fn in_flight(&self) -> Option<&PolicyInFlight> {
        self.specs.in_flight.as_ref()
    }
}
