//! Checks, which only peek, and reports, which charge whether or not there is room.

use tollgate_envoy::{Code, InvalidRequest};
use tollgate_policy::{CheckError, PolicyDecision};

use super::place;
use crate::access::caller::{Caller, CallerAttributes};
use crate::answer::rejection::Rejection;
use crate::grpc::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::grpc::rate_limit::{DescriptorCheck, invalid};
use crate::grpc::{Service, response};

impl Service {
    /// Answers as a check would, but charges nothing. Descriptors do not depend on each other.
    pub(in crate::grpc) async fn peek_rate_limit(
        &self,
        caller: &Caller,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Rejection> {
        let decisions = self.peek_each(&self.each_asked(caller, request)?).await?;
        Ok(response::of(&decisions, &self.settings.added_headers))
    }

    /// Charges the units of every descriptor, whether or not there is room.
    pub(in crate::grpc) async fn record_rate_limit(
        &self,
        caller: &Caller,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Rejection> {
        let asked = self.each_asked(caller, request)?;
        if let Some(index) = asked.iter().position(|(.., limits)| limits.is_some()) {
            let detail = "only a check may have a limit, not a report";
            return Err(Rejection::bad_field(format!("{}.limit", place(index)), detail));
        }
        // A mistake in one descriptor must not charge the others.
        if asked.len() > 1 {
            self.peek_each(&asked).await?;
        }
        let records: Vec<(CallerAttributes<'_>, u32)> =
            asked.into_iter().map(|(attributes, cost, _)| (attributes, cost)).collect();
        for (index, recorded) in self.policies()?.record_each(&records).await.into_iter().enumerate() {
            recorded.map_err(|error| Rejection::change(&needing_hold(error), &place(index)))?;
        }
        Ok(RateLimitResponse { overall_code: Code::Ok.number(), ..RateLimitResponse::default() })
    }

    async fn peek_each(&self, asked: &[DescriptorCheck<'_>]) -> Result<Vec<PolicyDecision>, Rejection> {
        let engine = self.policies()?;
        let mut decisions = Vec::with_capacity(asked.len());
        for (index, (attributes, cost, limits)) in asked.iter().enumerate() {
            // The answer would promise units in flight that the call cannot take.
            let decision = engine.peek_check(limits.clone(), attributes, *cost).await;
            decisions.push(decision.map_err(|error| Rejection::check(&error, &place(index)))?);
        }
        Ok(decisions)
    }

    fn each_asked<'a>(
        &self,
        caller: &'a Caller,
        request: &'a RateLimitRequest,
    ) -> Result<Vec<DescriptorCheck<'a>>, Rejection> {
        let RateLimitRequest { domain, descriptors, hits_addend } = request;
        InvalidRequest::check(domain, descriptors.len()).map_err(invalid)?;
        let asked = |(index, descriptor)| self.asked(caller, domain, descriptor, *hits_addend, index);
        descriptors.iter().enumerate().map(asked).collect()
    }
}

/// Returns the error that says the same of every method: units in flight belong to holds.
fn needing_hold(error: CheckError) -> CheckError {
    match error {
        CheckError::OnlyHolds { policy } => CheckError::NeedsHold { policy },
        error => error,
    }
}
