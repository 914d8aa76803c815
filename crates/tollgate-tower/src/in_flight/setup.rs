//! What a layer is made of, and its decision on a request.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use tollgate::{
    Answer, Clock, HoldLimiter, InFlightLimiter, InFlightState, Key, PolicyInFlight, PolicyQuota,
    QuotaStates, Reason, StoreError,
};
use tollgate_wire::headers::{HeaderFormats, LimitHeaders};

use crate::gate::DenialMark;
use crate::head::Head;
use crate::key::{ExtractedIdentity, Identity, KeyExtractor};
use crate::outage_log::OutageLog;
use crate::outcome::{DenialCause, RequestOutcome};
use crate::reply;
use crate::request_hold::RequestHold;
use crate::rule::{Cost, OnInvalid, OnMissing, OnStoreError};
use crate::warning::{SetupWarning, Warnings};

/// What a layer is made of.
pub(super) struct Setup<C> {
    pub(super) limiter: LayerLimiter<C>,
    pub(super) limit_headers: Arc<LimitHeaders>,
    pub(super) extractor: Arc<dyn KeyExtractor>,
    /// The estimate that quotas are charged.
    pub(super) cost: Cost,
    pub(super) on_missing: OnMissing,
    pub(super) on_invalid: OnInvalid,
    pub(super) on_store_error: OnStoreError,
    pub(super) outages: Arc<OutageLog>,
    pub(super) warnings: Arc<Warnings>,
}

/// What counts.
pub(super) enum LayerLimiter<C> {
    /// In this process, which answers immediately.
    InProcess(InFlightLimiter<C>),
    Shared(HoldLimiter),
}

/// A request that goes on.
#[derive(Default)]
pub(super) struct InFlightRequest {
    /// `None` if it is not limited.
    pub(super) hold: Option<RequestHold>,
    /// What clients are told about quotas, if there are any.
    pub(super) told: Option<(Arc<LimitHeaders>, QuotaStates)>,
}

/// The ruling on a request that goes on, or the reply to another.
pub(super) type HoldRuling = Result<InFlightRequest, Box<Response<Bytes>>>;

/// A key, or the ruling on a request without one.
type KeyRuling<'k> = Result<&'k Key<'k>, HoldRuling>;

impl<C> Setup<C> {
    pub(super) fn new(limiter: LayerLimiter<C>, extractor: Arc<dyn KeyExtractor>) -> Self {
        Self {
            limit_headers: Arc::new(LimitHeaders::new(HeaderFormats::default(), limiter.quotas())),
            outages: Arc::new(OutageLog::new(limiter.policy())),
            limiter,
            extractor,
            cost: Cost::Fixed(1),
            on_missing: OnMissing::BadRequest,
            on_invalid: OnInvalid::AsFound,
            on_store_error: OnStoreError::Refuse,
            warnings: Arc::new(Warnings::default()),
        }
    }

    pub(super) fn copy(&self) -> Self {
        Self {
            limiter: self.limiter.clone(),
            limit_headers: Arc::clone(&self.limit_headers),
            extractor: Arc::clone(&self.extractor),
            cost: self.cost.clone(),
            on_missing: self.on_missing.clone(),
            on_invalid: self.on_invalid.clone(),
            on_store_error: self.on_store_error,
            outages: Arc::clone(&self.outages),
            warnings: Arc::clone(&self.warnings),
        }
    }
}

