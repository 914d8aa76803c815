//! What a layer is made of, and its decision on a request.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tollgate::{Clock, InFlightLimiter, StoreError};

use crate::head::Head;
use crate::key::{ExtractedIdentity, Identity, KeyExtractor};
use crate::outcome::RequestOutcome;
use crate::reply;
use crate::rule::{OnInvalid, OnMissing};
use crate::warning::Warnings;

/// The unit that a request holds, in its extensions: it is in flight until the response's body has ended and the last
/// clone of this is dropped.
#[derive(Clone)]
pub struct RequestHold(#[expect(dead_code, reason = "it is only dropped")] Arc<dyn Send + Sync>);

/// What a layer is made of.
pub(super) struct Setup<C> {
    pub(super) limiter: InFlightLimiter<C>,
    pub(super) extractor: Arc<dyn KeyExtractor>,
    pub(super) on_missing: OnMissing,
    pub(super) on_invalid: OnInvalid,
    pub(super) warnings: Arc<Warnings>,
}

/// The hold of an admitted request, if it has a key, or the reply to another.
pub(super) type HoldRuling = Result<Option<RequestHold>, Box<Response<Bytes>>>;

impl<C: Clock> Setup<C> {
    pub(super) fn copy(&self) -> Self {
        Self {
            limiter: self.limiter.clone(),
            extractor: Arc::clone(&self.extractor),
            on_missing: self.on_missing.clone(),
            on_invalid: self.on_invalid.clone(),
            warnings: Arc::clone(&self.warnings),
        }
    }
}

impl<C: Clock + 'static> Setup<C> {
    pub(super) fn decide(&self, head: Head<'_>, identity: &ExtractedIdentity<'_>) -> HoldRuling {
        let headers = head.headers();
        let key = match identity {
            Ok(Identity::Known(key)) => key,
            Ok(Identity::Missing(missing)) => {
                return match RequestOutcome::missing(missing) {
                    RequestOutcome::Setup(warning) => {
                        self.warnings.give(warning);
                        Err(Box::new(reply::setup(headers, warning.code())))
                    }
                    _ if self.on_missing == OnMissing::Skip => Ok(None),
                    _ => Err(Box::new(reply::missing(headers, &missing.to_string(), &self.on_missing))),
                };
            }
            Err(invalid) => return Err(Box::new(reply::invalid(headers, invalid, &self.on_invalid))),
        };
        let decision = match self.limiter.hold(key.clone()) {
            Ok(decision) => decision,
            Err(full) => return Err(Box::new(reply::store_error(headers, &StoreError::from(full)))),
        };
        let state = decision.in_flight();
        match decision.into_hold() {
            Some(hold) => Ok(Some(RequestHold::new(hold, head))),
            None => Err(Box::new(reply::in_flight(headers, self.limiter.in_flight().policy(), state))),
        }
    }
}

impl RequestHold {
    /// It keeps the hold of an outer layer, whose place in the extensions it takes.
    fn new(hold: impl Send + Sync + 'static, head: Head<'_>) -> Self {
        Self(Arc::new((hold, head.extensions().get::<Self>().cloned())))
    }
}

impl fmt::Debug for RequestHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHold").finish_non_exhaustive()
    }
}
