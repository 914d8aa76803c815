//! What an engine decides about a request.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
#[cfg(feature = "policy")]
use tollgate::KeptHold;
use tollgate::{QuotaState, QuotaStates, Source, StoreError};
#[cfg(feature = "policy")]
use tollgate_policy::PolicyDecision;
use tollgate_wire::body::{DenialBody, DenialProblem};
use tollgate_wire::headers::LimitHeaders;

use crate::head::Head;
use crate::key::{BoxFuture, Fault, InvalidIdentity, MissingIdentity, NO_PEER};
use crate::reservation::{HeldReceipt, ReservedStep};
use crate::warning::{SetupWarning, Warnings};

/// The rest of a decision that has to wait for a value or the store. Nothing was charged yet.
pub(crate) type PendingDecision = Box<dyn for<'h> FnOnce(Head<'h>) -> BoxFuture<'h, RequestOutcome> + Send>;

/// How the units of a request are handled.
#[derive(Clone)]
pub(crate) enum UnitHandling {
    ForGood,
    /// Some of them may be given back.
    ToGiveBack,
    /// The same, and they are given back if the client disconnects during the call.
    Reserved(Arc<Warnings>),
}

/// The outcome for a request.
pub(crate) enum RequestOutcome {
    /// It goes on.
    Allowed(AdmittedRequest),
    /// It is denied with this status.
    Denied(StatusCode, DenialCause),
    /// Its key is missing; this would provide it.
    Missing(String),
    /// No request can have the key, because a part of the service is missing.
    Setup(SetupWarning),
    /// A value in the request is invalid.
    Invalid(InvalidIdentity),
    /// It lacks another value that policies need.
    #[cfg(feature = "policy")]
    Lacking(String),
    /// The store could not decide.
    Failed(StoreError),
}

/// A request that continues to the service.
#[derive(Default)]
pub(crate) struct AdmittedRequest {
    /// The states of the quotas, if any applied.
    pub(crate) counted: Option<QuotaStates>,
    /// The writer of its headers, if it differs between decisions of the rule.
    pub(crate) own_headers: Option<Arc<LimitHeaders>>,
    /// Boxed, so that requests counted by key move less memory.
    #[cfg(feature = "policy")]
    pub(crate) decision: Option<Box<PolicyDecision>>,
    /// The charged units, if they may be given back.
    pub(crate) taken: Option<Box<HeldReceipt>>,
    /// What it holds while it is in flight.
    #[cfg(feature = "policy")]
    pub(crate) hold: Option<Box<KeptHold>>,
    /// Whether it is admitted although the store could not decide.
    #[cfg(feature = "policy")]
    pub(crate) is_undecided: bool,
}

/// The denial of a request, with its headers.
pub(crate) enum DenialCause {
    Quotas(QuotaStates, Arc<LimitHeaders>),
    #[cfg(feature = "policy")]
    Policies(Box<PolicyDecision>, Arc<LimitHeaders>),
}

impl UnitHandling {
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
            Self::Reserved(warnings) => ReservedStep::new(warnings, step, taken).await,
            Self::ForGood | Self::ToGiveBack => step.await,
        }
    }
}

impl DenialCause {
    /// Returns the states of the quotas that denied, and their headers; `None` if a limit in flight did.
    pub(crate) fn quotas(&self) -> Option<(&QuotaStates, &LimitHeaders)> {
        match self {
            Self::Quotas(counted, own_headers) => Some((counted, own_headers)),
            #[cfg(feature = "policy")]
            Self::Policies(decision, _) if decision.limit_in_flight().is_some() => None,
            #[cfg(feature = "policy")]
            Self::Policies(decision, own_headers) => Some((decision.counted()?, own_headers)),
        }
    }

    /// Writes the limit headers, and returns their writer, if any limit applied.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) -> Option<&LimitHeaders> {
        match self {
            Self::Quotas(counted, own_headers) => {
                own_headers.write(counted, headers);
                Some(own_headers)
            }
            #[cfg(feature = "policy")]
            Self::Policies(decision, own_headers) => {
                own_headers.write_decision(decision, headers);
                is_limited(decision).then_some(own_headers)
            }
        }
    }

    pub(crate) fn problem(&self) -> DenialProblem<'_> {
        match self {
            Self::Quotas(counted, own_headers) => DenialProblem::of_quotas(counted, own_headers),
            #[cfg(feature = "policy")]
            Self::Policies(decision, own_headers) => DenialProblem::of_policies(decision, own_headers),
        }
    }

    /// Returns its JSON body, with this HTTP status.
    pub(crate) fn body(&self, status: u16) -> DenialBody<'_> {
        match self {
            Self::Quotas(counted, own_headers) => DenialBody::of_quotas(status, counted, own_headers),
            #[cfg(feature = "policy")]
            Self::Policies(decision, own_headers) => DenialBody::of_policies(status, decision, own_headers),
        }
    }
}

impl RequestOutcome {
    /// The source of the counts behind the decision; `None` if there are none, or the store was full.
    pub(crate) fn source(&self) -> Option<Source> {
        let counted = match self {
            #[cfg(feature = "policy")]
            Self::Allowed(AdmittedRequest { decision: Some(decision), .. })
            | Self::Denied(_, DenialCause::Policies(decision, _)) => {
                let is_counted = is_limited(decision) && !decision.is_without_room();
                return is_counted.then(|| decision.source());
            }
            Self::Allowed(allowed) => allowed.counted.as_ref()?,
            Self::Denied(_, by) => by.quotas()?.0,
            _ => return None,
        };
        counted.first().map(QuotaState::source)
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
    pub(crate) fn missing(missing: &MissingIdentity<'_>) -> Self {
        match missing.fault() {
            Fault::Caller => Self::Missing(missing.to_string()),
            Fault::Setup if missing.what().any(|what| what == NO_PEER) => {
                Self::Setup(SetupWarning::NoPeerAddress)
            }
            Fault::Setup => Self::Setup(SetupWarning::NoIdentityBySetup),
        }
    }
}

/// Returns whether any limit applied.
#[cfg(feature = "policy")]
pub(crate) fn is_limited(decision: &PolicyDecision) -> bool {
    decision.counted().is_some() || decision.in_flight().next().is_some()
}
