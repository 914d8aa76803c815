//! The gate: a rule with all its settings, and its answers to what its engine decides.

use std::fmt;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
#[cfg(feature = "policy")]
use tollgate::HoldKeeper;
use tollgate::{QuotaState, StoreError, whole_seconds};
use tollgate_wire::headers::{HeaderFormats, LimitHeaders, exposed};

use crate::denial::Denial;
use crate::engine::Engine;
use crate::head::Head;
use crate::outage_log::OutageLog;
use crate::outcome::{AdmittedRequest, DenialCause, RequestOutcome, UnitHandling};
use crate::reply;
use crate::rule::{Cost, OnInvalid, OnMissing, OnStoreError, RefundTest, SkipTest};
use crate::warning::{SetupWarning, Warnings};

/// The settings of all rules of a layer.
pub(crate) struct Settings {
    pub(crate) handler_data: HandlerData,
    pub(crate) exposed_headers: ExposedHeaders,
    /// The maximum number of seconds that are added to `Retry-After`.
    pub(crate) retry_jitter: u64,
    pub(crate) on_denied: Option<Box<DenialHook>>,
    pub(crate) on_trouble: Option<Box<TroubleHook>>,
    pub(crate) warnings: Arc<Warnings>,
}

/// The data in a request's extensions for the inner service, in addition to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandlerData {
    Decisions,
    Nothing,
}

/// The headers that scripts of other origins may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExposedHeaders {
    Nothing,
    LimitHeaders,
}

pub(crate) type DenialHook = dyn Fn(&Denial<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync;
pub(crate) type TroubleHook = dyn Fn(&StoreError, Response<Bytes>) -> Response<Bytes> + Send + Sync;

/// Marks a denial in its extensions: outer layers do not change it.
#[derive(Clone, Copy)]
pub(crate) struct DenialMark;

/// A complete rule.
pub(crate) struct Gate {
    pub(crate) engine: Engine,
    /// The writer of the headers, if it is the same for all decisions.
    pub(crate) limit_headers: Option<Arc<LimitHeaders>>,
    pub(crate) cost: Cost,
    pub(crate) handling: UnitHandling,
    /// Renews what requests hold by policies.
    #[cfg(feature = "policy")]
    pub(crate) keeper: Option<HoldKeeper>,
    pub(crate) skip: Option<Arc<SkipTest>>,
    pub(crate) refund_if: Option<Arc<RefundTest>>,
    pub(crate) on_missing: OnMissing,
    pub(crate) on_invalid: OnInvalid,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) when_full: OnStoreError,
    pub(crate) outages: OutageLog,
    pub(crate) settings: Arc<Settings>,
}

impl Gate {
    /// Returns whether both charge every request in the same way, as copies of one rule do.
    pub(crate) fn charges_like(&self, other: &Self) -> bool {
        let is_same_cost = match (&self.cost, &other.cost) {
            (Cost::Fixed(one), Cost::Fixed(other)) => one == other,
            (Cost::Of(one), Cost::Of(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        self.engine.is_same_as(&other.engine)
            && is_same_cost
            && is_same(&self.skip, &other.skip)
            && is_same(&self.refund_if, &other.refund_if)
            && discriminant(&self.handling) == discriminant(&other.handling)
            && self.on_missing == other.on_missing
            && (self.on_store_error, self.when_full) == (other.on_store_error, other.when_full)
    }

    pub(crate) fn cost(&self, head: Head<'_>) -> u32 {
        self.cost.of(head)
    }

    /// The result for a request: `Err` is the reply to one that is not admitted. Boxed, so that admitted requests move
    /// less memory; a reply allocates anyway.
    #[inline(never)]
    pub(crate) fn ruled(
        &self,
        head: Head<'_>,
        decided: RequestOutcome,
    ) -> Result<AdmittedRequest, Box<Response<Bytes>>> {
        let headers = head.headers();
        self.outages.note(&decided);
        let reply = match decided {
            RequestOutcome::Allowed(allowed) => return Ok(allowed),
            RequestOutcome::Missing(_) if self.on_missing == OnMissing::Skip => {
                return Ok(AdmittedRequest::default());
            }
            RequestOutcome::Failed(error) if self.trouble(&error) == OnStoreError::Admit => {
                return Ok(AdmittedRequest {
                    #[cfg(feature = "policy")]
                    is_undecided: true,
                    ..AdmittedRequest::default()
                });
            }
            RequestOutcome::Denied(status, by) => self.denied(head, status, &by),
            RequestOutcome::Missing(what) => reply::missing(headers, &what, &self.on_missing),
            RequestOutcome::Setup(warning) => {
                self.settings.warnings.give(warning);
                reply::setup(headers, warning)
            }
            RequestOutcome::Invalid(invalid) => reply::invalid(headers, &invalid, &self.on_invalid),
            #[cfg(feature = "policy")]
            RequestOutcome::Lacking(what) => reply::refused(headers, StatusCode::BAD_REQUEST, &what, None),
            RequestOutcome::Failed(error) => {
                let reply = reply::store_error(headers, &error);
                match &self.settings.on_trouble {
                    Some(on_trouble) if !reply::is_grpc(headers) => on_trouble(&error, reply),
                    _ => reply,
                }
            }
        };
        Err(Box::new(reply))
    }

    /// Returns the denial, with the additions of the layer.
    fn denied(&self, head: Head<'_>, status: StatusCode, by: &DenialCause) -> Response<Bytes> {
        let mut denied = reply::denied(head.headers(), status, by);
        let denial = Denial::new(by, head);
        if let Some(own_headers) = by.write_headers(denied.headers_mut()) {
            self.expose(own_headers.formats(), denied.headers_mut());
        }
        let wait = denial.state().and_then(QuotaState::retry_after);
        if let Some(wait) = wait.filter(|_| self.settings.retry_jitter > 0) {
            let jitter = fastrand::u64(0..=self.settings.retry_jitter);
            denied.headers_mut().insert(RETRY_AFTER, whole_seconds(wait).saturating_add(jitter).into());
        }
        let mut denied = match &self.settings.on_denied {
            Some(on_denied) if !reply::is_grpc(head.headers()) => on_denied(&denial, denied),
            _ => denied,
        };
        denied.extensions_mut().insert(DenialMark);
        denied
    }

    fn trouble(&self, error: &StoreError) -> OnStoreError {
        match error {
            StoreError::Trouble { .. } => self.on_store_error,
            StoreError::Full => self.when_full,
            // This is not trouble: policies for outages do not cover quotas that do not fit the store.
            StoreError::Uncountable(_) => {
                self.settings.warnings.give(SetupWarning::Uncountable);
                OnStoreError::Refuse
            }
            // Other limits apply now, and nobody has asked for them.
            StoreError::Ended { .. } => OnStoreError::Refuse,
        }
    }

    /// Lets scripts from other origins read the limit headers.
    pub(crate) fn expose(&self, formats: HeaderFormats, headers: &mut HeaderMap) {
        if self.settings.exposed_headers == ExposedHeaders::LimitHeaders {
            // In addition to the service's own line: browsers join the lines.
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposed(formats));
        }
    }
}

fn is_same<T: ?Sized>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// Seconds, rounded up, or none at all.
pub(crate) fn jitter_seconds(jitter: Duration) -> u64 {
    if jitter.is_zero() { 0 } else { whole_seconds(jitter) }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("limit_headers", &self.limit_headers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}
