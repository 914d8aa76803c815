//! What is done around the inner service for a request that goes on: before it is called, and with its response.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
#[cfg(feature = "policy")]
use http::HeaderMap;
use http::{Extensions, Response};
use tollgate::Counted;

use crate::gate::{Counting, Denied, Gate, Leaves, Ruling};
use crate::reservation::Reservation;
use crate::rule::RefundIf;
use crate::taken::Taken;

/// What is to be done once there is a response.
pub(crate) enum After {
    Nothing,
    /// Tell the client and, where something may be given back, see whether it is.
    Respond {
        gate: Arc<Gate>,
        tell: Tell,
        refundable: Option<Box<Taken>>,
    },
}

/// What the client is told of its limits.
pub(crate) enum Tell {
    /// Where its quotas stand, in the format of the rule.
    Of(Counted),
    /// What is written already.
    #[cfg(feature = "policy")]
    Written(Box<HeaderMap>),
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
                if gate.settings.leaves == Leaves::Decisions {
                    if let Some(counted) = admitted.decision.counted() {
                        extensions.insert(counted.clone());
                    }
                    extensions.insert(admitted.decision);
                }
                let refundable = refundable(gate, admitted.taken, extensions);
                let tell = Tell::Written(Box::new(admitted.headers));
                Ok(Self::Respond { gate: Arc::clone(gate), tell, refundable })
            }
        }
    }

    /// The same for a request that goes on, with where its quotas stand.
    pub(crate) fn admitted(
        gate: &Arc<Gate>,
        counted: Counted,
        taken: Option<Box<Taken>>,
        extensions: &mut Extensions,
    ) -> Self {
        if gate.settings.leaves == Leaves::Decisions {
            extensions.insert(counted.clone());
        }
        let refundable = refundable(gate, taken, extensions);
        if !gate.tells() && refundable.is_none() {
            return Self::Nothing;
        }
        Self::Respond { gate: Arc::clone(gate), tell: Tell::Of(counted), refundable }
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
        let Self::Respond { gate, tell, .. } = self else { return };
        match (tell, &gate.counting) {
            // What a layer within has denied says when to come back, and this one would say something else.
            _ if response.extensions().get::<Denied>().is_some() => {}
            (Tell::Of(counted), Counting::ByKey(by_key)) if gate.tells() => {
                by_key.limit_headers.write(counted, response.headers_mut());
                gate.expose(response.headers_mut());
            }
            #[cfg(feature = "policy")]
            (Tell::Written(headers), _) if !headers.is_empty() => {
                response.headers_mut().extend(std::mem::take(&mut **headers));
                gate.expose(response.headers_mut());
            }
            _ => {}
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
