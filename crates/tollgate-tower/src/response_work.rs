//! Work around the inner service for an admitted request: before the call, and with its response.

use std::sync::Arc;
use std::task::Poll;

use http::response::Parts;
use http::{Extensions, Response};
use tollgate::QuotaStates;
use tollgate_wire::headers::LimitHeaders;

use crate::gate::{DenialMark, Gate, HandlerData};
use crate::key::BoxFuture;
use crate::outcome::{AdmittedRequest, UnitHandling};
use crate::reservation::HeldReceipt;
use crate::reservation::Reservation;

/// The work for the response.
pub(crate) enum ResponseWork {
    Nothing,
    /// Tell the client its limits, and give units back if the rule requires it.
    Respond {
        gate: Arc<Gate>,
        counted: QuotaStates,
        /// The writer of the headers, if it differs between decisions of the rule.
        own_headers: Option<Arc<LimitHeaders>>,
        refundable: Option<Box<HeldReceipt>>,
    },
    /// The work of two gates, as of two layers: the outer one first.
    Both(Box<(ResponseWork, ResponseWork)>),
}

impl ResponseWork {
    /// Leaves the decision for the service.
    #[inline(never)]
    pub(crate) fn admitting(gate: &Arc<Gate>, allowed: AdmittedRequest, extensions: &mut Extensions) -> Self {
        #[cfg(feature = "policy")]
        if let Some(decision) =
            allowed.decision.filter(|_| gate.settings.handler_data == HandlerData::Decisions)
        {
            extensions.insert(*decision);
        }
        match allowed.counted {
            Some(counted) => Self::counted(gate, counted, allowed.own_headers, allowed.taken, extensions),
            None => Self::Nothing,
        }
    }

    /// The same, for a request that quotas decided.
    #[inline(always)]
    pub(crate) fn counted(
        gate: &Arc<Gate>,
        counted: QuotaStates,
        own_headers: Option<Arc<LimitHeaders>>,
        taken: Option<Box<HeldReceipt>>,
        extensions: &mut Extensions,
    ) -> Self {
        if gate.settings.handler_data == HandlerData::Decisions {
            extensions.insert(counted.clone());
        }
        let refundable = match (&gate.handling, taken) {
            // The handler gives back what is reserved.
            (UnitHandling::Reserved(warnings), Some(taken)) => {
                let outer = extensions.remove();
                extensions.insert(Reservation::new(warnings, taken, outer));
                None
            }
            (_, taken) => taken,
        };
        let has_headers = writer(gate, &own_headers).is_some_and(has_headers);
        if !has_headers && refundable.is_none() {
            return Self::Nothing;
        }
        Self::Respond { gate: Arc::clone(gate), counted, own_headers, refundable }
    }

    /// Tells the client its limits, with the response.
    #[inline]
    pub(crate) fn with_headers<R, E>(
        &mut self,
        mut polled: Poll<Result<Response<R>, E>>,
    ) -> Poll<Result<Response<R>, E>> {
        if let Poll::Ready(Ok(response)) = &mut polled {
            self.write_headers(response);
        }
        polled
    }

    #[inline]
    fn write_headers<R>(&mut self, response: &mut Response<R>) {
        if let Self::Both(both) = self {
            both.1.write_headers(response);
            return both.0.write_headers(response);
        }
        let Self::Respond { gate, counted, own_headers, .. } = self else { return };
        let Some(limit_headers) = writer(gate, own_headers) else { return };
        // An inner layer's denial already says when to retry; this layer must not contradict it.
        if has_headers(limit_headers) && response.extensions().get::<DenialMark>().is_none() {
            limit_headers.write(counted, response.headers_mut());
            gate.expose(limit_headers.formats(), response.headers_mut());
        }
    }

    /// Returns whether something may be given back for the response.
    #[inline]
    pub(crate) fn may_give_back(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Respond { refundable, .. } => refundable.is_some(),
            Self::Both(both) => both.0.may_give_back() || both.1.may_give_back(),
        }
    }

    /// Gives units back, if the rule requires it for this response.
    pub(crate) fn refund(&mut self, response: &Parts) -> Option<BoxFuture<'static, ()>> {
        match self {
            Self::Nothing => None,
            Self::Respond { gate, refundable, .. } => {
                let taken = refundable.take()?;
                gate.refund_if.as_deref().filter(|refund_if| refund_if(response))?;
                // The response does not depend on the store: units that are not given back count until their window
                // ends.
                Some(Box::pin(async move { drop(taken.cancel().await) }))
            }
            Self::Both(both) => {
                let refunds = [both.1.refund(response), both.0.refund(response)];
                Some(Box::pin(async move {
                    for refund in refunds.into_iter().flatten() {
                        refund.await;
                    }
                }))
            }
        }
    }
}

/// The writer of the headers: the decision's, or else the rule's.
fn writer<'a>(gate: &'a Gate, own_headers: &'a Option<Arc<LimitHeaders>>) -> Option<&'a LimitHeaders> {
    own_headers.as_deref().or(gate.limit_headers.as_deref())
}

/// Returns whether responses have limit headers.
fn has_headers(limit_headers: &LimitHeaders) -> bool {
    !limit_headers.formats().is_none()
}
