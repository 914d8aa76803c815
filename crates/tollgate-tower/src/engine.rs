//! The engine that decides on requests: one limiter and a key, or policies.
//!
//! ```text
//! Head ──▶ ByKey       a key, by a limiter   ──▶ Decided
//!     ╰──▶ ByPolicies  values, by policies   ──╯
//! ```
//!
//! The gate acts on the decision.

use std::sync::Arc;

use http::StatusCode;
use tollgate::{QuotaStates, StoreError};
#[cfg(feature = "policy")]
use tollgate_policy::PolicyDecision;

use crate::Head;
use crate::boxed::BoxFuture;
use crate::by_key::ByKey;
use crate::held_receipt::HeldReceipt;
use crate::key::{Fault, Invalid, Missing, NO_PEER};
use crate::reserving::Reserving;
use crate::warning::{Warning, Warnings};
use tollgate_wire::body::{DenialBody, DenialProblem};
use tollgate_wire::headers::LimitHeaders;

/// The engine of a rule.
///
/// Both decide alike. A limiter with a key is not a trait object, so that it passes on the states without a copy, which
/// would be a tenth of the cost that limits add to a request.
pub(crate) enum Engine {
    ByKey(ByKey),
    #[cfg(feature = "policy")]
    ByPolicies(Arc<dyn PolicyEngine>),
}

/// Policies over any store.
#[cfg(feature = "policy")]
pub(crate) trait PolicyEngine: Send + Sync {
    /// Decides on a request of this cost, unless it has to wait.
    fn decide(&self, head: Head<'_>, cost: u32, takes: &Takes) -> Result<Decided, Later>;

    /// Returns whether requests are counted by the address of their connection.
    fn counts_peers(&self) -> bool;

    /// Returns the source of the policies, for the log.
    fn source(&self) -> Box<str>;
}

/// The rest of a decision that has to wait for a value or the store. Nothing was charged yet.
pub(crate) type Later = Box<dyn for<'h> FnOnce(Head<'h>) -> BoxFuture<'h, Decided> + Send>;

/// How the units of a request are handled.
#[derive(Clone)]
pub(crate) enum Takes {
    ForGood,
    /// Some of them may be given back.
    ToGiveBack,
    /// The same, and they are given back if the client disconnects during the call.
    Reserved(Arc<Warnings>),
}

/// The outcome for a request.
pub(crate) enum Decided {
    /// It goes on.
    Allowed(Allowed),
    /// It is denied with this status.
    Denied(StatusCode, DeniedBy),
    /// Its key is missing; this would provide it.
    Missing(String),
    /// No request can have the key, because a part of the service is missing.
    Setup(Warning),
    /// A value in the request is invalid.
    Invalid(Invalid),
    /// It lacks another value that policies need.
    #[cfg(feature = "policy")]
    Lacking(String),
    /// The store could not decide.
    Failed(StoreError),
}

/// A request that continues to the service.
#[derive(Default)]
pub(crate) struct Allowed {
    /// The states of the quotas, if any applied.
    pub(crate) counted: Option<QuotaStates>,
    /// The writer of its headers, if it differs between decisions of the rule.
    pub(crate) told_by: Option<Arc<LimitHeaders>>,
    /// Boxed, so that requests counted by key move less memory.
    #[cfg(feature = "policy")]
    pub(crate) decision: Option<Box<PolicyDecision>>,
    /// The charged units, if they may be given back.
    pub(crate) taken: Option<Box<HeldReceipt>>,
}

/// The denial of a request, with its headers.
pub(crate) enum DeniedBy {
    Quotas(QuotaStates, Arc<LimitHeaders>),
    #[cfg(feature = "policy")]
    Policies(Box<PolicyDecision>, Arc<LimitHeaders>),
}

impl Engine {
    /// Returns whether requests are counted by the address of their connection.
    pub(crate) fn counts_peers(&self) -> bool {
        match self {
            Self::ByKey(by_key) => by_key.counts_peers(),
            #[cfg(feature = "policy")]
            Self::ByPolicies(policies) => policies.counts_peers(),
        }
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ByKey(one), Self::ByKey(other)) => one.is_same_as(other),
            #[cfg(feature = "policy")]
            (Self::ByPolicies(one), Self::ByPolicies(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "policy")]
            _ => false,
        }
    }

    /// Returns the name of the limiter's policy, or the source of the policies, which identifies the rule in the log.
    pub(crate) fn name(&self) -> Box<str> {
        match self {
            Self::ByKey(by_key) => by_key.policy().into(),
            #[cfg(feature = "policy")]
            Self::ByPolicies(policies) => policies.source(),
        }
    }
}

impl Takes {
    /// Returns whether some of the charged units may be given back.
    pub(crate) fn may_give_back(&self) -> bool {
        !matches!(self, Self::ForGood)
    }

    /// Executes a step of the store. `taken` returns the charged units.
    pub(crate) async fn take<A: 'static>(
        &self,
        step: impl Future<Output = A> + Send + 'static,
        taken: fn(A) -> Option<Box<HeldReceipt>>,
    ) -> A {
        match self {
            Self::Reserved(warnings) => Reserving::new(warnings, step, taken).await,
            Self::ForGood | Self::ToGiveBack => step.await,
        }
    }
}

impl DeniedBy {
    /// Returns the states of the quotas that denied, and their headers.
    pub(crate) fn quotas(&self) -> Option<(&QuotaStates, &LimitHeaders)> {
        match self {
            Self::Quotas(counted, told_by) => Some((counted, told_by)),
            #[cfg(feature = "policy")]
            Self::Policies(decision, told_by) => Some((decision.counted()?, told_by)),
        }
    }

    pub(crate) fn problem(&self) -> DenialProblem<'_> {
        match self {
            Self::Quotas(counted, told_by) => DenialProblem::of_quotas(counted, told_by),
            #[cfg(feature = "policy")]
            Self::Policies(decision, told_by) => DenialProblem::of_policies(decision, told_by),
        }
    }

    /// Returns its JSON body, with this HTTP status.
    pub(crate) fn body(&self, status: u16) -> DenialBody<'_> {
        match self {
            Self::Quotas(counted, told_by) => DenialBody::of_quotas(status, counted, told_by),
            #[cfg(feature = "policy")]
            Self::Policies(decision, told_by) => DenialBody::of_policies(status, decision, told_by),
        }
    }
}

impl Decided {
    /// The counts behind the decision, unless the store was full.
    pub(crate) fn counted(&self) -> Option<&QuotaStates> {
        match self {
            #[cfg(feature = "policy")]
            Self::Allowed(Allowed { decision: Some(decision), .. }) if decision.is_without_room() => None,
            Self::Allowed(allowed) => allowed.counted.as_ref(),
            Self::Denied(_, by) => Some(by.quotas()?.0),
            _ => None,
        }
    }

    /// Returns the units of the request that may be given back.
    pub(crate) fn into_taken(self) -> Option<Box<HeldReceipt>> {
        match self {
            Self::Allowed(allowed) => allowed.taken,
            _ => None,
        }
    }

    /// Returns the outcome of a request without a key.
    #[cold]
    pub(crate) fn missing(missing: &Missing<'_>) -> Self {
        match missing.fault() {
            Fault::Caller => Self::Missing(missing.to_string()),
            Fault::Setup if missing.what().any(|what| what == NO_PEER) => Self::Setup(Warning::NoPeerAddress),
            Fault::Setup => Self::Setup(Warning::NoIdentityBySetup),
        }
    }
}
