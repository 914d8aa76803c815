//! What is done around the inner service for a request that goes on: before it is called, and with its response.

use std::sync::Arc;
use std::task::Poll;

use http::{Extensions, Response};
use tollgate::Counted;

use crate::engine::{Allowed, Takes};
use crate::gate::{Denied, Gate, Leaves};
use crate::headers::LimitHeaders;
use crate::held_receipt::HeldReceipt;
use crate::reservation::Reservation;
use crate::rule::RefundIf;

/// What is to be done once there is a response.
pub(crate) enum After {
    Nothing,
    /// Tell the client and, where something may be given back, see whether it is.
    Respond {
        gate: Arc<Gate>,
        counted: Counted,
        /// What writes the headers, where the rule has not the same for all decisions.
        told_by: Option<Arc<LimitHeaders>>,
        refundable: Option<Box<HeldReceipt>>,
    },
}

impl After {
    /// Leaves for the service what it may want to know.
    #[inline(never)]
    pub(crate) fn admitting(gate: &Arc<Gate>, allowed: Allowed, extensions: &mut Extensions) -> Self {
        #[cfg(feature = "policy")]
        if let Some(decision) = allowed.decision.filter(|_| gate.settings.leaves == Leaves::Decisions) {
            extensions.insert(*decision);
        }
        match allowed.counted {
            Some(counted) => Self::counted(gate, counted, allowed.told_by, allowed.taken, extensions),
            None => Self::Nothing,
        }
    }

    /// The same for a request that quotas decided.
    #[inline(always)]
    pub(crate) fn counted(
        gate: &Arc<Gate>,
        counted: Counted,
        told_by: Option<Arc<LimitHeaders>>,
        taken: Option<Box<HeldReceipt>>,
        extensions: &mut Extensions,
    ) -> Self {
        if gate.settings.leaves == Leaves::Decisions {
            extensions.insert(counted.clone());
        }
        let refundable = match (&gate.takes, taken) {
            // What is reserved is the handler's to give back.
            (Takes::Reserved(warnings), Some(taken)) => {
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

    /// Tells the client of its limits, once there is a response.
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
        let Self::Respond { gate, counted, told_by, .. } = self else { return };
        let Some(told_by) = writer(gate, told_by) else { return };
        // What a layer within has denied says when to come back, and this one would say something else.
        if tells(told_by) && response.extensions().get::<Denied>().is_none() {
            told_by.write(counted, response.headers_mut());
            gate.expose(told_by.formats(), response.headers_mut());
        }
    }

    /// Whether something may be given back for the response.
    #[inline]
    pub(crate) const fn may_give_back(&self) -> bool {
        matches!(self, Self::Respond { refundable: Some(_), .. })
    }

    /// What may be given back for this response, and who says whether it is.
    #[inline]
    pub(crate) fn refundable(&mut self) -> Option<(Box<HeldReceipt>, &RefundIf)> {
        let Self::Respond { gate, refundable, .. } = self else { return None };
        Some((refundable.take()?, gate.refund_if.as_deref()?))
    }
}

/// What writes the headers: that of the decision, or else that of the rule.
fn writer<'a>(gate: &'a Gate, told_by: &'a Option<Arc<LimitHeaders>>) -> Option<&'a LimitHeaders> {
    told_by.as_deref().or(gate.limit_headers.as_deref())
}

/// Whether an admitted request is told where its decision leaves it.
fn tells(told_by: &LimitHeaders) -> bool {
    !told_by.formats().is_none()
}
