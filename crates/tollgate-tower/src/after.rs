//! What is done around the inner service for a request that goes on: before it is called, and with its response.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::{Extensions, Response};
use tollgate::Counted;

#[cfg(feature = "policy")]
use crate::gate::Admitted;
use crate::gate::{Denied, Gate, Leaves, Ruling};
use crate::headers::{HeaderFormat, LimitHeaders};
use crate::reservation::Reservation;
use crate::rule::RefundIf;
use crate::taken::Taken;

/// What is to be done once there is a response.
pub(crate) enum After {
    Nothing,
    /// Tell the client and, where something may be given back, see whether it is.
    Respond {
        gate: Arc<Gate>,
        counted: Counted,
        /// What writes the headers, where the rule has not the same for all decisions.
        told_by: Option<Arc<LimitHeaders>>,
        refundable: Option<Box<Taken>>,
    },
}

impl After {
    /// Leaves for the service what it may want to know. `Err` is the reply to a request that does not go on.
    pub(crate) fn admitting(
        gate: &Arc<Gate>,
        ruling: Ruling,
        extensions: &mut Extensions,
    ) -> Result<Self, Box<Response<Bytes>>> {
        match ruling {
            Ruling::Refuse(reply) => Err(reply),
            Ruling::Pass => Ok(Self::Nothing),
            Ruling::Admit(counted, taken) => Ok(Self::admitted(gate, counted, taken, extensions)),
            #[cfg(feature = "policy")]
            Ruling::AdmitByPolicies(admitted) => {
                let Admitted { decision, told_by, taken } = *admitted;
                let counted = decision.counted().cloned();
                if gate.settings.leaves == Leaves::Decisions {
                    extensions.insert(decision);
                }
                Ok(match counted {
                    Some(counted) => Self::counted(gate, counted, told_by, taken, extensions),
                    None => Self::Nothing,
                })
            }
        }
    }

    /// The same for a request that goes on, with where its quotas stand.
    #[inline]
    pub(crate) fn admitted(
        gate: &Arc<Gate>,
        counted: Counted,
        taken: Option<Box<Taken>>,
        extensions: &mut Extensions,
    ) -> Self {
        Self::counted(gate, counted, None, taken, extensions)
    }

    #[inline]
    fn counted(
        gate: &Arc<Gate>,
        counted: Counted,
        told_by: Option<Arc<LimitHeaders>>,
        taken: Option<Box<Taken>>,
        extensions: &mut Extensions,
    ) -> Self {
        if gate.settings.leaves == Leaves::Decisions {
            extensions.insert(counted.clone());
        }
        let refundable = refundable(gate, taken, extensions);
        let tells = told_by.as_deref().or(gate.limit_headers()).is_some_and(tells);
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
        let Some(told_by) = told_by.as_deref().or(gate.limit_headers()) else { return };
        // What a layer within has denied says when to come back, and this one would say something else.
        if tells(told_by) && response.extensions().get::<Denied>().is_none() {
            told_by.write(counted, response.headers_mut());
            gate.expose(told_by.format(), response.headers_mut());
        }
    }

    /// Whether something may be given back for the response.
    #[inline]
    pub(crate) const fn may_give_back(&self) -> bool {
        matches!(self, Self::Respond { refundable: Some(_), .. })
    }

    /// What may be given back for this response, and who says whether it is.
    #[inline]
    pub(crate) fn refundable(&mut self) -> Option<(Box<Taken>, &RefundIf)> {
        let Self::Respond { gate, refundable, .. } = self else { return None };
        Some((refundable.take()?, gate.refund_if.as_deref()?))
    }
}

/// Whether an admitted request is told where its decision leaves it.
fn tells(told_by: &LimitHeaders) -> bool {
    told_by.format() != HeaderFormat::None
}

/// What may be given back for the response. What is reserved is the handler's to give back.
fn refundable(
    gate: &Arc<Gate>,
    taken: Option<Box<Taken>>,
    extensions: &mut Extensions,
) -> Option<Box<Taken>> {
    if !gate.reserves {
        return taken;
    }
    if let Some(taken) = taken {
        let outer = extensions.remove();
        extensions.insert(Reservation::new(gate, taken, outer));
    }
    None
}
