//! What a denial is about, for whoever words the response.

use std::fmt;
use std::ops::Deref;

use tollgate::{Decision, PolicyQuota};

use crate::Head;

/// A denial, for [`on_denied`](crate::RateLimitLayerBuilder::on_denied): the decision, the quota that decided, and the
/// request.
///
/// Whom the request was counted for is not in it, because keys are persons or secrets. A service that tells it all the
/// same takes it from the request, and decides for itself who may read it.
///
/// # Examples
///
/// ```
/// use tollgate_tower::{RateLimitLayer, Rule};
///
/// # let rule = Rule::unlimited();
/// let layer = RateLimitLayer::builder(rule).on_denied(|denial, mut response| {
///     let limit = denial.quota().map_or("a limit", |quota| quota.policy());
///     let path = denial.head().uri().path();
///     *response.body_mut() = format!("{path}: {limit} has {} left\n", denial.remaining()).into();
///     response
/// });
/// ```
#[derive(Clone, Copy)]
pub struct Denial<'a> {
    decision: &'a Decision,
    quota: Option<&'a PolicyQuota>,
    head: Head<'a>,
}

impl<'a> Denial<'a> {
    pub(crate) const fn new(decision: &'a Decision, quota: Option<&'a PolicyQuota>, head: Head<'a>) -> Self {
        Self { decision, quota, head }
    }

    /// The decision.
    pub const fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// The quota that decided, with the name of its policy. `None` where none did: a policy denied who does not say who
    /// they are.
    #[must_use]
    pub const fn quota(&self) -> Option<&'a PolicyQuota> {
        self.quota
    }

    /// The request.
    #[must_use]
    pub const fn head(&self) -> Head<'a> {
        self.head
    }
}

impl Deref for Denial<'_> {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        self.decision
    }
}

impl fmt::Debug for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decision, quota, .. } = self;
        f.debug_struct("Denial").field("decision", decision).field("quota", quota).finish_non_exhaustive()
    }
}
