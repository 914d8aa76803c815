//! A gate applied to the head of a request.
//!
//! ```text
//! head ─▶ skip ─▶ cost ─▶ engine ─▶ decided ─▶ goes on, or a reply
//!                 how     whom it is counted
//!                 much    for; one step
//! ```

use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Request, Response};

use crate::engine::Engine;
use crate::gate::Gate;
use crate::head::Head;
use crate::outcome::PendingDecision;
use crate::response_work::ResponseWork;

/// The result without waiting.
pub(crate) enum FirstRuling {
    GoesOn(ResponseWork),
    /// It does not continue.
    Refused(Box<Response<Bytes>>),
    Waits(PendingDecision),
}

impl Gate {
    /// Decides as far as possible without waiting.
    #[inline]
    pub(crate) fn at_once<B>(self: &Arc<Self>, request: &mut Request<B>) -> FirstRuling {
        let head = Head::from(&*request);
        if self.skip.as_ref().is_some_and(|skip| skip(head)) {
            return FirstRuling::GoesOn(ResponseWork::Nothing);
        }
        self.settings.warnings.look_for_proxy(head, || self.engine.counts_peers());
        let cost = self.cost(head);
        let decided = match &self.engine {
            Engine::ByKey(by_key) => {
                let allow = |counted, taken, extensions: &mut Extensions| {
                    self.outages.decided(&counted);
                    ResponseWork::counted(self, counted, None, taken, extensions)
                };
                match by_key.decide(request, cost, &self.handling, allow) {
                    Ok(after) => return FirstRuling::GoesOn(after),
                    Err(other) => *other,
                }
            }
            #[cfg(feature = "policy")]
            Engine::ByPolicies(policies) => policies.decide(head, cost, &self.handling, self.keeper.as_ref()),
        };
        let ruled = match decided {
            Ok(decided) => self.ruled(Head::from(&*request), decided),
            Err(later) => return FirstRuling::Waits(later),
        };
        match ruled {
            Ok(allowed) => {
                FirstRuling::GoesOn(ResponseWork::admitting(self, allowed, request.extensions_mut()))
            }
            Err(reply) => FirstRuling::Refused(reply),
        }
    }

    /// Waits for the rest of a decision.
    pub(crate) async fn finish(
        self: &Arc<Self>,
        begun: FirstRuling,
        request: &mut Request<()>,
    ) -> Result<ResponseWork, Box<Response<Bytes>>> {
        let later = match begun {
            FirstRuling::GoesOn(after) => return Ok(after),
            FirstRuling::Refused(reply) => return Err(reply),
            FirstRuling::Waits(later) => later,
        };
        let head = Head::from(&*request);
        let allowed = self.ruled(head, later(head).await)?;
        Ok(ResponseWork::admitting(self, allowed, request.extensions_mut()))
    }

    /// Decides on a request that another gate has admitted, as the inner one of two layers.
    pub(crate) async fn decide_inside(
        self: &Arc<Self>,
        mut outer: ResponseWork,
        request: &mut Request<()>,
    ) -> Result<ResponseWork, Box<Response<Bytes>>> {
        let begun = self.at_once(request);
        match self.finish(begun, request).await {
            Ok(inner) => Ok(ResponseWork::Both(Box::new((outer, inner)))),
            Err(reply) => {
                let (parts, body) = reply.into_parts();
                if let Some(refund) = outer.refund(&parts) {
                    refund.await;
                }
                Err(Box::new(Response::from_parts(parts, body)))
            }
        }
    }
}
