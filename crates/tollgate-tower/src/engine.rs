//! The engine that decides on requests: one limiter and a key, or policies.
//!
//! ```text
//! Head ──▶ KeyEngine     a key, by a limiter   ──▶ RequestOutcome
//!     ╰──▶ PolicyEngine  values, by policies   ──╯
//! ```
//!
//! The gate acts on the decision.

#[cfg(feature = "policy")]
use std::sync::Arc;

#[cfg(feature = "policy")]
use tollgate::HoldKeeper;

#[cfg(feature = "policy")]
use crate::head::Head;
use crate::key_engine::KeyEngine;
#[cfg(feature = "policy")]
use crate::outcome::{PendingDecision, RequestOutcome, UnitHandling};

/// The engine of a rule.
///
/// Both decide alike. A limiter with a key is not a trait object, so that it passes on the states without a copy, which
/// would be a tenth of the cost that limits add to a request.
pub(crate) enum Engine {
    ByKey(KeyEngine),
    #[cfg(feature = "policy")]
    ByPolicies(Arc<dyn AnyPolicyEngine>),
}

/// Policies over any store.
#[cfg(feature = "policy")]
pub(crate) trait AnyPolicyEngine: Send + Sync {
    /// Decides on a request of this cost, unless it has to wait. The keeper renews what it holds.
    fn decide(
        &self,
        head: Head<'_>,
        cost: u32,
        handling: &UnitHandling,
        keeper: Option<&HoldKeeper>,
    ) -> Result<RequestOutcome, PendingDecision>;

    /// Returns whether requests are counted by the address of their connection.
    fn counts_peers(&self) -> bool;

    /// Returns the source of the policies, for the log.
    fn source(&self) -> Box<str>;
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
