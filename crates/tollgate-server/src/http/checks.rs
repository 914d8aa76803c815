//! What a caller asks for itself: check, peek, and many checks at once.

use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;
use tollgate_policy::PolicyDecision;

use super::json::Object;
use super::rejection::Rejection;
use super::wire::{BatchEntry, BatchReply, BatchRequest, CheckRequest, DecisionBody, DeniedBody};
use super::{Edge, Reply, body, json, query, reply};
use crate::store::ServedStore;

impl<S: ServedStore> Edge<S> {
    pub(super) async fn check_query(&self, uri: &Uri) -> Result<Reply, Rejection> {
        let (attributes, cost) = query::read(uri.query().unwrap_or_default())?;
        let decision = self.engine.check(&attributes, cost.units()).await;
        Ok(self.verdict(&decision.map_err(|error| Rejection::check(&error, "query"))?))
    }

    pub(super) async fn check(&self, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request).await?;
        let CheckRequest { attributes, cost } = json::read(&body)?;
        let decision = self.engine.check(&attributes, cost.units()).await;
        Ok(self.verdict(&decision.map_err(|error| Rejection::check(&error, "attributes"))?))
    }

    /// Answers 200 whatever the verdict, because nobody asks to be let through. Where the store cannot answer and the
    /// policies refuse, there is no verdict: that is 503, as it is for a check.
    pub(super) async fn peek(&self, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request).await?;
        let CheckRequest { attributes, cost } = json::read(&body)?;
        let decision = self.engine.peek(&attributes, cost.units()).await;
        let decision = decision.map_err(|error| Rejection::check(&error, "attributes"))?;
        let mut reply = reply::json(StatusCode::OK, &DecisionBody::new(&decision));
        self.limit_headers.write(&decision, reply.headers_mut());
        Ok(reply)
    }

    pub(super) async fn check_batch(&self, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request).await?;
        let BatchRequest { requests } = json::read(&body)?;
        BatchRequest::check_length(requests.len())?;
        let asked = requests.iter().map(|Object(request)| (&request.attributes, request.cost.units()));
        let decisions = self.engine.check_each(asked).await;
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
        Ok(reply::json(StatusCode::OK, &BatchReply { decisions }))
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
