//! Denials in JSON.

use serde::Serialize;
use tollgate::QuotaStates;
#[cfg(feature = "policy")]
use tollgate_policy::PolicyDecision;

use super::{DecisionBody, DenialProblem};
use crate::headers::LimitHeaders;

/// A denial: a problem (RFC 9457) with every field of the decision.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DenialBody<'a> {
    #[serde(flatten)]
    problem: DenialProblem<'a>,
    status: u16,
    #[serde(flatten)]
    decision: DecisionBody<'a>,
}

impl<'a> DenialBody<'a> {
    /// Creates the denial of quotas that were charged together, with this HTTP status.
    #[must_use]
    pub fn of_quotas(status: u16, counted: &'a QuotaStates, limit_headers: &'a LimitHeaders) -> Self {
        Self {
            problem: DenialProblem::of_quotas(counted, limit_headers),
            status,
            decision: DecisionBody::of_quotas(limit_headers.quotas(), counted),
        }
    }

    /// Returns a denial by policies, with this HTTP status.
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn of_policies(status: u16, decision: &'a PolicyDecision, limit_headers: &'a LimitHeaders) -> Self {
        Self {
            problem: DenialProblem::of_policies(decision, limit_headers),
            status,
            decision: DecisionBody::of_policies(decision),
        }
    }
}
