//! Callers' own requests: check, peek, and batches.

use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;
use serde::Serialize;
use tollgate::AnswerError;
use tollgate_policy::PolicyDecision;

use super::wire::{
    BatchEntry, BatchEntryRequest, BatchReply, BatchRequest, CheckReply, CheckRequest, DeniedReply,
    PeekRequest,
};
use super::{Edge, Reply, query, reply};
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::answer::trials_header::TOLLGATE_TRIALS;
use crate::decide::engine::Under;
use crate::net::body;
use crate::net::budget::BATCH_ENTRY;
use crate::request::json::{self, Object};

impl Edge {
    pub(super) async fn check_query(&self, caller: &Caller, uri: &Uri) -> Result<Reply, Rejection> {
        let (attributes, cost) = query::read(uri.query().unwrap_or_default())?;
        let decision = self.engine()?.check(Under::Live, &caller.asks(attributes), cost.units(), None).await;
        let decision = decision.map_err(|error| Rejection::check(&error, "query"))?;
        Ok(self.verdict(&decision, &CheckReply::new(&decision)))
    }

    pub(super) async fn check(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let CheckRequest { attributes, cost, policy, quotas, on_store_failure } = json::read(&body)?;
        let (attributes, cost) = (caller.asks(attributes), cost.units());
        let limits = self.asking.limits(policy, quotas, on_store_failure)?;
        let decision = self.engine()?.check(limits.into(), &attributes, cost, None).await;
        let decision = decision.map_err(|error| Rejection::check(&error, "attributes"))?;
        Ok(self.verdict(&decision, &CheckReply::new(&decision)))
    }

    /// Answers 200 whatever the verdict, because a peek is not a request for admission. If the store fails and the
    /// policies refuse, there is no verdict, and the answer is 503, as for a check.
    pub(super) async fn peek(&self, caller: &Caller, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let PeekRequest { attributes, cost, policy, quotas, on_store_failure } = json::read(&body)?;
        let limits = self.asking.limits(policy, quotas, on_store_failure)?;
        let decision = self.engine()?.peek(limits, &caller.asks(attributes), cost.units()).await;
        let decision = decision.map_err(|error| Rejection::check(&error, "attributes"))?;
        let mut reply = reply::json(StatusCode::OK, &CheckReply::new(&decision));
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
        let held = self.room_for_batch(version, requests.len(), BATCH_ENTRY)?;
        // Invalid limits fail only their own request, like a missing key.
        let asked = requests.into_iter().map(|Object(request)| {
            let BatchEntryRequest { attributes, cost, policy, quotas, on_store_failure } = request;
            (caller.asks(attributes), cost.units(), self.asking.limits(policy, quotas, on_store_failure))
        });
        let asked: Vec<_> = asked.collect();
        let checks = asked.iter().filter_map(|(attributes, cost, limits)| {
            Some((attributes, *cost, limits.as_ref().ok()?.clone()))
        });
        let decisions = self.engine()?.check_each(checks.collect()).await;
        let mut decided = decisions.iter();
        let entries = asked.iter().enumerate().map(|(index, (_, _, limits))| {
            let place = format!("requests[{index}]");
            if let Err(rejection) = limits {
                return BatchEntry::Rejection(rejection.clone().within(&place));
            }
            match decided.next() {
                Some(Ok(decision)) => BatchEntry::Decision(CheckReply::new(decision)),
                Some(Err(error)) => {
                    BatchEntry::Rejection(Rejection::check(error, &format!("{place}.attributes")))
                }
                None => BatchEntry::Rejection(Rejection::store(&AnswerError::Nonsense.into())),
            }
        });
        Ok(reply::batch(&BatchReply { decisions: entries.collect() }, held))
    }

    /// Answers with this body if the request is admitted, and otherwise with the denial.
    pub(super) fn verdict(&self, decision: &PolicyDecision, admitted: &impl Serialize) -> Reply {
        if decision.is_allowed() {
            let mut reply = reply::json(StatusCode::OK, admitted);
            self.limit_headers.write(decision, reply.headers_mut());
            self.tell_trials(decision, &mut reply);
            return reply;
        }
        let limit_headers = self.limit_headers.of(decision);
        let status = reply::deny_status(decision);
        let mut reply = reply::problem(status, &DeniedReply::new(status.as_u16(), decision, &limit_headers));
        limit_headers.write_decision(decision, reply.headers_mut());
        reply
    }

    /// Names the trials that would have denied the request, if answers do so.
    pub(super) fn tell_trials(&self, decision: &PolicyDecision, reply: &mut Reply) {
        if let Some(value) = self.asking.trials_header.value(std::slice::from_ref(decision)) {
            reply.headers_mut().insert(TOLLGATE_TRIALS, value);
        }
    }
}
