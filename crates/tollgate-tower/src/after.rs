//! What is done around the inner service for a request that goes on: before it is called, and with its response.

use std::sync::Arc;

use bytes::Bytes;
#[cfg(feature = "policy")]
use http::HeaderMap;
use http::{Request, Response};
use tollgate::Decision;

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
    Nothing,
    /// Where this decision leaves it, in the format of the rule.
    Of(Decision),
    /// What is written already.
    #[cfg(feature = "policy")]
    Written(Box<HeaderMap>),
}

impl After {
    /// Leaves for the service what it may want to know. `Err` is the reply to a request that does not go on.
    #[inline]
    pub(crate) fn admitting<B>(
        gate: &Arc<Gate>,
        ruling: Ruling,
        request: &mut Request<B>,
    ) -> Result<Self, Box<Response<Bytes>>> {
        let extensions = request.extensions_mut();
        let (tell, taken) = match ruling {
            Ruling::Refuse(reply) => return Err(reply),
            Ruling::Pass => return Ok(Self::Nothing),
            Ruling::Admit(decision, taken) => {
                if gate.settings.leaves == Leaves::Decisions {
                    extensions.insert(decision.clone());
                }
                (if gate.tells() { Tell::Of(decision) } else { Tell::Nothing }, taken)
            }
            #[cfg(feature = "policy")]
            Ruling::AdmitByPolicies(admitted) => {
                if gate.settings.leaves == Leaves::Decisions {
                    if let Some(decision) = admitted.decision.decision() {
                        extensions.insert(decision.clone());
                    }
                    extensions.insert(admitted.decision);
                }
                (Tell::Written(Box::new(admitted.headers)), admitted.taken)
            }
        };
        let refundable = match taken {
            Some(taken) if gate.reserves => {
                let outer = extensions.remove();
                extensions.insert(Reservation::new(gate, taken, outer));
                None
            }
            taken => taken,
        };
        match (&tell, &refundable) {
            (Tell::Nothing, None) => Ok(Self::Nothing),
            _ => Ok(Self::Respond { gate: Arc::clone(gate), tell, refundable }),
        }
    }

    /// Tells the client of its limits.
    #[inline]
    pub(crate) fn tell<R>(&mut self, response: &mut Response<R>) {
        let Self::Respond { gate, tell, .. } = self else { return };
        match (tell, &gate.counting) {
            // What a layer within has denied says when to come back, and this one would say something else.
            _ if response.extensions().get::<Denied>().is_some() => {}
            (Tell::Of(decision), Counting::ByKey(by_key)) => {
                by_key.limit_headers.write(decision, response.headers_mut());
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

    /// What may be given back for this response, and who says whether it is.
    #[inline]
    pub(crate) fn refundable(&mut self) -> Option<(Box<Taken>, &RefundIf)> {
        let Self::Respond { gate, refundable, .. } = self else { return None };
        Some((refundable.take()?, gate.refund_if.as_deref()?))
    }
}
