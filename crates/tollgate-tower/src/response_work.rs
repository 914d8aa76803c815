//! Work around the inner service for an admitted request: before the call, and with its response.

use std::sync::Arc;
use std::task::Poll;

use http::response::Parts;
use http::{Extensions, Response};
use tollgate::QuotaStates;
use tollgate_wire::headers::LimitHeaders;

use crate::gate::{Denied, Gate, HandlerData};
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
        told_by: Option<Arc<LimitHeaders>>,
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
        if let Some(decision) = allowed.decision.filter(|_| gate.settings.leaves == HandlerData::Decisions) {
            extensions.insert(*decision);
        }
        match allowed.counted {
            Some(counted) => Self::counted(gate, counted, allowed.told_by, allowed.taken, extensions),
            None => Self::Nothing,
        }
    }

    /// The same, for a request that quotas decided.
    #[inline(always)]
    pub(crate) fn counted(
        gate: &Arc<Gate>,
        counted: QuotaStates,
        told_by: Option<Arc<LimitHeaders>>,
        taken: Option<Box<HeldReceipt>>,
        extensions: &mut Extensions,
    ) -> Self {
        if gate.settings.leaves == HandlerData::Decisions {
            extensions.insert(counted.clone());
        }
        let refundable = match (&gate.takes, taken) {
            // The handler gives back what is reserved.
            (UnitHandling::Reserved(warnings), Some(taken)) => {
                let outer = extensions.remove();
                extensions.insert(Reservation::new(warnings, taken, outer));
                None
            }
            (_, taken) => taken,
        };
        let tells = writer(gate, &told_by).is_some_and(tells);
        if !tells && refundable.is_none() {
            return Self::Nothing;
        }
        Self::Respond { gate: Arc::clone(gate), counted, told_by, refundable }
    }

    /// Tells the client its limits, with the response.
    #[inline]
    pub(crate) fn told<R, E>(
        &mut self,
        mut polled: Poll<Result<Response<R>, E>>,
    ) -> Poll<Result<Response<R>, E>> {
        if let Poll::Ready(Ok(response)) = &mut polled {
            self.tell(response);
        }
        polled
    }

    #[inline]
    fn tell<R>(&mut self, response: &mut Response<R>) {
        if let Self::Both(both) = self {
            both.1.tell(response);
            return both.0.tell(response);
        }
        let Self::Respond { gate, counted, told_by, .. } = self else { return };
        let Some(told_by) = writer(gate, told_by) else { return };
        // An inner layer's denial already says when to retry; this layer must not contradict it.
        if tells(told_by) && response.extensions().get::<Denied>().is_none() {
            told_by.write(counted, response.headers_mut());
            gate.expose(told_by.formats(), response.headers_mut());
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
fn writer<'a>(gate: &'a Gate, told_by: &'a Option<Arc<LimitHeaders>>) -> Option<&'a LimitHeaders> {
    told_by.as_deref().or(gate.limit_headers.as_deref())
}

/// Returns whether the decision is left for the handler.
fn tells(told_by: &LimitHeaders) -> bool {
    !told_by.formats().is_none()
}
