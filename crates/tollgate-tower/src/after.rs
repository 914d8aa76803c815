//! What is done around the inner service for a request that goes on: before it is called, and with its response.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tollgate::Decision;

use crate::engine::BoxFuture;
use crate::gate::{Asked, Gate, Ruling};
use crate::reservation::Reservation;

/// What is to be done once there is a response.
pub(crate) enum After {
    Nothing,
    /// Write the headers and, where something may be given back, see whether it is.
    Respond {
        gate: Arc<Gate>,
        decision: Decision,
        refundable: Option<Asked>,
    },
}

impl After {
    /// Leaves for the service what it may want to know. `Err` is the reply to a request that does not go on.
    pub(crate) fn admitting<B>(
        gate: &Arc<Gate>,
        ruling: Ruling,
        request: &mut Request<B>,
    ) -> Result<Self, Box<Response<Bytes>>> {
        let (decision, asked) = match ruling {
            Ruling::Refuse(reply) => return Err(reply),
            Ruling::Pass => return Ok(Self::Nothing),
            Ruling::Admit(decision, asked) => (decision, asked),
        };
        let refundable = match asked {
            Some(Asked { key, cost }) if gate.reserves => {
                request.extensions_mut().insert(Reservation::new(gate, key, decision.clone(), cost));
                None
            }
            asked => asked,
        };
        if refundable.is_none() && !gate.writes_headers() {
            request.extensions_mut().insert(decision);
            return Ok(Self::Nothing);
        }
        request.extensions_mut().insert(decision.clone());
        Ok(Self::Respond { gate: Arc::clone(gate), decision, refundable })
    }

    /// Does it, and says what the response has to wait for.
    pub(crate) fn respond<R>(self, response: Response<R>) -> (Response<R>, Option<BoxFuture<'static, ()>>) {
        let Self::Respond { gate, decision, refundable } = self else { return (response, None) };
        let (mut parts, body) = response.into_parts();
        let refunds = |_: &Asked| gate.refund_if.as_ref().is_some_and(|refund_if| refund_if(&parts));
        let refundable = refundable.filter(refunds);
        if gate.writes_headers() {
            gate.write_headers(&decision, &mut parts.headers);
        }
        let refund = refundable.map(|Asked { key, cost }| -> BoxFuture<'static, ()> {
            Box::pin(async move {
                // The response is there whether or not the store is: what was taken then counts until its window ends.
                let _ = gate.engine.refund(&key, cost, &decision).await;
            })
        });
        (Response::from_parts(parts, body), refund)
    }
}
