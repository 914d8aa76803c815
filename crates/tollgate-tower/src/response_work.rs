//! Work around the inner service for an admitted request: before the call, and with its response.

use std::sync::Arc;
use std::task::Poll;

use http::response::Parts;
use http::{Extensions, Response};
#[cfg(feature = "policy")]
use tollgate::KeptHold;
use tollgate::QuotaStates;
#[cfg(feature = "policy")]
use tollgate_policy::PolicyDecision;
use tollgate_wire::headers::LimitHeaders;

use crate::gate::{DenialMark, Gate, HandlerData};
use crate::key::BoxFuture;
use crate::outcome::{AdmittedRequest, UnitHandling};
use crate::reply::ReplyBody;
#[cfg(feature = "policy")]
use crate::request_hold::RequestHold;
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
    /// Tell the client its limits, and keep the request in flight until the body of the response has ended.
    #[cfg(feature = "policy")]
    Hold(Box<HoldWork>),
    /// The work of two gates, as of two layers: the outer one first.
    Both(Box<(ResponseWork, ResponseWork)>),
}

/// The work for a request that holds something by policies.
#[cfg(feature = "policy")]
pub(crate) struct HoldWork {
    gate: Arc<Gate>,
    decision: PolicyDecision,
    limit_headers: Option<Arc<LimitHeaders>>,
    /// `None` once the response has it, unless it may still be refunded.
    hold: Option<RequestHold>,
}

impl ResponseWork {
    /// Leaves the decision for the service.
    #[inline(never)]
    pub(crate) fn admitting(gate: &Arc<Gate>, allowed: AdmittedRequest, extensions: &mut Extensions) -> Self {
        #[cfg(feature = "policy")]
        if let AdmittedRequest { decision: Some(decision), own_headers, hold: Some(hold), .. } = allowed {
            return Self::holding(gate, *decision, own_headers, *hold, extensions);
        }
        #[cfg(feature = "policy")]
        if allowed.is_undecided && gate.keeper.is_some() {
            // The handler may ask for it.
            extensions.insert(RequestHold::uncounted(extensions.get()));
        }
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

    /// The same, for a request that holds something.
    #[cfg(feature = "policy")]
    fn holding(
        gate: &Arc<Gate>,
        decision: PolicyDecision,
        limit_headers: Option<Arc<LimitHeaders>>,
        hold: KeptHold,
        extensions: &mut Extensions,
    ) -> Self {
        if gate.settings.handler_data == HandlerData::Decisions {
            extensions.insert(decision.clone());
            decision.counted().cloned().map(|counted| extensions.insert(counted));
        }
        let hold = RequestHold::new(hold, extensions.remove());
        extensions.insert(hold.clone());
        Self::Hold(Box::new(HoldWork { gate: Arc::clone(gate), decision, limit_headers, hold: Some(hold) }))
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
    pub(crate) fn with_headers<R: ReplyBody, E>(
        &mut self,
        mut polled: Poll<Result<Response<R>, E>>,
    ) -> Poll<Result<Response<R>, E>> {
        if let Poll::Ready(Ok(response)) = &mut polled {
            self.write_headers(response);
        }
        #[cfg(feature = "policy")]
        if matches!(self, Self::Hold(_) | Self::Both(_)) {
            return polled.map_ok(|response| self.keep_in_flight(response));
        }
        polled
    }

    /// Leaves what the request holds with the body of its response.
    #[cfg(feature = "policy")]
    fn keep_in_flight<R: ReplyBody>(&mut self, response: Response<R>) -> Response<R> {
        match self {
            Self::Hold(work) => {
                let is_refundable = work.gate.refund_if.is_some();
                let hold = if is_refundable { work.hold.clone() } else { work.hold.take() };
                match hold {
                    Some(hold) => R::keep_in_flight(response, hold),
                    None => response,
                }
            }
            Self::Both(both) => {
                let response = both.1.keep_in_flight(response);
                both.0.keep_in_flight(response)
            }
            Self::Nothing | Self::Respond { .. } => response,
        }
    }

    #[inline]
    fn write_headers<R>(&mut self, response: &mut Response<R>) {
        if let Self::Both(both) = self {
            both.1.write_headers(response);
            return both.0.write_headers(response);
        }
        #[cfg(feature = "policy")]
        if let Self::Hold(work) = self {
            return work.write_headers(response);
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
            #[cfg(feature = "policy")]
            Self::Hold(work) => work.gate.refund_if.is_some(),
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
            #[cfg(feature = "policy")]
            Self::Hold(work) => {
                let hold = work.hold.take()?;
                work.gate.refund_if.as_deref().filter(|refund_if| refund_if(response))?;
                // The body of the response has it as well, and ends it.
                hold.give_back();
                None
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

#[cfg(feature = "policy")]
impl HoldWork {
    fn write_headers<R>(&self, response: &mut Response<R>) {
        let Some(limit_headers) = self.limit_headers.as_deref().filter(|headers| has_headers(headers)) else {
            return;
        };
        if response.extensions().get::<DenialMark>().is_none() {
            limit_headers.write_decision(&self.decision, response.headers_mut());
            self.gate.expose(limit_headers.formats(), response.headers_mut());
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
