//! Denials, for functions that write the response.

use std::fmt;

use tollgate::{PolicyQuota, QuotaState, QuotaStates};

use crate::head::Head;
use crate::outcome::DenialCause;

/// A denial, for [`on_denied`](crate::RateLimitLayerBuilder::on_denied): the states of the quotas, the quota that
/// denied, and the request.
///
/// It does not contain the key, because keys may be personal or secret. A service that shows it takes it from the
/// request.
///
/// # Examples
///
/// ```
/// use tollgate_tower::{RateLimitLayer, Rule};
///
/// # let rule = Rule::unlimited();
/// let layer = RateLimitLayer::builder(rule).on_denied(|denial, mut response| {
///     if let (Some(quota), Some(state)) = (denial.quota(), denial.state()) {
///         let (path, limit) = (denial.head().uri().path(), quota.policy());
///         *response.body_mut() = format!("{path}: {limit} has {} left\n", state.remaining()).into();
///     }
///     response
/// });
/// ```
#[derive(Clone, Copy)]
pub struct Denial<'a> {
    by: &'a DenialCause,
    head: Head<'a>,
}

impl<'a> Denial<'a> {
    pub(crate) const fn new(by: &'a DenialCause, head: Head<'a>) -> Self {
        Self { by, head }
    }

    /// Returns the states of all quotas. `None` if no quota denied: a policy can deny a request that lacks its key.
    #[must_use]
    pub fn counted(&self) -> Option<&'a QuotaStates> {
        self.by.quotas().map(|(counted, _)| counted)
    }

    /// Returns the state of the quota that denied. `None` as for [`counted`](Self::counted).
    #[must_use]
    pub fn state(&self) -> Option<&'a QuotaState> {
        self.counted()?.decided()
    }

    /// Returns the quota that denied, with the name of its policy. `None` as for [`counted`](Self::counted).
    #[must_use]
    pub fn quota(&self) -> Option<&'a PolicyQuota> {
        let (counted, own_headers) = self.by.quotas()?;
        own_headers.quotas().get(counted.deciding())
    }

    /// Returns the request.
    #[must_use]
    pub const fn head(&self) -> Head<'a> {
        self.head
    }
}

impl fmt::Debug for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counted, quota) = (self.counted(), self.quota());
        f.debug_struct("Denial").field("counted", &counted).field("quota", &quota).finish_non_exhaustive()
    }
}
