//! What a caller asks for itself: check, peek, and many checks at once.

use std::sync::Arc;

use http::{Request, StatusCode, Uri, Version};
use hyper::body::Incoming;
use tollgate_policy::PolicyDecision;

use super::json::Object;
use super::rejection::Rejection;
use super::wire::{BatchEntry, BatchReply, BatchRequest, CheckRequest, DecisionBody, DeniedBody};
use super::{Edge, Reply, body, json, query, reply};
use crate::caller::{Caller, CallerAttributes};
use crate::store::ServedStore;

impl<S: ServedStore> Edge<S> {
    pub(super) async fn check_query(&self, caller: &Caller, uri: &Uri) -> Result<Reply, Rejection> {
        let (attributes, cost) = query::read(uri.query().unwrap_or_default())?;
        let decision = self.engine.check(&caller.asks(attributes), cost.units()).await;
        Ok(self.verdict(&decision.map_err(|error| Rejection::check(&error, "query"))?))
    }

    pub(super) async fn check(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let CheckRequest { attributes, cost } = json::read(&body)?;
        let decision = self.engine.check(&caller.asks(attributes), cost.units()).await;
        Ok(self.verdict(&decision.map_err(|error| Rejection::check(&error, "attributes"))?))
    }

    /// Answers 200 whatever the verdict, because nobody asks to be let through. Where the store cannot answer and the
    /// policies refuse, there is no verdict: that is 503, as it is for a check.
    pub(super) async fn peek(&self, caller: &Caller, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let CheckRequest { attributes, cost } = json::read(&body)?;
        let decision = self.engine.peek(&caller.asks(attributes), cost.units()).await;
        let decision = decision.map_err(|error| Rejection::check(&error, "attributes"))?;
        let mut reply = reply::json(StatusCode::OK, &DecisionBody::new(&decision));
        self.limit_headers.write(&decision, reply.headers_mut());
        Ok(reply)
    }

    pub(super) async fn check_batch(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let version = request.version();
        let body = body::read(request, &self.budget).await?;
        let BatchRequest { requests } = json::read(&body)?;
        if !(1..=BatchRequest::MAX).contains(&requests.len()) {
            let detail = format!("expected 1 to {} requests", BatchRequest::MAX);
            return Err(Rejection::bad_field("requests", detail));
        }
        let mut held = self.budget.none();
        // Over HTTP/1.1 there is one answer at a time, and the next request waits until it is read.
        if version == Version::HTTP_2 && !held.resize(requests.len() * BatchReply::ENTRY) {
            self.budget.note_refusal();
            let detail = "there is no memory for the answer: too many others wait to be read";
            return Err(Rejection::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        let asked = requests.into_iter();
        let asked: Vec<(CallerAttributes<'_>, u32)> =
            asked.map(|Object(request)| (caller.asks(request.attributes), request.cost.units())).collect();
        let decisions = self.engine.check_each(&asked).await;
        let decisions = decisions
            .iter()
            .enumerate()
            .map(|(index, decision)| match decision {
                Ok(decision) => BatchEntry::Decision(DecisionBody::new(decision)),
                Err(error) => {
                    BatchEntry::Rejection(Rejection::check(error, &format!("requests[{index}].attributes")))
                }
            })
            .collect();
        let mut reply = reply::json(StatusCode::OK, &BatchReply { decisions });
        reply.extensions_mut().insert(Arc::new(held));
        Ok(reply)
    }

    pub(super) fn verdict(&self, decision: &PolicyDecision) -> Reply {
        let mut reply = if decision.is_allowed() {
            reply::json(StatusCode::OK, &DecisionBody::new(decision))
        } else {
            let status = reply::deny_status(decision);
            reply::problem(status, &DeniedBody::new(decision, status.as_u16()))
        };
        self.limit_headers.write(decision, reply.headers_mut());
        reply
    }
}