impl<C: Clock + 'static> Setup<C> {
    /// Decides on a request, if neither its key nor a store has to be waited for.
    pub(super) fn decide_at_once(&self, head: Head<'_>) -> Option<HoldRuling> {
        let LayerLimiter::InProcess(limiter) = &self.limiter else { return None };
        match self.extractor.extract(head) {
            Answer::Now(identity) => Some(self.decide_here(limiter, head, &identity)),
            Answer::Later(_) => None,
        }
    }

    pub(super) async fn decide(&self, head: Head<'_>) -> HoldRuling {
        let identity = self.extractor.extract(head).await;
        match &self.limiter {
            LayerLimiter::InProcess(limiter) => self.decide_here(limiter, head, &identity),
            LayerLimiter::Shared(limiter) => self.decide_there(limiter, head, &identity).await,
        }
    }

    fn decide_here(
        &self,
        limiter: &InFlightLimiter<C>,
        head: Head<'_>,
        identity: &ExtractedIdentity<'_>,
    ) -> HoldRuling {
        let key = match self.known(head, identity) {
            Ok(key) => key.clone(),
            Err(ruling) => return ruling,
        };
        let decision = match limiter.hold_cost(key, self.cost.of(head)) {
            Ok(decision) => decision,
            Err(full) => return self.failed(head, &full.into()),
        };
        let (state, counted) =
            (decision.in_flight(), decision.quotas().map(|quotas| quotas.quotas().clone()));
        match decision.into_hold() {
            Some(hold) => Ok(self.admitted(RequestHold::new(hold, outer(head)), counted)),
            None => Err(self.denied(head.headers(), Some(state), counted)),
        }
    }

    async fn decide_there(
        &self,
        limiter: &HoldLimiter,
        head: Head<'_>,
        identity: &ExtractedIdentity<'_>,
    ) -> HoldRuling {
        let key = match self.known(head, identity) {
            Ok(key) => key.clone(),
            Err(ruling) => return ruling,
        };
        let decision = match limiter.hold_cost(key, self.cost.of(head)).await {
            Ok(decision) => decision,
            Err(error) => return self.failed(head, &error),
        };
        let (state, counted) =
            (decision.in_flight(), decision.quotas().map(|quotas| quotas.quotas().clone()));
        self.outages.answered(decision.place());
        match decision.into_hold() {
            Some(hold) => Ok(self.admitted(RequestHold::new(hold, outer(head)), counted)),
            None => Err(self.denied(head.headers(), state, counted)),
        }
    }

    fn known<'k>(&self, head: Head<'_>, identity: &'k ExtractedIdentity<'k>) -> KeyRuling<'k> {
        let headers = head.headers();
        match identity {
            Ok(Identity::Known(key)) => Ok(key),
            Ok(Identity::Missing(missing)) => match RequestOutcome::missing(missing) {
                RequestOutcome::Setup(warning) => {
                    self.warnings.give(warning);
                    Err(Err(Box::new(reply::setup(headers, warning))))
                }
                _ if self.on_missing == OnMissing::Skip => Err(Ok(InFlightRequest::default())),
                _ => Err(Err(Box::new(reply::missing(headers, &missing.to_string(), &self.on_missing)))),
            },
            Err(invalid) => Err(Err(Box::new(reply::invalid(headers, invalid, &self.on_invalid)))),
        }
    }

    fn admitted(&self, hold: RequestHold, counted: Option<QuotaStates>) -> InFlightRequest {
        let is_told = !self.limit_headers.formats().is_none();
        let told = counted.filter(|_| is_told).map(|counted| (Arc::clone(&self.limit_headers), counted));
        InFlightRequest { hold: Some(hold), told }
    }

    /// Returns the denial. What the quotas say comes first, unless the units can never be in flight.
    #[cold]
    fn denied(
        &self,
        headers: &HeaderMap,
        in_flight: Option<InFlightState>,
        counted: Option<QuotaStates>,
    ) -> Box<Response<Bytes>> {
        let never = in_flight.filter(|state| state.reason() == Some(Reason::CostExceedsLimit));
        let denying = counted.as_ref().filter(|counted| !counted.is_admitted() && never.is_none());
        let mut denied = match (denying, in_flight) {
            (None, Some(state)) => reply::in_flight(headers, self.limiter.policy(), state),
            (Some(counted), _) => {
                let cause = DenialCause::Quotas(counted.clone(), Arc::clone(&self.limit_headers));
                reply::denied(headers, StatusCode::TOO_MANY_REQUESTS, &cause)
            }
            // Something denied it.
            (None, None) => reply::store_error(headers, &tollgate::AnswerError::Nonsense.into()),
        };
        if let Some(counted) = &counted {
            self.limit_headers.write(counted, denied.headers_mut());
        }
        denied.extensions_mut().insert(DenialMark);
        Box::new(denied)
    }

    #[cold]
    fn failed(&self, head: Head<'_>, error: &StoreError) -> HoldRuling {
        self.outages.note_error(error);
        match error {
            StoreError::Trouble { .. } if self.on_store_error == OnStoreError::Admit => {
                let hold = RequestHold::uncounted(head.extensions().get());
                return Ok(InFlightRequest { hold: Some(hold), told: None });
            }
            StoreError::Uncountable(_) => self.warnings.give(SetupWarning::Uncountable),
            StoreError::Trouble { .. } | StoreError::Full | StoreError::Ended { .. } => {}
        }
        Err(Box::new(reply::store_error(head.headers(), error)))
    }
}

/// Returns the hold of an outer layer, whose place in the extensions the new one takes.
fn outer(head: Head<'_>) -> Option<RequestHold> {
    head.extensions().get::<RequestHold>().cloned()
}

impl<C> LayerLimiter<C> {
    pub(super) fn quotas(&self) -> &[PolicyQuota] {
        match self {
            Self::InProcess(limiter) => limiter.limiter().quotas(),
            Self::Shared(limiter) => limiter.quotas(),
        }
    }

    /// Returns the policy's name.
    fn policy(&self) -> &str {
        let in_flight = match self {
            Self::InProcess(limiter) => Some(limiter.in_flight()),
            Self::Shared(limiter) => limiter.in_flight(),
        };
        let quota = || self.quotas().first().map_or("", PolicyQuota::policy);
        in_flight.map_or_else(quota, PolicyInFlight::policy)
    }
}

impl<C> Clone for LayerLimiter<C> {
    fn clone(&self) -> Self {
        match self {
            Self::InProcess(limiter) => Self::InProcess(limiter.clone()),
            Self::Shared(limiter) => Self::Shared(limiter.clone()),
        }
    }
}

impl<C> fmt::Debug for LayerLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InProcess(limiter) => limiter.fmt(f),
            Self::Shared(limiter) => limiter.fmt(f),
        }
    }
}
